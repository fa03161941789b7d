#include "sched/finding.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include "sched/print.h"

#define SENTENCE_BYTES 256

tutti_status tt_finding_step(const struct tt_finding *f, uint32_t rank, uint64_t step,
                             const char *fmt, ...)
{
    char text[TT_STEP_TEXT_BYTES], sentence[SENTENCE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    snprintf(f->text, f->bytes, "rank %u, step %" PRIu64 " (%s): %s", rank, step,
             tt_step_text(&f->program->steps[rank][step], text, sizeof text), sentence);
    return TUTTI_ERR_INVALID;
}

tutti_status tt_finding_rank(const struct tt_finding *f, uint32_t rank, const char *fmt, ...)
{
    char sentence[SENTENCE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence, sizeof sentence, fmt, ap);
    va_end(ap);
    snprintf(f->text, f->bytes, "rank %u: %s", rank, sentence);
    return TUTTI_ERR_INVALID;
}

tutti_status tt_finding_nomem(const struct tt_finding *f)
{
    snprintf(f->text, f->bytes, "out of memory for the verification of %u ranks",
             f->program->nranks);
    return TUTTI_ERR_NOMEM;
}
