/* A real etcd for tests: one server on this host, or several that are one cluster, which end with the test. */
#ifndef TESTS_COORDINATOR_ETCD_SERVER_H
#define TESTS_COORDINATOR_ETCD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ETCD_CLUSTER_MAX 3u

struct etcd_server {
    pid_t pid;              /* 0: it does not run */
    unsigned port, peer_port;
    char address[32];       /* "127.0.0.1:4711" */
    char directory[64];
    char name[16];
    char cluster[ETCD_CLUSTER_MAX * 48];    /* all servers, as etcd wants it */
};

bool etcd_server_is_here(void);
/* A new and empty one; once it answers. Asserts that it works. */
void etcd_server_create(struct etcd_server *s);
/* Some that are new and empty, as one cluster; once it answers at each. Each is destroyed by itself. */
void etcd_cluster_create(struct etcd_server *s, uint32_t n);
/* Which of them leads the others, once one does. */
uint32_t etcd_cluster_leader(const struct etcd_server *s, uint32_t n);
/* At once, as a power cut would; and again, with what it had. */
void etcd_server_kill(struct etcd_server *s);
void etcd_server_start(struct etcd_server *s);
/* Removes its files, too. */
void etcd_server_destroy(struct etcd_server *s);

#endif
