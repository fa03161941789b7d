#include "boot/records.h"

#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"

/* Links that a rank tries for its own request. A rank on the path tries one link, and another one
 * only if that link ends: otherwise a request for a lost rank would take every path. */
#define ATTEMPTS_MAX 3

/* A copy of a record. Copies of neighbours' records are never dropped; the other copies are in a
 * list, oldest first. */
struct tt_record {
    uint32_t rank;
    uint16_t bytes;
    struct tt_record *newer;
    uint8_t data[];
};

#define UNSENT UINT32_MAX

/* An open request. */
struct request {
    uint32_t rank, via;         /* via: the link over which it was sent; UNSENT: it waits for a link
                                   that is still connecting */
    bool here;                  /* this rank needs it */
    uint64_t links;             /* links that requested it */
    uint64_t tried;
};

uint32_t tt_records_link(const struct tt_records *s, uint32_t peer)
{
    for (uint32_t i = 0; i < s->nlinks; i++)
        if (s->peers[i] == peer)
            return i;
    return UINT32_MAX;
}

size_t tt_records_bytes(const struct tt_records *s)
{
    const struct tt_record *r;
    size_t bytes = s->own_bytes;
    uint32_t at = 0;

    while ((r = tt_sparse_next(&s->known, &at)))
        bytes += sizeof *r + r->bytes;
    return bytes;
}

static bool is_power_of_2(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Returns the neighbour at half the distance of link i; this rank if the distance is 1. */
static uint32_t half_way(const struct tt_records *s, uint32_t i)
{
    const uint32_t n = s->nranks, up = (s->peers[i] + n - s->rank) % n, down = n - up;
    const bool goes_up = is_power_of_2(up) && (up < down || !is_power_of_2(down));

    if (up == 1 || down == 1)
        return s->rank;
    return (s->rank + (goes_up ? up / 2 : n - down / 2)) % n;
}

uint64_t tt_records_due(const struct tt_records *s, uint64_t decided)
{
    uint64_t due = 0;

    for (uint32_t i = 0; i < s->nlinks; i++) {
        const uint32_t half = tt_records_link(s, half_way(s, i));

        if (half < s->nlinks && decided >> half & 1)
            due |= 1ull << i;
    }
    return due;
}

static uint32_t ring_distance(const struct tt_records *s, uint32_t a, uint32_t b)
{
    const uint32_t up = (b + s->nranks - a) % s->nranks;

    return up < s->nranks - up ? up : s->nranks - up;
}

/* ---- copies ---- */

static void drop_oldest(struct tt_records *s)
{
    struct tt_record *old = s->oldest;

    s->oldest = old->newer;
    if (!s->oldest)
        s->newest = NULL;
    s->nkept--;
    tt_sparse_remove(&s->known, old->rank);
    free(old);
}

/* Keeps a copy if there is memory. */
static void keep_record(struct tt_records *s, uint32_t rank, const uint8_t *data, size_t bytes)
{
    struct tt_record *r;

    if (rank == s->rank || tt_sparse_get(&s->known, rank))
        return;
    r = malloc(sizeof *r + bytes);
    if (!r)
        return;
    r->rank = rank;
    r->bytes = (uint16_t)bytes;
    r->newer = NULL;
    memcpy(r->data, data, bytes);
    if (!tt_sparse_set(&s->known, rank, r)) {
        free(r);
        return;
    }
    if (tt_records_link(s, rank) != UINT32_MAX)
        return;
    if (s->newest)
        s->newest->newer = r;
    else
        s->oldest = r;
    s->newest = r;
    if (++s->nkept > s->kept_max)
        drop_oldest(s);
}

/* ---- frames ---- */

static void records_send_frame(struct tt_records *s, uint32_t link, uint8_t type, const void *body,
                               size_t bytes)
{
    uint8_t frame[TT_FRAME_HEADER_BYTES + TT_RECORDS_FRAME_BYTES];
    const struct tt_records_act act = { .kind = TT_RECORDS_ACT_SEND,
                                        .link = link,
                                        .data = frame,
                                        .bytes = TT_FRAME_HEADER_BYTES + bytes };

    tt_frame_header(frame, type, bytes);
    memcpy(frame + TT_FRAME_HEADER_BYTES, body, bytes);
    s->emit(s->context, &act);
}

/* data NULL: not reachable. */
static void records_send_response(struct tt_records *s, uint32_t link, uint32_t rank,
                                  const uint8_t *data, size_t bytes)
{
    uint8_t body[TT_RECORDS_FRAME_BYTES];
    struct tt_writer w;

    tt_writer_init(&w, body, sizeof body);
    tt_write_u32(&w, rank);
    tt_write_u8(&w, data != NULL);
    tt_write_u8(&w, 0);
    tt_write_bytes(&w, data, data ? bytes : 0);
    tt_assert(!w.bad);
    s->nresponses++;
    records_send_frame(s, link, TT_RECORDS_RESPONSE, body, tt_writer_bytes(&w));
}

static void records_report(struct tt_records *s, uint32_t rank, const uint8_t *data, size_t bytes)
{
    const struct tt_records_act act = { .kind = data ? TT_RECORDS_ACT_FOUND : TT_RECORDS_ACT_FAILED,
                                        .rank = rank,
                                        .data = data,
                                        .bytes = bytes };

    s->emit(s->context, &act);
}

/* ---- requests ---- */

/* Returns the one of `links` whose peer is nearest to `rank`; UNSENT if none is nearer than this
 * rank. */
static uint32_t best_link(const struct tt_records *s, uint32_t rank, uint64_t links)
{
    uint32_t best = UNSENT, least = ring_distance(s, s->rank, rank);

    for (uint32_t i = 0; i < s->nlinks; i++)
        if (links >> i & 1 && ring_distance(s, s->peers[i], rank) < least) {
            least = ring_distance(s, s->peers[i], rank);
            best = i;
        }
    return best;
}

/* Completes a request: responds to all ranks that made it. data NULL: not reachable. */
static void request_end(struct tt_records *s, struct request *q, const uint8_t *data, size_t bytes)
{
    const struct request ended = *q;

    tt_sparse_remove(&s->wanted, q->rank);
    free(q);
    for (uint32_t i = 0; i < s->nlinks; i++)
        if ((ended.links & s->open) >> i & 1)
            records_send_response(s, i, ended.rank, data, bytes);
    if (ended.here)
        records_report(s, ended.rank, data, bytes);
}

/* Sends a request, or keeps it until a link is up. Returns false if it has failed instead. */
static bool request_send(struct tt_records *s, struct request *q)
{
    uint8_t body[4];
    struct tt_writer w;

    q->via = best_link(s, q->rank, s->open & ~q->tried);
    if (q->via == UNSENT && !q->here && best_link(s, q->rank, s->connecting) != UNSENT)
        return true;
    if (q->via == UNSENT) {
        request_end(s, q, NULL, 0);
        return false;
    }
    q->tried |= 1ull << q->via;
    tt_writer_init(&w, body, sizeof body);
    tt_write_u32(&w, q->rank);
    s->nrequests++;
    records_send_frame(s, q->via, TT_RECORDS_REQUEST, body, sizeof body);
    return true;
}

/* Returns the open request for a rank's record; *is_new: it must be sent. NULL: out of memory. */
static struct request *request_for(struct tt_records *s, uint32_t rank, bool *is_new)
{
    struct request *q = tt_sparse_get(&s->wanted, rank);

    *is_new = !q;
    if (q)
        return q;
    q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->rank = rank;
    if (!tt_sparse_set(&s->wanted, rank, q)) {
        free(q);
        return NULL;
    }
    return q;
}

/* Returns the record if this rank has it, or NULL. */
static const uint8_t *find_record(const struct tt_records *s, uint32_t rank, size_t *bytes)
{
    const struct tt_record *r = tt_sparse_get(&s->known, rank);

    if (rank == s->rank) {
        *bytes = s->own_bytes;
        return s->own;
    }
    *bytes = r ? r->bytes : 0;
    return r ? r->data : NULL;
}

/* Requests the record of `rank` for the peer of `link`; UINT32_MAX: for this rank. */
static void records_want(struct tt_records *s, uint32_t rank, uint32_t link)
{
    const bool here = link == UINT32_MAX;
    struct request *q;
    const uint8_t *data;
    size_t bytes;
    bool is_new;

    data = find_record(s, rank, &bytes);
    q = data ? NULL : request_for(s, rank, &is_new);
    if (!q && here)
        records_report(s, rank, data, bytes);
    else if (!q)
        records_send_response(s, link, rank, data, bytes);
    if (!q)
        return;
    q->here |= here;
    q->links |= here ? 0 : 1ull << link;
    if (is_new || (here && q->via == UNSENT))
        request_send(s, q);
}

static bool records_handle_request(struct tt_records *s, uint32_t link, const struct tt_frame *f)
{
    struct tt_reader r;
    uint32_t rank;

    tt_reader_init(&r, f->body, f->bytes);
    rank = tt_read_u32(&r);
    if (r.bad || r.at != r.end || rank >= s->nranks)
        return false;
    records_want(s, rank, link);
    return true;
}

static bool records_handle_response(struct tt_records *s, uint32_t link, const struct tt_frame *f)
{
    uint8_t found, zero;
    struct request *q;
    struct tt_reader r;
    uint32_t rank;
    size_t bytes;

    tt_reader_init(&r, f->body, f->bytes);
    rank = tt_read_u32(&r);
    found = tt_read_u8(&r);
    zero = tt_read_u8(&r);
    bytes = (size_t)(r.end - r.at);
    if (r.bad || rank >= s->nranks || found > 1 || zero || bytes > TT_RECORD_BYTES ||
        (!found && bytes > 0))
        return false;
    q = tt_sparse_get(&s->wanted, rank);
    if (!q || q->via != link)
        return true;        /* the request took another link, or has ended */
    if (!found && q->here && __builtin_popcountll(q->tried) < ATTEMPTS_MAX) {
        request_send(s, q);
        return true;
    }
    if (!found) {
        request_end(s, q, NULL, 0);
        return true;
    }
    keep_record(s, rank, r.at, bytes);
    request_end(s, q, r.at, bytes);
    return true;
}

/* Sends the requests that wait for a link, and again those sent over `link`. */
static void send_again(struct tt_records *s, uint32_t link)
{
    struct request *q;
    uint32_t at = 0;

    while ((q = tt_sparse_next(&s->wanted, &at)))
        if ((q->via == UNSENT || q->via == link) && !request_send(s, q))
            at = 0;         /* the request has ended, which changes the table */
}

static void link_is_up(struct tt_records *s, uint32_t link)
{
    s->connecting &= ~(1ull << link);
    s->open |= 1ull << link;
    send_again(s, UNSENT);
}

static void link_ended(struct tt_records *s, uint32_t link)
{
    struct request *q;
    uint32_t at = 0;

    s->connecting &= ~(1ull << link);
    s->open &= ~(1ull << link);
    while ((q = tt_sparse_next(&s->wanted, &at)))
        q->links &= ~(1ull << link);
    send_again(s, link);
}

bool tt_records_step(struct tt_records *s, const struct tt_records_event *ev)
{
    switch ((enum tt_records_event_kind)ev->kind) {
    case TT_RECORDS_EV_WANTED:
        records_want(s, ev->rank, UINT32_MAX);
        return true;
    case TT_RECORDS_EV_UP:
        link_is_up(s, ev->link);
        return true;
    case TT_RECORDS_EV_ENDED:
        link_ended(s, ev->link);
        return true;
    case TT_RECORDS_EV_FRAME:
        break;
    }
    if (ev->frame.type == TT_RECORDS_REQUEST)
        return records_handle_request(s, ev->link, &ev->frame);
    return ev->frame.type == TT_RECORDS_RESPONSE &&
           records_handle_response(s, ev->link, &ev->frame);
}

tutti_status tt_records_init(struct tt_records *s, uint32_t rank, uint32_t nranks,
                             const void *record, uint16_t bytes, uint32_t kept_max)
{
    tt_assert(rank < nranks && bytes <= TT_RECORD_BYTES);
    *s = (struct tt_records){ .rank = rank,
                              .nranks = nranks,
                              .own_bytes = bytes,
                              .kept_max = kept_max ? kept_max : TT_RECORDS_KEPT };
    s->own = malloc(bytes ? bytes : 1u);
    if (!s->own)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for an address record");
    memcpy(s->own, record, bytes);
    s->nlinks = tt_flood_neighbours(rank, nranks, s->peers);
    s->connecting = (1ull << s->nlinks) - 1;
    return TUTTI_OK;
}

void tt_records_fini(struct tt_records *s)
{
    uint32_t at = 0;
    void *one;

    while ((one = tt_sparse_next(&s->known, &at)))
        free(one);
    at = 0;
    while ((one = tt_sparse_next(&s->wanted, &at)))
        free(one);
    tt_sparse_fini(&s->known);
    tt_sparse_fini(&s->wanted);
    free(s->own);
    s->own = NULL;
}
