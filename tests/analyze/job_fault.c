/* The fault of a simulated job. */
#include <string.h>

#include "analyze/job_state.h"

#define TRIES 400

/* ---- where ---- */

static bool is_ring(enum job_kind kind)
{
    return kind == KIND_ALLREDUCE || kind == KIND_ALLGATHER || kind == KIND_REDUCE_SCATTER;
}

static bool is_collective(enum job_kind kind)
{
    return is_ring(kind) || kind == KIND_ALLTOALLV;
}

static bool fault_fits(const struct job *j, uint32_t rank, uint32_t pc)
{
    const struct job_step *s = job_step_at(j, rank, pc), *next = job_step_at(j, rank, pc + 1);
    const uint32_t n = s->kind == KIND_WAIT ? 0 : j->comms[job_group_of(j, rank, s->group)].n;

    if (n < 2 || s->is_async)
        return false;
    switch (j->conf.fault) {
    case JOB_SKIPPED:
    case JOB_MISMATCH: return is_collective(s->kind);
    case JOB_ORDER: return s->kind == KIND_REDUCE_SCATTER && next->kind == KIND_ALLGATHER;
    case JOB_LINK:
    case JOB_SLOW_LINK:
    case JOB_SLOW_RANK: return is_ring(s->kind);
    case JOB_NIC: return is_ring(s->kind) && n > 2;
    case JOB_DEADLINE: return s->kind == KIND_ALLREDUCE && s->group == GROUP_WORLD;
    case JOB_NEVER_CALLED: return pc % j->programs[rank / (j->conf.data * j->conf.tensor)].n > 0;
    default: return true;
    }
}

void job_choose_fault(struct job *j)
{
    j->fault.rank = j->fault.other = JOB_NONE;
    for (int i = 0; i < TRIES; i++) {
        const uint32_t rank = (uint32_t)tt_prng_below(&j->prng, j->nranks);
        const uint32_t n = j->programs[rank / (j->conf.data * j->conf.tensor)].n;
        const uint32_t pc =
            n + (uint32_t)tt_prng_below(&j->prng, (uint64_t)n * (j->conf.iterations - 1));
        const struct job_step *s = job_step_at(j, rank, pc);
        const struct job_comm *c;

        if (!fault_fits(j, rank, pc))
            continue;
        c = &j->comms[job_group_of(j, rank, s->group)];
        j->fault.rank = rank;
        j->fault.pc = pc;
        j->fault.in_call = is_ring(s->kind) && tt_prng_below(&j->prng, 2);
        j->fault.steps = (uint32_t)tt_prng_below(&j->prng, c->n > 64 ? 64 : c->n);
        j->fault.by_status = tt_prng_below(&j->prng, 2);
        j->fault.silent = tt_prng_below(&j->prng, 2);
        if (j->conf.fault == JOB_LINK || j->conf.fault == JOB_SLOW_LINK)
            j->fault.other = job_member(c, (job_index(c, rank) + 1) % c->n);
        return;
    }
}

/* ---- during the run ---- */

static bool is_here(const struct job *j, uint32_t rank)
{
    return rank == j->fault.rank && j->ranks[rank].pc == j->fault.pc;
}

const struct job_step *job_change_step(struct job *j, uint32_t rank, const struct job_step *s)
{
    struct job_rank *r = &j->ranks[rank];
    const enum job_fault fault = j->conf.fault;

    if (fault == JOB_ORDER && rank == j->fault.rank && r->pc == j->fault.pc + 1)
        return job_step_at(j, rank, r->pc - 1);
    if (!is_here(j, rank))
        return s;
    j->fault.hit = true;
    j->fault.at = r->now;
    if (fault == JOB_ORDER)
        return job_step_at(j, rank, r->pc + 1);
    if (fault == JOB_SKIPPED) {
        r->pc++;
        return NULL;
    }
    if (fault == JOB_NEVER_CALLED || fault == JOB_OUTSIDE ||
        ((fault == JOB_DIED || fault == JOB_STOPPED) && !j->fault.in_call)) {
        r->halted = true;
        return NULL;
    }
    return s;
}

void job_change_call(struct job *j, uint32_t rank, struct job_record *rec)
{
    if (!is_here(j, rank))
        return;
    switch (j->conf.fault) {
    case JOB_MISMATCH:
        if (rec->kind == KIND_ALLTOALLV || j->conf.seed % 2)
            rec->type = "f16";
        else
            rec->count++;
        break;
    case JOB_DIED:
    case JOB_STOPPED:
        j->ranks[rank].halted = true;
        rec->at_fault = true;
        break;
    case JOB_LINK:
    case JOB_NIC:
    case JOB_SLOW_LINK:
    case JOB_SLOW_RANK:
    case JOB_DEADLINE:
        rec->at_fault = true;
        break;
    default:
        break;
    }
}

/* ---- progress of transfers ---- */

uint32_t job_steps(const struct job *j, const struct job_comm *c, const struct job_instance *o)
{
    const struct job_record *rec = NULL;

    for (uint32_t i = 0; i < c->n && !rec; i++)
        rec = job_record_of(j, c, o, i);
    return rec->kind == KIND_ALLREDUCE   ? 2 * (c->n - 1)
           : rec->kind == KIND_BROADCAST ? 1
                                         : c->n - 1;
}

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* In a ring, a member can make one more step than its left neighbour, except across the fault. */
uint32_t job_steps_done(const struct job *j, const struct job_comm *c, const struct job_instance *o,
                        uint32_t index)
{
    const uint32_t steps = job_steps(j, c, o);
    const uint32_t first = least(j->fault.steps, steps - 1);
    const uint32_t distance = (index + c->n - o->stalled_at) % c->n;

    switch (j->conf.fault) {
    case JOB_DIED:
    case JOB_STOPPED:
        return distance == 0 ? first : least(steps, first + distance - 1);
    case JOB_LINK:
        return distance == 0 ? least(steps - 1, first + c->n - 1)
                             : least(steps, first + distance - 1);
    case JOB_NIC:
        return distance == 0            ? first
               : distance + 1 == c->n ? least(steps - 1, first + distance - 1)
                                      : least(steps, first + distance - 1);
    case JOB_DEADLINE:
        return steps - 1;
    default:
        return steps / 2 < steps ? steps / 2 : steps - 1;
    }
}

/* ---- the failure and the dumps ---- */

static int64_t draw_ns(struct job *j, int64_t from, int64_t to)
{
    return from + (int64_t)tt_prng_below(&j->prng, (uint64_t)(to - from));
}

/* Sets the first deadline of a blocked rank, and returns the time of the last event. */
static int64_t first_deadline(struct job *j)
{
    int64_t last = 0;

    j->fault.failed_at = JOB_OPEN;
    for (uint32_t rank = 0; rank < j->nranks; rank++) {
        const struct job_rank *r = &j->ranks[rank];
        const bool gone = r->halted && (j->conf.fault == JOB_DIED || j->conf.fault == JOB_STOPPED);

        last = r->now > last ? r->now : last;
        if (!r->blocked || gone ||
            r->records[r->blocked_on].waited + JOB_TIMEOUT_NS >= j->fault.failed_at)
            continue;
        j->fault.failed_at = r->records[r->blocked_on].waited + JOB_TIMEOUT_NS;
        j->fault.failed_rank = rank;
    }
    return last;
}

static void choose_failure(struct job *j)
{
    const int64_t last = first_deadline(j);

    if (j->fault.failed_at == JOB_OPEN) {
        j->fault.hit = false;
        return;
    }
    if (j->conf.fault == JOB_DIED) {
        j->conf.by_command = false;
        j->fault.failed_at = last + draw_ns(j, 1000000, 5000000000);
    } else if (j->conf.fault == JOB_MISMATCH && j->fault.by_status) {
        j->conf.by_command = false;
        j->fault.failed_at = last + 1000000;
    } else if (j->conf.fault == JOB_DEADLINE) {
        j->conf.by_command = false;
    }
    if (j->conf.by_command)
        j->fault.failed_at = last + draw_ns(j, 30000000000, 50000000000);
}

static void choose_dump(struct job *j, uint32_t rank)
{
    struct job_rank *r = &j->ranks[rank];
    const bool is_culprit = rank == j->fault.rank;

    r->lost = tt_prng_below(&j->prng, 100) < j->conf.lost_percent;
    r->cut = tt_prng_below(&j->prng, 100) < j->conf.cut_percent;
    r->late = tt_prng_below(&j->prng, 100) < j->conf.late_percent;
    if (is_culprit && j->conf.fault == JOB_DIED)
        r->lost = true;
    if (is_culprit && j->conf.fault == JOB_STOPPED) {
        /* it resumes and writes its dump late, or it never resumes */
        r->lost |= j->conf.by_command || tt_prng_below(&j->prng, 2);
        r->late = true;
    }
    r->dumped_at = j->fault.failed_at + draw_ns(j, 0, 20000000);
    if (r->late)
        r->dumped_at += draw_ns(j, JOB_TIMEOUT_NS, 3 * JOB_TIMEOUT_NS);
}

void job_choose_dumps(struct job *j)
{
    choose_failure(j);
    if (!j->fault.hit)
        return;
    for (uint32_t rank = 0; rank < j->nranks; rank++)
        choose_dump(j, rank);
}
