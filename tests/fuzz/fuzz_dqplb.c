/* DQPLB with a peer that sends anything. The input: two bytes for the window and the lanes, their
 * selection and limits; then words of a sender, five bytes each (a lane and the word), up to a byte
 * of 0xff; then events at a sender: completions, lanes that go down and up, reports. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/bytes.h"
#include "base/status.h"
#include "wire/dqplb.h"

static void receive_words(struct tt_reader *in, uint32_t window)
{
    /* on the heap: sanitizers detect overruns */
    uint64_t *words = malloc(2 * TT_DQPLB_WORDS(window) * sizeof *words);
    struct tt_dqplb_receiver r;
    uint64_t notified = 0, came = 0;
    uint8_t lane;

    tt_assert(words);
    tt_dqplb_receiver_init(&r, window, 0xfffffe, words);
    while (lane = tt_read_u8(in), lane != 0xff && !in->bad) {
        const int whole = tt_dqplb_received(&r, lane, tt_read_u32(in));

        tt_assert(whole >= -1 && whole <= (int)window);
        came += whole >= 0;
        notified += whole > 0 ? (uint64_t)whole : 0;
        tt_assert(notified <= came && r.expected <= 0xfffffe + came);
    }
    free(words);
}

static void answer(struct tt_reader *in, uint32_t window, uint32_t lanes, uint8_t how)
{
    const struct tt_dqplb_limits limits = {
        .lanes = lanes, .outstanding = 4, .window = window, .segment_bytes = 10
    };
    struct tt_dqplb_segment *segment = malloc(window * sizeof *segment), g;
    bool down[TT_DQPLB_LANES_MAX] = { false }, told[TT_DQPLB_LANES_MAX] = { false };
    const size_t report_bytes = TT_DQPLB_REPORT_BYTES(window);
    uint8_t *report = malloc(report_bytes);
    struct tt_dqplb_sender s;
    uint64_t begun = 0, over = 0, message;

    tt_assert(segment && report);
    tt_dqplb_sender_init(&s, &limits, 0xfffff0, segment);
    s.lanes.choice = how & 1 ? TT_DQPLB_EMPTIEST : TT_DQPLB_IN_TURN;
    if (how > 1)
        s.lanes.bytes_max = 4 * how;
    while (!in->bad && in->at < in->end) {
        const uint8_t what = tt_read_u8(in);
        const uint32_t lane = (what >> 2) % lanes;

        switch (what & 3) {
        case 0:
            if (tt_dqplb_begin(&s, begun, 7 * (what >> 2), what & 4)) {
                begun++;
                if (what & 128)
                    tt_dqplb_keep_to(&s, lane);
            }
            break;
        case 1:
            tt_dqplb_completed(&s, lane, 1 + (what >> 6));
            break;
        case 2:
            if (!down[lane])
                tt_dqplb_lane_down(&s, lane);
            else if (told[lane])
                tt_dqplb_lane_up(&s, lane);
            down[lane] = !down[lane] || !told[lane];
            told[lane] = false;
            break;
        default:
            tt_read_bytes(in, report, report_bytes);
            if (tt_dqplb_resolve(&s, lane, report, report_bytes))
                told[lane] = true;
            break;
        }
        while (tt_dqplb_next(&s, &g))
            tt_assert(g.lane < lanes && !down[g.lane] && g.message < begun &&
                      s.head - s.tail <= window);
        while (tt_dqplb_over(&s, &message))
            tt_assert(message == over++);
    }
    tt_assert(over <= begun);
    free(report);
    free(segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_reader in;
    uint32_t window;
    uint8_t lanes;

    tt_reader_init(&in, data, bytes);
    window = 1u << tt_read_u8(&in) % 9;
    lanes = tt_read_u8(&in);
    receive_words(&in, window);
    answer(&in, window, 1 + lanes % TT_DQPLB_LANES_MAX, lanes / TT_DQPLB_LANES_MAX);
    return 0;
}
