/* When a member of the view is lost, the remaining members cannot complete open operations alone:
 * some may have a result, others not. Therefore all stop and report the state of each operation. If
 * for any remaining member an operation is FINAL, all members had completed it, and all keep the
 * result. If any member has SETTLED one, its result is sent to the members without it. Otherwise
 * all restore their input. The answers of a member that is lost afterwards are discarded: each loss
 * leads to a new question. The outcome of a tag is a sequence number: all operations up to it are
 * final.
 *
 * A member that leaves in order reports its FINAL operations in LEAVE, since it will not be
 * queried. Its report applies only to operations that all remaining members have completed.
 * Otherwise a false report could destroy their own results.
 *
 * Answers may contradict each other: one claims that all members have completed an operation, or
 * (by SETTLED) begun it; another one states that its sender has not. Then one of them is false. The
 * member whose answer contradicts more answers is declared lost; on a tie, the newer member. Thus a
 * false answer harms its sender, and not other members. */
#include <string.h>
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

static size_t write_lost(struct tt_coord *c)
{
    const bool apart = c->revocation == TT_REVOKED_APART;
    struct tt_elmsg msg = {
        .kind = TT_ELMSG_LOST, .what = c->revocation, .epoch = c->epoch, .number = c->question
    };
    struct tt_elmsg_writer w;

    if (c->revoked) {
        msg.id = apart ? c->apart.id : c->revoker;
        msg.other = apart ? c->apart.other : c->unreached;
    }
    if (apart) {
        msg.value = c->apart.value;
        msg.op = c->apart.op;
    }

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (m->state == TT_COORD_LOST)
            tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = m->id, .why = m->loss });
    }
    return tt_elmsg_end(&w);
}

void tt_coord_send_lost(struct tt_coord *c, struct tt_coord_member *m)
{
    tt_coord_send(c, m, write_lost(c));
}

bool tt_coord_query(struct tt_coord *c)
{
    size_t bytes;

    if (!c->changed)
        return false;
    c->changed = c->decided = false;
    c->querying = true;
    c->question = tt_coord_numbered(c, c->question);
    memset(c->outcomes, 0, sizeof c->outcomes);
    memset(c->tallies, 0, sizeof c->tallies);
    bytes = write_lost(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->answered = false;
        memset(m->answered_tags, 0, sizeof m->answered_tags);
        if (tt_coord_is_live(m))
            tt_coord_send(c, m, bytes);
    }
    return true;
}

/* Returns the last operation that the member has completed and not restored. */
static uint64_t completed_by(const struct tt_op_entry *e)
{
    if (e->state == TT_OP_RESTORED)
        return e->before == TT_BEFORE_SETTLED ? e->n - 1 : tt_op_last_complete(e);
    return e->state == TT_OP_PENDING ? e->n - 1 : e->n;
}

/* Returns the last operation that the member has begun and not restored. */
static uint64_t begun_by(const struct tt_op_entry *e)
{
    return e->state == TT_OP_RESTORED ? completed_by(e) : e->n;
}

/* Merges an entry into the outcome. A FINAL operation remains final, with its update. A SETTLED
 * operation is also kept, and all members receive its result. It is then the last one, because no
 * member can complete another one before all have its result. If some member reports it as FINAL,
 * that takes precedence, since SETTLED may be false. */
static void merge_entry(struct tt_op_entry *outcome, uint8_t result[TT_SETTLED_BYTES],
                        const struct tt_op_entry *e)
{
    const uint64_t known = tt_op_last_complete(e),
                   settled = TT_PLANTED(TT_BUG_SETTLED_IGNORED) ? 0 : tt_op_settled(e);

    if (known > outcome->n || (known == outcome->n && outcome->state == TT_OP_SETTLED))
        *outcome = (struct tt_op_entry){
            .state = TT_OP_FINAL, .tag = e->tag, .n = known, .news = e->news
        };
    if (settled <= outcome->n)
        return;
    *outcome = *e;
    outcome->state = TT_OP_SETTLED;
    outcome->before = TT_BEFORE_FINAL;
    outcome->n = settled;
    outcome->result = memcpy(result, e->result, e->nresult);
}

void tt_coord_take_words(struct tt_coord *c, struct tt_elmsg *msg)
{
    struct tt_op_entry e;

    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_op(msg, &e);
        merge_entry(&c->words[e.tag], c->word_results[e.tag], &e);
    }
}

/* Shifts the counts when their base changes by `by`. */
static void shift_counts(uint32_t n[TT_COORD_CLAIMS_SPAN], uint64_t by)
{
    for (uint32_t i = TT_COORD_CLAIMS_SPAN; i > 0; i--)
        n[i - 1] = i - 1 >= by ? n[i - 1 - by] : 0;
}

static void count_claim(struct tt_coord_claims *c, uint64_t claimed, uint64_t id, bool first)
{
    if (first || claimed > c->claimed) {
        shift_counts(c->nclaimed, claimed - c->claimed);
        c->claimed = claimed;
        c->claimer = id;
    }
    if (c->claimed - claimed < TT_COORD_CLAIMS_SPAN)
        c->nclaimed[c->claimed - claimed]++;
}

static void count_stated(struct tt_coord_claims *c, uint64_t stated, uint64_t id, bool first)
{
    if (first || stated < c->stated) {
        shift_counts(c->nstated, c->stated - stated);
        c->stated = stated;
        c->sayer = id;
    }
    if (stated - c->stated < TT_COORD_CLAIMS_SPAN)
        c->nstated[stated - c->stated]++;
}

static void count_answer(struct tt_coord_tally *t, const struct tt_op_entry *e, uint64_t id)
{
    const bool first = t->entries++ == 0;

    count_claim(&t->completed, tt_op_last_complete(e), id, first);
    count_stated(&t->completed, completed_by(e), id, first);
    count_claim(&t->begun, tt_op_settled(e), id, first);
    count_stated(&t->begun, begun_by(e), id, first);
}

static size_t write_outcomes(struct tt_coord *c, const struct tt_coord_member *m)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_OUTCOMES,
                                  .epoch = c->epoch,
                                  .number = c->question };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (c->outcomes[tag].n > 0) {
            struct tt_op_entry e = c->outcomes[tag];

            if (TT_PLANTED(TT_BUG_OUTCOME_NOT_UNIFORM) && m->rank % 2)
                e.state = TT_OP_RESTORED; /* final only up to the previous one */
            tt_elmsg_add_op(&w, &e);
        }
    return tt_elmsg_end(&w);
}

void tt_coord_answer(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    struct tt_op_entry e;
    uint32_t next = 0;

    if (!tt_coord_is_live(m) || !c->querying || msg->number != c->question ||
        msg->epoch != c->epoch)
        return;
    if (c->decided) {
        tt_coord_send(c, m, write_outcomes(c, m));
        return;
    }
    if (m->answered)
        return;
    m->answered = true;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_op(msg, &e);
        if (e.tag < next) {
            tt_coord_lose(c, m, TT_LOSS_ILLEGAL); /* tags must ascend */
            return;
        }
        next = e.tag + 1u;
        m->answered_tags[e.tag / 8] = (uint8_t)(m->answered_tags[e.tag / 8] | 1u << e.tag % 8);
        count_answer(&c->tallies[e.tag], &e, m->id);
        merge_entry(&c->outcomes[e.tag], c->outcome_results[e.tag], &e);
    }
}

/* Returns whether all live members have answered this question. */
static bool is_answered(const struct tt_coord *c)
{
    uint32_t missing = 0, dead = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        missing += tt_coord_is_live(&c->conf.members[i]) && !c->conf.members[i].answered;
        dead += c->conf.members[i].state == TT_COORD_LOST;
    }
    return missing <= (TT_PLANTED(TT_BUG_DEAD_VOTER_COUNTED) ? dead : 0);
}

/* Counts the members that had not begun any operation of the tag. */
static void count_silent(const struct tt_coord *c, uint32_t tag, struct tt_coord_tally *t)
{
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_live(m) && !(m->answered_tags[tag / 8] & 1u << tag % 8)) {
            count_stated(&t->completed, 0, m->id, t->entries == 0);
            count_stated(&t->begun, 0, m->id, t->entries == 0);
        }
    }
}

/* If two answers contradict each other, returns the member whose answer is considered false; 0: no
 * contradiction. */
static uint64_t find_contradiction(const struct tt_coord_claims *c)
{
    uint32_t nclaim = 0, nsay = 0;

    if (c->claimed <= c->stated)
        return 0;
    for (uint32_t i = 0; i < TT_COORD_CLAIMS_SPAN && i < c->claimed - c->stated; i++) {
        nclaim += c->nclaimed[i];
        nsay += c->nstated[i];
    }
    if (nclaim == nsay)
        return c->claimer > c->sayer ? c->claimer : c->sayer;
    return nclaim > nsay ? c->sayer : c->claimer;
}

/* NULL: no two answers contradict each other. */
static struct tt_coord_member *find_false_answer(struct tt_coord *c)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        struct tt_coord_tally t = c->tallies[tag];
        uint64_t id;

        if (t.completed.claimed > 0 || t.begun.claimed > 0)
            count_silent(c, tag, &t);
        id = find_contradiction(&t.completed);
        if (id == 0)
            id = find_contradiction(&t.begun);
        if (id != 0)
            return tt_coord_member_of(c, id);
    }
    return NULL;
}

/* Merges reports of members that left: their FINAL operations, and SETTLED ones that all
 * remaining members have begun and not restored. */
static void merge_reports(struct tt_coord *c)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        const struct tt_op_entry *word = &c->words[tag];
        struct tt_coord_tally t = c->tallies[tag];

        if (word->n == 0 || TT_PLANTED(TT_BUG_WORDS_IGNORED))
            continue;
        count_silent(c, tag, &t);
        if (word->n <= (word->state == TT_OP_SETTLED ? t.begun.stated : t.completed.stated))
            merge_entry(&c->outcomes[tag], c->outcome_results[tag], word);
    }
}

bool tt_coord_judge(struct tt_coord *c)
{
    struct tt_coord_member *liar;
    size_t bytes = 0;

    if (!c->querying || c->decided || !is_answered(c))
        return false;
    liar = find_false_answer(c);
    if (liar) {
        tt_coord_lose(c, liar, TT_LOSS_ILLEGAL);
        return true;
    }
    c->decided = true;
    merge_reports(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        if (!tt_coord_is_live(&c->conf.members[i]))
            continue;
        if (bytes == 0 || TT_PLANTED(TT_BUG_OUTCOME_NOT_UNIFORM))
            bytes = write_outcomes(c, &c->conf.members[i]);
        tt_coord_send(c, &c->conf.members[i], bytes);
    }
    return true;
}
