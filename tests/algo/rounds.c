#include "rounds.h"

void round_emit(struct round_steps *out, const struct tt_algo *algo, const struct tt_coll *c,
                uint64_t k)
{
    out->s = (struct tt_sched){ .steps = out->step, .cap = TT_ROUND_STEPS_MAX };
    algo->round(&out->s, c, k);
}

static bool has(const struct round_steps *round, enum tt_opcode opcode, uint32_t peer, uint32_t tag,
                uint64_t bytes)
{
    for (uint32_t i = 0; i < round->s.n; i++) {
        const struct tt_step *s = &round->step[i];

        if (s->opcode == opcode && s->peer == peer && s->tag == tag && s->bytes == bytes)
            return true;
    }
    return false;
}

/* Returns whether pipe `name` is read after step i of the round. */
static bool is_read(const struct round_steps *round, uint32_t i, uint64_t name)
{
    while (++i < round->s.n) {
        const struct tt_step *s = &round->step[i];

        if (s->opcode != TT_WAIT && s->a.buf == TT_BUF_PIPE && s->a.offset == name)
            return true;
        if (s->opcode == TT_REDUCE_STEP && s->b.buf == TT_BUF_PIPE && s->b.offset == name)
            return true;
    }
    return false;
}

const char *round_flaw(const struct round_steps *rounds, uint32_t rank, bool puts_first)
{
    const struct round_steps *mine = &rounds[rank];
    bool waited = false;

    for (uint32_t i = 0; i < mine->s.n; i++) {
        const struct tt_step *s = &mine->step[i];

        if (s->opcode == TT_PUT && waited && puts_first)
            return "puts after it waits";
        waited = waited || s->opcode == TT_WAIT;
        if (s->opcode == TT_PUT && !has(&rounds[s->peer], TT_WAIT, rank, s->tag, s->bytes))
            return "has a put whose wait is in another";
        if (s->opcode == TT_WAIT && !has(&rounds[s->peer], TT_PUT, rank, s->tag, s->bytes))
            return "has a wait whose put is in another";
        if (s->opcode != TT_PUT && s->bytes && s->out.buf == TT_BUF_PIPE &&
            !is_read(mine, i, s->out.offset))
            return "has a pipe that is not read in it";
    }
    return NULL;
}
