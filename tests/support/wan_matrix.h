/* What lies between the hosts of a WAN testbed, as a file tells it (docs/wan-testbed.md): for each ordered pair a one-way delay, a rate, a
 * loss and a queue; for each host what it may send and receive in all. */
#ifndef TESTS_SUPPORT_WAN_MATRIX_H
#define TESTS_SUPPORT_WAN_MATRIX_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "tutti/tutti.h"

#define WAN_HOSTS_MAX 64
#define WAN_NAME_BYTES 32
#define WAN_MATRIX_BYTES_MAX (1u << 20)     /* of a file */
#define WAN_QUEUE_BYTES_MIN 16384           /* ten large packets */

/* A line with a queue before it. */
struct wan_line {
    uint64_t bit_s;         /* 0: as fast as it comes, and nothing queues */
    uint64_t queue_bytes;
};

struct wan_pair {
    struct wan_line line;
    uint64_t delay_ns;      /* one way, from the end of the line on */
    double loss;            /* of its segments, 0 to 1 */
};

struct wan_host {
    char name[WAN_NAME_BYTES];
    struct wan_line up, down;
};

struct wan_matrix {
    uint32_t nhosts;
    uint64_t seed;          /* of the losses */
    struct wan_host host[WAN_HOSTS_MAX];
    struct wan_pair pair[WAN_HOSTS_MAX][WAN_HOSTS_MAX];     /* [from][to] */
};

/* The matrix that text[bytes], with a NUL behind, describes. INVALID (logged) with `from`, the place and what is wrong. */
tutti_status wan_matrix_parse(struct wan_matrix *out, const char *text, size_t bytes, const char *from);
/* The same of a file; "-" is standard input. */
tutti_status wan_matrix_load(struct wan_matrix *out, const char *path);

/* Changes one value of a pair, "delay_ms", "rate_mbit" or "loss", as the file would name it; its queue stays as it is. INVALID (logged). */
tutti_status wan_matrix_change(struct wan_matrix *m, uint32_t from, uint32_t to, const char *key, double value);

/* Prints all of it as one line of JSON, with every pair and nothing left to default. */
void wan_matrix_write(FILE *to, const struct wan_matrix *m);

#endif
