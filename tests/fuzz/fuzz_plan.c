/* Arbitrary plans in JSON. An accepted one has bounded ranks, rounds and steps; a verified one
 * supports all functions of an algorithm, for its own size and for others. */
#include "comm/planfile.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "algo/algos.h"
#include "base/log.h"
#include "base/status.h"
#include "comm/plugin_trampolines.h"

#define TEXT_BYTES_MAX 8192

static void ask(const struct tt_algo *algo, struct tt_coll *c)
{
    for (c->rank = 0; c->rank < c->nranks; c->rank++) {
        tt_assert(algo->npeers(c) < c->nranks);
        algo->work_bytes(c);
        for (uint64_t k = 0; k < algo->nrounds(c); k++) {
            struct tt_step steps[TT_ROUND_STEPS_MAX];
            struct tt_sched s = { .steps = steps, .cap = TT_ROUND_STEPS_MAX };

            algo->round(&s, c, k);
            for (uint32_t i = 0; i < s.n; i++)
                tt_assert(steps[i].opcode <= TT_COPY &&
                          (steps[i].opcode > TT_WAIT || steps[i].peer < c->nranks));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint64_t sizes[] = { 0, 1, 8, 24, 1 << 20 };
    static size_t nalgos;
    char text[TEXT_BYTES_MAX + 1];
    struct tt_plan_file *p;

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    tt_log_set(TT_LOG_NONE);
    nalgos = nalgos ? nalgos : tt_nalgos;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (tt_plan_file_read(&p, text, bytes, "input") != TUTTI_OK)
        return 0;
    if (tt_plan_file_add(p, "input") != TUTTI_OK) {
        tt_plan_file_free(p);
        return 0;
    }
    for (uint32_t nranks = 1; nranks <= 4; nranks++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct tt_coll c = {
                .kind = tt_algos[nalgos]->kind,
                .nranks = nranks,
                .elem_bytes = 1,
                .bytes = sizes[i],
                .in_place = i % 2,
            };

            if (c.kind == TT_BARRIER)
                c.bytes = 0;
            if (tt_algos[nalgos]->fits(&c))
                ask(tt_algos[nalgos], &c);
        }
    tt_algo_remove_from(nalgos);
    tt_trampolines_free(0);
    return 0;
}
