/* When a member of the view is lost, operations that were open cannot be finished by those who are left alone: some may have their result,
 * others not. So all stop and say where they stand in each. If anybody who is left has had an operation's result confirmed (FINAL), then all
 * had completed it before, and all keep theirs; if anybody has SETTLED one, its result is told to those who lack it; else all restore. What a member said that was lost afterwards does not count: each
 * loss asks anew. Of a tag the operations up to one are final, so that one is the verdict.
 *
 * Who leaves in order says at once what is FINAL there (LEAVE): nobody asks it any more. Its word counts, as far as all that are left have
 * completed as much; by more it would cost others what is theirs, and it is gone.
 *
 * Answers may contradict each other: one says that all have completed an operation, or that it has SETTLED it, so that all have begun it; and another one that it has not. Then one lies. It is the one
 * that more contradict, of two the newer, and it is lost; so an answer costs its sender, and not those who tell the truth. */
#include <string.h>
#include "base/status.h"
#include "elastic/coord_state.h"
#include "elastic/planted.h"

static size_t write_lost(struct tt_coord *c)
{
    const bool apart = c->revocation == TT_REVOKED_APART;
    struct tt_elmsg msg = { .kind = TT_ELMSG_LOST, .what = c->revocation, .epoch = c->epoch, .number = c->question };
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

/* The last that it has completed itself, and not restored. */
static uint64_t done_by(const struct tt_op_entry *e)
{
    if (e->state == TT_OP_RESTORED)
        return e->before == TT_BEFORE_SETTLED ? e->n - 1 : tt_op_known(e);
    return e->state == TT_OP_PENDING ? e->n - 1 : e->n;
}

/* The last that it has begun, and not restored. */
static uint64_t begun_by(const struct tt_op_entry *e)
{
    return e->state == TT_OP_RESTORED ? done_by(e) : e->n;
}

/* What anybody knows to be final is; whoever knows has the news that came with it. What anybody has settled stands, too, and all get it: it is
 * the last one then, for nobody can complete another one before all have it. Where somebody knows it to be final, it is told as that: who says that it has settled it
 * may lie. */
static void merge(struct tt_op_entry *verdict, uint8_t result[TT_SETTLED_BYTES], const struct tt_op_entry *e)
{
    const uint64_t known = tt_op_known(e), settled = TT_PLANTED(TT_BUG_SETTLED_IGNORED) ? 0 : tt_op_settled(e);

    if (known > verdict->n || (known == verdict->n && verdict->state == TT_OP_SETTLED))
        *verdict = (struct tt_op_entry){ .state = TT_OP_FINAL, .tag = e->tag, .n = known, .news = e->news };
    if (settled <= verdict->n)
        return;
    *verdict = *e;
    verdict->state = TT_OP_SETTLED;
    verdict->before = TT_BEFORE_FINAL;
    verdict->n = settled;
    verdict->result = memcpy(result, e->result, e->nresult);
}

void tt_coord_take_words(struct tt_coord *c, struct tt_elmsg *msg)
{
    struct tt_op_entry e;

    for (uint32_t i = 0; i < msg->nlist; i++) {
        tt_elmsg_next_op(msg, &e);
        merge(&c->words[e.tag], c->word_results[e.tag], &e);
    }
}

/* What was counted from one number on is counted from another that is `by` away. */
static void shift(uint32_t n[TT_COORD_CLAIMS_SPAN], uint64_t by)
{
    for (uint32_t i = TT_COORD_CLAIMS_SPAN; i > 0; i--)
        n[i - 1] = i - 1 >= by ? n[i - 1 - by] : 0;
}

static void count_claim(struct tt_coord_claims *c, uint64_t claimed, uint64_t id, bool first)
{
    if (first || claimed > c->claimed) {
        shift(c->nclaimed, claimed - c->claimed);
        c->claimed = claimed;
        c->claimer = id;
    }
    if (c->claimed - claimed < TT_COORD_CLAIMS_SPAN)
        c->nclaimed[c->claimed - claimed]++;
}

static void count_said(struct tt_coord_claims *c, uint64_t said, uint64_t id, bool first)
{
    if (first || said < c->said) {
        shift(c->nsaid, c->said - said);
        c->said = said;
        c->sayer = id;
    }
    if (said - c->said < TT_COORD_CLAIMS_SPAN)
        c->nsaid[said - c->said]++;
}

static void count(struct tt_coord_tally *t, const struct tt_op_entry *e, uint64_t id)
{
    const bool first = t->entries++ == 0;

    count_claim(&t->completed, tt_op_known(e), id, first);
    count_said(&t->completed, done_by(e), id, first);
    count_claim(&t->begun, tt_op_settled(e), id, first);
    count_said(&t->begun, begun_by(e), id, first);
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
                e.state = TT_OP_RESTORED; /* up to the one before it */
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
        merge(&c->verdicts[e.tag], c->verdict_results[e.tag], &e);
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

/* Who had not begun any operation of the tag. */
static void count_silent(const struct tt_coord *c, uint32_t tag, struct tt_coord_tally *t)
{
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_live(m) && !(m->said[tag / 8] & 1u << tag % 8)) {
            count_said(&t->completed, 0, m->id, t->entries == 0);
            count_said(&t->begun, 0, m->id, t->entries == 0);
        }
    }
}

/* Which of two whose words contradict each other; 0: none do. */
static uint64_t find_liar_of(const struct tt_coord_claims *c)
{
    uint32_t nclaim = 0, nsay = 0;

    if (c->claimed <= c->said)
        return 0;
    for (uint32_t i = 0; i < TT_COORD_CLAIMS_SPAN && i < c->claimed - c->said; i++) {
        nclaim += c->nclaimed[i];
        nsay += c->nsaid[i];
    }
    if (nclaim == nsay)
        return c->claimer > c->sayer ? c->claimer : c->sayer;
    return nclaim > nsay ? c->sayer : c->claimer;
}

/* NULL: no two answers contradict each other. */
static struct tt_coord_member *find_liar(struct tt_coord *c)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        struct tt_coord_tally t = c->tallies[tag];
        uint64_t id;

        if (t.completed.claimed > 0 || t.begun.claimed > 0)
            count_silent(c, tag, &t);
        id = find_liar_of(&t.completed);
        if (id == 0)
            id = find_liar_of(&t.begun);
        if (id != 0)
            return tt_coord_member_of(c, id);
    }
    return NULL;
}

/* What is final by the words of who left, too; what they settled, where all that are left have begun it, and not restored. */
static void add_words(struct tt_coord *c)
{
    for (uint32_t tag = 0; tag < TT_ELASTIC_TAGS; tag++) {
        const struct tt_op_entry *word = &c->words[tag];
        struct tt_coord_tally t = c->tallies[tag];

        if (word->n == 0 || TT_PLANTED(TT_BUG_WORDS_IGNORED))
            continue;
        count_silent(c, tag, &t);
        if (word->n <= (word->state == TT_OP_SETTLED ? t.begun.said : t.completed.said))
            merge(&c->verdicts[tag], c->verdict_results[tag], word);
    }
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
    add_words(c);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        if (!tt_coord_is_live(&c->conf.members[i]))
            continue;
        if (bytes == 0 || TT_PLANTED(TT_BUG_VERDICT_NOT_UNIFORM))
            bytes = write_verdicts(c, &c->conf.members[i]);
        tt_coord_send(c, &c->conf.members[i], bytes);
    }
    return true;
}
