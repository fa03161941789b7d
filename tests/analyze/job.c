#include "analyze/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/job_state.h"
#include "base/prng.h"
#include "base/status.h"

static const char *const fault_names[JOB_FAULTS] = {
    [JOB_NEVER_CALLED] = "never called", [JOB_OUTSIDE] = "outside", [JOB_SKIPPED] = "skipped",
    [JOB_DIED] = "died", [JOB_STOPPED] = "stopped", [JOB_ORDER] = "order",
    [JOB_MISMATCH] = "mismatch", [JOB_LINK] = "link", [JOB_NIC] = "nic",
    [JOB_SLOW_LINK] = "slow link", [JOB_SLOW_RANK] = "slow rank", [JOB_DEADLINE] = "deadline",
};

const char *job_fault_name(enum job_fault fault)
{
    return fault_names[fault];
}

/* ---- shape ---- */

struct job_conf job_draw(uint64_t seed, uint32_t ranks_max)
{
    struct tt_prng p;
    struct job_conf c = { .expert = 1, .seed = seed };
    uint32_t log = 3, most = 3;

    tt_prng_init(&p, tt_mix64(seed) + 17);
    while (most < 20 && 1u << (most + 1) <= ranks_max)
        most++;
    /* half of the jobs have 8 to 64 ranks; larger jobs are rarer */
    while (log < most && tt_prng_below(&p, 100) < (log < 6 ? 80 : 55))
        log++;
    {
        const uint32_t t = (uint32_t)tt_prng_below(&p, 4), s = (uint32_t)tt_prng_below(&p, 3);
        const uint32_t tensor = t < log ? t : 0, stages = tensor + s < log ? s : 0;
        const uint32_t data = log - tensor - stages;

        c.tensor = 1u << tensor;
        c.stages = 1u << stages;
        c.data = 1u << data;
        c.expert = 1u << tt_prng_below(&p, data < 3 ? data + 1 : 4);
    }
    c.iterations = log > 10 ? 2 : 2 + (uint32_t)tt_prng_below(&p, 3);
    c.microbatches = log > 10 ? 1 : 1 + (uint32_t)tt_prng_below(&p, 3);
    c.fault = (enum job_fault)tt_prng_below(&p, JOB_FAULTS);
    c.lost_percent = tt_prng_below(&p, 2) ? 0 : (uint32_t)tt_prng_below(&p, 15);
    c.late_percent = tt_prng_below(&p, 2) ? 0 : (uint32_t)tt_prng_below(&p, 30);
    c.cut_percent = tt_prng_below(&p, 3) ? 0 : (uint32_t)tt_prng_below(&p, 10);
    c.by_command = tt_prng_below(&p, 4) == 0;
    return c;
}

static uint32_t stage_of(const struct job *j, uint32_t rank)
{
    return rank / (j->conf.data * j->conf.tensor);
}

static uint32_t data_of(const struct job *j, uint32_t rank)
{
    return rank / j->conf.tensor % j->conf.data;
}

/* Returns the communicator of the given kind that contains the rank. */
uint32_t job_group_of(const struct job *j, uint32_t rank, enum job_group group)
{
    const struct job_conf *c = &j->conf;
    const uint32_t t = rank % c->tensor, d = data_of(j, rank), s = stage_of(j, rank);
    const uint32_t tensors = c->stages * c->data, datas = c->stages * c->tensor;
    const uint32_t experts = c->stages * c->tensor * (c->data / c->expert);

    switch (group) {
    case GROUP_WORLD:
        return 0;
    case GROUP_TENSOR:
        return 1 + s * c->data + d;
    case GROUP_GATHER:
        return 1 + tensors + s * c->tensor + t;
    case GROUP_SCATTER:
        return 1 + tensors + datas + s * c->tensor + t;
    case GROUP_EXPERT:
        return 1 + tensors + 2 * datas + (s * c->tensor + t) * (c->data / c->expert) +
               d / c->expert;
    default:
        return 1 + tensors + 2 * datas + experts + d * c->tensor + t;
    }
}

static struct job_comm shape_of(const struct job *j, uint32_t rank, enum job_group group)
{
    const struct job_conf *c = &j->conf;
    const uint32_t t = rank % c->tensor, d = data_of(j, rank), s = stage_of(j, rank);
    const uint32_t stage = s * c->data * c->tensor;

    switch (group) {
    case GROUP_WORLD:
        return (struct job_comm){ .first = 0, .stride = 1, .n = j->nranks };
    case GROUP_TENSOR:
        return (struct job_comm){ .first = stage + d * c->tensor, .stride = 1, .n = c->tensor };
    case GROUP_GATHER:
    case GROUP_SCATTER:
        return (struct job_comm){ .first = stage + t, .stride = c->tensor, .n = c->data };
    case GROUP_EXPERT:
        return (struct job_comm){ .first = stage + d / c->expert * c->expert * c->tensor + t,
                                  .stride = c->tensor,
                                  .n = c->expert };
    default:
        return (struct job_comm){ .first = d * c->tensor + t,
                                  .stride = c->data * c->tensor,
                                  .n = c->stages };
    }
}

uint32_t job_index(const struct job_comm *c, uint32_t rank)
{
    return (rank - c->first) / c->stride;
}

uint32_t job_member(const struct job_comm *c, uint32_t index)
{
    return c->first + index * c->stride;
}

/* ---- program of a stage ---- */

static void add_step(struct job_program *p, struct job_step step)
{
    tt_assert(p->n < STEPS_MAX);
    p->steps[p->n++] = step;
}

static void add_layer(struct job_program *p, uint64_t count)
{
    for (int i = 0; i < 2; i++)
        add_step(
            p, (struct job_step){ .kind = KIND_ALLREDUCE, .group = GROUP_TENSOR, .count = count });
    add_step(
        p, (struct job_step){ .kind = KIND_ALLTOALLV, .group = GROUP_EXPERT, .count = count / 2 });
    add_step(
        p, (struct job_step){ .kind = KIND_ALLTOALLV, .group = GROUP_EXPERT, .count = count / 2 });
}

static void make_program(const struct job *j, uint32_t stage, struct job_program *p)
{
    const struct job_conf *c = &j->conf;
    const bool is_first = stage == 0, is_last = stage + 1 == c->stages;

    add_step(p, (struct job_step){ .kind = KIND_BROADCAST, .group = GROUP_WORLD, .count = 16 });
    for (uint32_t m = 0; m < c->microbatches; m++) {
        if (!is_first)
            add_step(p, (struct job_step){ .kind = KIND_RECV,
                                           .group = GROUP_PIPELINE,
                                           .count = 4096,
                                           .tag = m,
                                           .peer_stage = stage - 1 });
        add_layer(p, 1024);
        if (!is_last)
            add_step(p, (struct job_step){ .kind = KIND_SEND,
                                           .group = GROUP_PIPELINE,
                                           .count = 4096,
                                           .tag = m,
                                           .peer_stage = stage + 1 });
    }
    for (uint32_t m = 0; m < c->microbatches; m++) {
        if (!is_last)
            add_step(p, (struct job_step){ .kind = KIND_RECV,
                                           .group = GROUP_PIPELINE,
                                           .count = 4096,
                                           .tag = 100 + m,
                                           .peer_stage = stage + 1 });
        add_layer(p, 2048);
        if (!is_first)
            add_step(p, (struct job_step){ .kind = KIND_SEND,
                                           .group = GROUP_PIPELINE,
                                           .count = 4096,
                                           .tag = 100 + m,
                                           .peer_stage = stage - 1 });
        if (m == 0)
            add_step(p, (struct job_step){ .kind = KIND_REDUCE_SCATTER,
                                           .group = GROUP_SCATTER,
                                           .count = 65536,
                                           .is_async = true });
    }
    add_step(p, (struct job_step){ .kind = KIND_WAIT });
    add_step(
        p, (struct job_step){ .kind = KIND_REDUCE_SCATTER, .group = GROUP_SCATTER, .count = 8192 });
    add_step(p, (struct job_step){ .kind = KIND_ALLGATHER, .group = GROUP_GATHER, .count = 8192 });
    add_step(p, (struct job_step){ .kind = KIND_ALLREDUCE, .group = GROUP_WORLD, .count = 1 });
}

const struct job_step *job_step_at(const struct job *j, uint32_t rank, uint32_t pc)
{
    const struct job_program *p = &j->programs[stage_of(j, rank)];

    return &p->steps[pc % p->n];
}

static uint32_t program_end(const struct job *j, uint32_t rank)
{
    return j->conf.iterations * j->programs[stage_of(j, rank)].n;
}

/* ---- run ---- */

static bool is_p2p(enum job_kind kind) { return kind == KIND_SEND || kind == KIND_RECV; }

static struct job_record *add_record(struct job *j, uint32_t rank, const struct job_step *s)
{
    struct job_rank *r = &j->ranks[rank];
    struct job_record *rec;

    tt_assert(r->nrecords < r->cap);
    rec = &r->records[r->nrecords];
    *rec = (struct job_record){
        .kind = s->kind,
        .comm = job_group_of(j, rank, s->group),
        .count = s->count,
        .type = "f32",
        .called = r->now,
        .ended = JOB_OPEN,
        .waited = s->is_async ? JOB_OPEN : r->now,
        .tag = s->tag,
        .number = r->nrecords,
        .note = r->pc / j->programs[stage_of(j, rank)].n + 1,
    };
    if (is_p2p(s->kind))
        rec->peer = job_member(&j->comms[rec->comm], s->peer_stage);
    r->nrecords++;
    return rec;
}

static void make_runnable(struct job *j, uint32_t rank)
{
    if (!j->ranks[rank].queued)
        j->queue[j->nqueue++] = rank;
    j->ranks[rank].queued = true;
}

/* Ends a record. If its rank waits for it, the rank continues. */
static void end_record(struct job *j, uint32_t rank, uint32_t number, int64_t at)
{
    struct job_rank *r = &j->ranks[rank];

    r->records[number].ended = at;
    if (r->blocked && r->blocked_on == number) {
        r->blocked = false;
        r->now = at > r->now ? at : r->now;
        make_runnable(j, rank);
    }
}

/* Duration of a call with `count` elements. */
static int64_t duration_of(struct job *j, const struct job_record *rec)
{
    if (j->conf.fault == JOB_DEADLINE && rec->kind == KIND_ALLREDUCE && rec->comm == 0)
        return JOB_TIMEOUT_NS / 100 * (int64_t)(80 + tt_prng_below(&j->prng, 15));
    return 20000 + (int64_t)rec->count * 10 + (int64_t)tt_prng_below(&j->prng, 20000);
}

static struct job_instance *instance_of(struct job *j, uint32_t comm, uint64_t seq)
{
    struct job_comm *c = &j->comms[comm];
    struct job_instance *o;

    tt_assert(seq < c->cap);
    o = &c->instances[seq];
    if (!o->number) {
        o->number = calloc(c->n, sizeof *o->number);
        tt_assert(o->number);
        for (uint32_t i = 0; i < c->n; i++)
            o->number[i] = JOB_NONE;
        o->stalled_at = JOB_NONE;
    }
    return o;
}

const struct job_record *job_record_of(const struct job *j, const struct job_comm *c,
                                       const struct job_instance *o, uint32_t index)
{
    return o->number[index] == JOB_NONE ? NULL
                                        : &j->ranks[job_member(c, index)].records[o->number[index]];
}

/* Call when all members have called. If the fault is in the instance, only some members may
 * complete. */
static void end_collective(struct job *j, struct job_comm *c, struct job_instance *o)
{
    int64_t last = 0, end;

    for (uint32_t i = 0; i < c->n; i++) {
        const int64_t t = job_record_of(j, c, o, i)->called;

        last = t > last ? t : last;
    }
    o->complete_at = last;
    end = last + duration_of(j, job_record_of(j, c, o, 0));
    for (uint32_t i = 0; i < c->n; i++)
        if (!o->at_fault || job_steps_done(j, c, o, i) >= job_steps(j, c, o))
            end_record(j, job_member(c, i), o->number[i], end);
}

/* The parent of a member in a binomial tree with root 0. */
static uint32_t parent_of(uint32_t index)
{
    return index & (index - 1);
}

/* A broadcast completes on a member when all its ancestors in the tree have called. */
static void end_broadcast(struct job *j, struct job_comm *c, struct job_instance *o, uint32_t from)
{
    const struct job_record *rec = job_record_of(j, c, o, from);
    const bool has_data = from == 0 || (o->number[parent_of(from)] != JOB_NONE &&
                                        job_record_of(j, c, o, parent_of(from))->ended != JOB_OPEN);
    int64_t at;

    if (!rec || !has_data || rec->ended != JOB_OPEN)
        return;
    at = from == 0 ? rec->called : job_record_of(j, c, o, parent_of(from))->ended;
    at = (at > rec->called ? at : rec->called) + 5000;
    end_record(j, job_member(c, from), o->number[from], at);
    for (uint32_t bit = 1; from + bit < c->n && (from & bit) == 0; bit <<= 1)
        if ((from & (bit - 1)) == 0 && parent_of(from + bit) == from)
            end_broadcast(j, c, o, from + bit);
}

static void call_collective(struct job *j, uint32_t rank, struct job_record *rec)
{
    struct job_comm *c = &j->comms[rec->comm];
    const uint32_t index = job_index(c, rank);
    struct job_instance *o;

    rec->seq = c->ncalled[index]++;
    o = instance_of(j, rec->comm, rec->seq);
    o->number[index] = rec->number;
    o->ncalled++;
    o->at_fault |= rec->at_fault;
    if (rec->at_fault && o->stalled_at == JOB_NONE)
        o->stalled_at = index;
    if (o->ncalled > 1) {
        const struct job_record *first = NULL;

        for (uint32_t i = 0; i < c->n && !first; i++)
            first = i == index ? NULL : job_record_of(j, c, o, i);
        if (first->kind != rec->kind ||
            (first->count != rec->count && rec->kind != KIND_ALLTOALLV) ||
            strcmp(first->type, rec->type) != 0)
            o->differs = true;
    }
    if (o->differs)
        return;
    if (rec->kind == KIND_BROADCAST && !o->at_fault)
        end_broadcast(j, c, o, index);
    else if (o->ncalled == c->n)
        end_collective(j, c, o);
}

/* A send and its receive complete together. */
static void call_p2p(struct job *j, uint32_t rank, struct job_record *rec)
{
    struct job_rank *peer = &j->ranks[rec->peer];
    uint64_t seq = 0;

    for (uint32_t i = 0; i + 1 < j->ranks[rank].nrecords; i++) {
        const struct job_record *past = &j->ranks[rank].records[i];

        seq += past->kind == rec->kind && past->peer == rec->peer && past->tag == rec->tag &&
               past->comm == rec->comm;
    }
    rec->seq = seq;
    for (uint32_t i = 0; i < peer->nrecords; i++) {
        struct job_record *other = &peer->records[i];
        int64_t at;

        if (!is_p2p(other->kind) || other->kind == rec->kind || other->peer != rank ||
            other->tag != rec->tag || other->comm != rec->comm || other->seq != seq)
            continue;
        at = 10000 + (other->called > rec->called ? other->called : rec->called);
        end_record(j, rank, rec->number, at);
        end_record(j, rec->peer, other->number, at);
        return;
    }
}

/* Returns the record that a rank must wait for before its next step, or NONE. */
static uint32_t async_record(const struct job *j, uint32_t rank)
{
    const struct job_rank *r = &j->ranks[rank];

    for (uint32_t i = 0; i < r->nrecords; i++)
        if (r->records[i].waited == JOB_OPEN && r->records[i].ended == JOB_OPEN)
            return i;
    return JOB_NONE;
}

static void block_on(struct job *j, uint32_t rank, uint32_t number)
{
    struct job_rank *r = &j->ranks[rank];

    r->records[number].waited = r->now;
    r->blocked = true;
    r->blocked_on = number;
}

static void wait_async(struct job *j, uint32_t rank)
{
    struct job_rank *r = &j->ranks[rank];
    const uint32_t open = async_record(j, rank);

    r->pc++;
    for (uint32_t i = 0; i < r->nrecords; i++) {
        struct job_record *rec = &r->records[i];

        if (rec->waited == JOB_OPEN && rec->ended != JOB_OPEN) {
            rec->waited = r->now;
            r->now = rec->ended > r->now ? rec->ended : r->now;
        }
    }
    if (open != JOB_NONE)
        block_on(j, rank, open);
}

static void call_step(struct job *j, uint32_t rank, const struct job_step *s)
{
    struct job_rank *r = &j->ranks[rank];
    struct job_record *rec = add_record(j, rank, s);
    const uint32_t number = rec->number;

    job_change_call(j, rank, rec);
    r->pc++;
    if (!s->is_async)
        block_on(j, rank, number);
    if (is_p2p(s->kind))
        call_p2p(j, rank, rec);
    else
        call_collective(j, rank, rec);
}

static void run_rank(struct job *j, uint32_t rank)
{
    struct job_rank *r = &j->ranks[rank];

    while (!r->blocked && !r->halted && r->pc < program_end(j, rank)) {
        const struct job_step *s = job_step_at(j, rank, r->pc);
        const uint32_t iteration = r->pc / j->programs[stage_of(j, rank)].n;

        if (iteration + 1 != r->note) {
            r->note = iteration + 1;
            r->note_at = r->now;
        }
        if (s->kind == KIND_WAIT) {
            wait_async(j, rank);
            continue;
        }
        if (s->group != GROUP_WORLD && shape_of(j, rank, s->group).n < 2) {
            r->pc++;
            continue;
        }
        r->now += 1000 + (int64_t)tt_prng_below(&j->prng, 50000);
        s = job_change_step(j, rank, s);
        if (s)
            call_step(j, rank, s);
    }
}

/* ---- life ---- */

static void make_comms(struct job *j)
{
    uint32_t steps = 0;

    for (uint32_t s = 0; s < j->conf.stages; s++)
        steps = j->programs[s].n > steps ? j->programs[s].n : steps;
    for (uint32_t rank = 0; rank < j->nranks; rank++)
        for (int g = 0; g < GROUPS; g++) {
            const uint32_t id = job_group_of(j, rank, (enum job_group)g);
            struct job_comm *c = &j->comms[id];

            if (c->n)
                continue;
            *c = shape_of(j, rank, (enum job_group)g);
            c->group = (enum job_group)g;
            c->cap = j->conf.iterations * steps + 1;
            c->ncalled = calloc(c->n, sizeof *c->ncalled);
            c->instances = calloc(c->cap, sizeof *c->instances);
            tt_assert(c->ncalled && c->instances);
        }
}

static void make_ranks(struct job *j)
{
    for (uint32_t rank = 0; rank < j->nranks; rank++) {
        struct job_rank *r = &j->ranks[rank];

        r->cap = program_end(j, rank) + 2;
        r->records = calloc(r->cap, sizeof *r->records);
        tt_assert(r->records);
        r->now = 1000000000 + (int64_t)tt_prng_below(&j->prng, 1000000);
        r->offset = (int64_t)tt_prng_below(&j->prng, 1000000000) * (rank / 8 % 7);
    }
}

struct job *job_create(const struct job_conf *conf)
{
    struct job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->conf = *conf;
    j->nranks = conf->tensor * conf->data * conf->stages;
    tt_prng_init(&j->prng, conf->seed);
    j->ncomms = 1 +
                conf->stages *
                    (conf->data + 2 * conf->tensor + conf->tensor * (conf->data / conf->expert)) +
                conf->data * conf->tensor;
    j->ranks = calloc(j->nranks, sizeof *j->ranks);
    j->comms = calloc(j->ncomms, sizeof *j->comms);
    j->queue = calloc((size_t)j->nranks * 4 + 4, sizeof *j->queue);
    tt_assert(j->ranks && j->comms && j->queue);
    for (uint32_t s = 0; s < conf->stages; s++)
        make_program(j, s, &j->programs[s]);
    make_comms(j);
    make_ranks(j);
    job_choose_fault(j);
    for (uint32_t rank = 0; rank < j->nranks; rank++) {
        run_rank(j, rank);
        while (j->nqueue > 0) {
            const uint32_t next = j->queue[--j->nqueue];

            j->ranks[next].queued = false;
            run_rank(j, next);
        }
    }
    job_choose_dumps(j);
    return j;
}

void job_destroy(struct job *j)
{
    for (uint32_t c = 0; c < j->ncomms; c++) {
        for (uint32_t i = 0; i < j->comms[c].cap; i++)
            free(j->comms[c].instances[i].number);
        free(j->comms[c].instances);
        free(j->comms[c].ncalled);
    }
    for (uint32_t r = 0; r < j->nranks; r++)
        free(j->ranks[r].records);
    free(j->comms);
    free(j->ranks);
    free(j->queue);
    free(j);
}

uint32_t job_nranks(const struct job *j)
{
    return j->nranks;
}
uint32_t job_culprit(const struct job *j)
{
    return j->fault.rank;
}
uint32_t job_other_end(const struct job *j)
{
    return j->fault.other;
}

static const struct job_comm *comm_of_fault(const struct job *j)
{
    const struct job_step *s = job_step_at(j, j->fault.rank, j->fault.pc);

    return &j->comms[job_group_of(j, j->fault.rank, s->group)];
}

uint32_t job_left(const struct job *j)
{
    const struct job_comm *c = comm_of_fault(j);

    return job_member(c, (job_index(c, j->fault.rank) + c->n - 1) % c->n);
}

uint32_t job_right(const struct job *j)
{
    const struct job_comm *c = comm_of_fault(j);

    return job_member(c, (job_index(c, j->fault.rank) + 1) % c->n);
}

uint32_t job_group_dumps(const struct job *j)
{
    const struct job_comm *c = comm_of_fault(j);
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        n += job_has_whole_dump(j, job_member(c, i));
    return n;
}

bool job_has_fault(const struct job *j)
{
    return j->fault.hit;
}
bool job_has_whole_dump(const struct job *j, uint32_t rank)
{
    return !j->ranks[rank].lost && !j->ranks[rank].cut;
}
