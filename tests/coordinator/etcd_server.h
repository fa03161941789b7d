/* A real etcd for tests: one server on this host, which ends with the test. */
#ifndef TESTS_COORDINATOR_ETCD_SERVER_H
#define TESTS_COORDINATOR_ETCD_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct etcd_server {
    pid_t pid;              /* 0: it does not run */
    unsigned port, peer_port;
    char address[32];       /* "127.0.0.1:4711" */
    char directory[64];
};

bool etcd_server_is_here(void);
/* A new and empty one; once it answers. Asserts that it works. */
void etcd_server_create(struct etcd_server *s);
/* At once, as a power cut would; and again, with what it had. */
void etcd_server_kill(struct etcd_server *s);
void etcd_server_start(struct etcd_server *s);
/* Removes its files, too. */
void etcd_server_destroy(struct etcd_server *s);

#endif
