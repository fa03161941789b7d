/* What windows say to each other where memory and wires do not serve: a header of 64 bytes, then the bytes of a put or of the answer to a get.
 * Pure: bytes in, values out, and what a message does to the memory of a window. Everything here may come from a broken peer. */
#ifndef TT_WINDOW_MESSAGE_H
#define TT_WINDOW_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_WINDOW_HEADER_BYTES 64u
#define TT_WINDOW_CHUNK_BYTES 16384u    /* that follow a header, at most */

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
    TT_WINDOW_LEAVE             /* the sender puts nothing more to the window; has no answer */
};

struct tt_window_message {
    uint8_t verb;
    uint8_t width;              /* of an atomic's word: 4 or 8; else 0 */
    uint8_t signal_op;          /* of a put: enum tt_signal_op */
    uint8_t gone;               /* of an answer: 1: there is no such window, nothing was done */
    uint32_t window, token;     /* the answer has the token of what it answers */
    uint32_t signal_window;
    uint64_t offset;
    uint64_t bytes;             /* that a get wants; else that follow */
    uint64_t operand;           /* of an answer: what the word was */
    uint64_t compare;
    uint64_t signal_offset, signal_value;
};

void tt_window_message_write(const struct tt_window_message *m, uint8_t header[TT_WINDOW_HEADER_BYTES]);
/* Reads the header of data[bytes]. False, and *m undefined, if no honest peer has sent that. */
bool tt_window_message_read(struct tt_window_message *m, const void *data, size_t bytes);

/* Whether bytes [offset, offset + bytes) are among the first `size`. */
static inline bool tt_window_holds(uint64_t size, uint64_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

/* The word of `width` bytes at `offset` of mem[size]; NULL: it is not in there, or not where such words are. */
void *tt_window_word(uint8_t *mem, uint64_t size, uint64_t offset, uint32_t width);
/* Changes the word (from tt_window_word) at once and for all to see, and returns what it was. */
uint64_t tt_window_change(void *word, uint32_t width, enum tt_window_verb verb, uint64_t operand, uint64_t compare);
/* Raises a signal: who sees its value sees what was written before. op: enum tt_signal_op. */
void tt_window_raise(uint64_t *word, uint8_t op, uint64_t value);

/* Does to mem[size] what a put (its payload is m->bytes long) or an atomic says; *old is what an atomic's word was. False: that lies outside. */
bool tt_window_apply(const struct tt_window_message *m, const void *payload, uint8_t *mem, uint64_t size,
                     uint64_t *old);

#endif
