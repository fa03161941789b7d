/* Placement of ranks on hosts. */
#ifndef TUTTI_TOOLS_RUN_PLACE_H
#define TUTTI_TOOLS_RUN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define HOST_BYTES 256
#define RANKS_MAX 65536u
#define HOSTS_MAX 4096u

struct host {
    char name[HOST_BYTES];
    uint32_t slots;             /* for ranks; 0: not given */
    uint32_t nlocal;            /* ranks placed here */
    bool here;                  /* no remote shell needed */
};

struct hosts {
    const char *tool;           /* prefix of messages on stderr: "tutti run" */
    struct host *at;            /* owned by the caller */
    uint32_t n;
};

/* Parses "a,b:4,[2001:db8::1]:2". Returns false, after an error message, if it is invalid. */
bool hosts_parse(struct hosts *out, const char *tool, const char *text);
/* Reads a file of lines "host", "host:4" or "host slots=4"; '#' begins a comment. Errors as
 * above. */
bool hosts_read(struct hosts *out, const char *tool, const char *path);
/* Sets only this host. */
bool hosts_here(struct hosts *out, const char *tool);
/* Places nranks ranks in order of hosts and fills host_of[nranks] and local_of[nranks]. Each host
 * gets as many ranks as it has slots; without slots, ranks are divided into equal blocks. Returns
 * false, after an error message, if there are too few slots. */
bool hosts_place(struct hosts *h, uint32_t nranks, uint32_t *host_of, uint32_t *local_of);

#endif
