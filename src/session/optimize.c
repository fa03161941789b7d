/* The order of the ring: the members measure what lies between them (elastic/survey.h) over the connections that they have beside their data, and tell
 * the coordinator, which finds the order (elastic/coord_ring.c); then an epoch adopts it. The service thread measures, so it can go on
 * while the program does other things.
 *
 * With replica groups those of one role measure each other, each role at the same time: a survey's ranks are then those of the scope of the role. */
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

/* A replica group is so many consecutive ranks of the view. */
static uint32_t group_size(const tutti_run *run)
{
    return run->m.conf.nroles > 1 ? run->m.conf.nroles : 1;
}

/* Who has a rank in the survey. */
static uint64_t id_of(const tutti_run *run, uint32_t rank)
{
    const uint32_t size = group_size(run);

    return run->m.view[rank * size + run->m.rank % size].id;
}

/* The rank of a member in the survey; UINT32_MAX: it is not in it. */
static uint32_t rank_of(const tutti_run *run, uint64_t id)
{
    const uint32_t rank = tt_run_rank_of(run, id), size = group_size(run);

    return rank == UINT32_MAX || rank % size != run->m.rank % size ? UINT32_MAX : rank / size;
}

static void emit(void *context, const struct tt_survey_act *act)
{
    tutti_run *run = context;
    const uint64_t id = id_of(run, act->rank);

    tt_peers_send(run, id, act->head, act->head_bytes, act->body, act->body_bytes);
    if (act->body_bytes > 0)
        tt_peers_look_again(run, id);
}

/* All is measured that can be: the coordinator is told. */
static void report_if_done(tutti_run *run)
{
    struct tt_run_survey *p = run->survey;

    if (p->reported || p->machine.state != TT_SURVEY_DONE)
        return;
    p->reported = true;
    tt_peers_measure(run, false);
    p->head.number = p->machine.number;
    memcpy(p->told, p->links, tt_member_nlinks(&run->m) * sizeof *p->told);
    tt_member_say_links(&run->m, &p->head, p->told, tt_now_ns());
    pthread_cond_broadcast(&run->changed);
}

bool tt_measure_hear(tutti_run *run, uint64_t id, const void *data, size_t bytes)
{
    const uint32_t rank = rank_of(run, id);
    bool good;

    if (!run->survey || run->survey->machine.conf.epoch != run->m.epoch || run->m.epoch == 0 || rank == UINT32_MAX)
        return true; /* this one has not begun, or it is over */
    good = tt_survey_peer_says(&run->survey->machine, rank, data, bytes, tt_now_ns());
    report_if_done(run);
    return good;
}

bool tt_measure_room(tutti_run *run, uint64_t id)
{
    const uint32_t rank = rank_of(run, id);

    return is_measuring(run) && rank != UINT32_MAX && tt_survey_room(&run->survey->machine, rank, tt_now_ns());
}

uint32_t tt_measure_unsent(const tutti_run *run, uint64_t id)
{
    return tt_survey_unsent(&run->survey->machine, rank_of(run, id));
}

void tt_measure_connected(tutti_run *run, uint64_t id)
{
    const uint32_t rank = rank_of(run, id);

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
    run->survey->reported = true; /* nobody wants to hear of it */
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

/* What the coordinator is told of what is asked for. */
static struct tt_elmsg head_of(const tutti_ring *ring)
{
    return (struct tt_elmsg){ .value = ring->bytes ? ring->bytes : BYTES,
                              .other = ring->steps ? ring->steps : STEPS,
                              .least = ring->gain_percent ? ring->gain_percent : GAIN_PERCENT };
}

static tutti_status begin(tutti_run *run, const tutti_ring *ring)
{
    struct tt_run_survey *p = run->survey;
    struct tt_survey_conf conf = { .epoch = run->m.epoch,
                                   .rank = run->m.rank / group_size(run),
                                   .nranks = tt_member_nlinks(&run->m),
                                   .burst_ns = (ring->burst_ms ? ring->burst_ms : BURST_MS) * TT_MS,
                                   .far_burst_ns = (ring->burst_ms ? ring->burst_ms : FAR_BURST_MS) * TT_MS,
                                   .emit = emit,
                                   .context = run };
    uint64_t number = run->m.round << 8, next; /* members of other roles do not hear of ours: what all share makes their numbers alike */

    if (!p) {
        p = run->survey = calloc(1, sizeof *p);
        if (!p)
            return tt_fail(TUTTI_ERR_NOMEM, "%s: out of memory for the measurement", name);
        tt_random_bytes(p->filler, sizeof p->filler);
    } else if (p->machine.conf.epoch == run->m.epoch) {
        next = p->machine.heard > p->machine.number ? p->machine.heard : p->machine.number + 1;
        number = next > number ? next : number;
    }
    conf.peers = p->peers;
    conf.links = p->links;
    conf.samples = p->samples;
    conf.filler = p->filler;
    p->head = head_of(ring);
    p->reported = false;
    tt_peers_measure(run, true);
    tt_survey_begin(&p->machine, &conf, number, tt_now_ns());
    tt_run_wake(run);
    return TUTTI_OK;
}

/* ---- waiting for it ---- */

static tutti_status over(tutti_run *run)
{
    const tutti_status st = tt_run_check(run);

    return st ? st : tt_run_epoch_over(run, name, " (call tutti_run_epoch for the next view)");
}

static uint64_t known(uint64_t ns) { return ns == TT_RING_NONE ? 0 : ns; }

/* From the measurement, which has begun if there is anything to measure, to the view. It is called at once: so who calls something else finds out. Under the
 * lock, which is given away while it waits. */
static tutti_status optimize(tutti_run *run, tutti_ring *ring, bool measures, uint64_t deadline_ns, tutti_view *out)
{
    const struct tt_elmsg head = head_of(ring), call = { .what = TT_CALL_OPTIMIZE,
                                                         .other = measures ? run->survey->machine.number : 0,
                                                         .value = head.value,
                                                         .least = head.least };
    struct tt_member_act result;
    tutti_status st = tt_round_call(run, &call, deadline_ns, name, &result);

    if (measures)
        tt_measure_drop(run); /* nobody waits for it any longer */
    if (st == TUTTI_ERR_MISMATCH && run->result_over)
        return over(run); /* who heard of the loss before it measured calls for the next view already */
    if (st)
        return st;
    if (result.what != TT_ROUND_OK)
        return over(run);
    ring->adopted = 0;
    ring->was_ns = ring->now_ns = known(result.id);
    if (result.value == 0) {
        tt_view_show(run, out, false);
        return TUTTI_OK;
    }
    st = tt_view_call(run, 0, 0, 0, deadline_ns, name, out);
    if (!st && out->changed) {
        ring->adopted = 1;
        ring->now_ns = known(result.other);
    }
    return st;
}

/* ---- the call ---- */

static tutti_status check(tutti_run *run, const tutti_ring *ring, const tutti_view *out)
{
    const tutti_status st = tt_run_check_call(run, ring, "ring", name);

    if (st)
        return st;
    if (ring->size != sizeof *ring)
        return tt_fail(TUTTI_ERR_INVALID, "%s: ring.size is %zu: must be sizeof(tutti_ring), %zu", name, ring->size,
                       sizeof *ring);
    if (ring->gain_percent > 99 || (ring->burst_ms && (ring->burst_ms < BURST_MS_MIN || ring->burst_ms > BURST_MS_MAX)))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: ring.gain_percent is %u and ring.burst_ms is %u: must be 0 to 99, "
                       "and %u to %u",
                       name, ring->gain_percent, ring->burst_ms, BURST_MS_MIN, BURST_MS_MAX);
    if (ring->background != 0 && ring->background != 1)
        return tt_options_flag(name, "ring.background", ring->background);
    if (ring->background && out)
        return tt_fail(TUTTI_ERR_INVALID, "%s: out must be NULL when ring.background is set: no view is returned", name);
    return ring->background ? TUTTI_OK : tt_run_check_out(run, out, "tutti_view", sizeof *out, name);
}

/* Why it may not be called now. */
static tutti_status refuse(tutti_run *run, const tutti_ring *ring)
{
    if (run->over || run->m.epoch == 0 || run->calling || (run->noperations > 0 && !ring->background))
        return tt_round_refuse(run, name);
    if (run->m.stopped || run->m.epoch != run->space.epoch)
        return over(run);
    if (tt_member_nlinks(&run->m) > TT_RING_PEERS_MAX)
        return tt_fail(TUTTI_ERR_UNSUPPORTED, "%s: the view has %u %s: the maximum is %u", name,
                       tt_member_nlinks(&run->m), run->m.conf.nroles > 1 ? "replica groups" : "members",
                       TT_RING_PEERS_MAX);
    return ring->background ? TUTTI_OK : tt_tentative_refuse(run, NULL, name);
}

tutti_status tutti_run_optimize(tutti_run *run, tutti_ring *ring, int64_t timeout_ms, tutti_view *out)
{
    tutti_status st = check(run, ring, out);
    bool measures, seals;

    if (st)
        return st;
    tt_run_lock(run);
    st = refuse(run, ring);
    seals = !st && !ring->background;
    if (seals && !tt_space_seal(run)) {
        seals = false;
        st = tt_round_refuse(run, name);
    }
    measures = !st && tt_member_nlinks(&run->m) > 1;
    if (measures)
        st = begin(run, ring);
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
        tt_space_unseal(run);
    tt_run_unlock(run);
    return st;
}
