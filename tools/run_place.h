/* Which rank runs on which host. */
#ifndef TUTTI_TOOLS_RUN_PLACE_H
#define TUTTI_TOOLS_RUN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_BYTES 256
#define RANKS_MAX 65536u
#define HOSTS_MAX 4096u

struct host {
    char name[HOST_BYTES];
    uint32_t slots;             /* 0: not said */
    uint32_t nlocal;            /* ranks placed here */
    bool here;                  /* no remote shell needed */
};

struct hosts {
    const char *tool;           /* begins what is said on stderr: "tutti run" */
    struct host *at;            /* the caller frees it */
    uint32_t n;
};

/* Reads "a,b:4,[2001:db8::1]:2". False, after saying why on stderr, if it makes no sense. */
bool hosts_parse(struct hosts *out, const char *tool, const char *text);
/* Reads a file of lines "host", "host:4" or "host slots=4"; '#' begins a comment. Likewise. */
bool hosts_read(struct hosts *out, const char *tool, const char *path);
/* This host alone. */
bool hosts_here(struct hosts *out, const char *tool);
/* Places nranks ranks in order of hosts and fills host_of[nranks] and local_of[nranks]: as many as each has slots; without
 * slots, in equal blocks. False, after saying why, if there are too few slots. */
bool hosts_place(struct hosts *h, uint32_t nranks, uint32_t *host_of, uint32_t *local_of);

#endif
