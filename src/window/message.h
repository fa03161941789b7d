/* Messages between windows, where mapped memory and wires cannot be used: a header of 64 bytes,
 * then the data of a put or of the reply to a get. Pure: bytes in, values out, and the effect of
 * a message on a window's memory. Any message may come from a faulty peer. */
#ifndef TT_WINDOW_MESSAGE_H
#define TT_WINDOW_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_WINDOW_HEADER_BYTES 64u
#define TT_WINDOW_CHUNK_BYTES 16384u    /* maximum data after a header */

enum tt_window_verb {
    TT_WINDOW_PUT = 1,
    TT_WINDOW_GET,
    TT_WINDOW_ADD,
    TT_WINDOW_SWAP,
    TT_WINDOW_COMPARE_SWAP,
    TT_WINDOW_AND,
    TT_WINDOW_OR,
    TT_WINDOW_XOR,
    TT_WINDOW_ANSWER,
    TT_WINDOW_LEAVE             /* the sender puts nothing more to the window; has no reply */
};

struct tt_window_message {
    uint8_t verb;
    uint8_t width;              /* of an atomic's word: 4 or 8; else 0 */
    uint8_t signal_op;          /* of a put: enum tt_signal_op */
    uint8_t gone;               /* of a reply: 1: there is no such window, nothing was done */
    uint32_t window, token;     /* a reply has the token of its request */
    uint32_t signal_window;
    uint64_t offset;
    uint64_t bytes;             /* requested by a get; else following */
    uint64_t operand;           /* of a reply: old value of the word */
    uint64_t compare;
    uint64_t signal_offset, signal_value;
};

void tt_window_message_write(const struct tt_window_message *m,
                             uint8_t header[TT_WINDOW_HEADER_BYTES]);
/* Reads the header of data[bytes]. False, with *m undefined: protocol violation. */
bool tt_window_message_read(struct tt_window_message *m, const void *data, size_t bytes);

/* Returns whether [offset, offset + bytes) lies within `size` bytes. */
static inline bool tt_window_holds(uint64_t size, uint64_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

/* Returns the word of `width` bytes at `offset` of mem[size], or NULL if it is out of bounds or
 * misaligned. */
void *tt_window_word(uint8_t *mem, uint64_t size, uint64_t offset, uint32_t width);
/* Changes the word (from tt_window_word) atomically, and returns its old value. */
uint64_t tt_window_change(void *word, uint32_t width, enum tt_window_verb verb, uint64_t operand,
                          uint64_t compare);
/* Sets a signal. A reader of its value also sees all earlier writes. op: enum tt_signal_op. */
void tt_window_raise(uint64_t *word, uint8_t op, uint64_t value);

/* Applies a put (with payload of m->bytes) or an atomic to mem[size]; *old is the old value of
 * an atomic's word. False: out of bounds. */
bool tt_window_apply(const struct tt_window_message *m, const void *payload, uint8_t *mem,
                     uint64_t size, uint64_t *old);

#endif
