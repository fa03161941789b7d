#include "sched/print.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const buf_names[] = {
    [TT_BUF_SRC] = "SRC", [TT_BUF_DST] = "DST", [TT_BUF_WORK] = "WORK", [TT_BUF_PIPE] = "PIPE",
    [TT_BUF_THERE] = "THERE",
};

#define REF_TEXT_BYTES 112

static const char *ref_text(const struct tt_ref *ref, uint64_t bytes, char *out)
{
    uint64_t begin, end;
    const char *name = ref->buf <= TT_BUF_THERE ? buf_names[ref->buf] : "?";

    tt_ref_extent(ref, bytes, &begin, &end);
    if (ref->buf == TT_BUF_THERE)
        snprintf(out, REF_TEXT_BYTES, "%s", name);
    else if (ref->buf == TT_BUF_PIPE)
        snprintf(out, REF_TEXT_BYTES, "%s %" PRIu64, name, ref->offset);
    else if (ref->block == 0)
        snprintf(out, REF_TEXT_BYTES, "%s[%" PRIu64 ", %" PRIu64 ")", name, begin, end);
    else
        snprintf(out, REF_TEXT_BYTES, "%s[%" PRIu64 ", %" PRIu64 ") by %" PRIu64 " every %" PRIu64,
                 name, begin, end, ref->block, ref->stride);
    return out;
}

const char *tt_step_text(const struct tt_step *step, char *text, size_t bytes)
{
    char out[REF_TEXT_BYTES], a[REF_TEXT_BYTES], b[REF_TEXT_BYTES];

    ref_text(&step->out, step->bytes, out);
    ref_text(&step->a, step->bytes, a);
    ref_text(&step->b, step->bytes, b);
    switch (step->opcode) {
    case TT_PUT:
        snprintf(text, bytes, "put %s to %u %s, %" PRIu64 " B, tag %u", a, step->peer, out,
                 step->bytes, step->tag);
        break;
    case TT_WAIT:
        snprintf(text, bytes, "wait %s from %u, %" PRIu64 " B, tag %u", out, step->peer,
                 step->bytes, step->tag);
        break;
    case TT_REDUCE_STEP:
        snprintf(text, bytes, "reduce %s = %s op %s%s", out, a, b, step->finish ? ", finish" : "");
        break;
    case TT_COPY:
        snprintf(text, bytes, "copy %s = %s", out, a);
        break;
    default:
        snprintf(text, bytes, "opcode %u", step->opcode);
    }
    return text;
}
