/* Choice of the state that wins among the offers of a scope's members: the most common content
 * at the legal revision. */
#include "elastic/coord_state.h"

static bool is_willing(const struct tt_coord_member *m)
{
    return m->strategy != TT_SYNC_RECEIVE;
}

bool tt_coord_is_candidate(const struct tt_coord_scope *s, const struct tt_coord_choice *choice,
                           const struct tt_coord_member *m)
{
    return is_willing(m) && m->value == choice->legal && tt_hash_equal(&m->keys, &choice->keys) &&
           (!choice->cohort || tt_hash_equal(&m->hash, &s->hash));
}

/* Returns whether any member is willing to send, and sets the common properties: fresh, cohort. */
static bool choose_common(const struct tt_coord *c, const struct tt_coord_scope *s,
                          struct tt_coord_choice *choice)
{
    bool some = false, instead = true, incumbents = false;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (!tt_coord_is_in(m, tt_coord_scope_index(c, s)))
            continue;
        incumbents |= (m->synced & tt_coord_scope_bit(tt_coord_scope_index(c, s))) != 0;
        some |= is_willing(m);
        instead &= !is_willing(m) || m->flags & TT_OFFER_INSTEAD;
    }
    choice->fresh = !s->known || (some && instead);
    choice->cohort = !choice->fresh && !incumbents;
    return some;
}

/* Finds the most common keys of the willing members (choice NULL), or the most common content of
 * the candidates. On a tie, that of the oldest member wins. False: none. */
static bool most_common(const struct tt_coord *c, const struct tt_coord_scope *s,
                        const struct tt_coord_choice *choice, struct tt_hash *out)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *a = &c->conf.members[i];
        const struct tt_hash *mine = choice ? &a->hash : &a->keys;
        uint32_t n = 0;

        if (!tt_coord_is_in(a, tt_coord_scope_index(c, s)) ||
            !(choice ? tt_coord_is_candidate(s, choice, a) : is_willing(a)) ||
            (best > 0 && tt_hash_equal(mine, out)))
            continue;
        for (uint32_t k = i; k < c->nmembers; k++) {
            const struct tt_coord_member *b = &c->conf.members[k];

            n += tt_coord_is_in(b, tt_coord_scope_index(c, s)) &&
                 (choice ? tt_coord_is_candidate(s, choice, b) : is_willing(b)) &&
                 tt_hash_equal(mine, choice ? &b->hash : &b->keys);
        }
        if (n > best) {
            best = n;
            *out = *mine;
        }
    }
    return best > 0;
}

/* Returns the highest revision that willing members offer with these keys. */
static uint64_t highest_revision(const struct tt_coord *c, const struct tt_coord_scope *s,
                                 const struct tt_coord_choice *choice)
{
    uint64_t revision = 0;

    for (uint32_t i = 0; i < c->nmembers; i++) {
        const struct tt_coord_member *m = &c->conf.members[i];

        if (tt_coord_is_in(m, tt_coord_scope_index(c, s)) && is_willing(m) &&
            tt_hash_equal(&m->keys, &choice->keys) && m->value > revision)
            revision = m->value;
    }
    return revision;
}

/* Returns whether a member of the scope offers these keys. */
static bool has_keys(const struct tt_coord *c, const struct tt_coord_scope *s,
                     const struct tt_hash *keys)
{
    for (uint32_t i = 0; i < c->nmembers; i++)
        if (tt_coord_is_in(&c->conf.members[i], tt_coord_scope_index(c, s)) &&
            tt_hash_equal(&c->conf.members[i].keys, keys))
            return true;
    return false;
}

uint8_t tt_coord_choose_state(const struct tt_coord *c, struct tt_coord_scope *s,
                              struct tt_coord_choice *choice)
{
    const bool willing = choose_common(c, s, choice);
    struct tt_hash won;

    choice->keys = s->keys;
    if (choice->fresh && !most_common(c, s, NULL, &choice->keys))
        return TT_ROUND_NOBODY;
    choice->legal = choice->fresh    ? highest_revision(c, s, choice)
                    : choice->cohort ? s->revision
                                     : s->revision + 1;
    if (!has_keys(c, s, &choice->keys))
        return TT_ROUND_OTHER_STATE;
    if (!most_common(c, s, choice, &won))
        return choice->cohort && willing ? TT_ROUND_OTHER_STATE : TT_ROUND_NOBODY;
    s->next_revision = choice->legal;
    s->next_keys = choice->keys;
    s->next_hash = won;
    return TT_ROUND_OK;
}
