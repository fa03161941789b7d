#include "tools/perf/perf_print.h"

#include <json-c/json.h>
#include <string.h>
#include "algo/algos.h"

double perf_algbw_gbs(const struct perf_row *row)
{
    const double us = row->times.median_us;

    return us > 0 ? (double)perf_case_bytes(row->c) / us * 1e-3 : 0;
}

double perf_busbw_gbs(const struct perf_row *row)
{
    return perf_algbw_gbs(row) * perf_bus_factor(row->c->coll, row->c->nranks);
}

static const char *op_name(const struct perf_case *c)
{
    return c->coll->reduces ? tutti_redop_name(c->op) : "none";
}

static int root_of(const struct perf_case *c) { return c->coll->rooted ? (int)c->root : -1; }

static void clear_progress(const struct perf_printer *p)
{
    if (p->progress)
        fputs("\r\033[K", stderr);
}

/* ---- the table ---- */

void perf_print_start(struct perf_printer *p, uint32_t nranks, const char *wire,
                      const char (*places)[PERF_PLACE_BYTES])
{
    const struct perf_options *o = p->o;
    size_t last = o->min_bytes;

    if (o->json)
        return;
    while (last <= o->max_bytes / o->factor)
        last *= o->factor;
    fprintf(p->out, "# tutti %s perf: %u rank%s, transport %s, %s memory, %s\n", tutti_version(),
            nranks, nranks == 1 ? "" : "s", wire, o->mem_alloc ? "mem_alloc" : "malloc",
            o->check ? "every element checked" : "not checked (--check)");
    fprintf(p->out, "# sizes %zu to %zu, factor %zu; iterations ", o->min_bytes, last, o->factor);
    if (o->effort.iters > 0)
        fprintf(p->out, "%ld", o->effort.iters);
    else
        fprintf(p->out, "chosen by time");
    fprintf(p->out, "; time of the slowest rank, median over iterations\n");
    if (o->quant)
        fprintf(
            p->out,
            "# values are sent quantized as %s; sizes and bandwidths refer to unquantized values\n",
            tutti_quant_name(o->quant));
    fprintf(p->out, "#\n");
    for (uint32_t r = 0; r < nranks && r < 16; r++)
        fprintf(p->out, "#  Rank %2u %s\n", r, places[r]);
    if (nranks > 16)
        fprintf(p->out, "#  and %u more ranks\n", nranks - 16);
    fflush(p->out);
}

void perf_print_columns(struct perf_printer *p, const struct perf_coll *coll)
{
    if (p->o->json)
        return;
    clear_progress(p);
    fprintf(p->out, "#\n# %-46s%41s%41s\n", coll->name, "out-of-place                 ",
            "in-place                   ");
    fprintf(p->out, "#%11s %11s %7s %10s %5s %-20s %9s %8s %8s %7s  %9s %8s %8s %7s\n", "size",
            "count", "type", "redop", "root", "algorithm", "time", "algbw", "busbw", "#wrong",
            "time", "algbw", "busbw", "#wrong");
    fprintf(p->out, "#%11s %11s %7s %10s %5s %-20s %9s %8s %8s %7s  %9s %8s %8s %7s\n", "(B)",
            "(elements)", "", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
            "(GB/s)", "");
    fflush(p->out);
}

void perf_print_progress(struct perf_printer *p, const struct perf_case *c)
{
    p->ndone++;
    if (!p->progress)
        return;
    clear_progress(p);
    fprintf(stderr, "%u of %u: %s, %zu bytes, %s", p->ndone, p->ntotal, c->coll->name,
            perf_case_bytes(c), c->in_place ? "in place" : "out of place");
}

/* Prints the four columns of one form, in place or out of place. */
static void print_half(const struct perf_printer *p, const struct perf_row *row)
{
    if (!row->measured) {
        fprintf(p->out, " %9s %8s %8s %7s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    fprintf(p->out, " %9.2f %8.3f %8.3f", row->times.median_us, perf_algbw_gbs(row),
            perf_busbw_gbs(row));
    if (p->o->check)
        fprintf(p->out, " %7llu", (unsigned long long)row->wrong);
    else
        fprintf(p->out, " %7s", "N/A");
}

static void print_line(const struct perf_printer *p, const struct perf_row rows[2])
{
    const struct perf_row *any = rows[0].measured ? &rows[0] : &rows[1];
    const struct perf_case *c = any->c;
    char algo[64];

    snprintf(algo, sizeof algo, "%s", any->algo);
    if (rows[0].measured && rows[1].measured && strcmp(rows[0].algo, rows[1].algo) != 0)
        snprintf(algo, sizeof algo, "%s|%s", rows[0].algo, rows[1].algo);
    fprintf(p->out, " %11zu %11zu %7s %10s %5d %-20s", perf_case_bytes(c), c->block,
            tutti_dtype_name(c->dtype), op_name(c), root_of(c), algo);
    print_half(p, &rows[0]);
    fputc(' ', p->out);
    print_half(p, &rows[1]);
    fputc('\n', p->out);
}

/* Prints the phases, below the row. */
static void print_where(const struct perf_printer *p, const struct perf_row *row)
{
    const struct perf_where *w = &row->where;

    if (!row->timed) {
        fprintf(p->out, "#   %s: no phases: the call is too short\n",
                row->c->in_place ? "in place" : "out of place");
        return;
    }
    fprintf(p->out,
            "#   %s: average per rank: %.1f us, of which %.1f sending, %.1f reducing and "
            "forwarding, %.1f reducing, %.1f copying, %.1f in transports, %.1f waiting",
            row->c->in_place ? "in place" : "out of place", w->call_us, w->send_us, w->forward_us,
            w->reduce_us, w->copy_us, w->wire_us, w->wait_us);
    if (w->most_in_flight > 0)
        fprintf(p->out, "; at most %.0f B in flight to one peer", w->most_in_flight);
    fputc('\n', p->out);
}

/* ---- JSON ---- */

static void add_number(struct json_object *o, const char *key, double value)
{
    char text[64];

    snprintf(text, sizeof text, "%.4f", value);
    json_object_object_add(o, key, json_object_new_double_s(value, text));
}

static void add_string(struct json_object *o, const char *key, const char *value)
{
    json_object_object_add(o, key, json_object_new_string(value));
}

static void add_integer(struct json_object *o, const char *key, uint64_t value)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)value));
}

static void print_json(const struct perf_printer *p, const struct perf_row *row)
{
    const struct perf_case *c = row->c;
    struct json_object *o = json_object_new_object();

    add_string(o, "coll", c->coll->name);
    add_integer(o, "ranks", c->nranks);
    add_integer(o, "bytes", perf_case_bytes(c));
    add_integer(o, "count", c->block);
    add_string(o, "dtype", tutti_dtype_name(c->dtype));
    add_string(o, "op", op_name(c));
    if (c->quant)
        add_string(o, "quant", tutti_quant_name(c->quant));
    json_object_object_add(o, "root", json_object_new_int(root_of(c)));
    add_string(o, "algo", row->algo);
    add_string(o, "wire", row->wire);
    add_string(o, "memory", p->o->mem_alloc ? "mem_alloc" : "malloc");
    json_object_object_add(o, "inplace", json_object_new_boolean(c->in_place));
    add_integer(o, "iters", (uint64_t)row->iters);
    add_number(o, "time_us", row->times.median_us);
    add_number(o, "time_us_min", row->times.min_us);
    add_number(o, "time_us_max", row->times.max_us);
    add_number(o, "time_us_loop", row->times.loop_us);
    add_number(o, "algbw_gbs", perf_algbw_gbs(row));
    add_number(o, "busbw_gbs", perf_busbw_gbs(row));
    if (row->timed) {
        add_number(o, "call_us", row->where.call_us);
        add_number(o, "send_us", row->where.send_us);
        add_number(o, "forward_us", row->where.forward_us);
        add_number(o, "reduce_us", row->where.reduce_us);
        add_number(o, "copy_us", row->where.copy_us);
        add_number(o, "wire_us", row->where.wire_us);
        add_number(o, "wait_us", row->where.wait_us);
        add_integer(o, "in_flight_max_bytes", (uint64_t)row->where.most_in_flight);
    }
    json_object_object_add(o, "wrong",
                           p->o->check ? json_object_new_int64((int64_t)row->wrong) : NULL);
    fprintf(p->out, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED));
    json_object_put(o);
}

/* ---- both ---- */

void perf_print_rows(struct perf_printer *p, const struct perf_row rows[2])
{
    clear_progress(p);
    for (int i = 0; i < 2; i++) {
        if (!rows[i].measured)
            continue;
        p->nmeasured++;
        if (p->o->json)
            print_json(p, &rows[i]);
        p->busbw_sum += perf_busbw_gbs(&rows[i]);
        p->nbusbw += rows[i].c->coll->kind != TT_BARRIER;
        p->wrong += p->o->check ? rows[i].wrong : 0;
        p->nchecked += p->o->check;
    }
    if (!p->o->json)
        print_line(p, rows);
    for (int i = 0; i < 2 && p->o->timers && !p->o->json; i++)
        if (rows[i].measured)
            print_where(p, &rows[i]);
    fflush(p->out);
}

void perf_print_skipped(struct perf_printer *p, const struct perf_case *c)
{
    const struct tt_algo *algo =
        c->algo ? tt_algo_named((enum tt_coll_kind)c->coll->kind, c->algo) : NULL;
    const char *needs = algo ? algo->needs : NULL;

    clear_progress(p);
    fprintf(p->o->json ? stderr : p->out,
            "# %s, %zu bytes: algorithm %s does not support this call%s%s%s\n", c->coll->name,
            perf_case_bytes(c), c->algo, needs ? " (it needs " : "", needs ? needs : "",
            needs ? ")" : "");
    fflush(p->out);
}

static void print_nothing(const struct perf_options *o)
{
    const struct tt_algo *algo =
        o->coll && o->algo ? tt_algo_named((enum tt_coll_kind)o->coll->kind, o->algo) : NULL;
    const char *needs = algo ? algo->needs : NULL;

    fprintf(stderr, "tutti perf: nothing was measured: %s supports none of these calls%s%s%s\n",
            o->algo ? o->algo : "the selected algorithm", needs ? " (it needs " : "",
            needs ? needs : "", needs ? ")" : "");
}

/* Prints the memory that rank 0 registered with RDMA devices, if any. */
static void print_registered(const struct perf_printer *p)
{
    tutti_registered r = { .size = sizeof r };

    if (tutti_mem_registered(&r) != TUTTI_OK || r.misses == 0)
        return;
    fprintf(p->out,
            "# Registered memory    : at most %.1f MiB; %llu hits, %llu registrations in %.1f ms, "
            "%llu invalidations\n",
            (double)r.bytes_most / (1 << 20), (unsigned long long)r.hits,
            (unsigned long long)r.misses, (double)r.registering_ns / 1e6,
            (unsigned long long)r.invalidated);
}

void perf_print_end(struct perf_printer *p)
{
    clear_progress(p);
    if (p->ntotal && !p->nmeasured)
        print_nothing(p->o);
    if (p->o->json)
        return;
    print_registered(p);
    if (p->o->check)
        fprintf(p->out, "# Checked              : %u calls\n# Out of bounds values : %llu %s\n",
                p->nchecked, (unsigned long long)p->wrong, p->wrong ? "FAILED" : "OK");
    else
        fprintf(p->out, "# Out of bounds values : not checked\n");
    fprintf(p->out, "# Avg bus bandwidth    : %.4f GB/s\n",
            p->nbusbw ? p->busbw_sum / p->nbusbw : 0.0);
    fflush(p->out);
}
