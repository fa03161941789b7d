/* One rank's process: here by fork and exec, elsewhere through a remote shell. Each is the leader of a process group, so that what
 * it starts ends with it. */
#ifndef TUTTI_TOOLS_RUN_CHILD_H
#define TUTTI_TOOLS_RUN_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ENV_MAX 64

/* How to start one rank. Everything is the caller's. */
struct child_conf {
    char *const *argv;          /* the program and its arguments */
    const char *env[ENV_MAX];   /* "NAME=value" that this rank gets on top of ours; nenv of them */
    size_t nenv;
    const char *host;           /* NULL: here */
    const char *rsh;            /* remote shell, words separated by blanks: called as `rsh host command` */
    int in, out, err;           /* its standard streams; in is not used elsewhere (the remote shell's is for control) */
    const cpu_set_t *cores;     /* NULL: any */
};

struct child {
    pid_t pid;
    int pidfd;                  /* readable when it ended */
    int control;                /* -1: here; else names of signals go here, and its end ends the rank */
};

/* On success *out is the caller's. Else says why on stderr and returns the exit status that a shell would give (126, 127). */
int child_start(struct child *out, const struct child_conf *conf);
/* Sends a signal to the whole group of processes. */
void child_signal(const struct child *c, int sig);
/* Waits for one that has ended, kills what is left of its group, closes, and returns its wait status. */
int child_reap(struct child *c);

/* A process that outlives us if we are killed, and then ends the ranks. Returns a descriptor to tell it about them, or -1. */
int guard_start(void);
void guard_add(int guard, const struct child *c);
void guard_dismiss(int guard);

#endif
