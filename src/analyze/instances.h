/* Instances: the records of one collective, or of one message, of all its ranks. The last caller of
 * a collective, and the time that others waited for it, are known if all members left a record with
 * comparable times. */
#ifndef TT_ANALYZE_INSTANCES_H
#define TT_ANALYZE_INSTANCES_H

#include "analyze/dumps.h"

struct tt_instance {
    uint32_t first, n;          /* in tt_instances.order; records of different ranks, in the order
                                   of ranks. A message: the send first */
    uint32_t last;              /* in tt_dumps.ops: the record of the last caller. NONE: unknown,
                                   because a member has no record or no comparable time */
    uint32_t comm;
    bool is_message;
    int64_t last_called;        /* if `last` is known */
    int64_t before_last;        /* call of the second-last caller, if `last` is known */
    int64_t ended;              /* latest end; NEVER: a record has none */
    int64_t error_ns;           /* maximum error of time differences between ranks */
};

struct tt_instances {
    const struct tt_dumps *d;
    uint32_t *order;            /* [norder] of tt_dumps.ops, by instance */
    struct tt_instance *list;   /* [n] in the order of communicators and sequence numbers */
    uint32_t *of;               /* [tt_dumps.nops] its instance, or NONE */
    uint32_t n, norder;
};

/* Groups the kept collectives, sends and receives. *d must have its index, and must not change
 * until tt_instances_fini. Time: n log n in the operations. NOMEM (logged): *in is not
 * initialized. */
tutti_status tt_instances_init(struct tt_instances *in, const struct tt_dumps *d);
void tt_instances_fini(struct tt_instances *in);

/* Returns how long the rank of operation `op` waited in it for the last caller, in ns. Returns 0 if
 * it was the last caller, if it ended before the last call, if the difference is within the error
 * of the clocks, or if the last caller is unknown. */
int64_t tt_instances_waited(const struct tt_instances *in, uint32_t op);
/* Returns the time from the call of the last caller to the end of operation `op`, in ns. Negative:
 * unknown. */
int64_t tt_instances_transfer(const struct tt_instances *in, uint32_t op);

#endif
