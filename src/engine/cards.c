/* Format of a packed card:
 *   bytes   16 bits: size of the unpacked card
 *   base    8 bits: index of the whole card it is a difference to; or
 *           WHOLE: the card follows unpacked; or
 *           NEAR: the base is another recent card, whose position follows in 32 bits
 *   delta   base/delta.h */
#include "engine/cards.h"

#include <stdlib.h>
#include <string.h>

#include "base/delta.h"
#include "base/status.h"

#define HEAD 3u
#define WHOLE 255u
#define NEAR 254u
#define PACKED_MAX (HEAD + sizeof(uint32_t) + TT_DELTA_MAX(TT_ENGINE_CARD_BYTES))
_Static_assert(TT_CARDS_WHOLE < NEAR, "indices of whole cards differ from WHOLE and NEAR");

tutti_status tt_cards_init(struct tt_cards *c, uint32_t nranks)
{
    *c = (struct tt_cards){ .nranks = nranks, .end = 1 };
    c->at = calloc(nranks, sizeof *c->at);
    return c->at ? TUTTI_OK
                 : tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address records of %u ranks",
                           nranks);
}

void tt_cards_fini(struct tt_cards *c)
{
    free(c->at);
    free(c->bytes);
    *c = (struct tt_cards){ .end = 1 };
}

static tutti_status cards_reserve(struct tt_cards *c, size_t more)
{
    const uint64_t need = (uint64_t)c->end + more;
    const uint64_t cap = need > 2ull * c->cap ? need : 2ull * c->cap;
    uint8_t *bytes;

    if (need <= c->cap)
        return TUTTI_OK;
    bytes = cap <= UINT32_MAX ? realloc(c->bytes, cap) : NULL;
    if (!bytes)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address records of %u ranks",
                       c->nranks);
    c->bytes = bytes;
    c->cap = (uint32_t)cap;
    return TUTTI_OK;
}

/* Unpacks the card at this position. */
static size_t card_get_at(const struct tt_cards *c, uint32_t begin, uint8_t *card)
{
    const uint8_t *from = c->bytes + begin;
    const size_t bytes = from[0] | (size_t)from[1] << 8;

    if (from[2] == WHOLE) {
        memcpy(card, from + HEAD, bytes);
    } else {
        const uint8_t *pair = from + HEAD;
        uint32_t by = from[2] == NEAR ? 0 : c->whole[from[2]];
        struct tt_reader r;

        if (from[2] == NEAR) {
            memcpy(&by, pair, sizeof by);
            pair += sizeof by;
        }
        card_get_at(c, by, card);
        tt_reader_init(&r, pair, (size_t)(c->bytes + c->end - pair));
        tt_delta_unpack(&r, card, bytes);
        tt_assert(!r.bad);
    }
    memset(card + bytes, 0, TT_ENGINE_CARD_BYTES - bytes);
    return bytes;
}

tutti_status tt_cards_put(struct tt_cards *c, uint32_t rank, const void *card, size_t bytes)
{
    uint8_t by[TT_ENGINE_CARD_BYTES], back[TT_ENGINE_CARD_BYTES], packed[PACKED_MAX],
        best[PACKED_MAX];
    size_t n = bytes;
    uint32_t which = WHOLE;
    tutti_status st;
    uint8_t *to;

    tt_assert(rank < c->nranks && bytes <= TT_ENGINE_CARD_BYTES);
    memcpy(best, card, bytes);
    tt_delta_repeats(card, bytes, back);
    for (uint32_t i = 0; i < c->nwhole; i++) {
        size_t m;

        card_get_at(c, c->whole[i], by);
        m = tt_delta_pack(card, bytes, back, by, packed);
        if (m >= n)
            continue;
        n = m;
        which = i;
        memcpy(best, packed, m);
    }
    if (c->near) {
        size_t m;

        card_get_at(c, c->near, by);
        memcpy(packed, &c->near, sizeof c->near);
        m = sizeof c->near + tt_delta_pack(card, bytes, back, by, packed + sizeof c->near);
        if (m < n) {
            n = m;
            which = NEAR;
            memcpy(best, packed, m);
        }
    }
    /* little in common: keep it whole, as a base for similar cards */
    if (2 * n > bytes && c->nwhole < TT_CARDS_WHOLE) {
        n = bytes;
        which = WHOLE;
        memcpy(best, card, bytes);
    }
    st = cards_reserve(c, HEAD + n);
    if (st)
        return st;
    if (which == WHOLE && c->nwhole < TT_CARDS_WHOLE)
        c->whole[c->nwhole++] = c->end;
    to = c->bytes + c->end;
    to[0] = (uint8_t)bytes;
    to[1] = (uint8_t)(bytes >> 8);
    to[2] = (uint8_t)which;
    memcpy(to + HEAD, best, n);
    c->at[rank] = c->end;
    if (which != NEAR)
        c->near = c->end;
    c->end += (uint32_t)(HEAD + n);
    return TUTTI_OK;
}

void tt_cards_settle(struct tt_cards *c)
{
    uint8_t *bytes = realloc(c->bytes, c->end);

    if (!bytes)
        return;
    c->bytes = bytes;
    c->cap = c->end;
}

size_t tt_cards_get(const struct tt_cards *c, uint32_t rank, uint8_t *card)
{
    if (c->at[rank])
        return card_get_at(c, c->at[rank], card);
    memset(card, 0, TT_ENGINE_CARD_BYTES);
    return 0;
}

uint64_t tt_cards_bytes(const struct tt_cards *c)
{
    return c->nranks * sizeof *c->at + c->cap;
}
