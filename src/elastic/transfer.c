/* Transfer of the arrays of a sync. Format of messages: {u8 version, u8 kind, u16 scope, u64
 * epoch, u64 number, u32 array, u64 offset, u32 bytes}. A PIECE is followed by the sum of its
 * blocks (4 u32) and its bytes. */
#include "elastic/transfer.h"

#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "elastic/message.h"

#define KIND_MIN 0xc0u      /* the second byte of messages about operations is much lower */
#define GET 0xc1u
#define PIECE 0xc2u
#define WRONG_MAX 3u        /* wrong pieces after which a source is not used any more */

struct header {
    uint8_t version, kind;
    uint16_t scope;
    uint64_t epoch, number;
    uint32_t array;
    uint64_t offset;
    uint32_t bytes;
};

static uint32_t transfer_piece_bytes(const struct tt_transfer *t)
{
    return t->conf.piece_bytes ? t->conf.piece_bytes : TT_TRANSFER_PIECE_BYTES;
}

static struct tt_transfer_item *item_of(struct tt_transfer *t, uint32_t array)
{
    return array == TT_TRANSFER_LIST ? &t->list : &t->conf.items[array];
}

static void write_header(struct tt_writer *w, const struct tt_transfer *t, uint8_t kind,
                         uint32_t array, uint64_t offset, uint32_t bytes)
{
    tt_write_u8(w, TT_ELASTIC_VERSION);
    tt_write_u8(w, kind);
    tt_write_u16(w, t->conf.scope);
    tt_write_u64(w, t->conf.epoch);
    tt_write_u64(w, t->conf.number);
    tt_write_u32(w, array);
    tt_write_u64(w, offset);
    tt_write_u32(w, bytes);
}

static struct tt_hash_sum hash_sum_of(const void *data, uint64_t offset, uint32_t bytes)
{
    struct tt_hash_stream h;

    tt_hash_begin(&h, offset / TT_HASH_BLOCK_BYTES);
    tt_hash_add(&h, data, bytes);
    return tt_hash_end(&h);
}

static void transfer_send(struct tt_transfer *t, uint32_t rank, const struct tt_writer *head,
                          const void *body, size_t bytes)
{
    t->conf.emit(t->conf.context, &(struct tt_transfer_act){ .kind = TT_TRANSFER_ACT_SEND,
                                                             .rank = rank,
                                                             .head = head->begin,
                                                             .head_bytes = tt_writer_bytes(head),
                                                             .body = body,
                                                             .body_bytes = bytes });
}

static void send_vote(struct tt_transfer *t, uint8_t what, const char *text)
{
    t->vote = what;
    t->conf.emit(t->conf.context, &(struct tt_transfer_act){
                                      .kind = TT_TRANSFER_ACT_VOTE, .vote = what, .text = text });
}

void tt_transfer_init(struct tt_transfer *t, const struct tt_transfer_conf *conf, uint64_t now_ns)
{
    tt_assert(conf->piece_bytes % TT_HASH_BLOCK_BYTES == 0 &&
              conf->piece_bytes <= TT_TRANSFER_PIECE_BYTES);
    tt_assert(conf->narrays <= TT_SYNC_ARRAYS_MAX);
    memset(t, 0, sizeof *t);
    t->conf = *conf;
    t->now_ns = now_ns;
    t->list = (struct tt_transfer_item){ .bytes = 16 * (uint64_t)conf->narrays,
                                         .stage = conf->coming,
                                         .alone = TT_TRANSFER_NONE };
    t->impossible = conf->narrays == 0;
    for (uint32_t i = 0; i < conf->narrays; i++) {
        struct tt_transfer_item *item = &conf->items[i];

        *item = (struct tt_transfer_item){ .bytes = item->bytes,
                                           .data = item->data,
                                           .alone = TT_TRANSFER_NONE };
    }
}

/* ---- selection of sources -------------------------------------------------------------------- */

static bool is_usable(const struct tt_transfer_source *s)
{
    return s->now && !s->bad && !s->silent;
}

/* Restarts an array from its beginning, with any source. None of its pieces may be requested. */
static void restart_array(struct tt_transfer *t, uint32_t array)
{
    struct tt_transfer_item *item = item_of(t, array);

    item->sum = (struct tt_hash_sum){ { 0 } };
    item->got = item->next = item->from = 0;
    item->alone = TT_TRANSFER_NONE;
    if (array != TT_TRANSFER_LIST && array < t->first)
        t->first = array;
}

static void restart_if_alone(struct tt_transfer *t, uint32_t array, uint32_t source)
{
    struct tt_transfer_item *item = item_of(t, array);

    if (item->here || item->alone != source)
        return;
    for (uint32_t i = 0; i < TT_TRANSFER_SLOTS; i++)
        if (t->slots[i].array == array)
            t->slots[i].bytes = 0;
    restart_array(t, array);
}

/* Stops using a source: its pieces are requested from others. */
static void drop_source(struct tt_transfer *t, uint32_t source)
{
    t->sources[source].requested = 0;
    for (uint32_t i = 0; i < TT_TRANSFER_SLOTS; i++)
        if (t->slots[i].bytes > 0 && t->slots[i].source == source)
            t->slots[i].source = TT_TRANSFER_NONE;
    restart_if_alone(t, TT_TRANSFER_LIST, source);
    for (uint32_t a = 0; a < t->conf.narrays && t->list.here; a++)
        restart_if_alone(t, a, source);
}

static void drop_bad(struct tt_transfer *t, uint32_t source)
{
    t->sources[source].bad = true;
    drop_source(t, source);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void send_get(struct tt_transfer *t, const struct tt_transfer_slot *slot)
{
    uint8_t head[TT_TRANSFER_HEAD_BYTES];
    struct tt_writer w;

    tt_writer_init(&w, head, sizeof head);
    write_header(&w, t, GET, slot->array, slot->offset, slot->bytes);
    transfer_send(t, t->sources[slot->source].rank, &w, NULL, 0);
}

static void request_piece(struct tt_transfer *t, struct tt_transfer_slot *slot, uint32_t source)
{
    struct tt_transfer_source *s = &t->sources[source];

    slot->source = source;
    if (s->requested++ == 0)
        s->heard_ns = t->now_ns;
    send_get(t, slot);
}

static bool may_request(const struct tt_transfer_item *item, uint32_t source)
{
    return item->alone == TT_TRANSFER_NONE || item->alone == source;
}

/* Finds the array, or the list, of which the next piece is requested from `source`; false: none. */
static bool next_array(struct tt_transfer *t, uint32_t source, uint32_t *array)
{
    if (!t->list.here) {
        if (t->list.alone == TT_TRANSFER_NONE)
            t->list.alone = source;
        *array = TT_TRANSFER_LIST;
        return t->list.alone == source && t->list.next < t->list.bytes;
    }
    while (t->first < t->conf.narrays &&
           (t->conf.items[t->first].here ||
            t->conf.items[t->first].next == t->conf.items[t->first].bytes))
        t->first++;
    for (uint32_t a = t->first; a < t->conf.narrays; a++) {
        const struct tt_transfer_item *item = &t->conf.items[a];

        *array = a;
        if (!item->here && item->next < item->bytes && may_request(item, source))
            return true;
    }
    return false;
}

/* Returns a slot to request from `source`: a piece that was requested from another one before,
 * or a new piece. NULL: none. */
static struct tt_transfer_slot *next_free_slot(struct tt_transfer *t, uint32_t source)
{
    struct tt_transfer_slot *free_slot = NULL;
    struct tt_transfer_item *item;
    uint32_t array;
    uint64_t left;

    for (uint32_t i = 0; i < TT_TRANSFER_SLOTS; i++) {
        struct tt_transfer_slot *slot = &t->slots[i];

        if (slot->bytes == 0)
            free_slot = slot;
        else if (slot->source == TT_TRANSFER_NONE && may_request(item_of(t, slot->array), source))
            return slot;
    }
    if (!free_slot || !next_array(t, source, &array))
        return NULL;
    item = item_of(t, array);
    if (!item->stage)
        item->stage = t->conf.stage(t->conf.context, array, item->bytes);
    if (!item->stage) {
        send_vote(t, TT_SYNC_UNABLE, "out of memory for the received state");
        return NULL;
    }
    left = item->bytes - item->next;
    *free_slot = (struct tt_transfer_slot){ .source = TT_TRANSFER_NONE,
                                            .array = array,
                                            .offset = item->next,
                                            .bytes = left < transfer_piece_bytes(t)
                                                         ? (uint32_t)left
                                                         : transfer_piece_bytes(t) };
    item->next += free_slot->bytes;
    return free_slot;
}

static void give_up(struct tt_transfer *t)
{
    bool bad = t->nsources > 0;

    for (uint32_t i = 0; i < t->nsources; i++)
        bad &= !t->sources[i].now || t->sources[i].bad;
    if (bad || t->impossible)
        send_vote(t, TT_SYNC_BAD, "the received data does not match the offered state");
    else
        send_vote(t, TT_SYNC_UNABLE, "no member that has the state responds");
}

/* Sends all permitted requests: for one piece from each source in turn. */
static void send_requests(struct tt_transfer *t)
{
    bool some = true, usable = false;

    for (uint32_t i = 0; i < t->nsources; i++)
        usable |= is_usable(&t->sources[i]) && !t->impossible;
    if (!usable && t->vote == TT_SYNC_NOT_YET)
        give_up(t);
    while (some && t->vote == TT_SYNC_NOT_YET) {
        some = false;
        for (uint32_t i = 0; i < t->nsources && t->vote == TT_SYNC_NOT_YET; i++) {
            struct tt_transfer_slot *slot;

            if (!is_usable(&t->sources[i]) || t->sources[i].requested == TT_TRANSFER_WINDOW)
                continue;
            slot = next_free_slot(t, i);
            if (slot)
                request_piece(t, slot, i);
            some |= slot != NULL;
        }
    }
}

/* ---- received data --------------------------------------------------------------------------- */

/* The list has arrived: determines the arrays that differ. */
static void compare_list(struct tt_transfer *t)
{
    t->missing = 0;
    for (uint32_t a = 0; a < t->conf.narrays; a++) {
        const struct tt_hash theirs = tt_sync_entry(t->conf.coming, a),
                             ours = tt_sync_entry(t->conf.list, a);

        t->conf.items[a].here = tt_hash_equal(&theirs, &ours);
        t->missing += !t->conf.items[a].here;
        t->impossible |= !t->conf.items[a].here && t->conf.items[a].bytes == 0;
    }
    if (t->impossible)
        give_up(t);
    else if (t->missing == 0)
        send_vote(t, TT_SYNC_GOT, NULL);
}

static uint32_t lowest_source(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(bits);
}

/* All pieces of the array have arrived. */
static void array_finish(struct tt_transfer *t, uint32_t array)
{
    struct tt_transfer_item *item = item_of(t, array);
    const struct tt_hash is = tt_hash_value(&item->sum, item->bytes);
    const struct tt_hash should =
        array == TT_TRANSFER_LIST ? t->content : tt_sync_entry(t->conf.coming, array);
    const uint64_t from = item->from;
    bool all_usable = true;

    if (tt_hash_equal(&is, &should)) {
        item->here = true;
        item->mixed &= ~from;
        if (item->mixed && (item->mixed & (item->mixed - 1)) == 0)
            drop_bad(t, lowest_source(item->mixed)); /* all other sources of the wrong data have
                                                        sent a correct array since */
        if (array == TT_TRANSFER_LIST)
            compare_list(t);
        else if (--t->missing == 0)
            send_vote(t, TT_SYNC_GOT, NULL);
        return;
    }
    restart_array(t, array);
    if ((from & (from - 1)) == 0) {
        drop_bad(t, lowest_source(from));
        return;
    }
    for (uint32_t i = 0; i < t->nsources; i++)
        if (from & 1ull << i)
            all_usable &= is_usable(&t->sources[i]);
    if (!all_usable)
        return; /* the data may be wrong because of a source that is not used any more */
    item->mixed = from;
    item->alone = lowest_source(from);
}

static struct tt_transfer_slot *source_slot(struct tt_transfer *t, uint32_t rank,
                                            const struct header *h)
{
    for (uint32_t i = 0; i < TT_TRANSFER_SLOTS; i++) {
        struct tt_transfer_slot *slot = &t->slots[i];

        if (slot->bytes > 0 && slot->source != TT_TRANSFER_NONE &&
            t->sources[slot->source].rank == rank && slot->array == h->array &&
            slot->offset == h->offset && slot->bytes == h->bytes)
            return slot;
    }
    return NULL;
}

static bool on_piece(struct tt_transfer *t, uint32_t rank, const struct header *h,
                     struct tt_reader *r)
{
    struct tt_hash_sum stated, is;
    struct tt_transfer_source *s;
    struct tt_transfer_slot *slot;
    struct tt_transfer_item *item;
    uint32_t source;

    for (int i = 0; i < 4; i++)
        stated.word[i] = tt_read_u32(r);
    if (r->bad || (size_t)(r->end - r->at) != h->bytes)
        return false;
    slot = source_slot(t, rank, h);
    if (!slot)
        return true; /* requested from another source meanwhile */
    source = slot->source;
    s = &t->sources[source];
    s->requested--;
    s->heard_ns = t->now_ns;
    slot->source = TT_TRANSFER_NONE;
    is = hash_sum_of(r->at, h->offset, h->bytes);
    if (memcmp(&is, &stated, sizeof is) != 0) {
        if (++s->wrong == WRONG_MAX) {
            s->silent = true; /* this does not prove a false state, but the peer's data is
                                 unreliable */
            drop_source(t, source);
        }
        return true;
    }
    slot->bytes = 0;
    item = item_of(t, h->array);
    memcpy((uint8_t *)item->stage + h->offset, r->at, h->bytes);
    tt_hash_combine(&item->sum, &is);
    item->got += h->bytes;
    item->from |= 1ull << source;
    t->bytes_received += h->bytes;
    if (item->got == item->bytes)
        array_finish(t, h->array);
    return true;
}

/* ---- requests of others ---------------------------------------------------------------------- */

/* Returns the requested data of this member. */
static const uint8_t *own_data(struct tt_transfer *t, const struct header *h, bool received)
{
    const struct tt_transfer_item *item = item_of(t, h->array);

    if (h->array == TT_TRANSFER_LIST)
        return (received ? t->conf.coming : t->conf.list) + h->offset;
    if (received && item->stage)
        return (const uint8_t *)item->stage + h->offset;
    if (t->conf.read)
        return t->conf.read(t->conf.context, h->array, h->offset, h->bytes);
    return (const uint8_t *)item->data + h->offset;
}

static bool on_get(struct tt_transfer *t, uint32_t rank, const struct header *h)
{
    const bool received = t->vote == TT_SYNC_GOT;
    const struct tt_transfer_item *item;
    struct tt_hash_sum sum;
    uint8_t head[TT_TRANSFER_HEAD_BYTES];
    struct tt_writer w;
    const uint8_t *data;

    if (h->array != TT_TRANSFER_LIST && h->array >= t->conf.narrays)
        return false;
    item = item_of(t, h->array);
    if (h->bytes == 0 || h->bytes > TT_TRANSFER_PIECE_BYTES || h->offset % TT_HASH_BLOCK_BYTES ||
        h->offset > item->bytes || h->bytes > item->bytes - h->offset)
        return false;
    if (t->part == TT_SYNC_RECEIVES && !received)
        return true; /* a receiver is not a source */
    data = own_data(t, h, received);
    if (!data)
        return true;
    sum = hash_sum_of(data, h->offset, h->bytes);
    tt_writer_init(&w, head, sizeof head);
    write_header(&w, t, PIECE, h->array, h->offset, h->bytes);
    for (int i = 0; i < 4; i++)
        tt_write_u32(&w, sum.word[i]);
    tt_assert(!w.bad);
    t->bytes_sent += h->bytes;
    transfer_send(t, rank, &w, data, h->bytes);
    return true;
}

bool tt_transfer_is_mine(const void *data, size_t bytes)
{
    return bytes >= 2 && ((const uint8_t *)data)[1] >= KIND_MIN;
}

bool tt_transfer_is_request(const void *data, size_t bytes)
{
    return bytes >= 2 && ((const uint8_t *)data)[1] == GET;
}

void tt_transfer_again(struct tt_transfer *t, uint32_t rank, uint64_t now_ns)
{
    tt_assert(now_ns >= t->now_ns);
    t->now_ns = now_ns;
    for (uint32_t i = 0; i < TT_TRANSFER_SLOTS; i++) {
        const struct tt_transfer_slot *slot = &t->slots[i];

        if (slot->bytes > 0 && slot->source != TT_TRANSFER_NONE &&
            t->sources[slot->source].rank == rank)
            send_get(t, slot);
    }
}

bool tt_transfer_peer(struct tt_transfer *t, uint32_t rank, const void *data, size_t bytes,
                      uint64_t now_ns)
{
    struct tt_reader r;
    struct header h;
    bool good;

    tt_assert(now_ns >= t->now_ns);
    t->now_ns = now_ns;
    tt_reader_init(&r, data, bytes);
    h.version = tt_read_u8(&r);
    h.kind = tt_read_u8(&r);
    h.scope = tt_read_u16(&r);
    h.epoch = tt_read_u64(&r);
    h.number = tt_read_u64(&r);
    h.array = tt_read_u32(&r);
    h.offset = tt_read_u64(&r);
    h.bytes = tt_read_u32(&r);
    if (r.bad || h.version != TT_ELASTIC_VERSION || (h.kind != GET && h.kind != PIECE) ||
        (h.kind == GET && r.at != r.end))
        return false;
    if (h.scope != t->conf.scope || h.epoch != t->conf.epoch || h.number != t->conf.number)
        return true;
    if (h.kind == GET)
        return on_get(t, rank, &h);
    good = on_piece(t, rank, &h, &r);
    if (t->part == TT_SYNC_RECEIVES)
        send_requests(t);
    return good;
}

/* ---- plans and time -------------------------------------------------------------------------- */

static struct tt_transfer_source *find_source(struct tt_transfer *t, uint32_t rank)
{
    for (uint32_t i = 0; i < t->nsources; i++)
        if (t->sources[i].rank == rank)
            return &t->sources[i];
    if (t->nsources == TT_TRANSFER_SOURCES)
        return NULL;
    t->sources[t->nsources] = (struct tt_transfer_source){ .rank = rank };
    return &t->sources[t->nsources++];
}

void tt_transfer_plan(struct tt_transfer *t, uint8_t part, const struct tt_hash *content,
                      const uint32_t *holders, uint32_t nholders, uint64_t now_ns)
{
    tt_assert(now_ns >= t->now_ns);
    t->now_ns = now_ns;
    t->part = part;
    t->content = *content;
    if (part != TT_SYNC_RECEIVES)
        return;
    if (t->vote == TT_SYNC_GOT) {
        send_vote(t, TT_SYNC_GOT, NULL); /* the coordinator may have missed the vote */
        return;
    }
    t->vote = TT_SYNC_NOT_YET;
    for (uint32_t i = 0; i < t->nsources; i++)
        t->sources[i].now = false;
    for (uint32_t i = 0; i < nholders; i++) {
        struct tt_transfer_source *s = find_source(t, holders[i]);

        if (!s)
            continue;
        s->now = true;
        s->silent = false;
        s->wrong = 0;
    }
    for (uint32_t i = 0; i < t->nsources; i++)
        if (!is_usable(&t->sources[i]))
            drop_source(t, i);
    send_requests(t);
}

void tt_transfer_tick(struct tt_transfer *t, uint64_t now_ns)
{
    tt_assert(now_ns >= t->now_ns);
    t->now_ns = now_ns;
    if (t->part != TT_SYNC_RECEIVES)
        return;
    for (uint32_t i = 0; i < t->nsources; i++) {
        struct tt_transfer_source *s = &t->sources[i];

        if (s->requested == 0 || now_ns - s->heard_ns < t->conf.patience_ns)
            continue;
        s->silent = true;
        drop_source(t, i);
    }
    send_requests(t);
}

uint64_t tt_transfer_next_ns(const struct tt_transfer *t)
{
    uint64_t next_ns = TT_NEVER;

    for (uint32_t i = 0; i < t->nsources && t->part == TT_SYNC_RECEIVES; i++)
        if (t->sources[i].requested > 0 && t->sources[i].heard_ns + t->conf.patience_ns < next_ns)
            next_ns = t->sources[i].heard_ns + t->conf.patience_ns;
    return next_ns;
}
