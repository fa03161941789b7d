/* Each flag, enumeration and bounded number of each option struct: a value out of range is INVALID,
 * with a message that names the call, the field and the value; and the call works after correcting
 * it. One process, with a job of one rank and a run of one member. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/unit.h"
#include "tutti/coordinator.h"
#include "tutti/device.h"
#include "tutti/elastic.h"
#include "tutti/moe.h"
#include "tutti/rma.h"
#include "tutti/tutti.h"

#define WINDOW_BYTES 4096

/* All options; a case makes one field invalid. */
struct options {
    tutti_conf conf;
    tutti_call call;
    tutti_p2p p2p;
    tutti_mem_device memory;
    tutti_rma rma;
    tutti_device_conf device;
    tutti_moe_conf moe;
    tutti_replay_conf replay;
    tutti_dynamic dynamic;
    tutti_moe_routing routing;
    tutti_coordinator_conf coordinator;
    tutti_run_conf run;
    tutti_elastic elastic;
    tutti_array array;
    tutti_state state;
    tutti_ring ring;
};

/* Objects for the calls. */
static struct {
    tutti_comm *comm;
    tutti_window *window;
    tutti_coordinator *coordinator;
    tutti_run *run;
    uint64_t words[4];
    size_t lengths[1], indices[1];
    void *recvbuffs[1];
    float tokens[16], weights[1];
    uint32_t experts[1];
    char *page;
} on = { .lengths = { 1 }, .recvbuffs = { &on.words[2] } };

static void right_options(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->conf = (tutti_conf){ .size = sizeof o->conf, .nranks = 1 };
    o->call = (tutti_call){ .size = sizeof o->call };
    o->p2p = (tutti_p2p){ .buf = on.words, .count = 0, .type = TUTTI_U64 };
    o->memory = (tutti_mem_device){ .size = sizeof o->memory };
    o->rma = (tutti_rma){ .size = sizeof o->rma };
    o->device = (tutti_device_conf){ .size = sizeof o->device };
    o->moe = (tutti_moe_conf){ .size = sizeof o->moe,
                               .hidden = 16,
                               .experts = 2,
                               .top_k = 1,
                               .max_tokens = 4,
                               .type = TUTTI_F32,
                               .there = TUTTI_F32,
                               .back = TUTTI_F32 };
    o->replay = (tutti_replay_conf){
        .size = sizeof o->replay, .nsplits = 1, .max_length = 4, .type = TUTTI_F32
    };
    o->dynamic = (tutti_dynamic){ .size = sizeof o->dynamic,
                                  .sendbuff = on.words,
                                  .split_lengths = on.lengths,
                                  .nsplits = 1,
                                  .indices = on.indices,
                                  .index_block_lens = on.lengths,
                                  .recvbuffs = on.recvbuffs,
                                  .max_length = 1 };
    o->routing = (tutti_moe_routing){ .size = sizeof o->routing,
                                      .tokens = on.tokens,
                                      .ntokens = 1,
                                      .experts = on.experts,
                                      .weights = on.weights };
    o->coordinator = (tutti_coordinator_conf){ .size = sizeof o->coordinator };
    o->run = (tutti_run_conf){ .size = sizeof o->run,
                               .coordinators = tutti_coordinator_address(on.coordinator, 0) };
    o->elastic = (tutti_elastic){ .size = sizeof o->elastic,
                                  .src = on.words,
                                  .dst = on.words + 1,
                                  .count = 1,
                                  .type = TUTTI_U64 };
    o->array = (tutti_array){
        .size = sizeof o->array, .name = "a", .data = on.words + 2, .count = 1, .type = TUTTI_U64
    };
    o->state = (tutti_state){ .size = sizeof o->state, .arrays = &o->array, .narrays = 1 };
    o->ring = (tutti_ring){ .size = sizeof o->ring };
}

/* ---- calls ---- */

static tutti_status go_comm(struct options *o)
{
    tutti_comm *comm = NULL;
    const tutti_status st = tutti_comm_create(&comm, &o->conf);

    tutti_comm_destroy(comm);
    return st;
}

static tutti_status go_allreduce(struct options *o)
{
    return tutti_allreduce(on.words, on.words + 1, 1, TUTTI_U64, TUTTI_SUM, on.comm, &o->call);
}

static tutti_status go_group(struct options *o)
{
    tutti_p2p both[2] = { o->p2p, o->p2p };

    both[1].is_recv = 1;
    return tutti_group(both, 2, on.comm, NULL);
}

static tutti_status go_memory(struct options *o)
{
    const tutti_status st =
        tutti_mem_register_device(on.comm, on.page, (size_t)sysconf(_SC_PAGESIZE), &o->memory);

    return st == TUTTI_ERR_UNSUPPORTED ? TUTTI_OK : st;     /* without such a device */
}

static tutti_status go_put(struct options *o)
{
    return tutti_window_put(on.window, 0, 0, on.words, 8, &o->rma);
}

static tutti_status go_device(struct options *o)
{
    tutti_device *d = NULL;
    const tutti_status st = tutti_device_create(on.window, &o->device, &d);

    if (!st)
        tutti_device_destroy(d);
    return st;
}

static tutti_status go_moe(struct options *o)
{
    tutti_moe *m = NULL;
    const tutti_status st = tutti_moe_create(on.comm, &o->moe, &m);

    tutti_moe_free(m);
    return st;
}

static tutti_status go_replay(struct options *o)
{
    tutti_replay *y = NULL;
    const tutti_status st = tutti_replay_create(on.comm, &o->replay, &y);

    tutti_replay_free(y);
    return st;
}

static tutti_status go_dynamic(struct options *o)
{
    return tutti_alltoallv_dynamic(&o->dynamic, TUTTI_U64, on.comm, NULL);
}

/* With call options that an exchange does not have. */
static tutti_status go_dynamic_call(struct options *o)
{
    return tutti_alltoallv_dynamic(&o->dynamic, TUTTI_U64, on.comm, &o->call);
}

static tutti_status go_dispatch(struct options *o)
{
    tutti_moe *m = NULL;
    tutti_status st = tutti_moe_create(on.comm, &o->moe, &m);

    if (!st)
        st = tutti_moe_dispatch(m, &o->routing, 0);
    tutti_moe_free(m);
    return st;
}

static tutti_status go_coordinator(struct options *o)
{
    tutti_coordinator *c = NULL;
    const tutti_status st = tutti_coordinator_create(&c, &o->coordinator);

    tutti_coordinator_destroy(c);
    return st;
}

static tutti_status go_join(struct options *o)
{
    tutti_run *run = NULL;
    const tutti_status st = tutti_run_join(&run, &o->run);

    tutti_run_destroy(run);
    return st;
}

static tutti_status go_elastic(struct options *o)
{
    return tutti_run_collective(on.run, &o->elastic);
}

static tutti_status go_sync(struct options *o)
{
    static uint64_t revision;
    tutti_status st;

    o->state.revision = revision;
    st = tutti_run_sync(on.run, &o->state, 0);
    revision = o->state.revision;
    return st;
}

static tutti_status go_optimize(struct options *o)
{
    tutti_view view = { .size = sizeof view };

    return tutti_run_optimize(on.run, &o->ring, 0, &view);
}

/* ---- fields ---- */

#define FIELD(call, of, member, value, text) \
    {                                                                                        \
        call, offsetof(struct options, of.member), sizeof(((struct options *)0)->of.member), \
            value, text                                                                      \
    }

static const struct {
    tutti_status (*go)(struct options *);
    size_t offset, bytes;
    int64_t wrong;
    const char *says;       /* text in the message: the call, the field and its value */
} cases[] = {
    FIELD(go_comm, conf, nranks, -1, "-1"),
    FIELD(go_comm, conf, rank, 1, "1"),
    FIELD(go_comm, conf, lanes, 17, "tutti_comm_create: conf.lanes is 17:"),
    FIELD(go_comm, conf, lanes, -1, "tutti_comm_create: conf.lanes is -1:"),
    FIELD(go_comm, conf, restore, 2, "tutti_comm_create: conf.restore is 2:"),
    FIELD(go_comm, conf, restore, -1, "tutti_comm_create: conf.restore is -1:"),
    FIELD(go_allreduce, call, quant, TUTTI_QUANT_COUNT, "tutti_allreduce: call.quant is 7"),
    FIELD(go_allreduce, call, quant, -1, "tutti_allreduce: call.quant is -1"),
    FIELD(go_group, p2p, is_recv, 2, "tutti_group: ops[0].is_recv is 2:"),
    FIELD(go_group, p2p, is_recv, INT32_MIN, "tutti_group: ops[0].is_recv is -2147483648:"),
    FIELD(go_memory, memory, kind, 4, "tutti_mem_register_device: what.kind is 4:"),
    FIELD(go_memory, memory, kind, -1, "tutti_mem_register_device: what.kind is -1:"),
    FIELD(go_memory, memory, has_dmabuf, 2, "tutti_mem_register_device: what.has_dmabuf is 2:"),
    FIELD(go_memory, memory, device, -1, "tutti_mem_register_device: what.device is -1"),
    FIELD(go_put, rma, signal_op, 3, "tutti_window_put: rma.signal_op is 3:"),
    FIELD(go_put, rma, signal_op, -1, "tutti_window_put: rma.signal_op is -1:"),
    FIELD(go_put, rma, no_wait, 2, "tutti_window_put: rma.no_wait is 2:"),
    FIELD(go_device, device, mode, TUTTI_DEVICE_MODES, "tutti_device_create: conf.mode is"),
    FIELD(go_device, device, mode, -1, "tutti_device_create: conf.mode is -1:"),
    FIELD(go_device, device, lanes, TUTTI_DEVICE_LANES, "tutti_device_create: conf.lanes is"),
    FIELD(go_device, device, fifo_slots, 7, "tutti_device_create: conf.fifo_slots is 7:"),
    FIELD(go_device, device, groups, (1 << 20) + 1, "tutti_device_create: conf.groups is 1048577:"),
    FIELD(go_device, device, flags, (1 << 16) + 1, "tutti_device_create: conf.flags is 65537:"),
    FIELD(go_device, device, no_direct, 2, "tutti_device_create: conf.no_direct is 2:"),
    FIELD(go_device, device, wakes_hosts, 2, "tutti_device_create: conf.wakes_hosts is 2:"),
    FIELD(go_device, device, polls, 255, "tutti_device_create: conf.polls is 255:"),
    FIELD(go_moe, moe, form, TUTTI_MOE_FORMS, "tutti_moe_create: conf.form is 2:"),
    FIELD(go_moe, moe, form, -1, "tutti_moe_create: conf.form is -1:"),
    FIELD(go_moe, moe, hidden, 65537, "tutti_moe_create: conf.hidden is 65537:"),
    FIELD(go_moe, moe, top_k, 3, "tutti_moe_create: conf.top_k is 3:"),
    FIELD(go_moe, moe, max_tokens, (1 << 20) + 1, "tutti_moe_create: conf.max_tokens is 1048577:"),
    FIELD(go_moe, moe, tile_tokens, 4097, "tutti_moe_create: conf.tile_tokens is 4097:"),
    FIELD(go_moe, moe, type, TUTTI_I8, "tutti_moe_create: conf.type is 0"),
    FIELD(go_moe, moe, there, -1, "tutti_moe_create: conf.there is -1"),
    FIELD(go_moe, moe, back, TUTTI_DTYPE_COUNT, "tutti_moe_create: conf.back is 14"),
    FIELD(go_replay, replay, depth, 9, "tutti_replay_create: conf.depth is 9:"),
    FIELD(go_replay, replay, depth, 1, "tutti_replay_create: conf.depth is 1:"),
    FIELD(go_replay, replay, without, 1 << 30, "unknown bits in conf.without"),
    FIELD(go_dynamic, dynamic, nsplits, 0, "tutti_alltoallv_dynamic: nsplits is 0:"),
    FIELD(go_dynamic, dynamic, nsplits, 65537, "tutti_alltoallv_dynamic: nsplits is 65537:"),
    FIELD(go_dynamic, dynamic, max_length, (INT64_C(1) << 40) + 1, "max_length is 10995116277"),
    FIELD(go_dynamic, dynamic, max_length, -1, "max_length is 18446744073709551615:"),
    FIELD(go_dynamic, dynamic, max_total, -1, "max_total of 18446744073709551615 elements"),
    FIELD(go_dynamic_call, call, quant, TUTTI_QUANT_MINMAX_U8, "call.quant is 1:"),
    FIELD(go_dynamic_call, call, quant, -1, "call.quant is -1:"),
    FIELD(go_dynamic_call, call, divisor, 2, "call.divisor is 2:"),
    FIELD(go_dispatch, routing, ntokens, 5, "tutti_moe_dispatch: routing.ntokens of rank 0 is 5"),
    FIELD(go_coordinator, coordinator, insecure, 2,
          "tutti_coordinator_create: conf.insecure is 2:"),
    FIELD(go_coordinator, coordinator, insecure, -1,
          "tutti_coordinator_create: conf.insecure is -1:"),
    FIELD(go_coordinator, coordinator, store_plain, 2,
          "tutti_coordinator_create: conf.store_plain is 2:"),
    FIELD(go_coordinator, coordinator, lease_ms, -1, "conf.lease_ms is -1"),
    FIELD(go_coordinator, coordinator, grace_ms, 3600001, "conf.grace_ms is 3600001:"),
    FIELD(go_coordinator, coordinator, members_max, UINT32_MAX,
          "coordinator: members_max is 4294967295:"),
    FIELD(go_join, run, insecure, 2, "tutti_run_join: conf.insecure is 2:"),
    FIELD(go_join, run, lanes, 17, "conf.lanes is 17:"),
    FIELD(go_join, run, tags, -1, "tutti_run_join: conf.tags is -1"),
    FIELD(go_join, run, role, 1, "tutti_run_join: conf.role 1"),
    FIELD(go_elastic, elastic, coll, TUTTI_COLL_COUNT, "tutti_run_collective: op.coll is"),
    FIELD(go_elastic, elastic, coll, -1, "tutti_run_collective: op.coll is -1:"),
    FIELD(go_elastic, elastic, mode, 3, "op.mode of allreduce is 3"),
    FIELD(go_elastic, elastic, scope, 3, "tutti_run_collective: op.scope is 3:"),
    FIELD(go_elastic, elastic, withholds, 2, "tutti_run_collective: op.withholds is 2:"),
    FIELD(go_elastic, elastic, tentative, 2, "tutti_run_collective: op.tentative is 2:"),
    FIELD(go_elastic, elastic, tentative, -1, "tutti_run_collective: op.tentative is -1:"),
    FIELD(go_elastic, elastic, quant, TUTTI_QUANT_COUNT, "tutti_run_collective: op.quant is 7:"),
    FIELD(go_elastic, elastic, tag, 8, "tutti_run_collective: tag is 8"),
    FIELD(go_sync, state, strategy, 3, "tutti_run_sync: state.strategy is 3"),
    FIELD(go_sync, state, scope, -1, "state.scope is -1:"),
    FIELD(go_sync, state, instead, 2, "tutti_run_sync: state.instead is 2:"),
    FIELD(go_sync, array, may_differ, 2, "tutti_run_sync: arrays[0].may_differ is 2:"),
    FIELD(go_sync, array, type, TUTTI_DTYPE_COUNT, "tutti_run_sync: invalid type 14"),
    FIELD(go_optimize, ring, gain_percent, 100, "tutti_run_optimize: ring.gain_percent is 100"),
    FIELD(go_optimize, ring, burst_ms, 9, "tutti_run_optimize: ring.burst_ms is 9:"),
    FIELD(go_optimize, ring, background, 2, "tutti_run_optimize: ring.background is 2:"),
};

static void set(struct options *o, size_t offset, size_t bytes, int64_t value)
{
    memcpy((char *)o + offset, &value, bytes);      /* little-endian, as everywhere in Tutti */
}

static void values_out_of_range_are_named(void **state)
{
    struct options o;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tutti_status st;

        right_options(&o);
        set(&o, cases[i].offset, cases[i].bytes, cases[i].wrong);
        st = cases[i].go(&o);
        if (st != TUTTI_ERR_INVALID || !strstr(tutti_last_error(), cases[i].says))
            fail_msg("case %zu, \"%s\": %s: %s", i, cases[i].says, tutti_status_name(st),
                     tutti_last_error());
        right_options(&o);
        st = cases[i].go(&o);
        if (st)
            fail_msg("case %zu, \"%s\", set right: %s", i, cases[i].says, tutti_last_error());
    }
}

static int make(void **state)
{
    tutti_view view = { .size = sizeof view };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct options o;

    (void)state;
    on.page = aligned_alloc(page, page);
    right_options(&o);
    if (tutti_comm_create(&on.comm, &o.conf) ||
        tutti_window_create(on.comm, NULL, WINDOW_BYTES, &on.window) ||
        tutti_coordinator_create(&on.coordinator, &o.coordinator))
        return -1;
    right_options(&o);
    return tutti_run_join(&on.run, &o.run) || tutti_run_epoch(on.run, TUTTI_ADMIT, 1, 1, 0, &view)
               ? -1
               : 0;
}

static int unmake(void **state)
{
    (void)state;
    tutti_run_destroy(on.run);
    tutti_coordinator_destroy(on.coordinator);
    tutti_window_free(on.window);
    tutti_comm_destroy(on.comm);
    free(on.page);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_out_of_range_are_named),
    };

    return cmocka_run_group_tests(tests, make, unmake);
}
