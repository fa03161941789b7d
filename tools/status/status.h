/* Parts of `tutti status`. */
#ifndef TUTTI_TOOLS_STATUS_H
#define TUTTI_TOOLS_STATUS_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/hostport.h"
#include "status/place.h"
#include "status/remote.h"
#include "status/report.h"
#include "status/talk.h"

#define STATUS_WHY_BYTES 640
#define STATUS_STOP_MS 100

/* The processes that may be queried. */
struct status_where {
    char base[TT_PLACE_BYTES];
    uint64_t job;
    uint32_t first_rank;
    bool one;                   /* only first_rank */
    char address[TT_HOST_BYTES + 16];   /* "host:port": over TCP, with the next two fields only;
                                           "": none */
    char token[TT_REMOTE_TOKEN_BYTES];
    const atomic_bool *stop;    /* once it is set, all waits fail within STATUS_STOP_MS;
                                   NULL: none */
};

/* A connection to a process. */
struct status_link {
    int fd;
    const atomic_bool *stop;    /* as in status_where */
    struct tt_talk_hello hello;
    bool is_sealed;             /* over TCP */
    struct tt_seal seal;
    struct tt_framer in;
};

struct status_answer {
    struct tt_talk_hello hello; /* of the queried process */
    uint32_t nqueried;          /* number of queried processes */
    struct tt_collect_query query;
    double seconds;
    struct tt_status_report report;
};

/* ---- status_find.c ---- */

/* Finds the job that `what` names: the first digits of a job ID, a directory or a socket, or
 * "tcp://host:port"; NULL: the only job of this user. Returns false with a message on stderr, after
 * the prefix `who`, which must stay valid. */
bool status_find(const char *what, struct status_where *out, const char *who);
/* Connects to the first process that responds. False: none; why[STATUS_WHY_BYTES] is the cause. */
bool status_connect(const struct status_where *w, uint32_t timeout_ms, struct status_link *out,
                    char *why);
void status_disconnect(struct status_link *l);
/* Like poll, until due_ns at most; if `stop` is given, for STATUS_STOP_MS at most. */
int status_poll(struct pollfd *fds, uint32_t n, uint64_t due_ns, const atomic_bool *stop);
static inline bool status_is_stopped(const atomic_bool *stop)
{
    return stop && atomic_load(stop);
}

/* ---- status_remote.c ---- */

/* As status_find and status_connect, for "host:port" over TCP. */
bool status_remote_find(const char *address, struct status_where *out, const char *who);
bool status_remote_connect(const struct status_where *w, uint32_t timeout_ms,
                           struct status_link *out, char *why);

/* ---- status_ask.c ---- */

/* Sends a query and merges the answer. In an elastic run, queries each process of this host. */
bool status_ask(const struct status_where *w, struct status_link *l,
                const struct tt_collect_query *q, struct status_answer *out, char *why);
void status_answer_fini(struct status_answer *a);

/* ---- status_judge.c ---- */

enum status_verdict {           /* of a communicator, most urgent first */
    STATUS_MISMATCH,            /* different arguments, or found by the library */
    STATUS_FAILED,
    STATUS_MISSING,             /* some members have not called */
    STATUS_UNKNOWN,             /* some members did not report */
    STATUS_RUNNING,             /* each reporting member has called */
    STATUS_IDLE
};

struct status_judged {
    const struct tt_status_comm *comm;
    enum status_verdict verdict;
    const struct tt_status_group *lead;     /* the operation; NULL: none */
    uint32_t nin;                           /* members in it */
};

/* Determines the state of each communicator, and sorts by urgency. Returns the number of
 * communicators; the caller frees *out. */
uint32_t status_judge(const struct tt_status_report *r, struct status_judged **out);
const char *status_verdict_name(enum status_verdict v);
/* Returns whether the members in group g have not called the operation of j->lead. */
bool status_is_behind(const struct status_judged *j, const struct tt_status_group *g);
/* Calls f for each rank of a communicator that did not report and is in one of the lists. */
void status_each_unreported(const struct tt_status_report *r, const struct tt_status_comm *c,
                            void (*f)(void *arg, enum tt_status_list list, uint32_t rank),
                            void *arg);
/* Returns the number of ranks that neither reported nor are in a list. */
uint32_t status_nunknown(const struct status_answer *a);
const char *status_list_name(enum tt_status_list list);
/* Returns e.g. "wire". */
const char *status_stage_name(enum tt_status_stage stage);
/* Writes e.g. "allreduce 1024 f32 sum" to out[bytes]. */
void status_op_text(const struct tt_status_op_key *k, char *out, size_t bytes);

/* ---- output ---- */

/* In the functions below, `rows` is the maximum number of communicators and of operations. */
/* qsort order of struct tt_status_op: the oldest comes first. */
int status_compare_ops(const void *x, const void *y);
void status_print(const struct status_answer *a, uint32_t rows, FILE *to);
void status_print_rank(const struct status_answer *a, uint32_t rows, FILE *to);
/* Prints the result of a request for dumps. */
void status_print_dumps(const struct status_answer *a, FILE *to);
/* Prints the ranks that did not report, and the causes. */
void status_print_lists(const struct status_answer *a, FILE *to);
/* Prints e.g. "1.5 GB/s". */
void status_print_rate(uint64_t bytes, FILE *to);
/* Prints e.g. "230 ms". */
void status_print_age(uint64_t ns, FILE *to);
/* Prints "rank 3" or "ranks 3, 5, 8 and 20 others". */
void status_print_ranks(const uint32_t *rank, uint32_t listed, uint32_t all, FILE *to);
/* Returns false if out of memory. */
bool status_print_json(const struct status_answer *a, FILE *to);
/* Prints a document with the cause in place of an answer. */
void status_print_json_error(const char *why, FILE *to);
/* Prints the text format of Prometheus. */
void status_print_metrics(const struct status_answer *a, uint32_t rows, FILE *to);
/* Writes an HTML page; unix_ms: the time of the answer. */
void status_page_write(const struct status_answer *a, uint32_t rows, int64_t unix_ms, FILE *to);
/* Writes the page without an answer; why: the cause. */
void status_page_write_error(uint64_t job, const char *why, int64_t unix_ms, FILE *to);

/* ---- status_serve.c ---- */

struct status_serve_conf {
    struct status_where where;
    const char *address;        /* as in coordinator/listen.h, or a port of 127.0.0.1 */
    uint32_t rows, timeout_ms;
    uint64_t interval_ns;       /* minimum between queries */
};

/* Serves the status over HTTP until SIGINT, SIGTERM or SIGHUP. Returns the exit status. */
int status_serve(const struct status_serve_conf *conf);

#endif
