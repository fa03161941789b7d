/* Joining, leaving, and execution of the state machine's actions. */
#include "session/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/options.h"
#include "base/prng.h"
#include "secure/ending.h"
#include "trace/dump.h"

/* ---- actions of the machine ------------------------------------------------------------------ */

static void enter_view(tutti_run *run)
{
    run->reach = 0;
    run->offered = false;
    run->heard = (struct tt_membership){ .number = 0 };
    run->heard_n = 0;
    run->heard_tag = 0;
    *run->stop_why = 0;
    run->stop_logged = false;
    tt_deferred_clear_all(run); /* newcomers have no record of earlier refusals */
    tt_measure_drop(run);
    tt_peers_update(run, tt_now_ns());
    tt_run_wake(run);
}

/* Sets the reason for the end of the epoch from the coordinator's message, if no failure has set
 * it. */
static void set_stop_reason(tutti_run *run, const struct tt_member_act *act)
{
    static const char *const revoked[TT_REVOCATIONS] = {
        [TT_REVOKED_BY_CALL] = "revoked the epoch",
        [TT_REVOKED_CUT] = "lost its connection to another member",
        [TT_REVOKED_LATE] = "reached a deadline",
        [TT_REVOKED_MISMATCH] = "found that members called different operations",
        [TT_REVOKED_FAILED] = "could not continue in the epoch",
    };
    const struct tt_mismatch apart = { .differs = TT_DIFFERS_INSIDE,
                                       .id = act->other,
                                       .value = act->value,
                                       .other = act->also,
                                       .op = act->op };
    const size_t cap = sizeof run->stop_why;
    char text[TT_MISMATCH_BYTES];

    if (*run->stop_why)
        return;
    if (run->m.epoch == 0)
        snprintf(run->stop_why, cap, "this member's replica group became incomplete");
    else if (act->what == TT_REVOKED_APART)
        snprintf(run->stop_why, cap, "%s", tt_mismatch_text(text, &apart));
    else if (act->n == 0 && act->what == TT_REVOKED_NO_REASON)
        snprintf(run->stop_why, cap, "it was revoked");
    else if (act->n == 0 && act->what == TT_REVOKED_CUT && act->also)
        snprintf(run->stop_why, cap, "member %" PRIu64 " lost its connection to member %" PRIu64,
                 act->other, act->also);
    else if (act->n == 0)
        snprintf(run->stop_why, cap, "member %" PRIu64 " %s", act->other, revoked[act->what]);
    else if (act->n == 1)
        snprintf(run->stop_why, cap, "member %" PRIu64 " was lost or left", act->id);
    else
        snprintf(run->stop_why, cap,
                 "%" PRIu64 " members were lost or left, including member %" PRIu64, act->n,
                 act->id);
}

/* Stops all activity of the epoch: operations in the engine return. */
static void stop_epoch(tutti_run *run, const struct tt_member_act *act)
{
    const bool differ =
        act->what == TT_REVOKED_APART || (act->n == 0 && act->what == TT_REVOKED_MISMATCH);
    const tutti_status st = differ ? TUTTI_ERR_MISMATCH : TUTTI_ERR_PEER_LOST;
    char why[TT_MESSAGE_TEXT_BYTES + 40];

    run->put_out |= run->m.epoch == 0;
    run->dropped |= run->recovering && run->m.epoch == 0;
    set_stop_reason(run, act);
    if (!run->home.world || run->space.epoch != run->m.epoch)
        return;
    snprintf(why, sizeof why, "epoch %" PRIu64 " is over: %s", run->space.epoch, run->stop_why);
    if (tt_engine_fail_all(run->home.world->engine, st, why) && !run->stop_logged)
        tt_log(differ ? TT_LOG_ERROR : TT_LOG_WARN, "%s: %s", tutti_status_name(st), why);
}

static void run_set_over(tutti_run *run, const struct tt_member_act *act)
{
    if (!*run->over_why) {
        run->over_status = act->status;
        snprintf(run->over_why, sizeof run->over_why, "%s", act->text);
    }
    run->over = true;
    if (run->home.world)
        tt_engine_fail_all(run->home.world->engine, act->status ? act->status : TUTTI_ERR_ABORTED,
                           act->text);
    /* else it was never in the run, and tutti_run_join returns the reason */
    if (act->status && run->m.id != 0)
        tt_log(TT_LOG_ERROR, "%s: this member was removed from the run: %s",
               tutti_status_name(act->status), run->over_why);
}

static void op_done(tutti_run *run, const struct tt_member_act *act)
{
    struct tt_tag *t = &run->tags[act->tag];

    if (t->tentative.op && act->n == t->tentative.n) {
        t->tentative.done = true;
        t->tentative.state = act->state;
        return;
    }
    t->done = true;
    t->given = act->data != NULL;
    t->state = act->state;
    t->news = act->news;
}

static void run_act(void *context, const struct tt_member_act *act)
{
    tutti_run *run = context;

    switch (act->kind) {
    case TT_MEMBER_ACT_CONNECT:
        tt_link_connect(run, act->delay_ns);
        return;
    case TT_MEMBER_ACT_DISCONNECT:
        tt_link_disconnect(run);
        return;
    case TT_MEMBER_ACT_SEND:
        tt_link_send(run, act->data, act->bytes);
        return;
    case TT_MEMBER_ACT_SEND_PEER: /* operations use tt_member_complete_alone */
        tt_assert(!"members include this word in their allreduces");
        return;
    case TT_MEMBER_ACT_REACH:
        tt_peers_reach(run, tt_now_ns());
        return;
    case TT_MEMBER_ACT_SYNC_PLAN:
        tt_state_plan(run);
        return;
    case TT_MEMBER_ACT_VIEW:
        enter_view(run);
        break;
    case TT_MEMBER_ACT_LOST:
        tt_run_trace_lost(run, act->id, (enum tt_loss)act->what);
        return;
    case TT_MEMBER_ACT_STOP:
        stop_epoch(run, act);
        break;
    case TT_MEMBER_ACT_OP_DONE:
        op_done(run, act);
        if (act->state != TT_OP_RESTORED && !run->m.stopped)
            return; /* no waiting thread must be woken for this */
        break;
    case TT_MEMBER_ACT_CALL_DONE:
        run->call_done = true;
        run->result = *act;
        run->result_over =
            run->m.stopped || (act->what == TT_ROUND_MISMATCH && act->differs & TT_DIFFERS_OVER);
        break;
    default:
        run_set_over(run, act);
        break;
    }
    pthread_cond_broadcast(&run->changed);
}

/* ---- life cycle ------------------------------------------------------------------------------ */

static void run_fini(tutti_run *run)
{
    tt_run_trace_close(run);
    tt_run_home_leave(&run->home);
    tt_view_comms_close(&run->space, run->ntags); /* also closes the world */
    tt_link_close(run);
    tt_peers_close(run);
    tt_acceptor_fini(&run->acceptor);
    tt_mark_fini(&run->mark);
    if (run->wake_fd >= 0)
        close(run->wake_fd);
    if (run->epoll >= 0)
        close(run->epoll);
    tt_secure_destroy(run->secure);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        free(run->tags[tag].copy[0]);
        free(run->tags[tag].copy[1]);
        free(run->tags[tag].parts);
    }
    free(run->members);
    free(run->asked);
    free(run->seats);
    free(run->scratch);
    free(run->results);
    free(run->survey);
    free(run->wires);
    free(run->interfaces);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
    pthread_mutex_destroy(&run->trouble_lock);
    free(run);
}

static tutti_run *run_create(void)
{
    tutti_run *run = calloc(1, sizeof *run);
    pthread_condattr_t clock;

    if (!run)
        return NULL;
    pthread_mutex_init(&run->lock, NULL);
    pthread_mutex_init(&run->trouble_lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, &clock);
    pthread_condattr_destroy(&clock);
    run->forks = tt_forks();
    run->acceptor = (struct tt_acceptor){ .listener = -1, .timer = -1 };
    run->mark = (struct tt_mark){ .fd = -1 };
    run->link.fd = -1;
    run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    run->seats = calloc(2 * (size_t)TT_ELASTIC_MEMBERS_MAX, sizeof *run->seats);
    run->scratch = malloc(TT_ELMSG_BYTES_MAX);
    run->results = malloc(TT_ELASTIC_TAGS * sizeof *run->results);
    return run;
}

static tutti_status init_member(tutti_run *run, const tutti_run_conf *conf)
{
    const char *name = conf->run && *conf->run ? conf->run : getenv("TUTTI_RUN");
    struct tt_member_conf mc = { .group = conf->group,
                                 .role = conf->role,
                                 .nroles = conf->nroles ? conf->nroles : 1,
                                 .view = run->seats,
                                 .proposed = run->seats + TT_ELASTIC_MEMBERS_MAX,
                                 .members_max = TT_ELASTIC_MEMBERS_MAX,
                                 .scratch = run->scratch,
                                 .results = run->results,
                                 .emit = run_act,
                                 .context = run };

    name = name && *name ? name : "tutti";
    if (strlen(name) >= sizeof mc.run)
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_run_join: the run's name \"%.40s...\" is longer than %zu bytes", name,
                       sizeof mc.run - 1);
    snprintf(mc.run, sizeof mc.run, "%s", name);
    tt_random_bytes(mc.cookie, sizeof mc.cookie);
    tt_mark_init(&run->mark);
    run->card.mark = run->mark.number;
    tt_member_card_write(&run->card, &mc.card);
    tt_member_init(&run->m, &mc, tt_now_ns());
    return TUTTI_OK;
}

/* Waits until the coordinator has admitted this member. */
static tutti_status wait_welcome(tutti_run *run, uint64_t deadline_ns)
{
    char tried[TT_LINK_TRIED_BYTES];
    tutti_status st = TUTTI_OK;

    tt_link_tried(run, tried);
    tt_run_lock(run);
    while (run->m.id == 0 && !run->over && !st)
        if (!tt_run_wait(run, deadline_ns) && run->m.id == 0)
            st = tt_fail(TUTTI_ERR_TIMEOUT,
                         "tutti_run_join: no coordinator (%s) accepted this member within %lld "
                         "ms; last attempt: %s",
                         tried, (long long)run->timeout_ms,
                         *run->link.why ? run->link.why : "no answer");
    if (!st)
        st = run->over ? tt_fail(run->over_status ? run->over_status : TUTTI_ERR_PROTOCOL,
                                 "tutti_run_join: %s", run->over_why)
                       : TUTTI_OK;
    tt_run_unlock(run);
    return st;
}

#define CONF_BYTES_FIRST (offsetof(tutti_run_conf, timeout_ms) + sizeof(int64_t))

tutti_status tutti_run_join(tutti_run **out, const tutti_run_conf *of_caller)
{
    tutti_run_conf conf = { .size = sizeof conf };
    tutti_status st = TUTTI_OK;
    uint64_t began_ns;
    tutti_run *run;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_run_join: out is NULL");
    if (of_caller)
        st = tt_options_take(&conf, sizeof conf, CONF_BYTES_FIRST, of_caller, "tutti_run_join",
                             "conf", "tutti_run_conf");
    if (!st)
        st = tt_options_flag("tutti_run_join", "conf.insecure", conf.insecure);
    if (!st)
        st = tt_plugins_load();
    if (!st)
        st = tt_oplog_start();
    if (!st)
        st = tt_dump_start();
    if (st)
        return st;
    tt_descriptors_raise();
    tt_view_comms_constants();
    began_ns = tt_now_ns(); /* the timeout includes name resolution */
    run = run_create();
    if (!run)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a run");
    if (run->wake_fd < 0 || run->epoll < 0 || !run->seats || !run->scratch || !run->results)
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory or file descriptors for a run");
    if (!st)
        st = tt_run_take_conf(run, &conf);
    if (!st)
        st = init_member(run, &conf);
    if (!st)
        st = tt_service_start(run);
    if (!st)
        st = wait_welcome(run, tt_deadline_ns(began_ns, run->timeout_ms));
    if (st) {
        char why[TT_ERROR_BYTES];

        snprintf(why, sizeof why, "%s", tutti_last_error());
        tt_service_stop(run);
        run_fini(run);
        return tt_fail_again(st, why);
    }
    tt_run_trace_open(run);
    *out = run;
    return TUTTI_OK;
}

/* Returns whether the process is exiting. Other threads may be blocked forever while they hold
 * locks, so nothing can be released; the exit frees everything. */
static bool is_too_late(const tutti_run *run)
{
    return tt_openssl_is_over() && !tt_secure_is_plain(run->secure);
}

tutti_status tutti_run_leave(tutti_run *run)
{
    tutti_status st;

    st = tt_run_check_call(run, run, "run", "tutti_run_leave");
    if (st)
        return st;
    if (is_too_late(run))
        return tt_fail(TUTTI_ERR_ABORTED,
                       "tutti_run_leave: the process is exiting and OpenSSL is already shut down");
    tt_run_lock(run);
    st = tt_run_check(run);
    if (!st)
        tt_member_leave(&run->m, TT_LEAVE_NOTICE, tt_now_ns());
    tt_run_unlock(run);
    return st;
}

void tutti_run_destroy(tutti_run *run)
{
    if (!run || tt_run_is_inherited(run) || is_too_late(run))
        return;
    tt_run_lock(run);
    tt_assert(run->noperations == 0 && !run->calling); /* no call may be in progress */
    if (!run->over)
        tt_member_part(&run->m, tt_now_ns());
    tt_run_wake(run); /* the machine's next timer may now be earlier */
    while (!run->over)
        tt_run_wait(run, TT_NEVER);
    tt_run_unlock(run);
    tt_service_stop(run);
    run_fini(run);
}

tutti_status tutti_run_revoke(tutti_run *run)
{
    tutti_status st;

    st = tt_run_check_call(run, run, "run", "tutti_run_revoke");
    if (st)
        return st;
    tt_run_lock(run);
    st = tt_run_check(run);
    if (!st && run->m.epoch == 0)
        st = tt_fail(TUTTI_ERR_INVALID,
                     "tutti_run_revoke: this member is not in a view (call tutti_run_epoch to "
                     "join one)");
    if (!st)
        tt_member_revoke(&run->m, tt_now_ns());
    tt_run_unlock(run);
    return st;
}

tutti_status tutti_run_poll(tutti_run *run, tutti_news *out)
{
    const tutti_status st = tt_run_check_out(run, out, "tutti_news", sizeof *out, "tutti_run_poll");

    if (st)
        return st;
    tt_run_lock(run);
    *out = (tutti_news){ .size = sizeof *out,
                         .number = run->heard.number,
                         .epoch = run->space.epoch,
                         .newcomers = run->heard.newcomers,
                         .lost = run->heard.lost,
                         .leaving = run->heard.leaving,
                         .revoked = run->heard.revoked != 0,
                         .better = run->heard.better != 0,
                         .operation = run->heard_n,
                         .tag = run->heard_tag };
    tt_run_unlock(run);
    return TUTTI_OK;
}

tutti_status tutti_run_stats(tutti_run *run, tutti_run_stats_t *out)
{
    const tutti_status st =
        tt_run_check_out(run, out, "tutti_run_stats_t", sizeof *out, "tutti_run_stats");

    if (st)
        return st;
    tt_run_lock(run);
    *out = run->stats;
    out->size = sizeof *out;
    out->id = run->m.id;
    tt_run_unlock(run);
    return TUTTI_OK;
}
