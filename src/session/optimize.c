/* Optimization of the ring order. The members measure the links between them (elastic/survey.h)
 * over their control connections, and report the results to the coordinator. The coordinator
 * computes the order (elastic/coord_ring.c), and the next epoch adopts it. The service thread
 * measures, so that the program can continue.
 *
 * With replica groups, the members of one role measure each other, and all roles measure at the
 * same time. The ranks of a survey are then those of the role's scope. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/prng.h"
#include "session/run.h"

#define BYTES (64ull << 20)
#define STEPS 1000u
#define GAIN_PERCENT 5u
#define BURST_MS 400u
#define FAR_BURST_MS 2000u
#define BURST_MS_MIN 10u
#define BURST_MS_MAX 10000u

static const char name[] = "tutti_run_optimize";

/* ---- measuring ---- */

static bool is_measuring(const tutti_run *run)
{
    return run->survey && run->survey->machine.conf.epoch == run->m.epoch && run->m.epoch > 0 &&
           run->survey->machine.state != TT_SURVEY_DONE;
}

/* Returns the number of consecutive ranks of the view that form a replica group. */
static uint32_t replica_group_size(const tutti_run *run)
{
    return run->m.conf.nroles > 1 ? run->m.conf.nroles : 1;
}

/* Returns the id of the member with this rank in the survey. */
static uint64_t survey_id(const tutti_run *run, uint32_t rank)
{
    const uint32_t size = replica_group_size(run);

    return run->m.view[rank * size + run->m.rank % size].id;
}

/* Returns the rank of a member in the survey, or UINT32_MAX if it does not take part. */
static uint32_t survey_rank(const tutti_run *run, uint64_t id)
{
    const uint32_t rank = tt_run_rank_of(run, id), size = replica_group_size(run);

    return rank == UINT32_MAX || rank % size != run->m.rank % size ? UINT32_MAX : rank / size;
}

static void survey_emit(void *context, const struct tt_survey_act *act)
{
    tutti_run *run = context;
    const uint64_t id = survey_id(run, act->rank);

    tt_peers_send(run, id, act->head, act->head_bytes, act->body, act->body_bytes);
    if (act->body_bytes > 0)
        tt_peers_resume_send(run, id);
}

/* Sends the report to the coordinator when all measurable links have been measured. */
static void report_if_done(tutti_run *run)
{
    struct tt_run_survey *p = run->survey;

    if (p->reported || p->machine.state != TT_SURVEY_DONE)
        return;
    p->reported = true;
    tt_peers_measure(run, false);
    p->head.number = p->machine.number;
    memcpy(p->told, p->links, tt_member_nlinks(&run->m) * sizeof *p->told);
    tt_member_send_links(&run->m, &p->head, p->told, tt_now_ns());
    pthread_cond_broadcast(&run->changed);
}

bool tt_measure_receive(tutti_run *run, uint64_t id, const void *data, size_t bytes)
{
    const uint32_t rank = survey_rank(run, id);
    bool good;

    if (!run->survey || run->survey->machine.conf.epoch != run->m.epoch || run->m.epoch == 0 ||
        rank == UINT32_MAX)
        return true; /* not begun here, or already over */
    good = tt_survey_receive(&run->survey->machine, rank, data, bytes, tt_now_ns());
    report_if_done(run);
    return good;
}

bool tt_measure_room(tutti_run *run, uint64_t id)
{
    const uint32_t rank = survey_rank(run, id);

    return is_measuring(run) && rank != UINT32_MAX &&
           tt_survey_room(&run->survey->machine, rank, tt_now_ns());
}

uint32_t tt_measure_unsent(const tutti_run *run, uint64_t id)
{
    return tt_survey_unsent(&run->survey->machine, survey_rank(run, id));
}

void tt_measure_connected(tutti_run *run, uint64_t id)
{
    const uint32_t rank = survey_rank(run, id);

    if (!is_measuring(run) || rank == UINT32_MAX)
        return;
    tt_survey_again(&run->survey->machine, rank, tt_now_ns());
    report_if_done(run);
}

void tt_measure_drop(tutti_run *run)
{
    if (!run->survey || run->survey->machine.state == TT_SURVEY_DONE)
        return;
    tt_peers_measure(run, false);
    tt_survey_end(&run->survey->machine);
    run->survey->reported = true; /* no report is expected */
}

void tt_measure_tick(tutti_run *run)
{
    if (!is_measuring(run))
        return;
    tt_survey_tick(&run->survey->machine, tt_now_ns());
    report_if_done(run);
}

uint64_t tt_measure_next_ns(const tutti_run *run)
{
    return is_measuring(run) ? tt_survey_next_ns(&run->survey->machine) : TT_NEVER;
}

/* Returns the header of the report, with the requested optimization. */
static struct tt_elmsg report_header(const tutti_ring *ring)
{
    return (struct tt_elmsg){ .value = ring->bytes ? ring->bytes : BYTES,
                              .other = ring->steps ? ring->steps : STEPS,
                              .least = ring->gain_percent ? ring->gain_percent : GAIN_PERCENT };
}

static tutti_status survey_begin(tutti_run *run, const tutti_ring *ring)
{
    struct tt_run_survey *p = run->survey;
    struct tt_survey_conf conf = { .epoch = run->m.epoch,
                                   .rank = run->m.rank / replica_group_size(run),
                                   .nranks = tt_member_nlinks(&run->m),
                                   .burst_ns = (ring->burst_ms ? ring->burst_ms : BURST_MS) * TT_MS,
                                   .far_burst_ns =
                                       (ring->burst_ms ? ring->burst_ms : FAR_BURST_MS) * TT_MS,
                                   .emit = survey_emit,
                                   .context = run };
    /* members of other roles do not receive this role's messages, so the number is derived from
     * common values */
    uint64_t number = run->m.round << 8, next;

    if (!p) {
        p = run->survey = calloc(1, sizeof *p);
        if (!p)
            return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the measurement", name);
        tt_random_bytes(p->filler, sizeof p->filler);
    } else if (p->machine.conf.epoch == run->m.epoch) {
        next = p->machine.highest_seen > p->machine.number ? p->machine.highest_seen
                                                           : p->machine.number + 1;
        number = next > number ? next : number;
    }
    conf.peers = p->peers;
    conf.links = p->links;
    conf.samples = p->samples;
    conf.filler = p->filler;
    p->head = report_header(ring);
    p->reported = false;
    tt_peers_measure(run, true);
    tt_survey_begin(&p->machine, &conf, number, tt_now_ns());
    tt_run_wake(run);
    return TUTTI_OK;
}

/* ---- waiting for the result ------------------------------------------------------------------ */

static tutti_status survey_over(tutti_run *run)
{
    const tutti_status st = tt_run_check(run);

    return st ? st : tt_run_epoch_over(run, name, " (call tutti_run_epoch for the next view)");
}

static uint64_t known_or_zero(uint64_t ns) { return ns == TT_RING_NONE ? 0 : ns; }

/* Makes the call, after a measurement has begun if needed, and forms the new view. The call is made
 * at once, so that the mismatch with another call is detected. The caller holds the lock; it is
 * released while waiting. */
static tutti_status optimize(tutti_run *run, tutti_ring *ring, bool measures, uint64_t deadline_ns,
                             tutti_view *out)
{
    const struct tt_elmsg head = report_header(ring),
                          call = { .what = TT_CALL_OPTIMIZE,
                                   .other = measures ? run->survey->machine.number : 0,
                                   .value = head.value,
                                   .least = head.least };
    struct tt_member_act result;
    tutti_status st = tt_round_call(run, &call, deadline_ns, name, &result);

    if (measures)
        tt_measure_drop(run); /* no member waits for it any longer */
    if (st == TUTTI_ERR_MISMATCH && run->result_over)
        /* a member that was notified of the loss before it measured is already calling for the
         * next view */
        return survey_over(run);
    if (st)
        return st;
    if (result.what != TT_ROUND_OK)
        return survey_over(run);
    ring->adopted = 0;
    ring->was_ns = ring->now_ns = known_or_zero(result.id);
    if (result.value == 0) {
        tt_view_show(run, out, false);
        return TUTTI_OK;
    }
    st = tt_view_call(run, 0, 0, 0, deadline_ns, name, out);
    if (!st && out->changed) {
        ring->adopted = 1;
        ring->now_ns = known_or_zero(result.other);
    }
    return st;
}

/* ---- the call ---- */

static tutti_status optimize_check(tutti_run *run, const tutti_ring *ring, const tutti_view *out)
{
    const tutti_status st = tt_run_check_call(run, ring, "ring", name);

    if (st)
        return st;
    if (ring->size != sizeof *ring)
        return tt_fail(TUTTI_ERR_INVALID, "%s: ring.size is %zu: must be sizeof(tutti_ring), %zu",
                       name, ring->size, sizeof *ring);
    if (ring->gain_percent > 99)
        return tt_fail(TUTTI_ERR_INVALID, "%s: ring.gain_percent is %u: must be 0 to 99", name,
                       ring->gain_percent);
    if (ring->burst_ms && (ring->burst_ms < BURST_MS_MIN || ring->burst_ms > BURST_MS_MAX))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: ring.burst_ms is %u: must be 0 (the default) or %u to %u", name,
                       ring->burst_ms, BURST_MS_MIN, BURST_MS_MAX);
    if (ring->background != 0 && ring->background != 1)
        return tt_options_flag(name, "ring.background", ring->background);
    if (ring->background && out)
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: out must be NULL when ring.background is set: no view is returned",
                       name);
    return ring->background ? TUTTI_OK
                            : tt_run_check_out(run, out, "tutti_view", sizeof *out, name);
}

/* Returns why the call is not permitted now. */
static tutti_status optimize_refuse(tutti_run *run, const tutti_ring *ring)
{
    if (run->over || run->m.epoch == 0 || run->calling ||
        (run->noperations > 0 && !ring->background))
        return tt_round_refuse(run, name);
    if (run->m.stopped || run->m.epoch != run->space.epoch)
        return survey_over(run);
    if (tt_member_nlinks(&run->m) > TT_RING_PEERS_MAX)
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "%s: the view has %u %s: the maximum is %u", name,
                       tt_member_nlinks(&run->m),
                       run->m.conf.nroles > 1 ? "replica groups" : "members", TT_RING_PEERS_MAX);
    return ring->background ? TUTTI_OK : tt_deferred_refuse(run, NULL, name);
}

tutti_status tutti_run_optimize(tutti_run *run, tutti_ring *ring, int64_t timeout_ms,
                                tutti_view *out)
{
    tutti_status st = optimize_check(run, ring, out);
    bool measures, seals;

    if (st)
        return st;
    tt_run_lock(run);
    st = optimize_refuse(run, ring);
    seals = !st && !ring->background;
    if (seals && !tt_view_comms_seal(run)) {
        seals = false;
        st = tt_round_refuse(run, name);
    }
    measures = !st && tt_member_nlinks(&run->m) > 1;
    if (measures)
        st = survey_begin(run, ring);
    if (!st && !ring->background) {
        run->calling = true;
        if (run->m.nranks > 1) {
            st = optimize(run, ring, measures, tt_run_deadline(run, timeout_ms), out);
        } else {
            ring->adopted = 0;
            ring->was_ns = ring->now_ns = 0;
            tt_view_show(run, out, false);
        }
        run->calling = false;
    }
    if (seals)
        tt_view_comms_unseal(run);
    tt_run_unlock(run);
    return st;
}
