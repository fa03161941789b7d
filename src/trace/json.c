#include "trace/json.h"

#include <inttypes.h>
#include "base/clock.h"

static double us(uint64_t ns)
{
    return (double)ns * 1e-3;
}

/* Writes the separator before an event. */
static void write_separator(FILE *to, bool *any)
{
    fputs(*any ? ",\n" : "\n", to);
    *any = true;
}

static void write_ranks(uint32_t nranks, FILE *to, bool *any)
{
    for (uint32_t r = 0; r < nranks; r++) {
        write_separator(to, any);
        fprintf(to,
                "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank "
                "%u\"}},\n",
                r, r);
        fprintf(to,
                "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":"
                "%u}}",
                r, r);
    }
}

/* Writes the two rows of a lane: the segments of its sender, and the arrivals at its receiver.
 * Their IDs are 2 * number + 1 and 2 * number + 2. */
static void write_lane_rows(const struct tt_timeline_row *row, size_t number, FILE *to, bool *any)
{
    char name[TT_TIMELINE_NAME_BYTES];

    write_separator(to, any);
    fprintf(to,
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu32
            ",\"tid\":%zu,\"args\":{\"name\":\"%s\"}},\n",
            row->from, 2 * number + 1, tt_timeline_name(row, name));
    fprintf(to,
            "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu32
            ",\"tid\":%zu,\"args\":{\"name\":"
            "\"%.8s from rank %" PRIu32 ", lane %u\"}}",
            row->to, 2 * number + 2, row->wire, row->from, row->lane);
}

static void write_args(const struct tt_timeline_row *row, const struct tt_timeline_segment *g,
                       FILE *to)
{
    fprintf(to,
            "\"args\":{\"wire\":\"%.8s\",\"from\":%" PRIu32 ",\"to\":%" PRIu32
            ",\"lane\":%u,\"number\":%" PRIu32 ",\"part\":%" PRIu32 ",\"bytes\":%" PRIu64,
            row->wire, row->from, row->to, row->lane, g->number, g->part, g->bytes);
    if (row->rail != TT_TRACE_NO_RAIL)
        fprintf(to, ",\"rail\":%u", row->rail);
    if (row->queue)
        fprintf(to, ",\"queue\":%" PRIu32, row->queue);
    if (g->posted_ns != TT_NEVER && g->arrived_ns != TT_NEVER)
        fprintf(to, ",\"arrived_us\":%.3f", us(g->arrived_ns) - us(g->posted_ns));
    if (g->posted_ns != TT_NEVER && g->completed_ns == TT_NEVER)
        fputs(",\"completed\":false", to);
    fputs("}", to);
}

/* Returns the end of a segment. Without a completion, this is the last time at which it was known
 * to be in flight. */
static uint64_t segment_end_ns(const struct tt_timeline_segment *g)
{
    if (g->completed_ns != TT_NEVER)
        return g->completed_ns;
    return g->arrived_ns != TT_NEVER && g->arrived_ns > g->posted_ns ? g->arrived_ns : g->posted_ns;
}

static void write_sent(const struct tt_timeline_row *row, size_t number,
                       const struct tt_timeline_segment *g, size_t id, FILE *to, bool *any)
{
    char name[TT_TIMELINE_NAME_BYTES];

    tt_timeline_name(row, name);
    write_separator(to, any);
    fprintf(to,
            "{\"ph\":\"b\",\"cat\":\"segment\",\"id\":\"%zx\",\"name\":\"%s\",\"pid\":%" PRIu32
            ",\"tid\":%zu,"
            "\"ts\":%.3f,",
            id, name, row->from, 2 * number + 1, us(g->posted_ns));
    write_args(row, g, to);
    fprintf(to,
            "},\n{\"ph\":\"e\",\"cat\":\"segment\",\"id\":\"%zx\",\"name\":\"%s\",\"pid\":%" PRIu32
            ",\"tid\":%zu,"
            "\"ts\":%.3f}",
            id, name, row->from, 2 * number + 1, us(segment_end_ns(g)));
}

static void write_arrival(const struct tt_timeline_row *row, size_t number,
                          const struct tt_timeline_segment *g, FILE *to, bool *any)
{
    write_separator(to, any);
    fprintf(to,
            "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"arrival\",\"name\":\"%" PRIu32
            "\",\"pid\":%" PRIu32 ",\"tid\":%zu,\"ts\":%.3f,",
            g->number, row->to, 2 * number + 2, us(g->arrived_ns));
    write_args(row, g, to);
    fputs("}", to);
}

void tt_timeline_write_json(const struct tt_timeline *t, const uint64_t *lost, uint32_t nranks,
                            FILE *to)
{
    bool any = false;

    fprintf(to, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tutti\":\"%s\",\"lost\":[",
            tutti_version());
    for (uint32_t r = 0; r < nranks; r++)
        fprintf(to, "%s%" PRIu64, r ? "," : "", lost[r]);
    fputs("]},\"traceEvents\":[", to);
    write_ranks(nranks, to, &any);
    for (size_t i = 0; i < t->nrows; i++)
        write_lane_rows(&t->rows[i], i, to, &any);
    for (size_t i = 0; i < t->nsegments; i++) {
        const struct tt_timeline_segment *g = &t->segments[i];

        if (g->posted_ns != TT_NEVER)
            write_sent(&t->rows[g->row], g->row, g, i + 1, to, &any);
        if (g->arrived_ns != TT_NEVER)
            write_arrival(&t->rows[g->row], g->row, g, to, &any);
    }
    fputs("\n]}\n", to);
}
