/* The profile as text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/profile/profile.h"

/* Writes a time with three digits, e.g. "1.25 ms". */
static const char *text_of_ns(double ns, char out[16])
{
    static const char *const units[] = { "ns", "us", "ms", "s" };
    size_t i = 0;

    for (; ns >= 999.5 && i + 1 < sizeof units / sizeof *units; i++)
        ns /= 1000;
    snprintf(out, 16, ns >= 99.95 ? "%.0f %s" : ns >= 9.995 ? "%.1f %s" : "%.2f %s", ns, units[i]);
    return out;
}

static const char *text_of_bytes(double bytes, char out[16])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t i = 0;

    for (; bytes >= 1024 && i + 1 < sizeof units / sizeof *units; i++)
        bytes /= 1024;
    snprintf(out, 16, bytes < 10 && i > 0 ? "%.1f %s" : "%.0f %s", bytes, units[i]);
    return out;
}

static void print_head(const struct profiled *p)
{
    const struct tt_dumps *d = &p->dumps;
    const struct tt_profile *f = &p->profile;
    uint64_t lost = 0;

    for (uint32_t r = 0; r < d->nranks; r++)
        lost += d->ranks[r].lost;
    printf("job %s: %u ranks, %u dumps", d->job, d->nmembers, d->ndumps);
    if (d->ndumps > d->ncomplete)
        printf(" (%u incomplete)", d->ndumps - d->ncomplete);
    printf(", %" PRIu64 " operations", f->calls);
    if (f->begin != TT_DUMPS_NEVER)
        printf(" in %.3f s", 1e-9 * ((double)f->end - (double)f->begin));
    printf("\n");
    if (f->nopen > 0)
        printf("not counted: %" PRIu64 " operations that have not ended\n", f->nopen);
    if (d->nrecords > d->nops || lost > 0)
        printf("earlier operations: %" PRIu64 " not read (--last), %" PRIu64
               " no longer in the rings of the processes\n",
               d->nrecords - d->nops, lost);
    if (f->nknown < f->ninstances)
        printf("the last caller is known for %" PRIu64 " of %" PRIu64 " collectives and messages\n",
               f->nknown, f->ninstances);
}

/* Returns the name of an algorithm without its collective, e.g. "ring". */
static const char *short_algorithm(const struct tt_dumps *d, const struct tt_profile_row *r)
{
    const char *kind = tt_dumps_text(d, r->kind), *algo = tt_dumps_text(d, r->algo);
    const size_t n = strlen(kind);

    if (*algo == '\0')
        return "-";
    return strncmp(algo, kind, n) == 0 && algo[n] == '_' ? algo + n + 1 : algo;
}

static void print_row(const struct profiled *p, const struct tt_profile_row *r)
{
    const struct tt_dumps *d = &p->dumps;
    char comm[32], size[16], bytes[16], total[16], median[16], transfer[16] = "-", busbw[24] = "-";
    const double all = r->total_ns > 0 ? r->total_ns : 1;

    if (r->transfer_ns >= 0)
        text_of_ns((double)r->transfer_ns, transfer);
    if (r->busbw > 0)
        snprintf(busbw, sizeof busbw, r->busbw < 99.95 ? "%.2f" : "%.0f", r->busbw);
    printf("%-8.8s %-12.12s %-12.12s %7s %6" PRIu64 " %8s %7s %7s %8s %4.0f %5.0f %s\n",
           tt_dumps_comm_name(d, r->comm, comm), tt_dumps_text(d, r->kind), short_algorithm(d, r),
           text_of_bytes((double)r->bytes_from, size), r->calls,
           text_of_bytes((double)r->bytes, bytes), text_of_ns(r->total_ns, total),
           text_of_ns((double)r->median_ns, median), transfer, 100 * r->queued_ns / all,
           100 * r->waited_ns / all, busbw);
}

static void print_rows(const struct profiled *p)
{
    const struct tt_profile *f = &p->profile;

    printf("\n%-8s %-12s %-12s %7s %6s %8s %7s %7s %8s %4s %4s %s\n", "comm", "operation",
           "algorithm", "size >=", "calls", "bytes", "time", "median", "transfer", "que%", "late%",
           "GB/s");
    for (size_t i = 0; i < f->nrows && i < p->rows; i++)
        print_row(p, &f->rows[i]);
    if (f->nrows > p->rows)
        printf("... (%zu other rows; --rows shows more)\n", f->nrows - p->rows);
}

/* Stages of long operations, in percent of their time. */
static void print_stages(const struct profiled *p)
{
    static const char *const heads[] = { "queue", "peer", "ctrl", "reg",
                                         "send",  "red",  "copy", "wire" };
    const struct tt_profile *f = &p->profile;
    char comm[32], size[16];
    size_t n = 0;

    for (size_t i = 0; i < f->nrows; i++) {
        const struct tt_profile_row *r = &f->rows[i];
        double all = 0;

        if (r->nstaged == 0 || n++ >= p->rows)
            continue;
        if (n == 1) {
            printf("\nstages of long operations, in %% of their time\n");
            printf("%-8s %-12s %-12s %7s %6s", "comm", "operation", "algorithm",
                   "size >=", "calls");
            for (int k = 0; k < TT_PROFILE_STAGES; k++)
                printf(" %5s", heads[k]);
            printf("\n");
        }
        for (int k = 0; k < TT_PROFILE_STAGES; k++)
            all += r->staged_ns[k];
        printf("%-8.8s %-12.12s %-12.12s %7s %6" PRIu64,
               tt_dumps_comm_name(&p->dumps, r->comm, comm), tt_dumps_text(&p->dumps, r->kind),
               short_algorithm(&p->dumps, r), text_of_bytes((double)r->bytes_from, size),
               r->nstaged);
        for (int k = 0; k < TT_PROFILE_STAGES; k++)
            printf(" %5.1f", all > 0 ? 100 * r->staged_ns[k] / all : 0);
        printf("\n");
    }
    if (n > p->rows)
        printf("... (%zu other rows; --rows shows more)\n", n - p->rows);
}

static void print_late(const struct profiled *p)
{
    const struct tt_profile *f = &p->profile;
    char comm[32], lost[16];

    if (f->nlate == 0)
        return;
    printf("\n%-10s  %6s  %-10s  %s  %s\n", "comm", "rank", "host", "last caller of",
           "time that others waited for it");
    for (size_t i = 0; i < f->nlate && i < p->rows; i++) {
        const struct tt_profile_late *l = &f->late[i];

        printf("%-10.10s  %6u  %-10.10s  %6" PRIu64 "/%-7" PRIu64 "  %s\n",
               tt_dumps_comm_name(&p->dumps, l->comm, comm), l->rank,
               tt_dumps_text(&p->dumps, p->dumps.ranks[l->rank].host), l->times, l->of,
               text_of_ns(l->lost_ns, lost));
    }
    if (f->nlate > p->rows)
        printf("... (%zu other rows; --rows shows more)\n", f->nlate - p->rows);
}

/* ---- slow ranks ---- */

const char *profile_group(const struct profiled *p, uint32_t group, char out[96])
{
    const struct tt_instance *x = &p->instances.list[p->pace.group_instance[group]];
    const uint32_t *order = p->instances.order + x->first;
    char name[32];

    if (x->is_message)
        snprintf(out, 96, "messages from rank %u to rank %u", p->dumps.ops[order[0]].rank,
                 p->dumps.ops[order[1]].rank);
    else
        snprintf(out, 96, "collectives of \"%.64s\"", tt_dumps_comm_name(&p->dumps, x->comm, name));
    return out;
}

static void print_found(const struct profiled *p, const struct tt_pace_found *f)
{
    char group[96], lost[16];

    profile_group(p, f->group, group);
    switch (f->kind) {
    case TT_PACE_LATE:
        printf("  rank %u calls later than the others: they waited %s for it (%s", f->rank,
               text_of_ns(f->lost_ns, lost), group);
        break;
    case TT_PACE_RANK:
        printf("  rank %u is slow: %.1f times the usual time (%s", f->rank, f->factor, group);
        break;
    case TT_PACE_LINK:
        printf("  the link between ranks %u and %u is slow: %.1f times the usual time (%s", f->rank,
               f->to, f->factor, group);
        break;
    default:
        printf("  a rank or link, it is not known which, is slow: %.1f times the usual time (%s",
               f->factor, group);
        break;
    }
    printf("), in %u windows from %u on\n", f->nwindows, f->first);
}

static void print_pace(const struct profiled *p)
{
    const struct tt_pace_counts counts = tt_pace_counts(p->pace.pace);
    uint32_t n;
    const struct tt_pace_found *f = tt_pace_found(p->pace.pace, &n);
    char window[16];

    if (p->pace.nwindows == 0)
        return;
    printf("\n%s in %u windows of %s\n", n ? "slow ranks and links" : "no slow rank or link",
           p->pace.nwindows, text_of_ns((double)p->pace.window_ns, window));
    for (uint32_t i = 0; i < n && i < p->rows; i++)
        print_found(p, &f[i]);
    if (n > p->rows)
        printf("  ... (%u others; --rows shows more)\n", n - p->rows);
    if (counts.nskipped > 0)
        printf("  not compared: %" PRIu64 " operations (more than %u sizes or %u operations in a "
               "window)\n",
               counts.nskipped, TT_PACE_SERIES_MAX, TT_PACE_SAMPLES_MAX);
    if (counts.nunjudged > 0)
        printf("  not judged: ranks with too many common communicators, %" PRIu64
               " times in all windows\n",
               counts.nunjudged);
}

void profile_print(const struct profiled *p)
{
    print_head(p);
    print_rows(p);
    print_stages(p);
    print_late(p);
    print_pace(p);
}
