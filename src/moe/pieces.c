#include "moe/pieces.h"

#include <string.h>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/status.h"
#include "reduce/reduce.h"

tutti_status tt_pieces_shape_take(struct tt_pieces_shape *out, uint32_t nranks, tutti_dtype type,
                                  size_t nsplits, size_t max_length, size_t max_total,
                                  const char *call)
{
    const size_t elem = tutti_dtype_bytes(type);
    uint64_t bytes;

    if (!elem)
        return tt_fail(TUTTI_ERR_INVALID, "%s: invalid type %d", call, (int)type);
    if (nsplits < 1 || nsplits > TT_PIECES_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: nsplits is %zu: must be 1 to %u", call, nsplits,
                       TT_PIECES_MAX);
    if (max_length > TT_PIECE_LENGTH_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "%s: max_length is %zu: the maximum is 2^40", call,
                       max_length);
    if (max_total == 0)
        max_total = nsplits * max_length;
    if (!tt_bytes_of(max_total, (uint64_t)elem * nranks, &bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: max_total of %zu elements does not fit in the address space", call,
                       max_total);
    *out = (struct tt_pieces_shape){
        .nranks = nranks,
        .nsplits = (uint32_t)nsplits,
        .elem_bytes = (uint32_t)elem,
        .max_length = max_length,
        .max_total = max_total,
    };
    return TUTTI_OK;
}

uint32_t tt_pieces_width(const struct tt_pieces_shape *s)
{
    return s->max_length < 1u << 8      ? 1
           : s->max_length < 1u << 16   ? 2
           : s->max_length < 1ull << 32 ? 4
                                        : 8;
}

size_t tt_pieces_requested_bytes(const struct tt_pieces_shape *s)
{
    return (s->nsplits + 7) / 8;
}

size_t tt_pieces_head_bytes(const struct tt_pieces_shape *s)
{
    return TT_HEAD_BYTES + (size_t)s->nsplits * tt_pieces_width(s) +
           (s->to_all ? s->nranks : 1) * tt_pieces_requested_bytes(s);
}

static bool is_requested(const uint8_t *wanted, uint32_t i)
{
    return !wanted || (wanted[i / 8] >> i % 8 & 1);
}

/* ---- the caller's lists ---------------------------------------------------------------------- */

static bool set_flaw(struct tt_head *h, enum tt_flaw flaw, uint64_t at, uint64_t value)
{
    h->flaw = (uint8_t)flaw;
    h->at = at;
    h->value = value;
    return false;
}

/* Reads the lengths. False: invalid; the flaw is set. */
static bool read_lengths(const struct tt_pieces_shape *s, const tutti_dynamic *what,
                         uint64_t *lengths, struct tt_head *h)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < s->nsplits; i++) {
        lengths[i] = what->split_lengths[i];
        if (lengths[i] > s->max_length)
            return set_flaw(h, TT_FLAW_LENGTH, i, lengths[i]);
        total += lengths[i];        /* cannot overflow: at most 2^16 * 2^40 */
    }
    return total <= s->max_total || set_flaw(h, TT_FLAW_TOTAL, 0, total);
}

/* Sums the numbers of indices. False: invalid; the flaw is set. */
static bool sum_indices(const struct tt_pieces_shape *s, const tutti_dynamic *what,
                        struct tt_head *h)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < s->nranks; r++)
        if (__builtin_add_overflow(sum, (uint64_t)what->index_block_lens[r], &sum))
            return set_flaw(h, TT_FLAW_SUM, UINT64_MAX, what->nindices ? *what->nindices : 0);
    if (what->nindices && *what->nindices != sum)
        return set_flaw(h, TT_FLAW_SUM, sum, *what->nindices);
    if (sum > 0 && !what->indices)
        return set_flaw(h, TT_FLAW_SUM, sum, 0);
    return tt_array_can_be(what->indices, sum, sizeof *what->indices) ||
           set_flaw(h, TT_FLAW_SPACE, TT_SPACE_INDICES, sum);
}

void tt_pieces_read(const struct tt_pieces_shape *s, const tutti_dynamic *what, uint64_t *lengths,
                    uint8_t *wanted, struct tt_head *head)
{
    const size_t bytes = tt_pieces_requested_bytes(s);
    uint64_t at = 0;

    *head = (struct tt_head){ .flaw = TT_FLAW_NONE };
    memset(wanted, 0, s->nranks * bytes);
    if (!read_lengths(s, what, lengths, head) || !sum_indices(s, what, head))
        return;
    for (uint32_t r = 0; r < s->nranks; r++)
        for (const uint64_t end = at + what->index_block_lens[r]; at < end; at++) {
            const size_t i = what->indices[at];

            if (i >= s->nsplits) {
                set_flaw(head, TT_FLAW_INDEX, at, i);
                return;
            }
            wanted[r * bytes + i / 8] |= (uint8_t)(1u << i % 8);
        }
}

void tt_pieces_read_src(const struct tt_pieces_shape *s, const tutti_dynamic *what,
                        const uint64_t *lengths, struct tt_head *head)
{
    const uint64_t total = tt_pieces_total(s, lengths, NULL);

    if (total && !what->sendbuff)
        set_flaw(head, TT_FLAW_NULL, 0, total);
    else if (!tt_array_can_be(what->sendbuff, total, s->elem_bytes))
        set_flaw(head, TT_FLAW_SPACE, TT_SPACE_SENDBUFF, total);
}

/* ---- derived values -------------------------------------------------------------------------- */

uint64_t tt_pieces_total(const struct tt_pieces_shape *s, const uint64_t *lengths,
                         const uint8_t *wanted)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < s->nsplits; i++)
        total += is_requested(wanted, i) ? lengths[i] : 0;
    return total;
}

uint64_t tt_pieces_stretches(const struct tt_pieces_shape *s, const uint64_t *lengths,
                             const uint8_t *wanted, struct tt_stretch *out)
{
    uint64_t n = 0, at = 0, end = UINT64_MAX;

    for (uint32_t i = 0; i < s->nsplits; at += lengths[i] * s->elem_bytes, i++) {
        const uint64_t bytes = lengths[i] * s->elem_bytes;

        if (!bytes || !is_requested(wanted, i))
            continue;
        if (at != end && out)
            out[n] = (struct tt_stretch){ .offset = at };
        n += at != end;
        if (out)
            out[n - 1].bytes += bytes;
        end = at + bytes;
    }
    return n;
}

void tt_pieces_unpack(const struct tt_pieces_shape *s, const uint64_t *lengths,
                      const uint8_t *wanted, const uint8_t *pieces, void *dst)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < s->nsplits; at += lengths[i] * s->elem_bytes, i++) {
        const uint64_t bytes = lengths[i] * s->elem_bytes;

        if (!bytes || !is_requested(wanted, i))
            continue;
        tt_copy((uint8_t *)dst + at, NULL, pieces, bytes, false);
        pieces += bytes;
    }
}

/* ---- heads ----------------------------------------------------------------------------------- */

static void write_length(struct tt_writer *w, uint32_t width, uint64_t v)
{
    if (width == 1)
        tt_write_u8(w, (uint8_t)v);
    else if (width == 2)
        tt_write_u16(w, (uint16_t)v);
    else if (width == 4)
        tt_write_u32(w, (uint32_t)v);
    else
        tt_write_u64(w, v);
}

static uint64_t read_length(struct tt_reader *r, uint32_t width)
{
    return width == 1   ? tt_read_u8(r)
           : width == 2 ? tt_read_u16(r)
           : width == 4 ? tt_read_u32(r)
                        : tt_read_u64(r);
}

size_t tt_head_write(const struct tt_pieces_shape *s, const struct tt_head *h,
                     const uint64_t *lengths, const uint8_t *wanted, const void *src, uint8_t *out)
{
    const uint32_t width = tt_pieces_width(s);
    const size_t bytes = tt_pieces_head_bytes(s);
    uint8_t *to = out + bytes;
    struct tt_writer w;
    uint64_t at = 0;

    tt_writer_init(&w, out, bytes);
    tt_write_u8(&w, h->flaw);
    tt_write_u8(&w, h->packed);
    tt_write_u8(&w, (uint8_t)width);
    tt_write_u8(&w, 0);
    tt_write_u32(&w, h->most);
    tt_write_u64(&w, h->at);
    tt_write_u64(&w, h->value);
    if (h->flaw) {
        memset(w.at, 0, bytes - tt_writer_bytes(&w));
        return bytes;
    }
    for (uint32_t i = 0; i < s->nsplits; i++)
        write_length(&w, width, lengths[i]);
    tt_write_bytes(&w, wanted, bytes - tt_writer_bytes(&w));
    for (uint32_t i = 0; h->packed && i < s->nsplits; at += lengths[i] * s->elem_bytes, i++) {
        const uint64_t n = lengths[i] * s->elem_bytes;

        if (!n || !is_requested(wanted, i))
            continue;
        tt_copy(to, NULL, (const uint8_t *)src + at, n, false);
        to += n;
    }
    return (size_t)(to - out);
}

/* Returns whether a head's flaw has permitted values. */
static bool flaw_is_valid(const struct tt_pieces_shape *s, const struct tt_head *h)
{
    switch ((enum tt_flaw)h->flaw) {
    case TT_FLAW_LENGTH:
        return h->at < s->nsplits && h->value > s->max_length;
    case TT_FLAW_TOTAL:
        return h->value > s->max_total;
    case TT_FLAW_SUM:
        return h->at != h->value;
    case TT_FLAW_INDEX:
        return h->value >= s->nsplits;
    case TT_FLAW_OVERLAP:
        return h->at < s->nranks;
    case TT_FLAW_NULL:
        return h->value > 0;
    case TT_FLAW_SPACE:
        return h->at <= TT_SPACE_SENDBUFF && h->value > 0;
    default:
        return false;
    }
}

bool tt_head_read(const struct tt_pieces_shape *s, const uint8_t *data, size_t bytes,
                  struct tt_head *h, uint64_t *lengths, const uint8_t **wanted,
                  const uint8_t **pieces)
{
    const uint32_t width = tt_pieces_width(s);
    uint8_t packed, said_width, zero;
    struct tt_reader r;

    memset(lengths, 0, s->nsplits * sizeof *lengths);
    if (bytes < tt_pieces_head_bytes(s))
        return false;
    tt_reader_init(&r, data, tt_pieces_head_bytes(s));
    h->flaw = tt_read_u8(&r);
    packed = tt_read_u8(&r);
    said_width = tt_read_u8(&r);
    zero = tt_read_u8(&r);
    h->packed = packed;
    h->most = tt_read_u32(&r);
    h->at = tt_read_u64(&r);
    h->value = tt_read_u64(&r);
    if (packed > !s->to_all || said_width != width || zero || h->most > (s->nsplits + 1) / 2)
        return false;
    *wanted = data + TT_HEAD_BYTES + (size_t)s->nsplits * width +
              (s->to_all ? s->rank : 0) * tt_pieces_requested_bytes(s);
    *pieces = data + tt_pieces_head_bytes(s);
    if (h->flaw)
        return !packed && flaw_is_valid(s, h);
    for (uint32_t i = 0; i < s->nsplits; i++) {
        lengths[i] = read_length(&r, width);
        if (lengths[i] > s->max_length)
            return false;
    }
    if (tt_pieces_total(s, lengths, NULL) > s->max_total ||
        (s->nsplits % 8 && (*wanted)[s->nsplits / 8] >> s->nsplits % 8))
        return false;
    if (!packed)
        return tt_pieces_stretches(s, lengths, *wanted, NULL) <= h->most;
    return bytes - tt_pieces_head_bytes(s) >= tt_pieces_total(s, lengths, *wanted) * s->elem_bytes;
}

tutti_status tt_head_status(const struct tt_pieces_shape *s, const struct tt_head *h, uint32_t rank,
                            const char *call)
{
    const unsigned long long at = h->at, value = h->value;

    switch ((enum tt_flaw)h->flaw) {
    case TT_FLAW_LENGTH:
        return tt_fail(TUTTI_ERR_RANGE,
                       "%s: split_lengths[%llu] of rank %u is %llu, but max_length is %llu", call,
                       at, rank, value, (unsigned long long)s->max_length);
    case TT_FLAW_TOTAL:
        return tt_fail(TUTTI_ERR_RANGE,
                       "%s: the pieces of rank %u have %llu element%s in total, but max_total is "
                       "%llu",
                       call, rank, value, TT_PLURAL(value), (unsigned long long)s->max_total);
    case TT_FLAW_SUM:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: rank %u has %llu indices, but its index_block_lens add up to %llu",
                       call, rank, value, at);
    case TT_FLAW_INDEX:
        return tt_fail(TUTTI_ERR_INVALID, "%s: indices[%llu] of rank %u is %llu: must be 0 to %u",
                       call, at, rank, value, s->nsplits - 1);
    case TT_FLAW_OVERLAP:
        return tt_fail(TUTTI_ERR_INVALID, "%s: recvbuffs[%llu] and sendbuff of rank %u overlap",
                       call, at, rank);
    case TT_FLAW_NULL:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the pieces of rank %u have %llu element%s, but its sendbuff is NULL",
                       call, rank, value, TT_PLURAL(value));
    case TT_FLAW_SPACE:
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: the %llu %s of rank %u do not fit in the address space", call, value,
                       at == TT_SPACE_INDICES ? "indices" : "sendbuff elements", rank);
    default:
        return TUTTI_OK;
    }
}
