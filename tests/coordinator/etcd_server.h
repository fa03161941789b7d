/* A real etcd for tests: one server on this host, or a cluster of several. Servers end with the
 * test. */
#ifndef TESTS_COORDINATOR_ETCD_SERVER_H
#define TESTS_COORDINATOR_ETCD_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ETCD_CLUSTER_MAX 3u

struct etcd_server {
    pid_t pid;              /* 0: not running */
    unsigned port, peer_port;
    char address[32];       /* "127.0.0.1:4711" */
    char directory[64];
    char name[16];
    char cluster[ETCD_CLUSTER_MAX * 48];    /* all servers, in etcd's format */
};

bool etcd_server_is_here(void);
/* Creates an empty server; returns when it responds. Asserts success. */
void etcd_server_create(struct etcd_server *s);
/* Creates several empty servers as one cluster; returns when each responds. Each is destroyed
 * separately. */
void etcd_cluster_create(struct etcd_server *s, uint32_t n);
/* Waits until there is a leader, and returns its index. */
uint32_t etcd_cluster_leader(const struct etcd_server *s, uint32_t n);
/* Kill the server at once, as in a power failure; restart it with its data. */
void etcd_server_kill(struct etcd_server *s);
void etcd_server_start(struct etcd_server *s);
/* Stops the server and removes its files. */
void etcd_server_destroy(struct etcd_server *s);

#endif
