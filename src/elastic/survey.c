/* Format of messages: {u8 version, u8 kind, u64 epoch, u64 number, u32 value, u32 us}. value: a
 * token in PING and PONG, otherwise the round. us: in END the duration of the burst at its
 * sender, otherwise 0. A CHUNK is followed by data, which is ignored. */
#include "elastic/survey.h"

#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"

/* the second byte of other messages between members is below KIND_MIN, or at least KIND_END */
#define KIND_MIN 0xa0u
#define KIND_END 0xc0u
enum { PING = KIND_MIN + 1, PONG, READY, GO, CHUNK, STOP, END, GOT, KINDS };

#define NUMBER_MAX (1ull << 55)     /* more than 256 measurements in each round of any run */
/* flag of a token: the sender has begun, or reconnected. A receiver without a PONG from it pings
 * again, since the sender may have missed the earlier ping */
#define FIRST 0x80000000u
/* chunks grow with the sent bytes, so that slow links also transfer many */
#define CHUNK_BYTES_MIN 512u
#define BURST_BYTES_MAX (64u << 20)
/* time until the first check of the rate, or CHECK_ROUND_TRIPS round trips if longer: covers a
 * delay of the receiver by the scheduler */
#define CHECK_NS (80 * TT_MS)
#define CHECK_ROUND_TRIPS 8u
#define BURST_ROUND_TRIPS 12u
/* timeout of a round in addition to the burst: for data in flight at its end */
#define ROUND_NS (2 * TT_SECOND)

bool tt_survey_is_mine(const void *data, size_t bytes)
{
    return bytes >= 2 && ((const uint8_t *)data)[1] >= KIND_MIN &&
           ((const uint8_t *)data)[1] < KIND_END;
}

static uint32_t survey_rounds(const struct tt_survey *p)
{
    return p->conf.nranks - 1;
}

static void send_with(struct tt_survey *p, uint32_t rank, uint8_t kind, uint32_t value, uint32_t us,
                      uint32_t bytes)
{
    uint8_t head[TT_SURVEY_HEAD_BYTES];
    struct tt_writer w;

    tt_writer_init(&w, head, sizeof head);
    tt_write_u8(&w, TT_ELASTIC_VERSION);
    tt_write_u8(&w, kind);
    tt_write_u64(&w, p->conf.epoch);
    tt_write_u64(&w, p->number);
    tt_write_u32(&w, value);
    tt_write_u32(&w, us);
    tt_assert(!w.bad && tt_writer_bytes(&w) == sizeof head);
    p->conf.emit(p->conf.context, &(struct tt_survey_act){ .rank = rank,
                                                           .head = head,
                                                           .head_bytes = sizeof head,
                                                           .body = p->conf.filler,
                                                           .body_bytes = bytes });
}

static void send_message(struct tt_survey *p, uint32_t rank, uint8_t kind, uint32_t value)
{
    send_with(p, rank, kind, value, 0, 0);
}

static void send_all(struct tt_survey *p, uint8_t kind)
{
    for (uint32_t rank = 0; rank < p->conf.nranks; rank++)
        if (rank != p->conf.rank)
            send_message(p, rank, kind, 0);
}

/* Returns the maximum duration of a burst from or to that rank. */
static uint64_t burst_ns(const struct tt_survey *p, uint32_t rank)
{
    const uint64_t ns = BURST_ROUND_TRIPS * p->conf.peers[rank].round_trip_ns;

    return ns < p->conf.burst_ns       ? p->conf.burst_ns
           : ns > p->conf.far_burst_ns ? p->conf.far_burst_ns
                                       : ns;
}

/* Returns how long this member waits for missing messages. */
static uint64_t give_up_after_ns(const struct tt_survey *p)
{
    return survey_rounds(p) * (p->conf.far_burst_ns + ROUND_NS);
}

static void end_if_all(struct tt_survey *p)
{
    if (p->state == TT_SURVEY_BURSTS && p->in == survey_rounds(p) && p->out == survey_rounds(p))
        p->state = TT_SURVEY_DONE;
}

/* ---- sending a burst ------------------------------------------------------------------------- */

static void send_chunk(struct tt_survey *p, uint32_t rank)
{
    const uint64_t share = p->sent_bytes / 16;
    const uint32_t bytes = share < CHUNK_BYTES_MIN         ? CHUNK_BYTES_MIN
                           : share > TT_SURVEY_CHUNK_BYTES ? TT_SURVEY_CHUNK_BYTES
                                                           : (uint32_t)share;

    p->sent_bytes += bytes;
    send_with(p, rank, CHUNK, p->out, 0, bytes);
}

static void send_end(struct tt_survey *p, uint32_t rank)
{
    const uint64_t took_us = (p->now_ns - p->sent_ns) / 1000;

    p->ended = true;
    send_with(p, rank, END, p->out, took_us < UINT32_MAX ? (uint32_t)took_us : UINT32_MAX, 0);
}

/* Sends the next round's burst, if requested. */
static void send_if_asked(struct tt_survey *p)
{
    uint32_t rank;

    if (p->state != TT_SURVEY_BURSTS || p->sending || p->out == survey_rounds(p))
        return;
    rank = tt_ring_round_to(p->conf.nranks, p->out, p->conf.rank);
    if (!p->conf.peers[rank].go_received)
        return;
    p->sending = true;
    p->ended = false;
    p->sent_ns = p->now_ns;
    p->sent_bytes = 0;
    send_chunk(p, rank);
}

static void burst_sent(struct tt_survey *p)
{
    p->sending = false;
    p->out++;
    send_if_asked(p);
    end_if_all(p);
}

static bool sends_to(const struct tt_survey *p, uint32_t rank)
{
    return p->state == TT_SURVEY_BURSTS && p->sending &&
           rank == tt_ring_round_to(p->conf.nranks, p->out, p->conf.rank);
}

bool tt_survey_room(struct tt_survey *p, uint32_t rank, uint64_t now_ns)
{
    tt_assert(now_ns >= p->now_ns && rank < p->conf.nranks);
    p->now_ns = now_ns;
    if (!sends_to(p, rank) || p->ended)
        return false;
    if (now_ns - p->sent_ns >= burst_ns(p, rank) || p->sent_bytes >= BURST_BYTES_MAX)
        send_end(p, rank);
    else
        send_chunk(p, rank);
    return true;
}

uint32_t tt_survey_unsent(const struct tt_survey *p, uint32_t rank)
{
    const uint64_t sent = sends_to(p, rank) ? p->sent_bytes : 0;
    uint32_t unsent = TT_SURVEY_UNSENT_MIN;

    while (unsent < TT_SURVEY_UNSENT_MAX && 2 * unsent <= sent)
        unsent *= 2;
    return unsent;
}

/* ---- receiving a burst ----------------------------------------------------------------------- */

/* Requests this round's burst. */
static void request_burst(struct tt_survey *p)
{
    p->began = p->stopped = false;
    p->bytes = 0;
    p->nsamples = p->skipped = 0;
    p->stride = 1;
    if (p->in < survey_rounds(p))
        send_message(p, tt_ring_round_from(p->conf.nranks, p->in, p->conf.rank), GO, p->in);
}

static bool comes_from(const struct tt_survey *p, uint32_t rank)
{
    return p->state == TT_SURVEY_BURSTS && p->in < survey_rounds(p) &&
           rank == tt_ring_round_from(p->conf.nranks, p->in, p->conf.rank);
}

/* Returns the first sample at that time or later. */
static uint32_t sample_at(const struct tt_survey *p, uint64_t at_ns)
{
    uint32_t k = 0;

    while (k + 1 < p->nsamples && p->conf.samples[k].at_ns < at_ns)
        k++;
    return k;
}

/* Returns the rate of `bytes` in `ns`. */
static uint64_t rate_in(uint64_t bytes, uint64_t ns)
{
    const uint64_t rate = bytes * 1000 / (ns / 1000 + 1) * 1000;

    return rate < TT_RING_RATE_MAX ? rate : TT_RING_RATE_MAX;
}

/* Returns the rate of the received data: the slope of its second half if reliable, otherwise the
 * mean. 0: unknown. It is at most twice the sender's mean rate, in case the receiver was scheduled
 * late and found much data at once. */
static uint64_t measured_rate(const struct tt_survey *p, uint32_t took_us)
{
    const struct tt_ring_sample *s = p->conf.samples;
    const uint64_t most = took_us ? 2 * rate_in(p->bytes, took_us * 1000ull) : TT_RING_RATE_MAX;
    uint64_t rate = 0, ns;

    if (p->nsamples < 2 || s[p->nsamples - 1].at_ns == s[0].at_ns)
        return 0;
    ns = s[p->nsamples - 1].at_ns - s[0].at_ns;
    if (p->nsamples >= TT_RING_SAMPLES_MIN && ns >= TT_RING_BURST_NS_MIN &&
        ns <= TT_RING_BURST_NS_MAX &&
        p->nsamples - sample_at(p, s[0].at_ns + ns / 2) >= TT_RING_HALF_SAMPLES_MIN &&
        tt_ring_estimate_rate(s, p->nsamples, &rate) == TUTTI_OK)
        return rate < most ? rate : most;
    rate = rate_in(s[p->nsamples - 1].bytes - s[0].bytes, ns);
    return rate < most ? rate : most;
}

/* Returns whether the rates of the third and fourth quarter of the time differ by at most an
 * eighth. */
static bool is_steady(const struct tt_survey *p)
{
    const struct tt_ring_sample *s = p->conf.samples, *last = &s[p->nsamples - 1];
    const uint64_t quarter_ns = (last->at_ns - s[0].at_ns) / 4;
    const struct tt_ring_sample *half, *three;
    uint64_t third, fourth;

    if (p->nsamples < 4 * TT_RING_SAMPLES_MIN)
        return false;
    half = &s[sample_at(p, s[0].at_ns + 2 * quarter_ns)];
    three = &s[sample_at(p, s[0].at_ns + 3 * quarter_ns)];
    if (half->at_ns == three->at_ns || three->at_ns == last->at_ns)
        return false;
    third = rate_in(three->bytes - half->bytes, three->at_ns - half->at_ns);
    fourth = rate_in(last->bytes - three->bytes, last->at_ns - three->at_ns);
    return fourth <= third + third / 8 && third <= fourth + fourth / 8;
}

/* Records samples evenly, within the available space. */
static void take_sample(struct tt_survey *p)
{
    struct tt_ring_sample *s = p->conf.samples;

    if (p->skipped++ % p->stride != 0)
        return;
    if (p->nsamples == TT_SURVEY_SAMPLES) {
        for (uint32_t k = 0; k < TT_SURVEY_SAMPLES / 2; k++)
            s[k] = s[2 * k];
        p->nsamples /= 2;
        p->stride *= 2;
    }
    s[p->nsamples++] = (struct tt_ring_sample){ .at_ns = p->now_ns, .bytes = p->bytes };
}

static void handle_chunk(struct tt_survey *p, uint32_t rank, size_t bytes)
{
    const uint64_t check_ns = CHECK_ROUND_TRIPS * p->conf.peers[rank].round_trip_ns;
    uint64_t passed_ns;

    if (!p->began) /* the measured time begins after the first chunk */
        p->check_ns = p->now_ns + (check_ns > CHECK_NS ? check_ns : CHECK_NS);
    else
        p->bytes += bytes;
    p->began = true;
    take_sample(p);
    passed_ns = p->now_ns - p->conf.samples[0].at_ns;
    if (p->stopped || p->now_ns < p->check_ns)
        return;
    p->check_ns = p->now_ns + passed_ns / 2;
    if (passed_ns < burst_ns(p, rank) && !is_steady(p))
        return;
    p->stopped = true;
    send_message(p, rank, STOP, p->in);
}

/* Ends this round's burst. */
static void burst_received(struct tt_survey *p, uint32_t rank, uint64_t rate)
{
    p->conf.links[rank].rate = rate;
    p->in++;
    request_burst(p);
    end_if_all(p);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void ping(struct tt_survey *p, uint32_t rank, uint32_t first)
{
    struct tt_survey_peer *peer = &p->conf.peers[rank];

    peer->token = (++p->tokens & ~FIRST) | first;
    peer->pinged_ns = p->now_ns;
    send_message(p, rank, PING, peer->token);
}

void tt_survey_begin(struct tt_survey *p, const struct tt_survey_conf *conf, uint64_t number,
                     uint64_t now_ns)
{
    const struct tt_survey_conf kept = *conf; /* may be p's own */

    tt_assert(kept.nranks >= 2 && kept.nranks <= TT_RING_PEERS_MAX && kept.rank < kept.nranks &&
              number > 0);
    *p = (struct tt_survey){ .conf = kept,
                             .number = number,
                             .highest_seen = number,
                             .now_ns = now_ns,
                             .give_up_ns = TT_NEVER };
    memset(kept.peers, 0, kept.nranks * sizeof *kept.peers);
    memset(kept.links, 0, kept.nranks * sizeof *kept.links);
    for (uint32_t rank = 0; rank < kept.nranks; rank++)
        if (rank != kept.rank)
            ping(p, rank, FIRST);
}

static void burst_if_ready(struct tt_survey *p)
{
    if (p->state != TT_SURVEY_WAITS)
        return;
    for (uint32_t rank = 0; rank < p->conf.nranks; rank++)
        if (rank != p->conf.rank && !p->conf.peers[rank].ready)
            return;
    p->state = TT_SURVEY_BURSTS;
    p->give_up_ns = p->now_ns + give_up_after_ns(p);
    request_burst(p);
    send_if_asked(p);
}

static void handle_ping(struct tt_survey *p, uint32_t rank, uint32_t token)
{
    send_message(p, rank, PONG, token);
    if (token & FIRST && p->conf.peers[rank].npongs == 0)
        ping(p, rank, 0);
}

static void handle_pong(struct tt_survey *p, uint32_t rank, uint32_t token)
{
    struct tt_survey_peer *peer = &p->conf.peers[rank];
    const uint64_t took_ns = p->now_ns > peer->pinged_ns ? p->now_ns - peer->pinged_ns : 1;

    if (p->state != TT_SURVEY_PINGS_GO || token != peer->token || peer->npongs == TT_SURVEY_PINGS)
        return;
    if (peer->npongs == 0 || took_ns < peer->round_trip_ns)
        peer->round_trip_ns = took_ns < 2 * TT_RING_LATENCY_MAX ? took_ns : 2 * TT_RING_LATENCY_MAX;
    p->conf.links[rank].latency = (peer->round_trip_ns + 1) / 2;
    if (++peer->npongs < TT_SURVEY_PINGS) {
        ping(p, rank, 0);
        return;
    }
    for (uint32_t other = 0; other < p->conf.nranks; other++)
        if (other != p->conf.rank && p->conf.peers[other].npongs < TT_SURVEY_PINGS)
            return;
    p->state = TT_SURVEY_WAITS;
    p->give_up_ns = p->now_ns + give_up_after_ns(p);
    send_all(p, READY);
    burst_if_ready(p);
}

/* ---- messages ---- */

/* If the round is over here, it must also end for the requesting member. */
static void handle_go(struct tt_survey *p, uint32_t rank, uint32_t round)
{
    if (round != tt_ring_round_of(p->conf.nranks, p->conf.rank, rank))
        return;
    if (round < p->out) {
        send_message(p, rank, END, round);
        return;
    }
    p->conf.peers[rank].go_received = true;
    send_if_asked(p);
}

static void handle_end(struct tt_survey *p, uint32_t rank, uint32_t round, uint32_t took_us)
{
    if (round != tt_ring_round_of(p->conf.nranks, rank, p->conf.rank))
        return;
    if (round < p->in) {
        send_message(p, rank, GOT, round);
    } else if (comes_from(p, rank)) {
        send_message(p, rank, GOT, round);
        burst_received(p, rank, measured_rate(p, took_us));
    }
}

static void survey_handle_message(struct tt_survey *p, uint32_t rank, uint8_t kind, uint32_t value,
                                  uint32_t us, size_t bytes)
{
    switch (kind) {
    case PING:
        handle_ping(p, rank, value);
        return;
    case PONG:
        handle_pong(p, rank, value);
        return;
    case READY:
        p->conf.peers[rank].ready = true;
        burst_if_ready(p);
        return;
    case GO:
        handle_go(p, rank, value);
        return;
    case CHUNK:
        if (comes_from(p, rank) && value == p->in)
            handle_chunk(p, rank, bytes);
        return;
    case STOP:
        if (sends_to(p, rank) && value == p->out && !p->ended)
            send_end(p, rank);
        return;
    case END:
        handle_end(p, rank, value, us);
        return;
    default:
        if (sends_to(p, rank) && value == p->out && p->ended)
            burst_sent(p);
    }
}

bool tt_survey_receive(struct tt_survey *p, uint32_t rank, const void *data, size_t bytes,
                       uint64_t now_ns)
{
    struct tt_reader r;
    uint8_t version, kind;
    uint64_t epoch, number;
    uint32_t value, us;

    tt_assert(now_ns >= p->now_ns && rank < p->conf.nranks);
    p->now_ns = now_ns;
    tt_reader_init(&r, data, bytes);
    version = tt_read_u8(&r);
    kind = tt_read_u8(&r);
    epoch = tt_read_u64(&r);
    number = tt_read_u64(&r);
    value = tt_read_u32(&r);
    us = tt_read_u32(&r);
    if (r.bad || version != TT_ELASTIC_VERSION || kind <= KIND_MIN || kind >= KINDS ||
        number == 0 || number > NUMBER_MAX || (r.at != r.end && kind != CHUNK))
        return false;
    if (epoch != p->conf.epoch || rank == p->conf.rank)
        return true; /* belongs to another epoch */
    if (number > p->highest_seen)
        p->highest_seen = number;
    if (number > p->number && kind == PING && p->state != TT_SURVEY_DONE)
        tt_survey_begin(p, &p->conf, number, now_ns);
    if (number == p->number)
        survey_handle_message(p, rank, kind, value, us, bytes);
    else if (number < p->number && kind == PING && value & FIRST && p->state == TT_SURVEY_PINGS_GO)
        ping(p, rank, FIRST); /* so that the peer receives the current number */
    return true;
}

void tt_survey_again(struct tt_survey *p, uint32_t rank, uint64_t now_ns)
{
    tt_assert(now_ns >= p->now_ns && rank < p->conf.nranks);
    p->now_ns = now_ns;
    if (rank == p->conf.rank)
        return;
    if (p->state == TT_SURVEY_PINGS_GO && p->conf.peers[rank].npongs < TT_SURVEY_PINGS)
        ping(p, rank, FIRST);
    if (p->state == TT_SURVEY_WAITS || p->state == TT_SURVEY_BURSTS)
        send_message(p, rank, READY, 0);
    if (sends_to(p, rank))
        burst_sent(p);
    if (comes_from(p, rank) && p->began)
        burst_received(p, rank, 0);
    else if (comes_from(p, rank))
        send_message(p, rank, GO, p->in);
}

void tt_survey_end(struct tt_survey *p)
{
    p->in = p->out = survey_rounds(p);
    p->sending = false;
    p->state = TT_SURVEY_DONE;
}

void tt_survey_tick(struct tt_survey *p, uint64_t now_ns)
{
    tt_assert(now_ns >= p->now_ns);
    p->now_ns = now_ns;
    if (tt_survey_next_ns(p) <= now_ns)
        tt_survey_end(p);
}

uint64_t tt_survey_next_ns(const struct tt_survey *p)
{
    return p->state == TT_SURVEY_WAITS || p->state == TT_SURVEY_BURSTS ? p->give_up_ns : TT_NEVER;
}
