/* A packed card: how many bytes it has (16 bits), which whole card it is packed by (a byte; WHOLE: it is whole itself and follows; NEAR: by one that is
 * packed by a whole one, or is whole, and where that begins follows in 32 bits), then pairs of how many bytes are the same and how many differ, a byte
 * each, and those that differ, until all bytes are there. Or, with AGAIN in the second byte, how far before them in this very card they are, too, in a
 * byte: wires of one rank share its host and addresses. */
#include "engine/cards.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define HEAD 3u
#define WHOLE 255u
#define NEAR 254u
#define AGAIN 128u
#define AGAIN_MIN 4u                /* a run that is shorter takes less as it is */
#define FAR 255u                    /* how far before a run may be again, at most */
#define PACKED_MAX (HEAD + sizeof(uint32_t) + 3 * TT_ENGINE_CARD_BYTES)
_Static_assert(TT_CARDS_WHOLE < NEAR, "whole cards are told from what else there is");

tutti_status tt_cards_init(struct tt_cards *c, uint32_t nranks)
{
    *c = (struct tt_cards){ .nranks = nranks, .end = 1 };
    c->at = calloc(nranks, sizeof *c->at);
    return c->at ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address cards of %u ranks", nranks);
}

void tt_cards_fini(struct tt_cards *c)
{
    free(c->at);
    free(c->bytes);
    *c = (struct tt_cards){ .end = 1 };
}

/* How many bytes from the first on are the same in both, or are not. */
static uint32_t run(const uint8_t *a, const uint8_t *b, size_t most, int same)
{
    uint32_t n = 0;

    while (n < most && (a[n] == b[n]) == same)
        n++;
    return n;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* For each byte of card[bytes] how far before it AGAIN_MIN bytes were last that are as those from there on; 0: nowhere near. */
static void find_again(const uint8_t *card, size_t bytes, uint8_t *back)
{
    uint16_t last[256] = { 0 };     /* by hash, from 1 on */

    memset(back, 0, bytes);
    for (size_t at = 0; at + AGAIN_MIN <= bytes; at++) {
        uint32_t word;
        uint16_t *before;

        memcpy(&word, card + at, sizeof word);
        before = &last[word * 2654435761u >> 24];
        if (*before && at + 1 - *before <= FAR && memcmp(card + at, card + *before - 1, AGAIN_MIN) == 0)
            back[at] = (uint8_t)(at + 1 - *before);
        *before = (uint16_t)(at + 1);
    }
}

/* Packs card[bytes], with what find_again found of it, by another, by[TT_ENGINE_CARD_BYTES], into out[PACKED_MAX]; returns how long that is. */
static size_t pack(const uint8_t *card, size_t bytes, const uint8_t *back, const uint8_t *by, uint8_t *out)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes;) {
        const uint32_t same = run(card + at, by + at, least(bytes - at, 255), 1);
        uint32_t differ = 0, most;

        at += same;
        most = run(card + at, by + at, least(bytes - at, AGAIN - 1), 0);
        while (differ < most && !back[at + differ])
            differ++;
        out[n++] = (uint8_t)same;
        if (differ == 0 && most > 0) {
            const uint32_t again = run(card + at, card + at - back[at], least(bytes - at, AGAIN - 1), 1);

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

/* What pack made of a card[bytes], in which there is what it was packed by. */
static void unpack(const uint8_t *pair, uint8_t *card, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const uint32_t n = pair[1] & (AGAIN - 1);

        at += pair[0];
        if (pair[1] & AGAIN) {
            for (uint32_t i = 0; i < n; i++)        /* it may reach into itself */
                card[at + i] = card[at + i - pair[2]];
            pair += 3;
        } else {
            memcpy(card + at, pair + 2, n);
            pair += 2 + n;
        }
        at += n;
    }
}

static tutti_status reserve(struct tt_cards *c, size_t more)
{
    const uint64_t need = (uint64_t)c->end + more;
    const uint64_t cap = need > 2ull * c->cap ? need : 2ull * c->cap;
    uint8_t *bytes;

    if (need <= c->cap)
        return TUTTI_OK;
    bytes = cap <= UINT32_MAX ? realloc(c->bytes, cap) : NULL;
    if (!bytes)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the address cards of %u ranks", c->nranks);
    c->bytes = bytes;
    c->cap = (uint32_t)cap;
    return TUTTI_OK;
}

/* The card whose packed form begins there. */
static size_t get_at(const struct tt_cards *c, uint32_t begin, uint8_t *card)
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
        get_at(c, by, card);
        unpack(pair, card, bytes);
    }
    memset(card + bytes, 0, TT_ENGINE_CARD_BYTES - bytes);
    return bytes;
}

tutti_status tt_cards_put(struct tt_cards *c, uint32_t rank, const void *card, size_t bytes)
{
    uint8_t by[TT_ENGINE_CARD_BYTES], back[TT_ENGINE_CARD_BYTES], packed[PACKED_MAX], best[PACKED_MAX];
    size_t n = bytes;
    uint32_t which = WHOLE;
    tutti_status st;
    uint8_t *to;

    tt_assert(rank < c->nranks && bytes <= TT_ENGINE_CARD_BYTES);
    memcpy(best, card, bytes);
    find_again(card, bytes, back);
    for (uint32_t i = 0; i < c->nwhole; i++) {
        size_t m;

        get_at(c, c->whole[i], by);
        m = pack(card, bytes, back, by, packed);
        if (m >= n)
            continue;
        n = m;
        which = i;
        memcpy(best, packed, m);
    }
    if (c->near) {
        size_t m;

        get_at(c, c->near, by);
        memcpy(packed, &c->near, sizeof c->near);
        m = sizeof c->near + pack(card, bytes, back, by, packed + sizeof c->near);
        if (m < n) {
            n = m;
            which = NEAR;
            memcpy(best, packed, m);
        }
    }
    if (2 * n > bytes && c->nwhole < TT_CARDS_WHOLE) {      /* little in common: others may have more with it */
        n = bytes;
        which = WHOLE;
        memcpy(best, card, bytes);
    }
    st = reserve(c, HEAD + n);
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
        return get_at(c, c->at[rank], card);
    memset(card, 0, TT_ENGINE_CARD_BYTES);
    return 0;
}

uint64_t tt_cards_bytes(const struct tt_cards *c)
{
    return c->nranks * sizeof *c->at + c->cap;
}
