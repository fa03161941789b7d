/* Who took part in which exchange of an elastic DiLoCo run, read from what it printed: lines "STEP LOSS MEMBER MEMBER ...", of which the loss does
 * not count, as lines that begin with # do not. train_alone plays the same run with it. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { WORKERS_MAX = 1024, REPLAY_LINE_MAX = 16384 };

struct exchange {
    uint64_t step;                  /* after so many steps */
    size_t n;
    uint64_t worker[WORKERS_MAX];   /* [n], each once */
};

/* Where reading is. Begin with { .file, .name }; the file stays the caller's. */
struct replay {
    FILE *file;
    const char *name;               /* for what is said about it */
    uint64_t line, step;            /* that were read last */
};

/* The next exchange: 1; 0: there are no more; -1, with a sentence on stderr: a line of more than REPLAY_LINE_MAX bytes, or one that says
 * something else: steps that do not rise or are beyond 10,000,000, nobody, somebody twice, or more than WORKERS_MAX. */
int replay_next(struct replay *r, struct exchange *e);

#endif
