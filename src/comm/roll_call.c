#include "comm/roll_call.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/neighbours.h"
#include "topo/layout.h"

/* Frames between neighbours, a byte of kind, then
 *   QUERY     time of sending u64
 *   RESPONSE  time of sending u64, as in the query; times of arrival and reply u64, u64;
 *             clock of the job known u8, offset u64 (two's complement), error u64 */
enum { ROLL_QUERY = 1, ROLL_RESPONSE = 2 };
#define ROLL_QUERY_BYTES 9u
#define ROLL_RESPONSE_BYTES 42u
#define ROLL_EVERY_NS (100 * TT_MS)

/* Returns the neighbours with their state, created on first use. NULL: none, or out of memory. The
 * caller holds the overlay's lock. */
static struct tt_neighbours *refresh(struct tt_world *w)
{
    const uint32_t *ranks;
    uint32_t n;

    if (!w->overlay)
        return NULL;
    n = tt_overlay_neighbours(w->overlay, &ranks);
    if (!w->neighbours) {
        w->neighbours = tt_neighbours_create(w->rank, ranks, n);
        for (uint32_t i = 0; w->neighbours && w->layout.nranks && i < n; i++)
            w->neighbours->list[i].is_here =
                tt_layout_host(&w->layout, w->rank) == tt_layout_host(&w->layout, ranks[i]);
    }
    for (uint32_t i = 0; w->neighbours && i < n; i++)
        w->neighbours->list[i].is_connected = tt_overlay_is_connected(w->overlay, ranks[i]);
    return w->neighbours;
}

static void send_query(struct tt_world *w, uint32_t to, uint64_t now_ns)
{
    uint8_t frame[ROLL_QUERY_BYTES];
    struct tt_writer wr;

    tt_writer_init(&wr, frame, sizeof frame);
    tt_write_u8(&wr, ROLL_QUERY);
    tt_write_u64(&wr, now_ns);
    tt_overlay_send(w->overlay, TT_OVERLAY_ROLL_CALL, to, frame, sizeof frame);
}

void tt_roll_call_query(struct tt_world *w)
{
    const uint64_t now_ns = tt_now_ns();
    struct tt_neighbours *s;

    pthread_mutex_lock(&w->overlay_lock);
    s = refresh(w);
    for (uint32_t i = 0; s && i < s->n; i++)
        if (tt_neighbours_is_due_every(s, i, ROLL_EVERY_NS, now_ns))
            send_query(w, s->list[i].rank, now_ns);
    pthread_mutex_unlock(&w->overlay_lock);
}

/* Responds with this rank's clock. */
static void handle_query(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    const uint64_t sent_ns = tt_read_u64(r), now_ns = tt_now_ns();
    const struct tt_neighbours *s = refresh(w);
    struct tt_clock_offset clock = { .known = w->rank == 0 };
    uint8_t frame[ROLL_RESPONSE_BYTES];
    struct tt_writer wr;

    if (s)
        clock = tt_neighbours_clock(s, now_ns);
    tt_writer_init(&wr, frame, sizeof frame);
    tt_write_u8(&wr, ROLL_RESPONSE);
    tt_write_u64(&wr, sent_ns);
    tt_write_u64(&wr, now_ns);
    tt_write_u64(&wr, tt_now_ns());
    tt_write_u8(&wr, clock.known);
    tt_write_u64(&wr, (uint64_t)clock.offset_ns);
    tt_write_u64(&wr, clock.error_ns);
    if (!r->bad)
        tt_overlay_send(w->overlay, TT_OVERLAY_ROLL_CALL, from, frame, sizeof frame);
}

static void handle_response(struct tt_world *w, uint32_t from, struct tt_reader *r)
{
    struct tt_clock_exchange x = { .received_ns = tt_now_ns() };
    struct tt_clock_offset told;

    x.sent_ns = tt_read_u64(r);
    x.arrived_ns = tt_read_u64(r);
    x.replied_ns = tt_read_u64(r);
    told.known = tt_read_u8(r) != 0;
    told.offset_ns = (int64_t)tt_read_u64(r);
    told.error_ns = tt_read_u64(r);
    if (!r->bad && w->neighbours)
        tt_neighbours_answer(w->neighbours, from, &x, &told);
}

void tt_roll_call_handle(struct tt_world *w, const struct tt_overlay_event *ev)
{
    struct tt_reader r;
    uint8_t kind;

    tt_reader_init(&r, ev->data, ev->bytes);
    kind = tt_read_u8(&r);
    if (kind == ROLL_QUERY)
        handle_query(w, ev->origin, &r);
    else if (kind == ROLL_RESPONSE)
        handle_response(w, ev->origin, &r);
    if (r.bad)
        tt_log(TT_LOG_WARN, "protocol error: rank %u sent an invalid control frame", ev->origin);
}

/* ---- for dumps ---- */

bool tt_roll_call_step(void *arg, bool begins)
{
    struct tt_world *w = arg;
    const uint64_t now_ns = tt_now_ns();
    struct tt_neighbours *s;
    bool complete;

    pthread_mutex_lock(&w->overlay_lock);
    s = refresh(w);
    if (s && begins)
        tt_neighbours_begin_roll(s, now_ns);
    for (uint32_t i = 0; s && i < s->n; i++)
        if (tt_neighbours_is_due(s, i, now_ns))
            send_query(w, s->list[i].rank, now_ns);
    complete = !s || tt_neighbours_is_complete(s, now_ns);
    pthread_mutex_unlock(&w->overlay_lock);
    return complete;
}

void tt_roll_call_add(void *arg, struct tt_dump_state *s)
{
    struct tt_world *w = arg;
    const uint64_t now_ns = tt_now_ns();
    const struct tt_neighbours *of;

    pthread_mutex_lock(&w->overlay_lock);
    of = refresh(w);
    for (uint32_t i = 0; of && i < of->n; i++) {
        const enum tt_neighbour_life life = tt_neighbours_life(of, i, now_ns);

        if (life != TT_NEIGHBOUR_UNKNOWN)
            tt_dump_add_life(s, &(struct tt_dump_life){ .rank = of->list[i].rank,
                                                        .is_silent = life == TT_NEIGHBOUR_SILENT,
                                                        .last_ns = of->list[i].answered_ns });
    }
    if (of && w->leads_dumps) {
        const struct tt_clock_offset clock = tt_neighbours_clock(of, now_ns);

        s->clock_known = clock.known;
        s->offset_ns = clock.offset_ns;
        s->error_ns = clock.error_ns;
    }
    pthread_mutex_unlock(&w->overlay_lock);
}
