#include "tools/perf/putsignal_print.h"

#include <json-c/json.h>
#include <math.h>
#include <string.h>
#include "tools/fit.h"

/* ---- statistics ---- */

double putsignal_median(const double *us, uint32_t n)
{
    double sorted[PUTSIGNAL_ROUNDS_MAX];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;

        for (; k > 0 && sorted[k - 1] > us[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = us[i];
    }
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

/* Speed relative to put-only: median, minimum and maximum over rounds. False: put-only was not
 * measured. */
static bool share_of(const struct putsignal_row *r, double *share, double *low, double *high)
{
    double shares[PUTSIGNAL_ROUNDS_MAX];

    *low = INFINITY;
    *high = 0;
    for (uint32_t i = 0; i < r->nrounds; i++) {
        if (!(r->only_us[i] > 0) || !(r->us[i] > 0))
            return false;
        shares[i] = r->only_us[i] / r->us[i];
        *low = fmin(*low, shares[i]);
        *high = fmax(*high, shares[i]);
    }
    *share = putsignal_median(shares, r->nrounds);
    return true;
}

static double mbs_of(const struct putsignal_row *r)
{
    const double us = putsignal_median(r->us, r->nrounds);

    return us > 0 ? (double)r->c.bytes * r->c.transfers * r->c.nsources / us : 0;
}

/* ---- rows ---- */

static void add_number(struct json_object *o, const char *key, double value)
{
    char text[64];

    if (!isfinite(value)) {
        json_object_object_add(o, key, NULL);
        return;
    }
    snprintf(text, sizeof text, "%.9g", value);
    json_object_object_add(o, key, json_object_new_double_s(value, text));
}

static void add_integer(struct json_object *o, const char *key, uint64_t value)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)value));
}

static struct json_object *json_case(const char *what, const struct putsignal_row *r)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "what", json_object_new_string(what));
    json_object_object_add(o, "mode", json_object_new_string(r->mode));
    add_integer(o, "ranks", r->c.nranks);
    add_integer(o, "hosts", r->c.nhosts);
    add_integer(o, "sources", r->c.nsources);
    add_integer(o, "destinations", r->c.ndestinations);
    add_integer(o, "transfers", r->c.transfers);
    json_object_object_add(o, "group", r->c.group ? json_object_new_int64(r->c.group) : NULL);
    return o;
}

static void finish_json(FILE *to, struct json_object *o)
{
    fprintf(to, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED));
    fflush(to);
    json_object_put(o);
}

static void print_json(FILE *to, const struct putsignal_row *r)
{
    struct json_object *o = json_case("burst", r), *samples = json_object_new_array();
    double share = NAN, low = NAN, high = NAN;

    share_of(r, &share, &low, &high);
    for (uint32_t i = 0; i < r->nrounds; i++)
        json_object_array_add(samples, json_object_new_double(r->us[i]));
    if (r->nblocks)
        add_integer(o, "blocks", r->nblocks);
    add_integer(o, "bytes", r->c.bytes);
    add_number(o, "time_us", putsignal_median(r->us, r->nrounds));
    add_number(o, "mbs", mbs_of(r));
    add_number(o, "share", share);
    add_number(o, "share_min", low);
    add_number(o, "share_max", high);
    add_number(o, "drains", r->drains);
    add_number(o, "fences", r->fences);
    add_number(o, "signals", r->signals);
    json_object_object_add(o, "wrong",
                           r->checked ? json_object_new_int64((int64_t)r->wrong) : NULL);
    json_object_object_add(o, "samples_us", samples);
    finish_json(to, o);
}

void putsignal_print_columns(FILE *to)
{
    fprintf(to, "#%5s %9s %10s %-10s %12s %10s %9s %17s %8s %8s %8s %7s\n", "ranks", "transfers",
            "bytes", "mode", "burst us", "MB/s", "speed", "range", "drains", "fences", "signals",
            "#wrong");
}

void putsignal_print_row(FILE *to, const struct putsignal_row *r, bool json)
{
    double share, low, high;
    char rounds[32] = "";

    if (json) {
        print_json(to, r);
        return;
    }
    fprintf(to, "%6u %9u %10llu %-10s %12.1f %10.2f", r->c.nranks, r->c.transfers,
            (unsigned long long)r->c.bytes, r->mode, putsignal_median(r->us, r->nrounds),
            mbs_of(r));
    if (share_of(r, &share, &low, &high)) {
        snprintf(rounds, sizeof rounds, "%.3f to %.3f", low, high);
        fprintf(to, " %9.3f %17s", share, rounds);
    } else {
        fprintf(to, " %9s %17s", "-", "");
    }
    fprintf(to, " %8.4g %8.4g %8.4g", r->drains, r->fences, r->signals);
    if (r->checked)
        fprintf(to, " %7llu\n", (unsigned long long)r->wrong);
    else
        fprintf(to, " %7s\n", "N/A");
    fflush(to);
}

/* ---- fits ---- */

static bool is_of_one_line(const struct putsignal_row *a, const struct putsignal_row *b)
{
    return strcmp(a->mode, b->mode) == 0 && a->c.nranks == b->c.nranks &&
           a->c.transfers == b->c.transfers;
}

static void print_fit(FILE *to, const struct putsignal_row *r, const struct fit *f, uint32_t nsizes,
                      bool json)
{
    char alpha_error[32] = "-", beta_error[32] = "-";
    struct json_object *o;

    if (json) {
        o = json_case("fit", r);
        add_integer(o, "sizes", nsizes);
        add_number(o, "alpha_us", f->alpha);
        add_number(o, "alpha_error_us", f->alpha_error);
        add_number(o, "beta_us_per_byte", f->beta);
        add_number(o, "beta_error_us_per_byte", f->beta_error);
        finish_json(to, o);
        return;
    }
    if (isfinite(f->alpha_error)) {
        snprintf(alpha_error, sizeof alpha_error, "%.3f", f->alpha_error);
        snprintf(beta_error, sizeof beta_error, "%.4e", f->beta_error);
    }
    fprintf(to, "%6u %9u %-10s %12.3f %12s %14.4e %14s %10.2f\n", r->c.nranks, r->c.transfers,
            r->mode, f->alpha, alpha_error, f->beta, beta_error, f->beta > 0 ? 1 / f->beta : 0);
}

void putsignal_print_fits(FILE *to, const struct putsignal_row *rows, uint32_t n, bool json)
{
    double x[PUTSIGNAL_LIST_MAX], y[PUTSIGNAL_LIST_MAX];
    bool headed = json;
    struct fit f;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t nsizes = 0, before = 0;

        while (before < i && !is_of_one_line(&rows[before], &rows[i]))
            before++;
        for (uint32_t k = i; k < n && before == i && nsizes < PUTSIGNAL_LIST_MAX; k++) {
            if (!is_of_one_line(&rows[k], &rows[i]))
                continue;
            x[nsizes] = (double)rows[k].c.bytes;
            y[nsizes++] = putsignal_median(rows[k].us, rows[k].nrounds) / rows[k].c.transfers;
        }
        if (!fit_line(x, y, nsizes, &f))
            continue;
        if (!headed)
            fprintf(to,
                    "#\n# time of a transfer = alpha + beta * bytes, fitted over all sizes\n#%5s "
                    "%9s %-10s %12s %12s %14s %14s %10s\n",
                    "ranks", "transfers", "mode", "alpha us", "+-", "beta us/byte", "+-", "MB/s");
        headed = true;
        print_fit(to, &rows[i], &f, nsizes, json);
    }
    fflush(to);
}
