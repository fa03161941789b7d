/* Callers at the tcp wire's port that have no wire: sockets, and what they say. */
#ifndef TESTS_WIRE_RAW_H
#define TESTS_WIRE_RAW_H

#include "nodes.h"
#include "wire/tcp_frame.h"

struct tt_tcp_address address_of(struct node *n, uint32_t peer);
/* A connection to that rank's listener; blocking, with a limit on each wait. */
int dial(struct node *n, uint32_t peer);
/* Whether the other end hangs up, whatever it says before. */
bool hangs_up(int fd);
/* A good HELLO of this rank's. */
struct tt_hello hello_to(struct node *n, uint32_t peer);
/* Sends its first `bytes`. */
void say(int fd, const struct tt_hello *h, const uint8_t key[16], size_t bytes);

#endif
