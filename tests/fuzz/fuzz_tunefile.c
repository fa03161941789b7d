/* Arbitrary tune files, also as sent by rank 0. An accepted one can be queried for any call: the
 * result supports the call, and its segments are valid for the engine. Written and read again, it
 * is equal. */
#include "comm/tunes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "engine/exec.h"

#define TEXT_BYTES_MAX 8192

static void ask(const struct tt_tunefile *f, const struct tt_coll *c)
{
    const struct tt_segment_limits limits = { .segment_bytes = 65536,
                                              .eager_bytes = 4096,
                                              .all_local = true };
    struct tt_tuned choice;

    if (!tt_tunefile_find(f, c, &limits, &choice))
        return;
    tt_assert(choice.algo->kind == c->kind && choice.algo->fits(c) &&
              choice.row->algo == choice.algo);
    tt_assert(choice.segments.streams >= 1 && choice.segments.streams <= TT_EXEC_STREAMS_MAX);
    tt_assert(choice.segments.depth >= 1 && choice.segments.depth <= TT_EXEC_DEPTH_MAX);
    tt_assert(choice.segments.segment_bytes >= limits.eager_bytes &&
              choice.segments.segment_bytes <= TT_TUNE_SEGMENT_MAX);
    tt_assert((choice.segments.segment_bytes & (choice.segments.segment_bytes - 1)) == 0);
}

static void ask_all(const struct tt_tunefile *f)
{
    static const uint64_t sizes[] = { 0, 1, 8, 1000, 1ull << 20, 1ull << 40 };
    char why[64];
    struct tt_layout layout;

    for (uint32_t nranks = 1; nranks <= 5; nranks++) {
        tt_layout_regular(&layout, nranks, 2, 1, 1, TT_NODE_MESH);
        tt_tunefile_is_for(f, &layout, "shm", why, sizeof why);
        for (int kind = 0; kind < TT_COLL_KINDS; kind++)
            for (size_t i = 0;
                 i < sizeof sizes / sizeof *sizes && tt_tunefile_has((enum tt_coll_kind)kind); i++)
                ask(f, &(struct tt_coll){ .kind = (enum tt_coll_kind)kind,
                                          .nranks = nranks,
                                          .elem_bytes = 1,
                                          .bytes = sizes[i],
                                          .layout = &layout });
    }
}

static void write_again(const struct tt_tunefile *f)
{
    struct tt_tunefile *again;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    tt_assert(to);
    tt_assert(tt_tunefile_write(f, to, "memory") == TUTTI_OK);
    fclose(to);
    tt_assert(tt_tunefile_read(&again, text, bytes, "memory") == TUTTI_OK);
    tt_assert(again->nrows == f->nrows && again->nranks == f->nranks &&
              again->complete == f->complete);
    for (uint32_t i = 0; i < f->nrows; i++)
        tt_assert(strcmp(again->row[i].name, f->row[i].name) == 0 &&
                  again->row[i].bytes == f->row[i].bytes);
    tt_tunefile_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_BYTES_MAX + 1];
    struct tt_tunes told = { .n = 0 };
    struct tt_tunefile *f;

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    tt_log_set(TT_LOG_NONE);
    if (tt_tunes_take(&told, data, bytes) == TUTTI_OK)
        for (uint32_t i = 0; i < told.n; i++)
            ask_all(told.file[i]);
    tt_tunes_fini(&told);
    memcpy(text, data, bytes);
    text[bytes] = 0;
    if (tt_tunefile_read(&f, text, bytes, "input") != TUTTI_OK)
        return 0;
    ask_all(f);
    write_again(f);
    tt_tunefile_free(f);
    return 0;
}
