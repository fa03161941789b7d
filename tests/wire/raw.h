/* Raw sockets connected to the port of the tcp transport, and their messages. */
#ifndef TESTS_WIRE_RAW_H
#define TESTS_WIRE_RAW_H

#include "nodes.h"
#include "wire/tcp/tcp_frame.h"

struct tt_tcp_address address_of(struct node *n, uint32_t peer);
/* Returns a connection to that rank's listener; blocking, with a limit on each wait. */
int raw_connect(struct node *n, uint32_t peer);
/* Returns whether the other end closes the connection, after any data. */
bool hangs_up(int fd);
/* Returns a valid HELLO of this rank. */
struct tt_hello hello_to(struct node *n, uint32_t peer);
/* Sends the first `bytes` of h. */
void say(int fd, const struct tt_hello *h, const uint8_t key[16], size_t bytes);

#endif
