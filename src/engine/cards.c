/* Format of a packed card:
 *   bytes   16 bits: size of the unpacked card
 *   base    8 bits: index of the whole card it is a difference to; or
 *           WHOLE: the card follows unpacked; or
 *           NEAR: the base is another recent card, whose position follows in 32 bits
 *   pairs   until all bytes are covered: number of equal bytes, number of different bytes (8 bits
 *           each), then the different bytes
 * With the flag AGAIN in its second byte, a pair refers to earlier bytes of the same card: 8
 * bits with the distance follow instead of the bytes. This is frequent, since the wires of one
 * rank share its host and addresses. */
#include "engine/cards.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define HEAD 3u
#define WHOLE 255u
#define NEAR 254u
#define AGAIN 128u
/* minimum length of a back reference: shorter ones save nothing */
#define AGAIN_MIN 4u
#define FAR 255u                    /* maximum distance of a back reference */
#define PACKED_MAX (HEAD + sizeof(uint32_t) + 3 * TT_ENGINE_CARD_BYTES)
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

/* Returns the length of the common prefix (same = 1), or of the prefix that differs in every
 * byte. */
static uint32_t run_length(const uint8_t *a, const uint8_t *b, size_t most, int same)
{
    uint32_t n = 0;

    while (n < most && (a[n] == b[n]) == same)
        n++;
    return n;
}

static size_t min_bytes(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Sets back[i] to the distance of the last earlier occurrence of the AGAIN_MIN bytes at card[i],
 * or to 0 if there is none within FAR. */
static void find_repeats(const uint8_t *card, size_t bytes, uint8_t *back)
{
    uint16_t last[256] = { 0 };     /* by hash; position + 1 */

    memset(back, 0, bytes);
    for (size_t at = 0; at + AGAIN_MIN <= bytes; at++) {
        uint32_t word;
        uint16_t *before;

        memcpy(&word, card + at, sizeof word);
        before = &last[word * 2654435761u >> 24];
        if (*before && at + 1 - *before <= FAR &&
            memcmp(card + at, card + *before - 1, AGAIN_MIN) == 0)
            back[at] = (uint8_t)(at + 1 - *before);
        *before = (uint16_t)(at + 1);
    }
}

/* Packs card[bytes] as a difference to by[TT_ENGINE_CARD_BYTES] into out[PACKED_MAX]. back: from
 * find_again. Returns the packed size. */
static size_t card_pack(const uint8_t *card, size_t bytes, const uint8_t *back, const uint8_t *by,
                        uint8_t *out)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes;) {
        const uint32_t same = run_length(card + at, by + at, min_bytes(bytes - at, 255), 1);
        uint32_t differ = 0, most;

        at += same;
        most = run_length(card + at, by + at, min_bytes(bytes - at, AGAIN - 1), 0);
        while (differ < most && !back[at + differ])
            differ++;
        out[n++] = (uint8_t)same;
        if (differ == 0 && most > 0) {
            const uint32_t again =
                run_length(card + at, card + at - back[at], min_bytes(bytes - at, AGAIN - 1), 1);

            out[n++] = (uint8_t)(AGAIN | again);
            out[n++] = back[at];
            at += again;
        } else {
            out[n++] = (uint8_t)differ;
            memcpy(out + n, card + at, differ);
            n += differ;
            at += differ;
        }
    }
    return n;
}

/* Unpacks into card[bytes], which must contain the base card. */
static void card_unpack(const uint8_t *pair, uint8_t *card, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const uint32_t n = pair[1] & (AGAIN - 1);

        at += pair[0];
        if (pair[1] & AGAIN) {
            for (uint32_t i = 0; i < n; i++)        /* source and target may overlap */
                card[at + i] = card[at + i - pair[2]];
            pair += 3;
        } else {
            memcpy(card + at, pair + 2, n);
            pair += 2 + n;
        }
        at += n;
    }
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

        if (from[2] == NEAR) {
            memcpy(&by, pair, sizeof by);
            pair += sizeof by;
        }
        card_get_at(c, by, card);
        card_unpack(pair, card, bytes);
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
    find_repeats(card, bytes, back);
    for (uint32_t i = 0; i < c->nwhole; i++) {
        size_t m;

        card_get_at(c, c->whole[i], by);
        m = card_pack(card, bytes, back, by, packed);
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
        m = sizeof c->near + card_pack(card, bytes, back, by, packed + sizeof c->near);
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
