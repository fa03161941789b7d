/* The states of operations at a member, the detection of their completion by all members, and their
 * outcomes after a loss. */
#include <string.h>
#include "base/prng.h"
#include "base/status.h"
#include "elastic/member_state.h"
#include "elastic/planted.h"
#include "elastic/states.h"

static const char *const states[] = {
    [TT_OP_NONE] = "not begun", [TT_OP_PENDING] = "PENDING", [TT_OP_COMPLETE] = "COMPLETE",
    [TT_OP_SETTLED] = "SETTLED", [TT_OP_FINAL] = "FINAL",    [TT_OP_RESTORED] = "RESTORED",
};
static const struct tt_state_change changes[] = {
    { TT_OP_NONE, TT_OP_PENDING, "it begins" },
    { TT_OP_PENDING, TT_OP_NONE, "it could not be started" },
    { TT_OP_PENDING, TT_OP_COMPLETE, "this member's part of it is complete" },
    { TT_OP_PENDING, TT_OP_SETTLED,
      "it is small, and its result has arrived, computed here or with an outcome" },
    { TT_OP_COMPLETE, TT_OP_FINAL, "it is complete on all members" },
    { TT_OP_SETTLED, TT_OP_FINAL,
      "it is complete on all members, because the next one is complete on this member" },
    { TT_OP_PENDING, TT_OP_RESTORED,
      "it is pending when a member is lost, and the outcome is on an earlier one" },
    { TT_OP_COMPLETE, TT_OP_RESTORED,
      "it is pending when a member is lost, and the outcome is on an earlier one" },
};
const struct tt_states tt_op_states = {
    .name = "operations",
    .of = "an operation; states in a member",
    .states = states,
    .nstates = TT_OP_STATES,
    .changes = changes,
    .nchanges = sizeof changes / sizeof *changes,
};

/* Records a legal change of an operation's state. */
static void record_change(struct tt_member *m, uint8_t from, uint8_t to)
{
    m->covered |= 1ull << tt_states_change(&tt_op_states, from, to);
}

/* Changes the state of the tag's last operation. */
static void set_state(struct tt_member *m, struct tt_member_op *op, uint8_t to)
{
    record_change(m, op->state, to);
    op->state = to;
}

static bool is_open(const struct tt_member_op *op)
{
    return op->state == TT_OP_PENDING || op->state == TT_OP_COMPLETE;
}

/* Returns whether op is open, and waits for no member. */
static bool is_tentative(const struct tt_member_op *op)
{
    return op->state == TT_OP_COMPLETE && op->tentative;
}

bool tt_member_is_busy(const struct tt_member *m)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (is_open(&m->ops[tag]) && !is_tentative(&m->ops[tag]))
            return true;
    return false;
}

bool tt_member_is_tentative(const struct tt_member *m)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (is_tentative(&m->ops[tag]))
            return true;
    return false;
}

uint64_t tt_member_begun(const struct tt_member *m)
{
    uint64_t mixed = 0;

    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (m->ops[tag].n > 0)
            mixed = tt_mix64(mixed ^ (m->ops[tag].n * TT_ELASTIC_TAGS + tag));
    return mixed;
}

static const struct tt_membership no_news;

static void later_news(struct tt_membership *have, const struct tt_membership *other)
{
    if (other->number > have->number)
        *have = *other;
}

/* ---- messages between members ---------------------------------------------------------------- */

static uint32_t nrounds(const struct tt_member *m)
{
    uint32_t n = 0;

    while (1u << n < m->nranks)
        n++;
    return n;
}

/* Sends round k's message: {epoch, tag, n, k, update}. */
static void send_round(struct tt_member *m, uint32_t tag)
{
    const struct tt_member_op *op = &m->ops[tag];
    const struct tt_membership *news = &op->news[op->n & 1];
    uint8_t data[TT_PEERMSG_BYTES];
    struct tt_writer w;

    tt_writer_init(&w, data, sizeof data);
    tt_write_u8(&w, TT_ELASTIC_VERSION);
    tt_write_u8(&w, op->round);
    tt_write_u16(&w, (uint16_t)tag);
    tt_write_u64(&w, m->epoch);
    tt_write_u64(&w, op->n);
    tt_write_u64(&w, news->number);
    tt_write_u32(&w, news->newcomers);
    tt_write_u32(&w, news->lost);
    tt_write_u32(&w, news->leaving);
    tt_write_u32(&w, news->revoked);
    tt_write_u32(&w, news->better);
    tt_assert(!w.bad && tt_writer_bytes(&w) == TT_PEERMSG_BYTES);
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_SEND_PEER,
                                               .rank = (m->rank + (1u << op->round)) % m->nranks,
                                               .data = data,
                                               .bytes = sizeof data });
}

static void emit_done(struct tt_member *m, uint32_t tag, uint64_t n, uint8_t state,
                      const struct tt_membership *news)
{
    if (state != TT_OP_RESTORED) {
        m->ops[tag].final_news = *news;
        m->unheard |= m->nranks > 1;
    }
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_OP_DONE,
                                               .tag = (uint16_t)tag,
                                               .n = n,
                                               .state = state,
                                               .news = *news });
}

/* Ends the tentative operation before the last one, if open. */
static void end_before(struct tt_member *m, uint32_t tag, uint8_t state,
                       const struct tt_membership *news)
{
    struct tt_member_op *op = &m->ops[tag];

    if (!op->before || !is_open(op))
        return;
    record_change(m, TT_OP_COMPLETE, state);
    op->before = state == TT_OP_RESTORED;
    emit_done(m, tag, op->n - 1, state, news);
}

/* The tag's last operation is complete here, so all members have begun it, or have even reported
 * its completion. Therefore the settled operation before it is complete on all members. */
static void end_settled(struct tt_member *m, struct tt_member_op *op)
{
    if (op->settled > 0)
        record_change(m, TT_OP_SETTLED, TT_OP_FINAL);
    op->settled = 0;
}

/* Ends the tag's last operation; the one before it has already ended. */
static void end_op(struct tt_member *m, uint32_t tag, uint8_t state,
                   const struct tt_membership *news)
{
    if (TT_PLANTED(TT_BUG_COUNTED_TWICE))
        m->ops[tag].state = state;
    else
        set_state(m, &m->ops[tag], state);
    emit_done(m, tag, m->ops[tag].n, state, news);
}

static void advance_round(struct tt_member *m, uint32_t tag)
{
    struct tt_member_op *op = &m->ops[tag];
    const uint32_t parity = op->n & 1, last = nrounds(m);
    struct tt_membership news;

    if (op->state != TT_OP_COMPLETE || op->tentative || m->stopped)
        return;
    while (op->round < last && op->arrived[parity] & 1u << op->round)
        if (++op->round < last)
            send_round(m, tag);
    if (op->round < last)
        return;
    news = op->news[parity];
    op->arrived[parity] = 0;
    memset(&op->news[parity], 0, sizeof news);
    end_before(m, tag, TT_OP_FINAL, &no_news);
    end_settled(m, op);
    end_op(m, tag, TT_OP_FINAL, &news);
}

tutti_status tt_member_begin(struct tt_member *m, uint32_t tag, uint64_t now_ns)
{
    struct tt_member_op *op;

    tt_assert(now_ns >= m->now_ns);
    m->now_ns = now_ns;
    if (m->over || m->epoch == 0 || m->calling || tag >= TT_ELASTIC_TAGS)
        return TUTTI_ERR_INVALID;
    op = &m->ops[tag];
    if (is_open(op) && !is_tentative(op) && !TT_PLANTED(TT_BUG_TAG_REUSED))
        return TUTTI_ERR_INVALID;
    if (m->stopped)
        return TUTTI_ERR_PEER_LOST;
    if (is_tentative(op) && TT_PLANTED(TT_BUG_TENTATIVE_FINAL_TOO_SOON))
        end_op(m, tag, TT_OP_FINAL, &no_news);
    op->before = is_tentative(op);
    op->n++;
    op->state = TT_OP_NONE;
    set_state(m, op, TT_OP_PENDING);
    op->tentative = false;
    op->may_settle = 0;
    return TUTTI_OK;
}

void tt_member_complete(struct tt_member *m, uint32_t tag, uint64_t now_ns)
{
    struct tt_member_op *op = &m->ops[tag];

    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->stopped)
        return;
    set_state(m, op, TT_OP_COMPLETE);
    op->round = 0;
    later_news(&op->news[op->n & 1], &m->news);
    if (m->nranks > 1)
        send_round(m, tag);
    advance_round(m, tag);
}

bool tt_member_complete_alone(struct tt_member *m, uint32_t tag, struct tt_membership *mine,
                              uint64_t now_ns)
{
    struct tt_member_op *op = &m->ops[tag];

    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->stopped)
        return false;
    set_state(m, op, TT_OP_COMPLETE);
    op->round = 0;
    *mine = m->news;
    return true;
}

void tt_member_all_complete(struct tt_member *m, uint32_t tag, const struct tt_membership *latest,
                            uint64_t now_ns)
{
    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->stopped)
        return;
    tt_assert(m->ops[tag].state == TT_OP_COMPLETE && !m->ops[tag].tentative);
    end_before(m, tag, TT_OP_FINAL, &no_news);
    end_settled(m, &m->ops[tag]);
    end_op(m, tag, TT_OP_FINAL, latest);
}

bool tt_member_complete_tentative(struct tt_member *m, uint32_t tag, uint64_t now_ns)
{
    struct tt_member_op *op = &m->ops[tag];

    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->stopped)
        return false;
    set_state(m, op, TT_OP_COMPLETE);
    op->tentative = true;
    /* all have begun this operation, so all have completed the previous one */
    end_before(m, tag, TT_OP_FINAL, &no_news);
    end_settled(m, op);
    if (m->nranks == 1)
        end_op(m, tag, TT_OP_FINAL, &no_news);
    return true;
}

void tt_member_may_settle(struct tt_member *m, uint32_t tag, uint32_t bytes)
{
    tt_assert(tag < TT_ELASTIC_TAGS && m->conf.nroles == 1 && m->conf.results && bytes > 0 &&
              bytes <= TT_SETTLED_BYTES);
    m->ops[tag].may_settle = (uint16_t)bytes;
}

/* Settles the tag's last operation, which is PENDING. given: the result came with the outcome. */
static void settle_op(struct tt_member *m, uint32_t tag, const void *result, bool given)
{
    struct tt_member_op *op = &m->ops[tag];

    set_state(m, op, TT_OP_SETTLED);
    op->final_news = no_news;
    op->nresult = op->may_settle;
    memcpy(m->conf.results[tag], result, op->nresult);
    if (!given || !TT_PLANTED(TT_BUG_SETTLED_ONCE))
        op->settled = op->n;
    m->unheard |= m->nranks > 1;
    tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_OP_DONE,
                                               .tag = (uint16_t)tag,
                                               .n = op->n,
                                               .state = TT_OP_SETTLED,
                                               .data = given ? m->conf.results[tag] : NULL,
                                               .bytes = given ? op->nresult : 0 });
}

bool tt_member_settle(struct tt_member *m, uint32_t tag, const void *result, uint64_t now_ns)
{
    struct tt_member_op *op = &m->ops[tag];

    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS && op->may_settle > 0);
    m->now_ns = now_ns;
    if (m->stopped)
        return false;
    end_before(m, tag, TT_OP_FINAL, &no_news);
    end_settled(m, op);
    settle_op(m, tag, result, false);
    return true;
}

void tt_member_on_committed(struct tt_member *m)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS && !m->stopped; tag++)
        if (is_tentative(&m->ops[tag]))
            end_op(m, tag, TT_OP_FINAL, &no_news);
}

void tt_member_take_back(struct tt_member *m, uint32_t tag, uint64_t now_ns)
{
    struct tt_member_op *op = &m->ops[tag];

    tt_assert(now_ns >= m->now_ns && tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->stopped)
        return;
    set_state(m, op, TT_OP_NONE);
    op->n--;
    /* NONE, not RESTORED: a restored operation would have ended the epoch */
    op->state = op->before                           ? TT_OP_COMPLETE
                : op->settled > 0 && op->settled == op->n ? TT_OP_SETTLED
                : op->n > 0                          ? TT_OP_FINAL
                                                          : TT_OP_NONE;
    op->tentative = op->before;
    op->before = false;
}

enum tt_peermsg tt_member_peer(struct tt_member *m, uint32_t rank, const void *data, size_t bytes,
                               uint64_t now_ns)
{
    struct tt_member_op *op;
    struct tt_membership news;
    struct tt_reader r;
    uint8_t version, round;
    uint16_t tag;
    uint64_t epoch, n;

    tt_assert(now_ns >= m->now_ns);
    m->now_ns = now_ns;
    tt_reader_init(&r, data, bytes);
    version = tt_read_u8(&r);
    round = tt_read_u8(&r);
    tag = tt_read_u16(&r);
    epoch = tt_read_u64(&r);
    n = tt_read_u64(&r);
    news.number = tt_read_u64(&r);
    news.newcomers = tt_read_u32(&r);
    news.lost = tt_read_u32(&r);
    news.leaving = tt_read_u32(&r);
    news.revoked = tt_read_u32(&r);
    news.better = tt_read_u32(&r);
    if (r.bad || r.at != r.end || version != TT_ELASTIC_VERSION || tag >= TT_ELASTIC_TAGS)
        return TT_PEERMSG_BAD;
    if (epoch > m->epoch)
        return TT_PEERMSG_BEFORE_VIEW;
    if ((epoch < m->epoch && !TT_PLANTED(TT_BUG_STALE_EPOCH_ACCEPTED)) || m->stopped)
        return TT_PEERMSG_STALE;
    op = &m->ops[tag];
    if (round >= nrounds(m) || (rank + (1u << round)) % m->nranks != m->rank || n > op->n + 1 ||
        n == 0)
        return TT_PEERMSG_BAD;
    if (n < op->n || (n == op->n && !is_open(op)) || op->arrived[n & 1] & 1u << round)
        return TT_PEERMSG_STALE;
    op->arrived[n & 1] = (uint16_t)(op->arrived[n & 1] | 1u << round);
    later_news(&op->news[n & 1], &news);
    if (n == op->n)
        advance_round(m, tag);
    return TT_PEERMSG_TAKEN;
}

/* ---- members in other calls ------------------------------------------------------------------ */

void tt_member_report_wait(struct tt_member *m, const struct tt_op_name *op, uint64_t now_ns)
{
    struct tt_elmsg msg = { .kind = TT_ELMSG_INSIDE, .epoch = m->epoch, .op = *op };
    const struct tt_member_op *own = &m->ops[op->tag];

    tt_assert(now_ns >= m->now_ns && op->tag < TT_ELASTIC_TAGS);
    m->now_ns = now_ns;
    if (m->over || !m->welcome || m->stopped || !is_open(own) || is_tentative(own))
        return;
    msg.op.n = own->n;
    tt_member_send_msg(m, &msg);
}

/* Responds only while in a call, during which no operation begins. Operations of a tag begin in
 * order. */
void tt_member_on_begun(struct tt_member *m, const struct tt_elmsg *msg)
{
    struct tt_elmsg answer = *msg;
    const uint64_t ended = m->ops[msg->op.tag].n -
                           (TT_PLANTED(TT_BUG_ENDED_IS_NOT_BEGUN) && m->ops[msg->op.tag].n > 0);

    if (!m->calling || m->stopped || msg->epoch != m->epoch || msg->op.n <= ended)
        return;
    answer.kind = TT_ELMSG_NOT_BEGUN;
    tt_member_send_msg(m, &answer);
}

/* ---- losses and leaving ---------------------------------------------------------------------- */

/* Returns the state of the tag's operations; n 0: none begun. */
static struct tt_op_entry entry_of(const struct tt_member *m, uint32_t tag)
{
    const struct tt_member_op *op = &m->ops[tag];
    struct tt_op_entry e = {
        .state = op->state, .tag = (uint16_t)tag, .n = op->n, .news = op->final_news
    };

    if (op->before && !TT_PLANTED(TT_BUG_TENTATIVE_NOT_REPORTED))
        e.before = TT_BEFORE_TENTATIVE;
    if (op->settled == 0)
        return e;
    if (op->settled != op->n)
        e.before = TT_BEFORE_SETTLED;
    e.nresult = op->nresult;
    e.result = m->conf.results[tag];
    return e;
}

static void send_answer(struct tt_member *m)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_ANSWER,
                                  .epoch = m->epoch,
                                  .number = m->question };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, m->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        const struct tt_op_entry e = entry_of(m, tag);

        if (e.n > 0)
            tt_elmsg_add_op(&w, &e);
    }
    tt_member_send(m, tt_elmsg_end(&w));
}

void tt_member_send_leave(struct tt_member *m, uint8_t how)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LEAVE, .what = how, .epoch = m->epoch };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, m->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS && how == TT_LEAVE_NOW; tag++) {
        struct tt_op_entry e = entry_of(m, tag);

        if (e.n == 0 || (tt_op_last_complete(&e) == 0 && tt_op_settled(&e) == 0))
            continue;
        if (tt_op_settled(&e)) {
            e.n = tt_op_settled(&e);
            e.state = TT_OP_SETTLED;
        } else {
            e.n = tt_op_last_complete(&e);
            e.state = TT_OP_FINAL;
        }
        e.before = TT_BEFORE_FINAL;
        tt_elmsg_add_op(&w, &e);
    }
    tt_member_send(m, tt_elmsg_end(&w));
}

/* Emits the lost members. Returns the first of them, 0: none. */
static uint64_t emit_losses(struct tt_member *m, struct tt_elmsg *msg)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < msg->nlist; i++) {
        struct tt_loss_name loss;

        tt_elmsg_next_loss(msg, &loss);
        first = i == 0 ? loss.id : first;
        tt_member_emit(m, &(struct tt_member_act){
                              .kind = TT_MEMBER_ACT_LOST, .id = loss.id, .what = loss.why });
    }
    return first;
}

void tt_member_on_lost(struct tt_member *m, struct tt_elmsg *msg)
{
    uint64_t first;

    if (msg->epoch != m->epoch || msg->number < m->question)
        return;
    m->question = msg->number;
    first = emit_losses(m, msg);
    if (!m->stopped) {
        m->stopped = true;
        tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_STOP,
                                                   .what = msg->what,
                                                   .n = msg->nlist,
                                                   .id = first,
                                                   .other = msg->id,
                                                   .also = msg->other,
                                                   .value = msg->value,
                                                   .op = msg->op });
    }
    send_answer(m);
}

/* Restores all open operations of the tag, without an update: members that get the outcome of a
 * later question would get another one. */
static void restore_ops(struct tt_member *m, uint32_t tag)
{
    end_before(m, tag, TT_OP_RESTORED, &no_news);
    if (is_open(&m->ops[tag]))
        end_op(m, tag, TT_OP_RESTORED, &no_news);
}

/* Returns whether an outcome contains the missing result of the operation. A result that does not
 * fit is due to a false report. */
static bool brings_result(const struct tt_member_op *op, const struct tt_op_entry *e)
{
    return e->state == TT_OP_SETTLED && e->n == op->n && op->state == TT_OP_PENDING &&
           op->may_settle == e->nresult;
}

/* Ends the tag's operations: those up to the outcome are final, later ones are restored. False: the
 * outcome is impossible. */
static bool apply_outcome(struct tt_member *m, const struct tt_op_entry *e)
{
    struct tt_member_op *op = &m->ops[e->tag];
    const bool kept = TT_PLANTED(TT_BUG_RESTORE_FORGOTTEN) && op->state == TT_OP_COMPLETE;
    const uint64_t last = e->state != TT_OP_FINAL ? e->n - 1 : kept ? op->n : e->n;

    if (!is_open(op) && !TT_PLANTED(TT_BUG_COUNTED_TWICE))
        return true;
    if (brings_result(op, e)) {
        end_before(m, e->tag, TT_OP_FINAL, &no_news);
        end_settled(m, op);
        settle_op(m, e->tag, e->result, true);
        return true;
    }
    if (last > op->n || (last == op->n && op->state == TT_OP_PENDING))
        return false;
    if (last + 1 >= op->n)
        end_before(m, e->tag, TT_OP_FINAL, last == op->n ? &no_news : &e->news);
    if (last == op->n) {
        end_settled(m, op);
        end_op(m, e->tag, TT_OP_FINAL, &e->news);
    }
    restore_ops(m, e->tag);
    return true;
}

void tt_member_on_outcomes(struct tt_member *m, struct tt_elmsg *msg)
{
    struct tt_op_entry e;

    if (msg->epoch != m->epoch || msg->number != m->question || !m->stopped)
        return;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_op(msg, &e);
        if (!apply_outcome(m, &e)) {
            tt_member_end(m, TUTTI_ERR_PROTOCOL,
                          "protocol error: the coordinator reported an operation as FINAL "
                          "that this member has not completed");
            return;
        }
    }
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        restore_ops(m, tag); /* no operation stays open */
}
