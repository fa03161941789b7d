/* Output of tutti sim start. */
#include <json-c/json.h>
#include <stdio.h>
#include <sys/resource.h>
#include "base/status.h"
#include "tools/sim/sim_start.h"

void sim_start_level_name(const struct tt_start_level *l, char out[24])
{
    static const char *const names[] = { [TT_START_LEVEL_ROOT] = "root",
                                         [TT_START_LEVEL_LEADERS] = "leaders",
                                         [TT_START_LEVEL_RANKS] = "ranks" };

    if (l->depth)
        snprintf(out, 24, "%s %u", names[l->kind], l->depth);
    else
        snprintf(out, 24, "%s", names[l->kind]);
}

void sim_start_finding_text(const struct tt_start_report *r, const struct tt_start_finding *f,
                            char out[200])
{
    const char *step = tt_start_step_name(f->step);
    char level[24];

    sim_start_level_name(&r->level[f->level], level);
    switch (f->kind) {
    case TT_START_FINDING_GROWTH:
        snprintf(out, 200,
                 "%s: the time in step %s grows with exponent %.2f of the number of ranks (%.3f s "
                 "in the busiest process)",
                 level, step, f->value, f->seconds);
        break;
    case TT_START_FINDING_COST:
        snprintf(out, 200,
                 "%s: step %s takes %.0f us each, the mean of all messages is %.0f us (%.3f s in "
                 "the busiest process)",
                 level, step, f->value / 1e3, r->message_ns / 1e3, f->seconds);
        break;
    case TT_START_FINDING_LOOP:
        snprintf(out, 200,
                 "%s: busy loop: a process wakes up %.0f times per second without an action", level,
                 f->value);
        break;
    case TT_START_FINDING_DROPPED:
        snprintf(out, 200, "%s: full backlogs dropped %.0f connection requests", level, f->value);
        break;
    }
}

/* ---- text ---- */

static void print_times(const struct tt_start_report *r)
{
    printf("\ntimes, s, of the first and the last process of each level\n%-12s %9s", "level",
           "processes");
    for (int k = 0; k < TT_START_PHASES; k++)
        printf(" %16s", tt_start_phase_name((enum tt_start_phase)k));
    printf("\n");
    for (uint32_t i = 0; i < r->nlevels; i++) {
        const struct tt_start_level *l = &r->level[i];
        char name[24];

        sim_start_level_name(l, name);
        printf("%-12s %9u", name, l->nprocesses);
        for (int k = 0; k < TT_START_PHASES; k++) {
            if (l->nreached[k])
                printf("  %7.3f %7.3f", (double)l->first_ns[k] / 1e9, (double)l->last_ns[k] / 1e9);
            else
                printf(" %16s", "-");
        }
        printf("\n");
    }
}

/* Returns the number of retries: requests beyond first and redirected ones. */
static uint64_t retries_of(const struct tt_start_level *l)
{
    const uint64_t needed =
        (l->kind == TT_START_LEVEL_ROOT ? 0 : l->nprocesses) + l->work[TT_START_REDIRECT].n;

    return l->attempts > needed ? l->attempts - needed : 0;
}

static void print_load(const struct tt_start_report *r)
{
    printf("\nload of each level; of one process if marked with *\n"
           "%-12s %11s %12s %12s %8s %8s %8s %8s %9s\n",
           "level", "messages", "bytes*", "received*", "queue*", "backlog*", "dropped", "retries",
           "busy* s");
    for (uint32_t i = 0; i < r->nlevels; i++) {
        const struct tt_start_level *l = &r->level[i];
        char name[24];

        sim_start_level_name(l, name);
        printf("%-12s %11llu %12llu %12llu %8u %8u %8llu %8llu %9.3f\n", name,
               (unsigned long long)l->messages, (unsigned long long)l->bytes_most,
               (unsigned long long)l->received_most, l->queued_most, l->opening_most,
               (unsigned long long)l->dropped, (unsigned long long)retries_of(l),
               (double)l->busy_most_ns / 1e9);
    }
}

static void print_central(const struct sim_start_options *o, const struct sim_start_result *r)
{
    const struct tt_central_result *c = &r->central;

    if (c->nlost) {
        printf("\nbaseline: %u of %u ranks never connect to the central server, whose backlog of "
               "%u is full (%llu requests dropped)\n",
               c->nlost, o->nranks, o->central_backlog, (unsigned long long)c->dropped);
        return;
    }
    printf("\nbaseline: %.3f s (all connected after %.3f s, ring after %.3f s, then %u "
           "all-gathers); %llu requests dropped\n",
           (double)c->gathered_ns / 1e9, (double)c->collected_ns / 1e9, (double)c->ring_ns / 1e9,
           o->ngathers, (unsigned long long)c->dropped);
    if (r->whole.time_ns)
        printf("it takes %.1f times as long as the tree\n",
               (double)c->gathered_ns / (double)r->whole.time_ns);
}

static void print_split(const struct sim_start_options *o, const struct sim_start_result *r)
{
    const struct sim_start_split *s = &r->split;

    printf("\nsplit into %u groups: %.1f ms (connections %.1f, all-gather %.1f, sort %.1f, "
           "agreement %.1f)",
           o->ngroups, s->total_ns / 1e6, s->connect_ns / 1e6, s->gather_ns / 1e6, s->sort_ns / 1e6,
           s->agree_ns / 1e6);
    if (r->whole.time_ns)
        printf(": %.1f %% of the start-up", 100 * s->total_ns / (double)r->whole.time_ns);
    printf("\n");
}

void sim_start_print_text(const struct sim_start_options *o, const struct sim_start_result *r)
{
    const struct tt_start_report *w = &r->whole;
    char text[200];

    printf("# tutti sim start: %u ranks, %u per host%s; %g us per message, %g ns per byte, latency "
           "%s%s + up to %g us, backlog %u, ranks start within %g s, seed %llu\n",
           o->nranks, o->per_host, o->cyclic ? " in turn" : "", o->message_us, o->byte_ns,
           o->topo ? "of " : "5 us", o->topo ? o->topo : "", o->latency_us, o->backlog, o->spread_s,
           (unsigned long long)o->seed);
    if (w->time_ns)
        printf("all ranks have their result after %.3f s\n", (double)w->time_ns / 1e9);
    else
        printf("%u of %u ranks have no result\n", w->nranks - w->nplaced, w->nranks);
    if (w->ndropped_ranks)
        printf("%u ranks were lost: a full backlog dropped their connection requests\n",
               w->ndropped_ranks);
    printf("a rank receives at most %llu bytes; %llu messages, %llu lost\n",
           (unsigned long long)w->received_most, (unsigned long long)w->messages,
           (unsigned long long)w->lost);
    print_times(w);
    print_load(w);
    printf("\nfindings: %s\n", r->nfindings ? "" : "none");
    for (uint32_t i = 0; i < r->nfindings; i++) {
        sim_start_finding_text(w, &r->findings[i], text);
        printf("  %s\n", text);
    }
    if (o->baseline)
        print_central(o, r);
    if (r->split.total_ns > 0)
        print_split(o, r);
}

/* ---- JSON ---- */

static void add_int(struct json_object *o, const char *key, uint64_t value)
{
    json_object_object_add(o, key, json_object_new_int64((int64_t)value));
}

static void add_real(struct json_object *o, const char *key, double value)
{
    json_object_object_add(o, key, json_object_new_double(value));
}

static void add_text(struct json_object *o, const char *key, const char *text)
{
    json_object_object_add(o, key, json_object_new_string(text));
}

/* Adds null for time 0, which means that the event did not occur. */
static void add_time(struct json_object *o, const char *key, uint64_t ns)
{
    json_object_object_add(o, key, ns ? json_object_new_double((double)ns / 1e9) : NULL);
}

static struct json_object *json_phases(const struct tt_start_level *l)
{
    struct json_object *phases = json_object_new_object();

    for (int k = 0; k < TT_START_PHASES; k++) {
        struct json_object *o;

        if (!l->nreached[k])
            continue;
        o = json_object_new_object();
        add_int(o, "processes", l->nreached[k]);
        add_real(o, "first_s", (double)l->first_ns[k] / 1e9);
        add_real(o, "last_s", (double)l->last_ns[k] / 1e9);
        json_object_object_add(phases, tt_start_phase_name((enum tt_start_phase)k), o);
    }
    return phases;
}

static struct json_object *json_steps(const struct tt_start_level *l)
{
    struct json_object *steps = json_object_new_object();

    for (int k = 0; k < TT_START_STEPS; k++) {
        struct json_object *o;

        if (!l->work[k].n)
            continue;
        o = json_object_new_object();
        add_int(o, "n", l->work[k].n);
        add_real(o, "s", (double)l->work[k].ns / 1e9);
        add_real(o, "busiest_s", (double)l->work_most_ns[k] / 1e9);
        json_object_object_add(steps, tt_start_step_name((enum tt_start_step)k), o);
    }
    return steps;
}

static struct json_object *json_level(const struct tt_start_level *l)
{
    struct json_object *o = json_object_new_object();
    char name[24];

    sim_start_level_name(l, name);
    add_text(o, "level", name);
    add_int(o, "processes", l->nprocesses);
    json_object_object_add(o, "phases", json_phases(l));
    add_int(o, "messages", l->messages);
    add_int(o, "bytes", l->bytes);
    add_int(o, "busiest_bytes", l->bytes_most);
    add_int(o, "received_most", l->received_most);
    add_int(o, "queue_most", l->queued_most);
    add_int(o, "backlog_most", l->opening_most);
    add_int(o, "dropped", l->dropped);
    add_int(o, "retries", retries_of(l));
    add_real(o, "busiest_s", (double)l->busy_most_ns / 1e9);
    add_real(o, "wakeups_per_s", l->wakeups_most);
    json_object_object_add(o, "steps", json_steps(l));
    return o;
}

static struct json_object *json_findings(const struct sim_start_result *r)
{
    static const char *const kinds[] = { [TT_START_FINDING_GROWTH] = "growth",
                                         [TT_START_FINDING_COST] = "cost",
                                         [TT_START_FINDING_LOOP] = "loop",
                                         [TT_START_FINDING_DROPPED] = "dropped" };
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < r->nfindings; i++) {
        const struct tt_start_finding *f = &r->findings[i];
        struct json_object *o = json_object_new_object();
        char text[200];

        sim_start_level_name(&r->whole.level[f->level], text);
        add_text(o, "kind", kinds[f->kind]);
        add_text(o, "level", text);
        if (f->kind == TT_START_FINDING_GROWTH || f->kind == TT_START_FINDING_COST)
            add_text(o, "step", tt_start_step_name(f->step));
        add_real(o, "value", f->value);
        sim_start_finding_text(&r->whole, f, text);
        add_text(o, "text", text);
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *json_central(const struct sim_start_result *r)
{
    const struct tt_central_result *c = &r->central;
    struct json_object *o = json_object_new_object();

    add_time(o, "time_s", c->gathered_ns);
    add_time(o, "connected_s", c->collected_ns);
    add_time(o, "ring_s", c->ring_ns);
    add_int(o, "dropped", c->dropped);
    add_int(o, "lost_ranks", c->nlost);
    add_int(o, "queue_most", c->queued_most);
    add_int(o, "server_bytes", c->server_bytes);
    add_int(o, "rank_bytes", c->rank_bytes);
    if (c->gathered_ns && r->whole.time_ns)
        add_real(o, "ratio", (double)c->gathered_ns / (double)r->whole.time_ns);
    return o;
}

static struct json_object *json_split(const struct sim_start_options *opts,
                                      const struct sim_start_result *r)
{
    struct json_object *o = json_object_new_object();

    add_int(o, "groups", opts->ngroups);
    add_real(o, "time_s", r->split.total_ns / 1e9);
    add_real(o, "connect_s", r->split.connect_ns / 1e9);
    add_real(o, "gather_s", r->split.gather_ns / 1e9);
    add_real(o, "sort_s", r->split.sort_ns / 1e9);
    add_real(o, "agree_s", r->split.agree_ns / 1e9);
    return o;
}

static struct json_object *json_model(const struct sim_start_options *opts)
{
    struct json_object *o = json_object_new_object();

    add_int(o, "seed", opts->seed);
    add_int(o, "children", opts->children_max ? opts->children_max : TT_TREE_CHILDREN);
    if (opts->topo)
        add_text(o, "topo", opts->topo);
    json_object_object_add(o, "cyclic", json_object_new_boolean(opts->cyclic));
    json_object_object_add(o, "measured", json_object_new_boolean(opts->measured));
    json_object_object_add(o, "no_retries", json_object_new_boolean(opts->no_retries));
    add_int(o, "place_bytes", opts->place_bytes);
    add_int(o, "constants_bytes", opts->constants_bytes);
    add_int(o, "backlog", opts->backlog);
    add_real(o, "latency_us", opts->latency_us);
    add_real(o, "message_us", opts->message_us);
    add_real(o, "byte_ns", opts->byte_ns);
    add_real(o, "spread_s", opts->spread_s);
    add_real(o, "loss", opts->loss);
    add_real(o, "timeout_s", opts->timeout_s);
    return o;
}

void sim_start_print_json(const struct sim_start_options *o, const struct sim_start_result *r)
{
    const struct tt_start_report *w = &r->whole;
    struct json_object *all = json_object_new_object(), *levels = json_object_new_array();
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    add_int(all, "ranks", o->nranks);
    add_int(all, "ranks_per_host", o->per_host);
    json_object_object_add(all, "model", json_model(o));
    add_time(all, "time_s", w->time_ns);
    add_int(all, "placed", w->nplaced);
    add_int(all, "lost_ranks", w->ndropped_ranks);
    add_int(all, "messages", w->messages);
    add_int(all, "lost_messages", w->lost);
    add_int(all, "dropped", w->dropped);
    add_int(all, "received_most", w->received_most);
    add_int(all, "busiest_bytes", w->busiest_bytes);
    for (uint32_t i = 0; i < w->nlevels; i++)
        json_object_array_add(levels, json_level(&w->level[i]));
    json_object_object_add(all, "levels", levels);
    json_object_object_add(all, "findings", json_findings(r));
    if (o->baseline)
        json_object_object_add(all, "baseline", json_central(r));
    if (r->split.total_ns > 0)
        json_object_object_add(all, "split", json_split(o, r));
    add_real(all, "wall_s", r->wall_s);
    add_int(all, "memory_bytes", (uint64_t)usage.ru_maxrss * 1024);
    printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN));
    json_object_put(all);
}
