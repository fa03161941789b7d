/* When a member of the view is lost, operations that were open cannot be finished by those who are left alone: some may have their result,
 * others not. So all stop and say where they stand in each. If anybody who is left has had an operation's result confirmed (FINAL), then all
 * had completed it before, and all keep theirs; else all restore. What a member said that was lost afterwards does not count: each
 * loss asks anew.
 *
 * Answers may contradict each other: one says that all have completed an operation, another that it has not. Then one lies. It is the one
 * that more contradict, of two the newer, and it is lost; so an answer costs its sender, and not those who tell the truth. */
#include <string.h>
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

static size_t write_lost(struct tt_coord *c)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_LOST, .epoch = c->epoch, .number = c->question };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (c->conf.members[i].state == TT_COORD_LOST)
            tt_elmsg_add_id(&w, c->conf.members[i].id);
    return tt_elmsg_end(&w);
}

void tt_coord_send_lost(struct tt_coord *c, struct tt_coord_member *m)
{
    tt_coord_send(c, m, write_lost(c));
}

bool tt_coord_ask(struct tt_coord *c)
{
    size_t bytes;

    if (!c->changed)
        return false;
    c->changed = c->decided = false;
    c->asking = true;
    c->question = tt_coord_numbered(c, c->question);
    memset(c->verdicts, 0, sizeof c->verdicts);
    memset(c->tallies, 0, sizeof c->tallies);
    bytes = write_lost(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        struct tt_coord_member *m = &c->conf.members[i];

        m->answered = false;
        memset(m->said, 0, sizeof m->said);
        if (tt_coord_is_live(m))
            tt_coord_send(c, m, bytes);
    }
    return true;
}

/* Of the operations of one tag the last that anybody has begun can be open; and the one before it, where its end was not heard of yet: that
 * one is final, and each who has begun the last knows the news that came with it. */
static void merge(struct tt_op_entry *verdict, const struct tt_op_entry *e)
{
    if (e->n < verdict->n || (e->n == verdict->n && e->state != TT_OP_FINAL))
        return;
    *verdict = *e;
    if (e->state != TT_OP_FINAL)
        verdict->state = TT_OP_RESTORED;
}

static void count(struct tt_coord_tally *t, const struct tt_op_entry *e, uint64_t id)
{
    const uint64_t known = e->state == TT_OP_FINAL ? e->n : e->n - 1;
    const uint64_t done = e->state == TT_OP_PENDING || e->state == TT_OP_RESTORED ? e->n - 1 : e->n;

    if (t->entries == 0 || known > t->known) {
        t->nknown[1] = known == t->known + 1 ? t->nknown[0] : 0;
        t->nknown[0] = 0;
        t->known = known;
        t->knower = id;
    }
    if (t->entries == 0 || done < t->done) {
        t->ndone[1] = done + 1 == t->done ? t->ndone[0] : 0;
        t->ndone[0] = 0;
        t->done = done;
        t->doer = id;
    }
    t->entries++;
    t->nknown[0] += known == t->known;
    t->nknown[1] += known + 1 == t->known;
    t->ndone[0] += done == t->done;
    t->ndone[1] += done == t->done + 1;
}

static size_t write_verdicts(struct tt_coord *c, const struct tt_coord_member *m)
{
    const struct tt_elmsg msg = { .kind = TT_ELMSG_VERDICTS, .epoch = c->epoch, .number = c->question };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, c->conf.scratch, TT_ELMSG_BYTES_MAX, &msg);
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++)
        if (c->verdicts[tag].n > 0) {
            struct tt_op_entry e = c->verdicts[tag];

            if (TT_PLANTED(TT_BUG_VERDICT_NOT_UNIFORM) && m->rank % 2)
                e.state = TT_OP_RESTORED;
            tt_elmsg_add_op(&w, &e);
        }
    return tt_elmsg_end(&w);
}

void tt_coord_answer(struct tt_coord *c, struct tt_coord_member *m, struct tt_elmsg *msg)
{
    struct tt_op_entry e;
    uint32_t next = 0;

    if (!tt_coord_is_live(m) || !c->asking || msg->number != c->question || msg->epoch != c->epoch)
        return;
    if (c->decided) {
        tt_coord_send(c, m, write_verdicts(c, m));
        return;
    }
    if (m->answered)
        return;
    m->answered = true;
    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_op(msg, &e);
        if (e.tag < next) {
            tt_coord_lose(c, m, TT_LOSS_ILLEGAL); /* tags rise */
            return;
        }
        next = e.tag + 1u;
        m->said[e.tag / 8] = (uint8_t)(m->said[e.tag / 8] | 1u << e.tag % 8);
        count(&c->tallies[e.tag], &e, m->id);
        merge(&c->verdicts[e.tag], &e);
    }
}

/* Whether everybody who is alive has answered this question. */
static bool is_answered(const struct tt_coord *c)
{
    uint32_t missing = 0, dead = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        missing += tt_coord_is_live(&c->conf.members[i]) && !c->conf.members[i].answered;
        dead += c->conf.members[i].state == TT_COORD_LOST;
    }
    return missing <= (TT_PLANTED(TT_BUG_DEAD_VOTER_COUNTED) ? dead : 0);
}

/* Who had not begun any operation of the tag: it has done none. */
static void count_silent(const struct tt_coord *c, uint32_t tag, struct tt_coord_tally *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_live(m) || m->said[tag / 8] & 1u << tag % 8)
            continue;
        if (n++ == 0 && t->done > 0)
            t->doer = m->id;
    }
    if (n > 0 && t->done > 0) {
        t->ndone[1] = t->done == 1 ? t->ndone[0] : 0;
        t->ndone[0] = 0;
        t->done = 0;
    }
    t->ndone[0] += n;
}

/* NULL: no two answers contradict each other. */
static struct tt_coord_member *find_liar(struct tt_coord *c)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        struct tt_coord_tally t = c->tallies[tag];
        uint32_t knowers, doers;
        bool far;

        if (t.known > 0)
            count_silent(c, tag, &t);
        if (t.known <= t.done)
            continue;
        far = t.known > t.done + 1;
        knowers = t.nknown[0] + (far ? t.nknown[1] : 0);
        doers = t.ndone[0] + (far ? t.ndone[1] : 0);
        if (knowers == doers)
            return tt_coord_member_of(c, t.knower > t.doer ? t.knower : t.doer);
        return tt_coord_member_of(c, knowers > doers ? t.doer : t.knower);
    }
    return NULL;
}

bool tt_coord_judge(struct tt_coord *c)
{
    struct tt_coord_member *liar;
    size_t bytes = 0;

    if (!c->asking || c->decided || !is_answered(c))
        return false;
    liar = find_liar(c);
    if (liar) {
        tt_coord_lose(c, liar, TT_LOSS_ILLEGAL);
        return true;
    }
    c->decided = true;
    for (uint32_t i = 0; i < c->nmembers; i++) {
        if (!tt_coord_is_live(&c->conf.members[i]))
            continue;
        if (bytes == 0 || TT_PLANTED(TT_BUG_VERDICT_NOT_UNIFORM))
            bytes = write_verdicts(c, &c->conf.members[i]);
        tt_coord_send(c, &c->conf.members[i], bytes);
    }
    return true;
}
