/* The process of a rank: started here by fork and exec, on other hosts through a remote shell. Each
 * process leads a process group, so that its children can be ended with it. */
#ifndef TUTTI_TOOLS_RUN_CHILD_H
#define TUTTI_TOOLS_RUN_CHILD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ENV_MAX 64

/* Start parameters of one rank. All pointers belong to the caller. */
struct child_conf {
    char *const *argv;          /* the program and its arguments */
    const char *env[ENV_MAX];   /* [nenv] "NAME=value": variables of this rank, in addition to
                                   the inherited environment */
    size_t nenv;
    const char *host;           /* NULL: this host */
    const char *rsh;            /* remote shell, words separated by blanks; called as `rsh host
                                   command`, or with the host in place of "{}" */
    const char *command;        /* the command for the remote shell; NULL: one that starts argv */
    int in, out, err;           /* standard streams of the rank; `in` is unused for remote ranks,
                                   whose remote shell uses standard input for control */
    const cpu_set_t *cores;     /* NULL: not bound */
};

struct child {
    pid_t pid;
    int pidfd;                  /* readable when the process has ended */
    int control;                /* remote ranks: receives the token and names of signals; closing
                                   it ends the rank. -1: local rank */
    int sent;                   /* bytes written to control */
};

/* Returns the command that starts a relay in the current directory of a remote host: this program
 * at its path, or else the one in PATH. The caller frees it. NULL: out of memory. */
char *child_relay_command(void);
/* Starts the process. On success *out belongs to the caller. Otherwise prints the error and returns
 * the exit status that a shell would return (126, 127). */
int child_start(struct child *out, const struct child_conf *conf);
/* As child_start, but closes the streams of conf in any case. A stream of -1 could not be opened,
 * which was reported: returns 126. */
int child_start_with(struct child *out, const struct child_conf *conf);
/* Returns whether the signal ends the process: it is neither handled, blocked nor ignored. False if
 * that is unknown. */
bool child_ends_by(const struct child *c, int sig);
/* Returns whether the remote shell has read none of the bytes sent to it: then it has not run the
 * command. */
bool child_ignored_input(const struct child *c);
/* Returns the time in which a remote shell must answer: the start-up timeout of its ranks, from
 * env[n] ("NAME=value"), or else from the environment. TT_NEVER: no limit. */
uint64_t child_answer_ns(const char *const *env, size_t n);
/* Sends a signal to the process group. */
void child_signal(struct child *c, int sig);
/* Waits for the end of the process, kills the rest of its group, closes descriptors and returns the
 * wait status. */
int child_reap(struct child *c);

/* Starts a guard process, which ends the ranks if this process is killed. Returns the descriptor to
 * register ranks with, or -1. */
int guard_start(void);
void guard_add(int guard, const struct child *c);
void guard_dismiss(int guard);

#endif
