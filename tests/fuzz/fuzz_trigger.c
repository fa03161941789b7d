/* The FIFO of a device, to which kernels may write anything: the proxy passes only valid window
 * accesses to its sink, and replies or terminates. The input: the mode, then triggers of 16 bytes,
 * in the order of writing. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "device/proxy.h"

#define RANKS 3u
#define SLOTS 8u
#define PART_BYTES 4096u

struct world {
    tutti_device_trigger fifo[SLOTS];
    uint64_t taken, answers[2 * (RANKS + 1)], given[RANKS], bytes[RANKS];
    uint64_t wake_sent[RANKS];
    uint32_t calls;
    uint8_t words[RANKS];
};

/* Sometimes there is no space. */
static bool is_full(struct world *w)
{
    return ++w->calls % 5 == 0;
}

static tutti_status put(void *arg, const struct tt_command *c, bool ordered, uint64_t *done)
{
    struct world *w = arg;

    (void)ordered;
    tt_assert(c->peer < RANKS && c->op <= TUTTI_SIGNAL_ADD &&
              (c->peer > 0 || c->what == TUTTI_TRIGGER_SIGNAL));
    tt_assert(c->bytes <= PART_BYTES && (c->bytes == 0 || c->offset <= PART_BYTES - c->bytes));
    tt_assert(!c->op || (w->words[c->peer] && c->word % 8 == 0 && c->word <= PART_BYTES - 8));
    if (is_full(w))
        return TUTTI_PENDING;
    *done += 1;
    return TUTTI_OK;
}

static tutti_status quiet(void *arg, uint32_t peer)
{
    tt_assert(peer < RANKS);
    return is_full(arg) ? TUTTI_PENDING : TUTTI_OK;
}

static void check_read_back(uint64_t head, uint64_t body)
{
    struct tt_trigger_reader r = { 0 };
    struct tt_command c;

    if (tt_trigger_take(&r, head, body, &c) != TT_TRIGGER_WHOLE)
        return;
    tt_assert(tutti_trigger_head(c.what, c.op, c.peer, c.word / 8) == (head & ~1ull));
    tt_assert(body == (c.what == TUTTI_TRIGGER_SIGNAL ? c.value : 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct world w = { .bytes = { PART_BYTES, PART_BYTES, PART_BYTES }, .words = { 1, 1, 0 } };
    struct tt_proxy_conf conf = {
        .sink = { .arg = &w, .put = put, .quiet = quiet, .wake = quiet },
        .nranks = RANKS,
        .timeout_ns = TT_NEVER,
        .fifo = w.fifo,
        .fifo_slots = SLOTS,
        .taken = &w.taken,
        .answers = w.answers,
        .given = w.given,
        .pending = 8,
        .wake_sent = w.wake_sent,
        .bytes = w.bytes,
        .words = w.words,
    };
    struct tt_proxy p;
    uint64_t at = 0;

    if (bytes == 0)
        return 0;
    tt_log_set(TT_LOG_NONE);
    conf.mode = (tutti_device_mode)(1 + data[0] % TUTTI_DEVICE_FULL);
    tt_assert(tt_proxy_init(&p, &conf) == TUTTI_OK);
    for (data++, bytes--; bytes >= sizeof(tutti_device_trigger); data += 16, bytes -= 16) {
        tutti_device_trigger t;

        memcpy(&t, data, sizeof t);
        check_read_back(t.head, t.body);
        for (int turn = 0; at - w.taken == SLOTS || turn == 0; turn++) {
            tutti_status st;
            bool any = false;

            tt_assert(turn < 10000);    /* the wire always accepts */
            tt_proxy_take(&p, &st);
            if (!st && !p.failed)
                st = tt_proxy_step(&p, 1, &any);
            if (st && !p.failed)
                tt_proxy_fail(&p, st);
        }
        t.head = (t.head & ~1ull) | ((at / SLOTS + 1) & 1);
        w.fifo[at++ % SLOTS] = t;
    }
    tt_proxy_fini(&p);
    return 0;
}
