/* A public call: checks its arguments one by one, and runs it in the engine. Every error names the
 * call and the value. Used only by the calling thread. */
#ifndef TT_COMM_CALL_H
#define TT_COMM_CALL_H

#include "comm/comm.h"

struct tt_call_check {
    const char *name;           /* "tutti_allreduce" */
    tutti_comm *comm;
    const tutti_call *call;     /* NULL, the caller's, or `mine`: a copy with the fields of this
                                   release */
    tutti_call mine;
    tutti_redop op;
    uint64_t *arrays;           /* counts and displacements of a variable collective, freed at the
                                   end; NULL: none */
    struct tt_op_conf conf;
};

/* Runs a blocking call at once if the operation of an equal earlier call was kept: returns true
 * and sets *st. Otherwise returns false; the caller continues with tt_call_check_begin. */
bool tt_call_check_again(tutti_status *st, enum tt_coll_kind kind, const void *src, void *dst,
                         size_t count, tutti_dtype type, tutti_redop op, int root, tutti_comm *comm,
                         const tutti_call *call);

/* Checks the communicator, the type and the options, and sets the derived fields. On error *t is
 * undefined, and tt_call_check_finish must not be called. */
tutti_status tt_call_check_begin(struct tt_call_check *t, const char *name, enum tt_coll_kind kind,
                                 tutti_comm *comm, const tutti_call *call, tutti_dtype type);
/* Checks and sets the root, or the peer. */
tutti_status tt_call_check_root(struct tt_call_check *t, int root);
/* Returns whether this is a send or receive of this rank with itself. */
bool tt_call_check_is_self(const struct tt_call_check *t);
tutti_status tt_call_check_op(struct tt_call_check *t, tutti_redop op);
/* Return whether calls of this kind have a quantized form; and convert *c, with `count` elements
 * per row, to packed blocks. */
bool tt_call_check_can_quantize(enum tt_coll_kind kind);
void tt_call_check_pack(struct tt_coll *c, const struct tt_packed *packed, uint64_t count,
                        bool feedback);
/* Checks and sets the number of elements. */
tutti_status tt_call_check_count(struct tt_call_check *t, size_t count);
/* Checks that buf is not NULL if bytes > 0. */
tutti_status tt_call_check_need(const struct tt_call_check *t, const void *buf, uint64_t bytes,
                                const char *what);
/* Completes t->conf for an operation that the caller starts itself. *keeper becomes the plan that
 * can keep the operation, or NULL. */
tutti_status tt_call_check_plan(struct tt_call_check *t, struct tt_plan **keeper);
/* For a member of a blocking group, before any member starts: its operation will be kept in `plan`
 * if the last call of this plan had the same shape. A later member of the group may change the
 * plan. Therefore call tt_call_check_keep_settle for each member after the last call of
 * tt_call_check_keep. */
void tt_call_check_keep(struct tt_op_conf *conf, struct tt_plan *plan, tutti_comm *comm);
void tt_call_check_keep_settle(struct tt_op_conf *conf, const struct tt_plan *plan);
/* Fills *out with the kept operation of an equal earlier send or receive. Returns false, without
 * effect, if there is none. */
bool tt_call_check_group_again(struct tt_group_call *out, const tutti_p2p *op, tutti_comm *comm);
/* Returns the timeout of a call; negative: none. */
int64_t tt_call_check_timeout(const tutti_comm *comm, const tutti_call *call);
/* Runs the call, unless st is an error in an argument. Frees t->arrays. */
tutti_status tt_call_check_finish(struct tt_call_check *t, tutti_status st);

#endif
