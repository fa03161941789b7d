/* A public call on its way to the engine: what it was given, checked piece by piece, and then run. Every error names the call and the
 * value. Used by the one thread that makes the call. */
#ifndef TT_COMM_ATTEMPT_H
#define TT_COMM_ATTEMPT_H

#include "comm/comm.h"

struct tt_attempt {
    const char *name;           /* "tutti_allreduce" */
    tutti_comm *comm;
    const tutti_call *call;     /* NULL, the caller's, or mine: what this release knows of the caller's */
    tutti_call mine;
    tutti_redop op;
    uint64_t *arrays;           /* counts and displacements of the v calls, freed at the end; NULL: none */
    struct tt_op_conf conf;
};

/* A blocking call like one before, whose operation was kept, goes at once: true, and *st is what came of it. False: it is none, and
 * takes the long way, which begins with tt_attempt_begin. */
bool tt_attempt_again(tutti_status *st, enum tt_coll_kind kind, const void *src, void *dst, size_t count,
                      tutti_dtype type, tutti_redop op, int root, tutti_comm *comm, const tutti_call *call);

/* Checks the communicator, the type and the options, and fills in what follows from them. On error *t is undefined, and nothing
 * is to be finished. */
tutti_status tt_attempt_begin(struct tt_attempt *t, const char *name, enum tt_coll_kind kind, tutti_comm *comm,
                              const tutti_call *call, tutti_dtype type);
/* The root, or a peer. */
tutti_status tt_attempt_root(struct tt_attempt *t, int root);
/* Whether it is a send or receive of this rank with itself. */
bool tt_attempt_is_with_oneself(const struct tt_attempt *t);
tutti_status tt_attempt_op(struct tt_attempt *t, tutti_redop op);
/* Whether calls of this kind have a quantized form; and *c, of `count` elements to a row, as one over packed blocks. */
bool tt_attempt_can_quantize(enum tt_coll_kind kind);
void tt_attempt_pack(struct tt_coll *c, const struct tt_packed *packed, uint64_t count, bool feedback);
/* Elements. */
tutti_status tt_attempt_count(struct tt_attempt *t, size_t count);
/* Whether there is a buffer where there are bytes. */
tutti_status tt_attempt_need(const struct tt_attempt *t, const void *buf, uint64_t bytes, const char *what);
/* Completes t->conf for an operation that the caller starts itself. */
tutti_status tt_attempt_plan(struct tt_attempt *t);
/* Runs the call unless st says that an argument was wrong, and frees what the attempt holds. */
tutti_status tt_attempt_finish(struct tt_attempt *t, tutti_status st);

#endif
