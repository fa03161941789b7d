/* What two processes keep for each other: the layout of the link region that each exposes to the other, and the mailbox in it.
 * Every word in it is written by the peer with put + signal, and polled by the owner.
 *
 *   head      one word: how many cells and data units of ours the peer has consumed
 *   arrived   half a line per flow handle that we chose: per stream, generation << 32 | segments landed
 *   credit    half a line per flow handle that the peer chose: per stream, generation << 32 | segments consumed
 *   cells     the mailbox: places for cells of a line, which short payloads share
 *   short, long   longer payloads, two byte rings in units of 64
 *
 * A mailbox that its sender has mapped (tt_rkey.mapped: so at both ends or at neither) has few places, each of four lines, and the short ring for what does not fit
 * there but has up to 1 KiB, so that all of it stays in the first-level caches of both; while that has no room, the long one takes it. Any other mailbox has many
 * places, so that as many messages can be under way, each long enough that up to 1 KiB go with their cell in one put; and the long ring alone.
 *
 * What was consumed is told (head) after a quarter of the places, or of a ring. Where that is a message of its own: along with any other after an eighth, alone
 * after half.
 *
 * Mail, head and credit are urgent (TT_DESC_URGENT): nothing in them speaks of segments that were put before. But TT_CELL_ENDED and
 * TT_CELL_FENCE do: these, and with them the mail behind them, are seen after all puts that were posted before them have landed.
 *
 * Cells have fixed places, so a stale payload can never be taken for a cell's state word. */
#ifndef TT_ENGINE_LINK_H
#define TT_ENGINE_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

#define TT_HANDLES 2048u        /* flows open at once between two processes, per direction */
#define TT_FLOW_BYTES 32u       /* of a flow's words: 4 streams */
#define TT_UNIT 64u             /* bytes of a line, a cell, and a unit of the rings */
#define TT_CELL_INLINE 24u      /* bytes of a payload that share the cell's line */
#define TT_CELLS_MAPPED 16u     /* places for cells: a power of two */
#define TT_CELLS_POSTED 128u
#define TT_PLACE_MAPPED (4 * TT_UNIT)
#define TT_PLACE_POSTED (17 * TT_UNIT)
#define TT_SHORT_UNITS 64u       /* 4 KiB */
#define TT_SHORT_BYTES 1024u     /* of the longest payload there */
#define TT_LONG_UNITS 4096u      /* 256 KiB */
#define TT_MAIL_LONG_BYTES 8192u /* payloads from here on: tt_stores */

/* Grows with each change of the messages that leaves the layout alike. It makes the region longer by a line, so that builds which differ in it refuse
 * each other as if the layout had changed. */
#define TT_LINK_REVISION 1u

#define TT_LINK_HEAD 0u
#define TT_LINK_ARRIVED TT_UNIT
#define TT_LINK_CREDIT (TT_LINK_ARRIVED + TT_HANDLES * TT_FLOW_BYTES)
#define TT_LINK_CELLS (TT_LINK_CREDIT + TT_HANDLES * TT_FLOW_BYTES)
#define TT_LINK_SHORT (TT_LINK_CELLS + TT_CELLS_POSTED * TT_PLACE_POSTED)
#define TT_LINK_LONG (TT_LINK_SHORT + TT_SHORT_UNITS * TT_UNIT)
#define TT_LINK_BYTES (TT_LINK_LONG + TT_LONG_UNITS * TT_UNIT + TT_LINK_REVISION * TT_UNIT)

_Static_assert((TT_CELLS_MAPPED & (TT_CELLS_MAPPED - 1)) == 0 && (TT_CELLS_POSTED & (TT_CELLS_POSTED - 1)) == 0 &&
                   TT_CELLS_POSTED <= 1u << 15,
               "counted in 16 bits");
_Static_assert((TT_SHORT_UNITS & (TT_SHORT_UNITS - 1)) == 0 && TT_SHORT_UNITS <= 1u << 15, "counted in 16 bits");
_Static_assert(TT_CELLS_MAPPED *TT_PLACE_MAPPED <= TT_CELLS_POSTED * TT_PLACE_POSTED, "the same region");
_Static_assert(2 * TT_SHORT_BYTES + TT_SHORT_UNITS / 4 * TT_UNIT <= TT_SHORT_UNITS * TT_UNIT,
               "the longest fits, with what is skipped and not told");

_Static_assert(2 * TT_INLINE_BYTES + TT_LONG_UNITS / 2 * TT_UNIT <= TT_LONG_UNITS * TT_UNIT, "as well, where half is not told");

#define TT_DESC_COUNT_BITS 44
#define TT_DESC_COUNT_MAX ((1ull << TT_DESC_COUNT_BITS) - 1)

/* What two ranks must agree on about an operation; travels with eager messages and with ready. */
struct tt_opdesc {
    uint64_t count : TT_DESC_COUNT_BITS;    /* elements; v kinds: of a hash of the counts; send and recv: bytes */
    uint64_t algo : 8;          /* index in tt_algos */
    uint64_t kind : 5;          /* enum tt_coll_kind */
    uint64_t dtype : 4;
    uint64_t mode : 3;          /* enum tt_op_mode */
    uint64_t root : 24;
    uint64_t redop : 8;         /* enum tutti_redop, and in bits 4 to 6 enum tutti_quant, in bit 7 whether with error feedback */
    uint64_t divisor : 32;      /* of an average, as it was given */
};
_Static_assert(sizeof(struct tt_opdesc) == 16, "no padding: compared as bytes");

enum tt_cell_type {
    TT_CELL_EAGER = 1,          /* payload of a small put; tag is the step's */
    TT_CELL_READY,              /* struct tt_ready_msg follows: the sender of this may be streamed to */
    TT_CELL_CREDIT,             /* only returns eager credit */
    TT_CELL_NUDGE,              /* "I wait for you in this operation"; alltoallv: struct tt_nudge_msg follows */
    TT_CELL_ENDED,              /* "I put nothing more for this context" */
    TT_CELL_GUEST,              /* a message of the guest's: nothing but the payload */
    TT_CELL_FENCE,              /* nothing: what comes behind it speaks of puts before it */
    TT_CELL_RECEIVES_ANY,       /* "announce your sends to me in this context": any.h */
    TT_CELL_STARTED             /* "I have started this send, and wait for you": after a RECEIVES_ANY only */
};

struct tt_cell {
    uint64_t state;             /* seq << 32 | bytes << 16 | long ring << 15 | type << 8 | eager credits returned; written last */
    uint32_t context, tag;
    uint64_t opseq;
    struct tt_opdesc desc;
    uint8_t data[TT_CELL_INLINE];
};
_Static_assert(sizeof(struct tt_cell) == TT_UNIT, "a cell is a cache line");

/* The payload of READY. */
struct tt_ready_msg {
    uint16_t handle;
    uint8_t direct, landing;    /* which of the keys below are set */
    uint32_t gen;
    uint64_t bytes;             /* that the opener expects; alltoallv: all of the pair's, of which the descriptors say nothing */
    uint64_t landing_offset, direct_offset;
    uint8_t landing_bytes, direct_bytes;    /* of the keys */
    uint8_t depth;              /* slots of each stream: a power of two */
    uint8_t copies;             /* what its sender says of the next operation of this kind (copies.c); 0: nothing */
    uint8_t landing_key[TT_KEY_BYTES], direct_key[TT_KEY_BYTES];
};

/* The payload of a NUDGE in an alltoallv: two ranks that think differently of how long a block is may both wait. */
struct tt_nudge_msg {
    uint64_t sends, expects;    /* bytes: to the receiver of this, and from it */
};

/* A message as the receiver sees it: valid until tt_mail_drop. */
struct tt_mail {
    struct tt_cell cell;        /* a private copy: the peer cannot change it under us */
    uint8_t type, credits;
    bool in_long;               /* its payload is in the long ring, though the short one takes that length */
    uint16_t bytes;
    const void *payload;        /* in the link region */
};

enum tt_mail_ring { TT_MAIL_SHORT, TT_MAIL_LONG, TT_MAIL_RINGS };

/* How many cells and units of each ring. As a word, as the head says it: units of the long ring, from bit 32 on 16 bits of those of the short one, then 16 of cells. */
struct tt_mail_count {
    uint32_t cells, units[TT_MAIL_RINGS];
};

/* How what is long is written into memory that its reader has mapped: payloads of TT_MAIL_LONG_BYTES or more, segments. */
enum tt_stores {
    TT_STORES_TIMED,              /* as its own stores tell that are timed now and then */
    TT_STORES_ORDINARY,
    TT_STORES_PAST_CACHE
};

/* One end's sending and receiving state. */
struct tt_mailbox {
    uint8_t *mine;              /* the link region */
    struct tt_rkey theirs;
    uint16_t places, place_bytes;
    uint16_t inline_bytes;      /* payloads up to here share the cell's place, ... */
    uint16_t short_bytes;       /* ... and up to here are in the short ring */
    uint64_t head;              /* our copy of what the peer has consumed */
    struct tt_mail_count sent;  /* posted */
    struct tt_mail_count got;   /* consumed */
    struct tt_mail_count told;  /* of that, what the peer knows */
    uint8_t untimed, slow;              /* long payloads since one was timed; of those that were, how many in a row took long */
    uint8_t far_copies;                 /* payloads that are yet to go past the cache */
    uint8_t stores;                     /* enum tt_stores: of the next long payload */
};

void tt_mailbox_init(struct tt_mailbox *m, const struct tt_link *link);
/* Whether a message of `bytes` fits now. */
bool tt_mail_room(struct tt_mailbox *m, uint32_t bytes);
/* Sends a message (cell->state and data are filled in here). False if there is no room in the mailbox or the wire. */
bool tt_mail_send(struct tt_mailbox *m, struct tt_cell *cell, enum tt_cell_type type, uint8_t credits,
                  const void *payload, uint32_t bytes);
/* The place of cell n in a link region. */
static inline uint32_t tt_mail_place(const struct tt_mailbox *m, uint32_t n)
{
    return TT_LINK_CELLS + (n & (m->places - 1u)) * m->place_bytes;
}
/* Whether a message is there. */
static inline bool tt_mail_waits(const struct tt_mailbox *m)
{
    const uint8_t *at = m->mine + tt_mail_place(m, m->got.cells);

    return atomic_load_explicit((_Atomic uint64_t *)(void *)(uintptr_t)at, memory_order_acquire) >> 32 ==
           m->got.cells + 1;
}
/* The next message, if one is there. Bounds are checked: PROTOCOL for one that cannot be. PENDING: none. */
tutti_status tt_mail_next(const struct tt_mailbox *m, struct tt_mail *out);
/* Tells the peer what has been consumed, when that is enough to be worth a message. Called by drop, and again by whoever makes
 * progress, as the wire may have had no room. */
void tt_mail_tell(struct tt_mailbox *m);
/* Frees it. */
void tt_mail_drop(struct tt_mailbox *m, const struct tt_mail *mail);

/* The words of a flow in our own region. */
static inline _Atomic uint64_t *tt_link_word(const struct tt_mailbox *m, uint32_t area, uint32_t handle,
                                             uint32_t stream)
{
    return (_Atomic uint64_t *)(void *)(m->mine + area + handle * TT_FLOW_BYTES + stream * 8);
}
/* Before a flow begins: no word of an earlier one, however long ago, can be taken for one of this. */
static inline void tt_link_clear(const struct tt_mailbox *m, uint32_t area, uint32_t handle, uint32_t streams)
{
    for (uint32_t s = 0; s < streams; s++)
        atomic_store_explicit(tt_link_word(m, area, handle, s), 0, memory_order_relaxed);
}
static inline uint64_t tt_link_offset(uint32_t area, uint32_t handle, uint32_t stream)
{
    return area + (uint64_t)handle * TT_FLOW_BYTES + stream * 8;
}

#endif
