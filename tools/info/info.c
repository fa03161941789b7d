/* tutti info: this build and the limits of this machine, as text or JSON. All data is first
 * gathered in one JSON document, and the text is generated from it, so that both always agree. */
#include "tools/tool.h"

#include <arpa/inet.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo/algos.h"
#include "base/log.h"
#include "base/param.h"
#include "base/status.h"
#include "boot/pmix.h"
#include "comm/plugins.h"
#include "elastic/states.h"
#include "tools/info/info_machine.h"
#include "tools/info/info_memory.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/perf/perf_launch.h"
#include "reduce/reduce.h"
#include "secure/secure.h"
#include "tutti/tutti.h"
#include "wire/ifaddr.h"
#include "wire/registry.h"
#include "wire/wires.h"

#define INTERFACES_MAX 64
#define RANKS_MAX 4096u
#define RANKS_DEFAULT 2

/* gcc defines a macro, clang a feature. */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || HAS_FEATURE(address_sanitizer)
#define SANITIZER "address"
#elif defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define SANITIZER "thread"
#else
#define SANITIZER "none"
#endif

enum what { WHAT_MACHINE, WHAT_PARAMS, WHAT_ALGOS, WHAT_MEMORY, WHAT_STATES };

struct options {
    enum what what;
    bool json;
    const char *coll;       /* list its algorithms; NULL: of all collectives */
    uint32_t nranks;        /* of the job that --memory starts; 0: not given */
};

/* ---- options ---- */

static void take_argument(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;
    enum tt_coll_kind kind;

    if (o->coll)
        argp_error(state, "unexpected argument \"%s\" (give one collective)", arg);
    if (!tt_coll_parse(arg, &kind))
        argp_error(state,
                   "unexpected argument \"%s\" (only --algos takes an argument, a collective)",
                   arg);
    o->coll = arg;
}

static void check_options(void *options, struct argp_state *state)
{
    struct options *o = options;

    if (o->coll && o->what != WHAT_ALGOS)
        argp_error(state, "missing option: collective \"%s\" needs --algos (use --algos %s)",
                   o->coll, o->coll);
    if (o->nranks && o->what != WHAT_MEMORY)
        argp_error(state, "missing option: --ranks needs --memory");
}

static const struct option_row option_rows[] = {
    { "params", 0, NULL, 0, OPTION_VALUE(struct options, what, WHAT_PARAMS),
      "list all environment variables with their values, units, defaults and bounds" },
    { "algos", 0, NULL, 0, OPTION_VALUE(struct options, what, WHAT_ALGOS),
      "list the algorithms of COLLECTIVE, or of all collectives" },
    { "memory", 0, NULL, 0, OPTION_VALUE(struct options, what, WHAT_MEMORY),
      "show the memory that rank 0 uses for a communicator after one ring allreduce, by purpose" },
    { "ranks", 0, "N", 0, OPTION_INTEGER(struct options, nranks, 1, RANKS_MAX),
      "with --memory: number of ranks to start on this host (default 2). In a job, the job's ranks "
      "are used, and N must equal their number" },
    { "states", 0, NULL, 0, OPTION_VALUE(struct options, what, WHAT_STATES),
      "list the protocol states of members, rounds, syncs and operations in elastic runs, with all "
      "legal transitions" },
    { "json", 0, NULL, 0, OPTION_FLAG(struct options, json), "print one JSON document" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .argument = take_argument,
    .check = check_options,
    .args_doc = "[--algos [COLLECTIVE]]",
    .doc = "Shows this build of Tutti, its usable transports and the limits of this machine.\vFor "
           "each unusable transport the tool prints the cause.\n\n"
           "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
           "Examples:\n"
           "  tutti info --params\n"
           "  tutti info --algos allreduce\n",
};

/* ---- gathering ---- */

static void put_string(struct json_object *o, const char *key, const char *value)
{
    json_object_object_add(o, key, json_object_new_string(value));
}

static void put_integer(struct json_object *o, const char *key, int64_t value)
{
    json_object_object_add(o, key, json_object_new_int64(value));
}

static void put_bool(struct json_object *o, const char *key, bool value)
{
    json_object_object_add(o, key, json_object_new_boolean(value));
}

static struct json_object *gather_build(void)
{
    struct json_object *o = json_object_new_object();

    put_string(o, "version", tutti_version());
#if defined(__clang__)
    put_string(o, "compiler", "clang " __clang_version__);
#else
    put_string(o, "compiler", "gcc " __VERSION__);
#endif
    put_string(o, "sanitizer", SANITIZER);
    put_string(o, "simd", tt_reduce_isa());
    put_bool(o, "pmix", tt_pmix_is_built());
    return o;
}

/* A wire is usable if it can be opened by a job of one rank. */
static struct json_object *gather_wire(const struct tt_wire_ops *ops)
{
    static const uint8_t secret[16] = { 0 };
    struct tt_wire_conf conf = { .nranks = 1,
                                 .secret = secret,
                                 .link_bytes = 1 << 16,
                                 .interfaces = getenv("TUTTI_INTERFACES"),
                                 .cma = true,
                                 .rdma_devices = getenv("TUTTI_RDMA_DEVICES"),
                                 .ofi_provider = getenv("TUTTI_OFI_PROVIDER"),
                                 .rdma_gid = getenv("TUTTI_RDMA_GID") };
    struct json_object *o = json_object_new_object();
    struct tt_wire *w;
    int64_t hmem = 0;
    tutti_status st;

    tt_log_set(TT_LOG_NONE);        /* the document contains the error */
    tt_param_get(TT_PARAM_OFI_HMEM, &hmem);
    conf.ofi_hmem = hmem;
    st = ops->open(&w, &conf);
    put_string(o, "name", ops->name);
    put_string(o, "summary", ops->summary);
    put_bool(o, "usable", st == TUTTI_OK);
    put_bool(o, "by_name", ops->by_name);
    put_string(o, "why_not", st ? tutti_last_error() : "");
    put_string(o, "about", !st && w->about ? w->about : "");
    if (!st)
        ops->close(w);
    return o;
}

static struct json_object *gather_wires(void)
{
    struct json_object *all = json_object_new_array();

    for (size_t i = 0; i < tt_nwires; i++)
        json_object_array_add(all, gather_wire(tt_wires[i]));
    return all;
}

/* The wires that jobs use with the current settings, preferred first; or why jobs cannot start. */
static struct json_object *gather_jobs(struct json_object *wires)
{
    struct json_object *o = json_object_new_object(), *used = json_object_new_array();
    const char *asked = getenv("TUTTI_WIRES"), *why = "";

    if (asked && !*asked)
        asked = NULL;
    if (tt_wire_check_list(asked) != TUTTI_OK)
        why = tutti_last_error();
    for (size_t i = 0; i < tt_nwires && !*why; i++)
        if (tt_wire_is_listed(asked, tt_wires[i]) &&
            json_object_get_boolean(
                json_object_object_get(json_object_array_get_idx(wires, i), "usable")))
            json_object_array_add(used, json_object_new_string(tt_wires[i]->name));
    if (!*why && json_object_array_length(used) == 0)
        why = "no allowed transport is usable";
    json_object_object_add(o, "wires_setting", asked ? json_object_new_string(asked) : NULL);
    json_object_object_add(o, "wires", used);
    put_string(o, "why_not", why);
    return o;
}

static struct json_object *gather_interfaces(void)
{
    struct json_object *all = json_object_new_array();
    struct tt_ifaddr list[INTERFACES_MAX];
    size_t n = 0;

    if (tt_ifaddr_list(getenv("TUTTI_INTERFACES"), list, INTERFACES_MAX, &n) != TUTTI_OK)
        return all;
    for (size_t i = 0; i < n; i++) {
        struct json_object *o = json_object_new_object();
        char text[INET6_ADDRSTRLEN] = "?";

        inet_ntop(list[i].family, list[i].ip, text, sizeof text);
        put_string(o, "name", list[i].name);
        put_string(o, "address", text);
        put_integer(o, "prefix_bits", list[i].prefix_bits);
        put_bool(o, "loopback", list[i].loopback);
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *gather_machine(void)
{
    struct json_object *o = json_object_new_object();
    struct info_machine m;
    int64_t cma_wanted = 0;
    const char *tls_why;

    info_machine_read(&m);
    tt_param_get(TT_PARAM_CMA, &cma_wanted);
    put_string(o, "host", m.host);
    put_string(o, "kernel", m.kernel);
    put_integer(o, "cores_allowed", m.cores_allowed);
    put_integer(o, "cores_online", m.cores_online);
    put_integer(o, "memlock_bytes", m.memlock_bytes);
    put_integer(o, "nofile", m.nofile);
    put_string(o, "huge_pages", m.huge_pages);
    put_string(o, "huge_pages_shm", m.huge_pages_shm);
    put_integer(o, "huge_pages_reserved", m.huge_pages_reserved);
    put_bool(o, "cma", m.cma);
    put_string(o, "cma_why_not", m.cma_why);
    put_bool(o, "cma_wanted", cma_wanted);
    put_bool(o, "kernel_tls", tt_secure_kernel(&tls_why));
    put_string(o, "kernel_tls_why_not",
               json_object_get_boolean(json_object_object_get(o, "kernel_tls")) ? "" : tls_why);
    put_string(o, "tcp_congestion", m.congestion);
    put_string(o, "tcp_congestion_allowed", m.congestion_allowed);
    return o;
}

/* The settings of memory registration with RDMA devices. */
static struct json_object *gather_registration(void)
{
    struct json_object *o = json_object_new_object();
    struct tt_registry_setting s = { .mode = "?", .why_not = "" };
    const bool good = tt_registry_setting(&s) == TUTTI_OK;

    put_string(o, "mode", s.mode);
    put_string(o, "wrong", good ? "" : tutti_last_error());
    put_integer(o, "bytes_max", (int64_t)s.bytes_max);
    put_integer(o, "count_max", (int64_t)s.count_max);
    put_bool(o, "dynamic", s.dynamic);
    put_bool(o, "watches", s.watches);
    put_string(o, "watches_why_not", s.why_not);
    return o;
}

static struct json_object *gather_params(void)
{
    struct json_object *all = json_object_new_array();

    for (unsigned i = 0; i < TT_PARAM_COUNT; i++) {
        const struct tt_param *p = &tt_params[i];
        struct json_object *o = json_object_new_object();
        int64_t value = 0;
        const bool valid = tt_param_get((enum tt_param_id)i, &value) == TUTTI_OK;

        put_string(o, "name", p->name);
        put_string(o, "unit", p->unit);
        put_integer(o, "default", p->value_default);
        put_integer(o, "min", p->value_min);
        put_integer(o, "max", p->value_max);
        json_object_object_add(o, "value", valid ? json_object_new_int64(value) : NULL);
        put_string(o, "summary", p->summary);
        json_object_array_add(all, o);
    }
    for (size_t i = 0; i < tt_nparam_words; i++) {
        const char *name = tt_param_words[i].name, *value = getenv(name);
        const bool secret = strstr(name, "TOKEN") != NULL;
        struct json_object *o = json_object_new_object();

        put_string(o, "name", name);
        json_object_object_add(o, "value",
                               !value ? NULL : json_object_new_string(secret ? "(set)" : value));
        put_string(o, "summary", tt_param_words[i].summary);
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *gather_algos(const char *coll)
{
    struct json_object *all = json_object_new_array();

    for (size_t i = 0; i < tt_nalgos; i++) {
        const struct tt_algo *algo = tt_algos[i];
        struct json_object *o;
        char needs[256];

        if (coll && strcmp(tt_coll_name(algo->kind), coll) != 0)
            continue;
        o = json_object_new_object();
        put_string(o, "coll", tt_coll_name(algo->kind));
        put_string(o, "name", algo->name);
        put_string(o, "summary", algo->summary);
        snprintf(needs, sizeof needs, "%s%s", algo->needs ? algo->needs : "",
                 tt_algo_if_named(algo));
        put_string(o, "needs", needs);
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *gather_states(void)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t i = 0; i < tt_nall_states; i++) {
        const struct tt_states *s = tt_all_states[i];
        struct json_object *o = json_object_new_object(), *states = json_object_new_array(),
                           *changes = json_object_new_array();

        for (uint32_t k = 0; k < s->nstates; k++)
            json_object_array_add(states, json_object_new_string(s->states[k]));
        for (uint32_t k = 0; k < s->nchanges; k++) {
            struct json_object *change = json_object_new_object();

            put_string(change, "from", s->states[s->changes[k].from]);
            put_string(change, "to", s->states[s->changes[k].to]);
            put_string(change, "when", s->changes[k].when);
            json_object_array_add(changes, change);
        }
        put_string(o, "name", s->name);
        put_string(o, "of", s->of);
        json_object_object_add(o, "states", states);
        json_object_object_add(o, "changes", changes);
        json_object_array_add(all, o);
    }
    return all;
}

static struct json_object *gather(const struct options *opt)
{
    struct json_object *o, *wires;

    if (opt->what == WHAT_PARAMS)
        return gather_params();
    if (opt->what == WHAT_ALGOS)
        return gather_algos(opt->coll);
    if (opt->what == WHAT_STATES)
        return gather_states();
    o = json_object_new_object();
    wires = gather_wires();
    json_object_object_add(o, "build", gather_build());
    json_object_object_add(o, "wires", wires);
    json_object_object_add(o, "jobs", gather_jobs(wires));
    json_object_object_add(o, "interfaces", gather_interfaces());
    json_object_object_add(o, "machine", gather_machine());
    json_object_object_add(o, "registration", gather_registration());
    return o;
}

/* ---- text ---- */

static const char *text_of(struct json_object *o, const char *key)
{
    return json_object_get_string(json_object_object_get(o, key));
}

static int64_t integer_of(struct json_object *o, const char *key)
{
    return json_object_get_int64(json_object_object_get(o, key));
}

static bool bool_of(struct json_object *o, const char *key)
{
    return json_object_get_boolean(json_object_object_get(o, key));
}

static void print_limit(const char *title, int64_t value, const char *unit)
{
    if (value < 0)
        printf("  %-22s no limit\n", title);
    else
        printf("  %-22s %lld%s\n", title, (long long)value, unit);
}

static void print_wires(struct json_object *wires)
{
    printf("\ntransports, preferred first\n");
    for (size_t i = 0; i < json_object_array_length(wires); i++) {
        struct json_object *w = json_object_array_get_idx(wires, i);

        printf("  %-6s %-10s %s%s\n", text_of(w, "name"),
               bool_of(w, "usable") ? "usable" : "not usable",
               bool_of(w, "usable") ? text_of(w, "summary") : text_of(w, "why_not"),
               bool_of(w, "by_name") ? "; used only if TUTTI_WIRES lists it" : "");
        if (*text_of(w, "about"))
            printf("         %s\n", text_of(w, "about"));
    }
}

static void print_jobs(struct json_object *jobs)
{
    struct json_object *wires = json_object_object_get(jobs, "wires");
    const char *setting = text_of(jobs, "wires_setting");

    if (*text_of(jobs, "why_not"))
        printf("  jobs cannot start: %s", text_of(jobs, "why_not"));
    else
        printf("  jobs use");
    for (size_t i = 0; i < json_object_array_length(wires); i++)
        printf("%s %s", i ? "," : "", json_object_get_string(json_object_array_get_idx(wires, i)));
    if (setting)
        printf(" (TUTTI_WIRES is \"%s\")\n", setting);
    else
        printf(" (TUTTI_WIRES is not set)\n");
}

static void print_interfaces(struct json_object *interfaces)
{
    printf("\ninterfaces, preferred first\n");
    if (json_object_array_length(interfaces) == 0)
        printf("  none%s\n", getenv("TUTTI_INTERFACES") ? " allowed by TUTTI_INTERFACES" : "");
    for (size_t i = 0; i < json_object_array_length(interfaces); i++) {
        struct json_object *f = json_object_array_get_idx(interfaces, i);

        printf("  %-12s %s/%lld\n", text_of(f, "name"), text_of(f, "address"),
               (long long)integer_of(f, "prefix_bits"));
    }
}

static void print_machine(struct json_object *m)
{
    printf("\nmachine\n");
    printf("  %-22s %s\n", "host", text_of(m, "host"));
    printf("  %-22s %s\n", "kernel", text_of(m, "kernel"));
    printf("  %-22s %lld of %lld\n", "cores allowed", (long long)integer_of(m, "cores_allowed"),
           (long long)integer_of(m, "cores_online"));
    print_limit("locked memory", integer_of(m, "memlock_bytes"), " bytes (ulimit -l)");
    print_limit("open files", integer_of(m, "nofile"), " (ulimit -n)");
    printf("  %-22s transparent %s; for shared memory %s; %lld reserved\n", "huge pages",
           text_of(m, "huge_pages"), text_of(m, "huge_pages_shm"),
           (long long)integer_of(m, "huge_pages_reserved"));
    printf("  %-22s %s%s%s\n", "cross-memory attach",
           bool_of(m, "cma") ? "allowed between ranks" : "not available: ",
           text_of(m, "cma_why_not"), bool_of(m, "cma_wanted") ? "" : "; disabled (TUTTI_CMA=0)");
    printf("  %-22s %s%s\n", "kernel TLS",
           bool_of(m, "kernel_tls") ? "yes" : "no: ", text_of(m, "kernel_tls_why_not"));
    printf("  %-22s %s (allowed: %s)\n", "TCP congestion control", text_of(m, "tcp_congestion"),
           text_of(m, "tcp_congestion_allowed"));
}

static void print_registration(struct json_object *r)
{
    printf("\nmemory registration with RDMA devices\n");
    if (*text_of(r, "wrong")) {
        printf("  %s\n", text_of(r, "wrong"));
        return;
    }
    printf("  %-22s %s%s\n", "mode", text_of(r, "mode"),
           bool_of(r, "dynamic") ? ""
                                 : "; only for memory of tutti_mem_register and tutti_mem_alloc "
                                   "(TUTTI_REGISTER_DYNAMIC=0)");
    printf("  %-22s %lld bytes, %lld registrations\n", "cache limits",
           (long long)integer_of(r, "bytes_max"), (long long)integer_of(r, "count_max"));
    printf("  %-22s %s%s\n", "change detection",
           bool_of(r, "watches") ? "yes (userfaultfd)"
                                 : "no, so only memory of tutti_mem_register is cached: ",
           text_of(r, "watches_why_not"));
}

/* Prints words in lines of at most 100 columns, indented by 4. A longer word is on a line by
 * itself. */
static void print_wrapped(const char *text)
{
    size_t at = 0;

    while (*text) {
        const size_t n = strcspn(text, " ");

        if (at > 0 && at + 1 + n > 100) {
            putchar('\n');
            at = 0;
        }
        at += (size_t)printf("%s%.*s", at > 0 ? " " : "    ", (int)n, text);
        text += n + (text[n] == ' ');
    }
    putchar('\n');
}

static void print_params(struct json_object *params)
{
    printf("%-26s %12s %12s %12s %12s  %s\n", "name", "value", "default", "min", "max", "unit");
    for (size_t i = 0; i < json_object_array_length(params); i++) {
        struct json_object *p = json_object_array_get_idx(params, i);
        const char *value = text_of(p, "value");

        if (!json_object_object_get(p, "unit")) {
            printf("%-26s %12s\n", text_of(p, "name"), value ? value : "not set");
            print_wrapped(text_of(p, "summary"));
            continue;
        }
        printf("%-26s %12s %12s %12s %12s  %s\n", text_of(p, "name"), value ? value : "invalid",
               text_of(p, "default"), text_of(p, "min"), text_of(p, "max"), text_of(p, "unit"));
        print_wrapped(text_of(p, "summary"));
    }
}

static void print_algos(struct json_object *algos)
{
    for (size_t i = 0; i < json_object_array_length(algos); i++) {
        struct json_object *a = json_object_array_get_idx(algos, i);

        printf("%-28s %s\n", text_of(a, "name"), text_of(a, "summary"));
        if (*text_of(a, "needs"))
            printf("%-28s     needs %s\n", "", text_of(a, "needs"));
    }
}

static void print_states(struct json_object *all)
{
    for (size_t i = 0; i < json_object_array_length(all); i++) {
        struct json_object *o = json_object_array_get_idx(all, i),
                           *changes = json_object_object_get(o, "changes");

        printf("%s%s\n", i ? "\n" : "", text_of(o, "of"));
        for (size_t k = 0; k < json_object_array_length(changes); k++) {
            struct json_object *change = json_object_array_get_idx(changes, k);

            printf("  %-12s -> %-12s %s\n", text_of(change, "from"), text_of(change, "to"),
                   text_of(change, "when"));
        }
    }
}

static void print_text(const struct options *opt, struct json_object *o)
{
    struct json_object *build = json_object_object_get(o, "build");

    if (opt->what == WHAT_PARAMS) {
        print_params(o);
        return;
    }
    if (opt->what == WHAT_ALGOS) {
        print_algos(o);
        return;
    }
    if (opt->what == WHAT_STATES) {
        print_states(o);
        return;
    }
    printf("tutti %s\n", text_of(build, "version"));
    printf("  %-22s %s\n", "compiler", text_of(build, "compiler"));
    printf("  %-22s %s\n", "sanitizer", text_of(build, "sanitizer"));
    printf("  %-22s %s\n", "reduction kernels", text_of(build, "simd"));
    printf("  %-22s %s\n", "PMIx", bool_of(build, "pmix") ? "compiled in" : "not compiled in");
    print_wires(json_object_object_get(o, "wires"));
    print_jobs(json_object_object_get(o, "jobs"));
    print_interfaces(json_object_object_get(o, "interfaces"));
    print_machine(json_object_object_get(o, "machine"));
    print_registration(json_object_object_get(o, "registration"));
}

static int print_memory(const struct options *opt, int argc, char **argv)
{
    const uint32_t there = perf_job_ranks(), nranks = opt->nranks ? opt->nranks : RANKS_DEFAULT;

    if (there && opt->nranks && opt->nranks != there) {
        fprintf(stderr, "tutti info: --ranks %u differs from the %u rank%s of the current job\n",
                opt->nranks, there, TT_PLURAL(there));
        return 2;
    }
    return there || nranks == 1 ? info_memory(opt->json) : perf_launch(nranks, argc, argv);
}

int tool_info_main(int argc, char **argv)
{
    struct options opt = { .what = WHAT_MACHINE };
    struct json_object *o;

    command_line_read(&command, &opt, argc, argv);
    if (opt.what == WHAT_MEMORY)
        return print_memory(&opt, argc, argv);
    if (opt.what == WHAT_ALGOS && tt_plugins_load() != TUTTI_OK)
        return 1;
    o = gather(&opt);
    if (opt.json)
        printf("%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
    else
        print_text(&opt, o);
    json_object_put(o);
    return 0;
}
