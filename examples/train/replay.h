/* The contributors of each exchange of an elastic DiLoCo run, read from its output: lines "STEP
 * LOSS MEMBER MEMBER ...". The loss, and lines that begin with #, are ignored. train_alone uses it
 * to repeat a run. */
#ifndef REPLAY_H
#define REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { WORKERS_MAX = 1024, REPLAY_LINE_MAX = 16384 };

struct exchange {
    uint64_t step;                  /* number of steps before the exchange */
    size_t n;
    uint64_t worker[WORKERS_MAX];   /* [n], without duplicates */
};

/* State of the reader. Initialize with { .file, .name }; the caller keeps owning the file. */
struct replay {
    FILE *file;
    const char *name;               /* for messages */
    uint64_t line, step;            /* last line and step read */
};

/* Reads the next exchange. Returns 1, or 0 at the end, or -1 after a message on stderr, if a line
 * is invalid: longer than REPLAY_LINE_MAX bytes, steps that do not increase or exceed 10,000,000,
 * no members, duplicate members, or more than WORKERS_MAX. */
int replay_next(struct replay *r, struct exchange *e);

#endif
