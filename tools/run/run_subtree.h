/* What a relay of `tutti run` starts: its host's ranks, and relays on further hosts. Sent as a list
 * of strings "name=value", each with its NUL. */
#ifndef TUTTI_TOOLS_RUN_SUBTREE_H
#define TUTTI_TOOLS_RUN_SUBTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tools/run/run_bind.h"

#define FANOUT_MAX 1024u
#define SUBTREE_ENV_MAX 48

struct subtree_host {
    const char *name;
    uint32_t index;             /* in the launcher's list of hosts */
    uint32_t first, nlocal;     /* its ranks: consecutive */
};

struct subtree {
    uint32_t nranks;            /* of the job */
    uint32_t fanout;            /* relays that one process starts, at most */
    enum bind_mode bind;
    const char *rsh;
    char **argv;                /* [argc + 1], with NULL: the program and its arguments */
    size_t argc;
    const char *env[SUBTREE_ENV_MAX];   /* "NAME=value", the same for all ranks */
    size_t nenv;
    struct subtree_host *hosts; /* [nhosts], ascending by index and rank; a relay's own is first */
    uint32_t nhosts;
};

/* Encodes the subtree of hosts[first..first + n). On success the caller frees *out. Returns false
 * if there is no memory. */
bool subtree_encode(const struct subtree *s, uint32_t first, uint32_t n, char **out, size_t *bytes);
/* Decodes data[bytes], to which the strings point. On success it is undone by subtree_fini. Returns
 * NULL, or the description of the error, which is valid until the next call. */
const char *subtree_decode(struct subtree *out, const char *data, size_t bytes);
void subtree_fini(struct subtree *s);

/* Divides `n` hosts into at most `fanout` groups of consecutive hosts, whose sizes differ by at
 * most one. Returns the number of groups; sets the begin and the size of group `i`. */
uint32_t subtree_ngroups(uint32_t n, uint32_t fanout);
void subtree_group(uint32_t n, uint32_t ngroups, uint32_t i, uint32_t *begin, uint32_t *size);

#endif
