/* The link region that each of two processes exposes to the other, and the mailbox in it. Every
 * word in it is written by the peer with put + signal, and polled by the owner.
 *
 *   head      one word: number of cells and units of this rank that the peer has consumed
 *   arrived   half a cache line per flow handle of this rank
 *             per stream: generation << 32 | segments arrived
 *   credit    half a cache line per flow handle of the peer
 *             per stream: generation << 32 | segments consumed
 *   cells     the mailbox: places for cells of one cache line, which short payloads share
 *   short, long   byte rings for longer payloads, in units of 64
 *
 * A mailbox that its sender has mapped (tt_rkey.mapped, equal at both ends) has few places of four
 * lines each. Payloads of up to 1 KiB that do not fit there use the short ring. Thus the mailbox
 * stays in the first-level caches of both ends. If the short ring is full, they use the long ring.
 * Other mailboxes have many places, for as many messages in flight, and only the long ring. Their
 * places are longer, so that a payload of up to 1 KiB is sent with the cell in one put.
 *
 * The receiver reports its consumption (head) after a quarter of the places or of a ring. If that
 * requires a put, the report is sent with another message after an eighth, or alone after a half.
 *
 * Messages, head and credit are urgent (TT_DESC_URGENT): they do not refer to earlier puts.
 * Exceptions are TT_CELL_ENDED and TT_CELL_FENCE. These, and later messages, are received after all
 * earlier puts have landed.
 *
 * Cells have fixed places, so old payload is never mistaken for a cell's state word. */
#ifndef TT_ENGINE_LINK_H
#define TT_ENGINE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/copy_policy.h"
#include "wire/wire.h"

#define TT_HANDLES 2048u        /* concurrent flows between two processes, per direction */
#define TT_FLOW_BYTES 32u       /* words of a flow: 4 streams */
#define TT_UNIT 64u             /* size of a cache line, a cell, and a unit of the rings */
#define TT_CELL_INLINE 24u      /* maximum payload in the cell's cache line */
#define TT_CELLS_MAPPED 16u     /* number of places: a power of two */
#define TT_CELLS_POSTED 128u
#define TT_PLACE_MAPPED (4 * TT_UNIT)
#define TT_PLACE_POSTED (17 * TT_UNIT)
#define TT_SHORT_UNITS 64u       /* 4 KiB */
#define TT_SHORT_BYTES 1024u     /* maximum payload in the short ring */
#define TT_LONG_UNITS 4096u      /* 256 KiB */

/* Incremented when messages change but the layout does not. Each revision lengthens the region by a
 * cache line, so that incompatible builds refuse each other as if the layout had changed. */
#define TT_LINK_REVISION 1u

#define TT_LINK_HEAD 0u
#define TT_LINK_ARRIVED TT_UNIT
#define TT_LINK_CREDIT (TT_LINK_ARRIVED + TT_HANDLES * TT_FLOW_BYTES)
#define TT_LINK_CELLS (TT_LINK_CREDIT + TT_HANDLES * TT_FLOW_BYTES)
#define TT_LINK_SHORT (TT_LINK_CELLS + TT_CELLS_POSTED * TT_PLACE_POSTED)
#define TT_LINK_LONG (TT_LINK_SHORT + TT_SHORT_UNITS * TT_UNIT)
#define TT_LINK_BYTES (TT_LINK_LONG + TT_LONG_UNITS * TT_UNIT + TT_LINK_REVISION * TT_UNIT)

_Static_assert((TT_CELLS_MAPPED & (TT_CELLS_MAPPED - 1)) == 0 &&
                   (TT_CELLS_POSTED & (TT_CELLS_POSTED - 1)) == 0 && TT_CELLS_POSTED <= 1u << 15,
               "counted in 16 bits");
_Static_assert((TT_SHORT_UNITS & (TT_SHORT_UNITS - 1)) == 0 && TT_SHORT_UNITS <= 1u << 15,
               "counted in 16 bits");
_Static_assert(TT_CELLS_MAPPED *TT_PLACE_MAPPED <= TT_CELLS_POSTED * TT_PLACE_POSTED,
               "the same region");
_Static_assert(2 * TT_SHORT_BYTES + TT_SHORT_UNITS / 4 * TT_UNIT <= TT_SHORT_UNITS * TT_UNIT,
               "the longest payload fits, with skipped and unreported units");

_Static_assert(2 * TT_INLINE_BYTES + TT_LONG_UNITS / 2 * TT_UNIT <= TT_LONG_UNITS * TT_UNIT,
               "the same, with half of the ring unreported");

#define TT_DESC_COUNT_BITS 44
#define TT_DESC_COUNT_MAX ((1ull << TT_DESC_COUNT_BITS) - 1)

/* Descriptor of a call, which must match between ranks. Sent with eager messages and with CTS. */
struct tt_opdesc {
    uint64_t count : TT_DESC_COUNT_BITS;    /* elements; v kinds: part of a hash of the counts;
                                               send and recv: bytes */
    uint64_t algo : 8;          /* index in tt_algos */
    uint64_t kind : 5;          /* enum tt_coll_kind */
    uint64_t dtype : 4;
    uint64_t mode : 3;          /* enum tt_op_mode */
    uint64_t root : 24;
    uint64_t redop : 8;         /* enum tutti_redop; bits 4 to 6: enum tutti_quant; bit 7: error
                                   feedback */
    uint64_t divisor : 32;      /* of an average, as passed by the caller */
};
_Static_assert(sizeof(struct tt_opdesc) == 16, "no padding: compared as bytes");

enum tt_cell_type {
    TT_CELL_EAGER = 1,          /* payload of a small put; tag is the step's tag */
    TT_CELL_CTS,              /* CTS, with struct tt_cts_msg: the receiver may stream to the
                                   sender of this message */
    TT_CELL_CREDIT,             /* returns eager credit only */
    TT_CELL_PROBE,              /* probe: the sender waits for the receiver in this operation;
                                   alltoallv: with struct tt_probe_msg */
    TT_CELL_ENDED,              /* the sender posts no further puts for this context */
    TT_CELL_CLIENT,              /* message of the engine's client: only a payload */
    TT_CELL_FENCE,              /* orders later messages after earlier puts */
    TT_CELL_RECEIVES_ANY,       /* request to announce sends to the sender of this message in
                                   this context (any.h) */
    TT_CELL_STARTED             /* announces a started send that waits for the receiver; only
                                   after RECEIVES_ANY */
};

struct tt_cell {
    uint64_t state;             /* seq << 32 | bytes << 16 | long ring << 15 | type << 8 |
                                   returned eager credits; written last */
    uint32_t context, tag;
    uint64_t opseq;
    struct tt_opdesc desc;
    uint8_t data[TT_CELL_INLINE];
};
_Static_assert(sizeof(struct tt_cell) == TT_UNIT, "a cell is a cache line");

/* Payload of a CTS (TT_CELL_CTS). */
struct tt_cts_msg {
    uint16_t handle;
    uint8_t direct, landing;    /* flags: which of the keys below are set */
    uint32_t gen;
    uint64_t bytes;             /* size expected by the sender of the CTS; alltoallv: of the
                                   whole block, which is not in the descriptors */
    uint64_t landing_offset, direct_offset;
    uint8_t landing_bytes, direct_bytes;    /* sizes of the keys */
    uint8_t depth;              /* slots per stream: a power of two */
    uint8_t copies;             /* tt_copy_trial.announced */
    uint8_t landing_key[TT_KEY_BYTES], direct_key[TT_KEY_BYTES];
};

/* Payload of a probe in an alltoallv. If two ranks disagree about a block's size, both may be
 * waiting. */
struct tt_probe_msg {
    uint64_t sends, expects;    /* bytes: to the receiver of the probe, and from it */
};

/* A received message: valid until tt_mail_drop. */
struct tt_mail {
    struct tt_cell cell;        /* a private copy that the peer cannot modify */
    uint8_t type, credits;
    bool in_long;               /* the payload is in the long ring, although the short ring
                                   accepts its size */
    uint16_t bytes;
    const void *payload;        /* in the link region */
};

enum tt_mail_ring { TT_MAIL_SHORT, TT_MAIL_LONG, TT_MAIL_RINGS };

/* Counts of cells and of units per ring. In a head word, bits 0 to 31 are units of the long
 * ring, bits 32 to 47 units of the short ring, and bits 48 to 63 cells. */
struct tt_mail_count {
    uint32_t cells, units[TT_MAIL_RINGS];
};

/* Sending and receiving state of one end. */
struct tt_mailbox {
    uint8_t *mine;              /* the link region */
    struct tt_rkey theirs;
    uint16_t places, place_bytes;
    uint16_t inline_bytes;      /* maximum payload in the cell's place, ... */
    uint16_t short_bytes;       /* ... and in the short ring */
    uint64_t head;              /* local copy of the peer's consumption */
    struct tt_mail_count sent;  /* sent */
    struct tt_mail_count got;   /* consumed */
    struct tt_mail_count reported;  /* reported to the peer */
    struct tt_autotune_limit measured;  /* which kind of stores is faster for long payloads */
    uint8_t stores;             /* enum tt_copy_way of the next long payload */
};

void tt_mailbox_init(struct tt_mailbox *m, const struct tt_link *link);
/* Returns whether a message of `bytes` fits now. */
bool tt_mail_room(struct tt_mailbox *m, uint32_t bytes);
/* Sends a message (sets cell->state and data). False if there is no room in the mailbox or the
 * wire. */
bool tt_mail_send(struct tt_mailbox *m, struct tt_cell *cell, enum tt_cell_type type,
                  uint8_t credits, const void *payload, uint32_t bytes);
/* Returns the offset of cell n's place in a link region. */
static inline uint32_t tt_mail_place(const struct tt_mailbox *m, uint32_t n)
{
    return TT_LINK_CELLS + (n & (m->places - 1u)) * m->place_bytes;
}
/* Returns whether a message has arrived. */
static inline bool tt_mail_waits(const struct tt_mailbox *m)
{
    const uint8_t *at = m->mine + tt_mail_place(m, m->got.cells);

    return atomic_load_explicit((_Atomic uint64_t *)(void *)(uintptr_t)at, memory_order_acquire) >>
               32 ==
           m->got.cells + 1;
}
/* Returns the next message. PENDING: none. PROTOCOL: it is out of bounds. */
tutti_status tt_mail_next(const struct tt_mailbox *m, struct tt_mail *out);
/* Reports the consumption to the peer, if enough is unreported. tt_mail_drop calls it; every
 * progress pass retries, because the wire may have had no room. */
void tt_mail_ack(struct tt_mailbox *m);
/* Consumes the message, and frees its room. */
void tt_mail_drop(struct tt_mailbox *m, const struct tt_mail *mail);

/* Returns a flow word in this rank's link region. */
static inline _Atomic uint64_t *tt_link_word(const struct tt_mailbox *m, uint32_t area,
                                             uint32_t handle, uint32_t stream)
{
    return (_Atomic uint64_t *)(void *)(m->mine + area + handle * TT_FLOW_BYTES + stream * 8);
}
/* Clears a flow's words before it begins, so that values of an earlier flow are never mistaken
 * for its own. */
static inline void tt_link_clear(const struct tt_mailbox *m, uint32_t area, uint32_t handle,
                                 uint32_t streams)
{
    for (uint32_t s = 0; s < streams; s++)
        atomic_store_explicit(tt_link_word(m, area, handle, s), 0, memory_order_relaxed);
}
static inline uint64_t tt_link_offset(uint32_t area, uint32_t handle, uint32_t stream)
{
    return area + (uint64_t)handle * TT_FLOW_BYTES + stream * 8;
}

#endif
