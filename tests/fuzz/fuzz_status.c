/* The live view with arbitrary clients and neighbours: rows of reports, frames of collections in
 * which this rank is the root or another one is, and frames of clients. Memory is bounded, a rank
 * sends to its neighbours only, and what was merged can be written and merged again. Input: {what
 * u8, bytes u16, data}. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "boot/flood.h"
#include "status/collect.h"
#include "status/seal.h"
#include "status/talk.h"

#define NRANKS 40u
#define RANK 7u
#define ROOT 9u                 /* of the other collection */

static uint32_t peers[TT_FLOOD_LINKS_MAX], npeers;

static bool fuzz_send(void *arg, uint32_t to, const void *data, uint16_t bytes)
{
    volatile uint8_t sum = 0;
    bool known = false;

    (void)arg;
    for (uint16_t i = 0; i < bytes; i++)        /* all of it is readable */
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
    for (uint32_t i = 0; i < npeers; i++)
        known |= peers[i] == to;
    tt_assert(known && bytes <= TT_OVERLAY_BYTES);
    return true;
}

static uint32_t fuzz_neighbours(void *arg, uint32_t *out)
{
    (void)arg;
    memcpy(out, peers, npeers * sizeof *peers);
    return npeers;
}

static bool fuzz_is_lost(void *arg, uint32_t rank)
{
    (void)arg;
    return rank == 30;
}

static void fuzz_snapshot(void *arg, const struct tt_collect_query *q, struct tt_status_report *r)
{
    (void)arg;
    tt_assert(tt_collect_query_is_valid(q));
    tt_status_add_comm(r, &(struct tt_status_comm){ .hash = 1, .nranks = NRANKS, .nreported = 1 });
}

static void fuzz_done(void *arg, struct tt_status_report *r)
{
    *(bool *)arg = true;
    tt_assert(r->nreported >= 1 && r->lists[TT_STATUS_LOST].n >= 1);
}

static const struct tt_collect_ops ops = {
    .send = fuzz_send,
    .neighbours = fuzz_neighbours,
    .is_lost = fuzz_is_lost,
    .snapshot = fuzz_snapshot,
    .done = fuzz_done,
};

static void check_bounds(const struct tt_status_report *r)
{
    tt_assert(r->ncomms <= TT_STATUS_COMMS_MAX && r->nops <= TT_STATUS_OPS_MAX &&
              r->nlanes <= TT_STATUS_WIRES_MAX && r->shares.n <= TT_STATUS_SLOW_MAX);
    for (uint32_t i = 1; i < r->shares.n; i++)
        tt_assert(r->shares.share[i - 1] <= r->shares.share[i]);
    for (uint32_t i = 0; i < r->nlanes; i++)
        tt_assert(memchr(r->lanes[i].wire, 0, sizeof r->lanes[i].wire));
    for (uint32_t i = 0; i < r->ncomms; i++) {
        tt_assert(r->comms[i].ngroups <= TT_STATUS_GROUPS_MAX);
        for (uint32_t k = 0; k < r->comms[i].ngroups; k++)
            tt_assert(r->comms[i].groups[k].nlisted <= TT_STATUS_LISTED_MAX);
    }
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        for (uint32_t i = 0; i < r->lists[list].n; i++)
            tt_assert(i == 0 || r->lists[list].rank[i - 1] < r->lists[list].rank[i]);
}

/* Writes a report and merges it into another one, which is then equal. */
static void check_again(const struct tt_status_report *r)
{
    struct tt_status_cursor at = { .stage = 0 };
    struct tt_status_report again;
    uint8_t rows[TT_STATUS_ROWS_MIN];
    size_t bytes;

    tt_status_report_init(&again);
    while ((bytes = tt_status_write(r, &at, rows, sizeof rows)) > 0)
        tt_assert(tt_status_merge(&again, rows, bytes));
    tt_assert(again.nreported == r->nreported && again.left_out == r->left_out &&
              again.ncomms == r->ncomms && again.ndumps == r->ndumps &&
              again.ndumping == r->ndumping && again.nops == r->nops && again.nlanes == r->nlanes &&
              again.detail.present == r->detail.present &&
              again.shares.nranks == r->shares.nranks && again.shares.n == r->shares.n);
    for (uint32_t i = 0; i < r->ncomms; i++)
        tt_assert(again.comms[i].hash == r->comms[i].hash &&
                  again.comms[i].nreported == r->comms[i].nreported &&
                  again.comms[i].ngroups <= r->comms[i].ngroups);
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        tt_assert(again.lists[list].n == r->lists[list].n);
    tt_status_report_fini(&again);
}

/* A frame of neighbour `from`, with a valid head. */
static void receive(struct tt_collect *c, uint8_t what, uint32_t from, const uint8_t *data,
                    size_t bytes, uint64_t now_ns)
{
    uint8_t frame[TT_OVERLAY_BYTES];
    struct tt_writer w;

    tt_writer_init(&w, frame, sizeof frame);
    tt_write_u8(&w, (uint8_t)((what >> 2) % 8));
    tt_write_u32(&w, what & 64 ? ROOT : RANK);
    tt_write_u64(&w, 1);
    if (bytes > (size_t)(w.end - w.at))
        bytes = (size_t)(w.end - w.at);
    tt_write_bytes(&w, data, bytes);
    (void)tt_collect_receive(c, from, frame, tt_writer_bytes(&w), now_ns);
}

/* Without the token, nothing is accepted. */
static void read_seals(const struct tt_frame *f)
{
    struct tt_seal_nonces n = { .process = { 1 } };
    struct tt_frame sealed = *f;
    struct tt_seal s;

    (void)tt_seal_challenge_read(f, &n);
    tt_assert(!tt_seal_proof_read(f, "a token of some length", &n));
    tt_assert(!tt_seal_accept_read(f, "a token of some length", &n));
    tt_seal_begin(&s, &n, "a token of some length", true);
    tt_assert(!tt_seal_check(&s, &sealed) && sealed.bytes <= f->bytes);
}

static void read_talk(uint8_t what, const uint8_t *data, size_t bytes)
{
    const struct tt_frame f = { .type = (uint8_t)(what >> 2), .body = data, .bytes = bytes };
    char why[TT_TALK_BODY_MAX];
    struct tt_collect_query q;
    struct tt_talk_hello h;

    if (tt_talk_request_read(&f, &q))
        tt_assert(tt_collect_query_is_valid(&q) && q.timeout_ms > 0 &&
                  q.timeout_ms <= TT_COLLECT_MS_MAX);
    if (tt_talk_hello_read(&f, &h))
        tt_assert(h.rank < h.nranks && memchr(h.host, 0, sizeof h.host));
    if (tt_talk_refused_read(&f, why))
        tt_assert(memchr(why, 0, sizeof why));
    read_seals(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 1000 };
    struct tt_status_report report;
    struct tt_collect c;
    struct tt_reader r;
    uint64_t now_ns = 1;
    bool done = false;

    npeers = tt_flood_neighbours(RANK, NRANKS, peers);
    tt_status_report_init(&report);
    tt_collect_init(&c, RANK, NRANKS, &ops, &done);
    tt_assert(tt_collect_begin(&c, &q, now_ns));
    tt_reader_init(&r, data, bytes);
    while (r.at < r.end) {
        const uint8_t what = tt_read_u8(&r), from = tt_read_u8(&r);
        const size_t want = tt_read_u16(&r), left = (size_t)(r.end - r.at);
        const uint8_t *at = tt_reader_take(&r, want < left ? want : left);

        if (r.bad)
            break;
        if ((what & 3) == 0)
            (void)tt_status_merge(&report, at, want < left ? want : left);
        else if ((what & 3) == 1)
            receive(&c, what, peers[from % npeers], at, want < left ? want : left, now_ns);
        else if ((what & 3) == 2)
            read_talk(what, at, want < left ? want : left);
        else
            tt_collect_tick(&c, now_ns += want * TT_MS);
    }
    check_bounds(&report);
    check_again(&report);
    tt_assert(tt_collect_bytes(&c) < TT_COLLECT_MAX * (8u << 20));
    for (int i = 0; i < 4 && tt_collect_due(&c) != TT_COLLECT_NEVER; i++)
        tt_collect_tick(&c, tt_collect_due(&c));
    tt_assert(done && tt_collect_due(&c) == TT_COLLECT_NEVER);
    tt_status_report_fini(&report);
    tt_collect_fini(&c);
    return 0;
}
