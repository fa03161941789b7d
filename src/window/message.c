#include "window/message.h"

#include "base/bytes.h"
#include "reduce/reduce.h"
#include "wire/wire.h"

void tt_window_message_write(const struct tt_window_message *m,
                             uint8_t header[TT_WINDOW_HEADER_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, header, TT_WINDOW_HEADER_BYTES);
    tt_write_u8(&w, m->verb);
    tt_write_u8(&w, m->width);
    tt_write_u8(&w, m->signal_op);
    tt_write_u8(&w, m->gone);
    tt_write_u32(&w, m->window);
    tt_write_u32(&w, m->token);
    tt_write_u32(&w, m->signal_window);
    tt_write_u64(&w, m->offset);
    tt_write_u64(&w, m->bytes);
    tt_write_u64(&w, m->operand);
    tt_write_u64(&w, m->compare);
    tt_write_u64(&w, m->signal_offset);
    tt_write_u64(&w, m->signal_value);
}

/* Returns whether the message is consistent: the number of following bytes, and unused fields. */
static bool is_consistent(const struct tt_window_message *m, uint64_t follow)
{
    const bool is_atomic = m->verb >= TT_WINDOW_ADD && m->verb <= TT_WINDOW_XOR;

    if (m->verb < TT_WINDOW_PUT || m->verb > TT_WINDOW_LEAVE)
        return false;
    if (is_atomic ? m->width != 4 && m->width != 8 : m->width != 0)
        return false;
    if (m->signal_op > (m->verb == TT_WINDOW_PUT ? TT_SIGNAL_ADD : TT_SIGNAL_NONE))
        return false;
    if (m->gone > (m->verb == TT_WINDOW_ANSWER ? 1 : 0))
        return false;
    if (m->verb == TT_WINDOW_GET)
        return follow == 0 && m->bytes <= TT_WINDOW_CHUNK_BYTES;
    return follow == m->bytes &&
           m->bytes <=
               (is_atomic || m->gone || m->verb == TT_WINDOW_LEAVE ? 0 : TT_WINDOW_CHUNK_BYTES);
}

bool tt_window_message_read(struct tt_window_message *m, const void *data, size_t bytes)
{
    struct tt_reader r;

    if (bytes < TT_WINDOW_HEADER_BYTES)
        return false;
    tt_reader_init(&r, data, TT_WINDOW_HEADER_BYTES);
    m->verb = tt_read_u8(&r);
    m->width = tt_read_u8(&r);
    m->signal_op = tt_read_u8(&r);
    m->gone = tt_read_u8(&r);
    m->window = tt_read_u32(&r);
    m->token = tt_read_u32(&r);
    m->signal_window = tt_read_u32(&r);
    m->offset = tt_read_u64(&r);
    m->bytes = tt_read_u64(&r);
    m->operand = tt_read_u64(&r);
    m->compare = tt_read_u64(&r);
    m->signal_offset = tt_read_u64(&r);
    m->signal_value = tt_read_u64(&r);
    return is_consistent(m, bytes - TT_WINDOW_HEADER_BYTES);
}

void *tt_window_word(uint8_t *mem, uint64_t size, uint64_t offset, uint32_t width)
{
    if (!tt_window_holds(size, offset, width) || ((uintptr_t)mem + offset) % width)
        return NULL;
    return mem + offset;
}

/* An atomic of either width. `was` holds the expected value of a comparison, and receives the
 * old value of *word. */
#define CHANGE(word, verb, operand, was)                                          \
    switch (verb) {                                                               \
    case TT_WINDOW_ADD:                                                           \
        was = __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);                \
        break;                                                                    \
    case TT_WINDOW_SWAP:                                                          \
        was = __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);               \
        break;                                                                    \
    case TT_WINDOW_AND:                                                           \
        was = __atomic_fetch_and(word, operand, __ATOMIC_ACQ_REL);                \
        break;                                                                    \
    case TT_WINDOW_OR:                                                            \
        was = __atomic_fetch_or(word, operand, __ATOMIC_ACQ_REL);                 \
        break;                                                                    \
    case TT_WINDOW_XOR:                                                           \
        was = __atomic_fetch_xor(word, operand, __ATOMIC_ACQ_REL);                \
        break;                                                                    \
    default:                                                                      \
        __atomic_compare_exchange_n(word, &was, operand, false, __ATOMIC_ACQ_REL, \
                                    __ATOMIC_ACQUIRE);                            \
        break;                                                                    \
    }

uint64_t tt_window_change(void *word, uint32_t width, enum tt_window_verb verb, uint64_t operand,
                          uint64_t compare)
{
    const uint32_t operand32 = (uint32_t)operand;
    uint32_t was32 = (uint32_t)compare;

    if (width == 8) {
        CHANGE((uint64_t *)word, verb, operand, compare);
        return compare;
    }
    CHANGE((uint32_t *)word, verb, operand32, was32);
    return was32;
}

void tt_window_raise(uint64_t *word, uint8_t op, uint64_t value)
{
    if (op == TT_SIGNAL_SET)
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    else if (op == TT_SIGNAL_ADD)
        __atomic_fetch_add(word, value, __ATOMIC_RELEASE);
}

bool tt_window_apply(const struct tt_window_message *m, const void *payload, uint8_t *mem,
                     uint64_t size, uint64_t *old)
{
    void *word;

    if (m->verb == TT_WINDOW_PUT) {
        if (!tt_window_holds(size, m->offset, m->bytes))
            return false;
        if (m->bytes)
            tt_copy(mem + m->offset, NULL, payload, m->bytes, 0);
        return true;
    }
    word = tt_window_word(mem, size, m->offset, m->width);
    if (!word)
        return false;
    *old = tt_window_change(word, m->width, m->verb, m->operand, m->compare);
    return true;
}
