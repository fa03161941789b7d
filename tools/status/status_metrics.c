/* The status in the text format of Prometheus. */
#include <inttypes.h>
#include <stdlib.h>
#include "tools/status/status.h"

static void print_help(const char *name, const char *help, FILE *to)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void print_gauge(const struct status_answer *a, const char *name, const char *help,
                        uint64_t value, FILE *to)
{
    print_help(name, help, to);
    fprintf(to, "%s{job=\"%016" PRIx64 "\"} %" PRIu64 "\n", name, a->hello.job, value);
}

/* Prints a label's value; the format restricts quotes, backslashes and newlines. */
static void print_label(const char *text, FILE *to)
{
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else
            fputc(*text == '\n' ? ' ' : *text, to);
}

static void print_ranks(const struct status_answer *a, FILE *to)
{
    print_help("tutti_job_ranks_unreported", "Ranks without a report, by cause.", to);
    for (uint32_t list = 0; list < TT_STATUS_LISTS; list++)
        fprintf(to, "tutti_job_ranks_unreported{job=\"%016" PRIx64 "\",cause=\"%s\"} %u\n",
                a->hello.job, status_list_name((enum tt_status_list)list), a->report.lists[list].n);
    fprintf(to, "tutti_job_ranks_unreported{job=\"%016" PRIx64 "\",cause=\"unknown\"} %u\n",
            a->hello.job, status_nunknown(a));
}

static void print_comm_label(const struct status_answer *a, const struct status_judged *j,
                             const char *name, FILE *to)
{
    fprintf(to, "%s{job=\"%016" PRIx64 "\",comm=\"%016" PRIx64 "\",name=\"", name, a->hello.job,
            j->comm->hash);
    print_label(j->comm->name, to);
    fprintf(to, "\"}");
}

static uint32_t count_missing(const struct status_judged *j)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < j->comm->ngroups; i++)
        if (status_is_behind(j, &j->comm->groups[i]))
            n += j->comm->groups[i].nranks;
    return n;
}

/* Prints rates of the last second, if the query collected them. */
static void metrics_of_rates(const struct status_answer *a, const struct status_judged *j,
                             uint32_t n, FILE *to)
{
    static const struct {
        const char *name, *help;
    } gauges[] = {
        { "tutti_communicator_calls_per_second", "Calls of all ranks that ended in this second." },
        { "tutti_communicator_bytes_per_second", "Bytes of these calls." },
        { "tutti_communicator_latest_rank",
          "The rank that spent the least time in collectives: others wait for it." },
        { "tutti_communicator_latest_share", "Share of time that this rank spent in collectives." },
        { "tutti_communicator_most_share", "The largest share of a rank." },
    };

    for (uint32_t which = 0; which < sizeof gauges / sizeof *gauges; which++) {
        print_help(gauges[which].name, gauges[which].help, to);
        for (uint32_t i = 0; i < n; i++) {
            const struct tt_status_rates *x = &j[i].comm->rates;
            const double values[] = { (double)x->calls, (double)x->bytes, x->least_rank,
                                      (double)x->least / TT_STATUS_WHOLE,
                                      (double)x->most / TT_STATUS_WHOLE };

            if (!j[i].comm->has_rates || (which >= 2 && !x->most))
                continue;
            print_comm_label(a, &j[i], gauges[which].name, to);
            fprintf(to, " %.15g\n", values[which]);
        }
    }
}

static void metrics_of_lanes(const struct status_answer *a, FILE *to)
{
    static const struct {
        const char *name, *help;
    } gauges[] = {
        { "tutti_lanes", "Lanes of a transport, in all ranks that reported them." },
        { "tutti_lanes_up", "Of these, lanes that are up." },
        { "tutti_lanes_idle", "Of these, lanes on which nothing was posted in the last interval." },
        { "tutti_lanes_out_of_order_depth",
          "Largest number of segments by which a link's lanes were out of order in the last "
          "interval." },
        { "tutti_lanes_posts_per_second", "Segments posted on them." },
        { "tutti_lanes_bytes_per_second", "Bytes posted on them." },
        { "tutti_lanes_outstanding_segments", "Segments posted on them, and not complete." },
        { "tutti_lanes_outstanding_bytes", "Bytes of these segments." },
    };

    for (uint32_t which = 0; which < sizeof gauges / sizeof *gauges; which++) {
        print_help(gauges[which].name, gauges[which].help, to);
        for (uint32_t i = 0; i < a->report.nlanes; i++) {
            const struct tt_status_lanes *l = &a->report.lanes[i];
            const uint64_t values[] = { l->lanes,       l->up,
                                        l->idle,        l->depth,
                                        l->posts_per_s, l->bytes_per_s,
                                        l->outstanding, l->outstanding_bytes };

            fprintf(to, "%s{job=\"%016" PRIx64 "\",wire=\"", gauges[which].name, a->hello.job);
            print_label(l->wire, to);
            fprintf(to, "\"} %" PRIu64 "\n", values[which]);
        }
    }
}

void status_print_metrics(const struct status_answer *a, uint32_t rows, FILE *to)
{
    static const char waiting[] = "tutti_communicator_operation_seconds",
                      missing[] = "tutti_communicator_ranks_missing";
    struct status_judged *judged;
    const uint32_t all = status_judge(&a->report, &judged), n = all < rows ? all : rows;

    print_gauge(a, "tutti_job_ranks", "Ranks of the job.", a->hello.nranks, to);
    print_gauge(a, "tutti_job_ranks_reported", "Ranks that report.", a->report.nreported, to);
    print_gauge(a, "tutti_job_ranks_active", "Ranks with an operation in progress.",
                a->report.nactive, to);
    print_ranks(a, to);
    print_gauge(a, "tutti_job_operations_per_second", "Operations ended in the last second.",
                a->report.ops_per_s, to);
    print_gauge(a, "tutti_job_bytes_per_second", "Bytes of these operations.",
                a->report.bytes_per_s, to);
    print_help(waiting, "Time since the first rank called the operation in progress.", to);
    for (uint32_t i = 0; i < n; i++) {
        print_comm_label(a, &judged[i], waiting, to);
        fprintf(to, " %.3f\n", judged[i].lead ? (double)judged[i].lead->age_max_ns / 1e9 : 0.0);
    }
    print_help(missing, "Ranks that have not called the operation that others are in.", to);
    for (uint32_t i = 0; i < n; i++) {
        print_comm_label(a, &judged[i], missing, to);
        fprintf(to, " %u\n", count_missing(&judged[i]));
    }
    if (a->query.what == TT_COLLECT_RATES) {
        metrics_of_rates(a, judged, n, to);
        metrics_of_lanes(a, to);
    }
    free(judged);
}
