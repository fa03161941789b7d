/* The network between the hosts of a WAN testbed, from a file (docs/wan-testbed.md): a one-way
 * delay, a rate, a loss rate and a queue for each ordered pair, and total rates for each host. */
#ifndef TESTS_SUPPORT_WAN_MATRIX_H
#define TESTS_SUPPORT_WAN_MATRIX_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define WAN_HOSTS_MAX 64
#define WAN_NAME_BYTES 32
#define WAN_MATRIX_BYTES_MAX (1u << 20)     /* maximum size of a file */
#define WAN_QUEUE_BYTES_MIN 16384           /* ten large packets */

/* How packets are handled that arrive faster than a link sends. */
enum wan_discipline {
    WAN_FIFO,               /* they are queued in one queue */
    WAN_FAIR,               /* each flow has its own queue (wan_fair.h) */
    WAN_POLICER             /* never queued: sent at once, or dropped if a queue of this length
                               would be full */
};

/* A link with a queue in front. */
struct wan_line {
    uint64_t bit_s;         /* 0: unlimited, without a queue */
    uint64_t queue_bytes;
    enum wan_discipline discipline;     /* of a pair's link; FIFO for a host's */
};

struct wan_pair {
    struct wan_line line;
    uint64_t delay_ns;      /* one way, after the link */
    double loss;            /* loss rate of segments, 0 to 1 */
    double burst;           /* mean number of consecutive lost segments; 0 and 1: losses are
                               independent */
};

struct wan_host {
    char name[WAN_NAME_BYTES];
    struct wan_line up, down;
};

struct wan_matrix {
    uint32_t nhosts;
    uint64_t seed;          /* of the random losses */
    struct wan_host host[WAN_HOSTS_MAX];
    struct wan_pair pair[WAN_HOSTS_MAX][WAN_HOSTS_MAX];     /* [from][to] */
};

/* Parses text[bytes], which is NUL-terminated. INVALID (logged): the message has `from`, the
 * position and the error. */
tutti_status wan_matrix_parse(struct wan_matrix *out, const char *text, size_t bytes,
                              const char *from);
/* As wan_matrix_parse, for a file; "-" is standard input. */
tutti_status wan_matrix_load(struct wan_matrix *out, const char *path);

/* Changes one value of a pair: "delay_ms", "rate_mbit", "loss" or "loss_burst", as in the file. Its
 * queue is unchanged. INVALID (logged). */
tutti_status wan_matrix_change(struct wan_matrix *m, uint32_t from, uint32_t to, const char *key,
                               double value);

/* Prints the matrix as one line of JSON, with all pairs and all defaults filled in. */
void wan_matrix_write(FILE *to, const struct wan_matrix *m);

#endif
