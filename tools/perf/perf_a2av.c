/* Each token is routed to k different experts, which are drawn from a Zipf or uniform distribution.
 * Experts are assigned to ranks. The send buffer of a rank contains its tokens sorted by expert,
 * one piece per expert. The same exchange is then performed by all methods, in turn, and each
 * result is compared with the routing. */
#include "perf_a2av.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/prng.h"
#include "base/status.h"
#include "tools/failed.h"
#include "tools/command_line.h"
#include "tools/option_values.h"
#include "tools/perf/perf_launch.h"
#include "tools/perf/perf_rooms.h"
#include "tutti/moe.h"

#define RANKS_DEFAULT 4
#define EXPERTS_MAX 4096
#define METHODS 10

struct options {
    uint32_t nranks;
    uint32_t methods;           /* bits; 0: all */
    const char *wire;
    size_t tokens, bytes, experts, top, iters;
    uint64_t seed;
    double skew;
    bool dealt, json;
};

/* ---- the exchange ---- */

struct exchange {
    const struct options *o;
    tutti_comm *comm;
    uint32_t rank, nranks;
    size_t *lengths;            /* [nranks][experts] bytes of all ranks, for the method `known`
                                   and the check */
    size_t *indices, *block_lens;
    size_t max_length, max_total;   /* bytes; a token is sent to an expert at most once */
    size_t pad_bytes, seen_bytes;   /* largest possible and largest actual size from one rank to
                                       another */
    uint8_t *send, *recv, *packed, *padded, *padded_in;
    void **recvbuffs;
    size_t *all_lengths, *gathered;
    size_t *send_counts, *recv_counts, *send_displs, *recv_displs;
    tutti_dynamic what;
    tutti_replay *replay[8];    /* by the optimizations that are disabled */
    tutti_arrived arrived;
    double start_cpu_us;        /* CPU time to start the last replay */
};

static uint32_t home_of(const struct exchange *x, size_t expert)
{
    const size_t each = x->o->experts / x->nranks;

    return (uint32_t)(x->o->dealt ? expert % x->nranks : expert / each);
}

/* lengths[experts]: the bytes that `rank` sends to each expert. */
static void route(const struct exchange *x, uint32_t rank, size_t *lengths)
{
    const struct options *o = x->o;
    double *until = malloc(o->experts * sizeof *until), sum = 0;
    bool *has = malloc(o->experts * sizeof *has);
    struct tt_prng prng;

    tt_assert(until && has);
    for (size_t e = 0; e < o->experts; e++)
        until[e] = sum += 1 / pow((double)(e + 1), o->skew);
    tt_prng_init(&prng, o->seed * 4099 + rank);
    memset(lengths, 0, o->experts * sizeof *lengths);
    for (size_t t = 0; t < o->tokens; t++) {
        memset(has, 0, o->experts * sizeof *has);
        for (size_t k = 0; k < o->top;) {
            const double at = (double)(tt_prng_u64(&prng) >> 11) / 9007199254740992.0 * sum;
            size_t e = 0, place;

            while (e + 1 < o->experts && until[e] <= at)
                e++;
            place = e * 7919 % o->experts;      /* spreads popular experts over all ranks */
            if (has[place])
                continue;
            has[place] = true;
            lengths[place] += o->bytes;
            k++;
        }
    }
    free(has);
    free(until);
}

static size_t to_rank(const struct exchange *x, uint32_t from, uint32_t to)
{
    size_t bytes = 0;

    for (size_t e = 0; e < x->o->experts; e++)
        bytes += home_of(x, e) == to ? x->lengths[from * x->o->experts + e] : 0;
    return bytes;
}

static uint8_t byte_of(uint32_t from, size_t at)
{
    return (uint8_t)(from * 151 + at * 7 + (at >> 8));
}

static void *room(size_t n, size_t bytes)
{
    void *mem = calloc(n ? n : 1, bytes);

    if (!mem) {
        fprintf(stderr, "tutti perf a2av: out of memory for %zu times %zu bytes\n", n, bytes);
        exit(1);
    }
    return mem;
}

/* The bytes of all buffers that plan() allocates; UINT64_MAX on overflow. */
static uint64_t buffer_bytes(const struct options *o, uint64_t n)
{
    const uint64_t per_home = o->experts / n, each = o->top < per_home ? o->top : per_home;
    uint64_t token, sent, rows, out;

    if (__builtin_mul_overflow((uint64_t)o->tokens, (uint64_t)o->bytes, &token) ||
        __builtin_mul_overflow((n + 2) * o->top, token, &sent) ||
        __builtin_mul_overflow(2 * n * each, token, &rows) ||
        __builtin_add_overflow(sent, rows, &out))
        return UINT64_MAX;
    return out;
}

/* Computes sizes and lists, and allocates buffers. Every rank has the sizes of all ranks, so that
 * it can check its results. */
static void plan(struct exchange *x)
{
    const struct options *o = x->o;
    const size_t per_home = o->experts / x->nranks, n = x->nranks;
    size_t at = 0;

    x->max_length = o->tokens * o->bytes;
    x->max_total = o->tokens * o->top * o->bytes;
    x->pad_bytes = o->tokens * o->bytes * (o->top < per_home ? o->top : per_home);
    x->lengths = room(n * o->experts, sizeof(size_t));
    x->indices = room(o->experts, sizeof(size_t));
    x->block_lens = room(n, sizeof(size_t));
    for (uint32_t r = 0; r < n; r++)
        route(x, r, x->lengths + r * o->experts);
    for (uint32_t r = 0; r < n; r++)
        for (size_t e = 0; e < o->experts; e++)
            if (home_of(x, e) == r) {
                x->indices[at++] = e;
                x->block_lens[r]++;
            }
    for (uint32_t i = 0; i < n * n; i++)
        if (to_rank(x, i / (uint32_t)n, i % (uint32_t)n) > x->seen_bytes)
            x->seen_bytes = to_rank(x, i / (uint32_t)n, i % (uint32_t)n);
    x->send = room(x->max_total, 1);
    x->packed = room(x->max_total, 1);
    x->recv = room(n * x->max_total, 1);
    x->padded = room(n * x->pad_bytes, 1);
    x->padded_in = room(n * x->pad_bytes, 1);
    x->recvbuffs = room(n, sizeof(void *));
    x->all_lengths = room(n * o->experts, sizeof(size_t));
    x->gathered = room(n * n, sizeof(size_t));
    x->send_counts = room(4 * n, sizeof(size_t));
    x->recv_counts = x->send_counts + n;
    x->send_displs = x->recv_counts + n;
    x->recv_displs = x->send_displs + n;
    for (size_t i = 0; i < x->max_total; i++)
        x->send[i] = byte_of(x->rank, i);
    for (uint32_t r = 0; r < n; r++) {
        x->recvbuffs[r] = x->recv + r * x->max_total;
        x->send_counts[r] = to_rank(x, x->rank, r);
        x->recv_counts[r] = to_rank(x, r, x->rank);
        x->send_displs[r] = r ? x->send_displs[r - 1] + x->send_counts[r - 1] : 0;
        x->recv_displs[r] = r * x->max_total;
    }
    x->what = (tutti_dynamic){
        .size = sizeof x->what,
        .sendbuff = x->send,
        .split_lengths = x->lengths + x->rank * o->experts,
        .nsplits = o->experts,
        .indices = x->indices,
        .index_block_lens = x->block_lens,
        .recvbuffs = x->recvbuffs,
        .recv_all_split_lengths = x->all_lengths,
        .max_length = x->max_length,
        .max_total = x->max_total,
    };
    x->arrived.size = sizeof x->arrived;
}

static void forget(struct exchange *x)
{
    for (int i = 0; i < 8; i++)
        tutti_replay_free(x->replay[i]);
    free(x->lengths);
    free(x->indices);
    free(x->block_lens);
    free(x->send);
    free(x->packed);
    free(x->recv);
    free(x->padded);
    free(x->padded_in);
    free(x->recvbuffs);
    free(x->all_lengths);
    free(x->gathered);
    free(x->send_counts);
}

/* ---- methods ---- */

/* Copies the pieces of each rank together into out[], the ranks `stride` bytes apart (0:
 * contiguous). */
static void gather_pieces(const struct exchange *x, uint8_t *out, size_t stride)
{
    const size_t *lengths = x->what.split_lengths;
    size_t at = 0;

    for (uint32_t r = 0; r < x->nranks; r++) {
        size_t from = 0, to = stride ? r * stride : at;

        for (size_t e = 0; e < x->o->experts; from += lengths[e++])
            if (home_of(x, e) == r) {
                memcpy(out + to, x->send + from, lengths[e]);
                to += lengths[e];
                at += lengths[e];
            }
    }
}

static tutti_status dynamic(struct exchange *x, uint32_t arg)
{
    (void)arg;
    return tutti_alltoallv_dynamic(&x->what, TUTTI_U8, x->comm, NULL);
}

/* Only the exchange is measured: with --dealt, the pieces were copied together before. */
static tutti_status known(struct exchange *x, uint32_t arg)
{
    (void)arg;
    return tutti_alltoallv(x->o->dealt ? x->packed : x->send, x->send_counts, x->send_displs,
                           x->recv, x->recv_counts, x->recv_displs, TUTTI_U8, x->comm, NULL);
}

/* Gathers lengths and indices, then exchanges blocks of the largest possible size (with arg: of the
 * largest actual size). */
static tutti_status padded(struct exchange *x, uint32_t arg)
{
    const size_t bytes = arg ? x->seen_bytes : x->pad_bytes;
    tutti_status st = tutti_allgather(x->what.split_lengths, x->all_lengths, x->o->experts,
                                      TUTTI_U64, x->comm, NULL);

    if (!st)
        st = tutti_allgather(x->block_lens, x->gathered, x->nranks, TUTTI_U64, x->comm, NULL);
    gather_pieces(x, x->padded, bytes);
    if (!st)
        st = tutti_alltoall(x->padded, x->padded_in, bytes, TUTTI_U8, x->comm, NULL);
    return st;
}

static double cpu_us(clockid_t whose)
{
    struct timespec ts;

    clock_gettime(whose, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static tutti_status replayed(struct exchange *x, uint32_t without)
{
    tutti_dynamic w = x->what;
    const double began = cpu_us(CLOCK_THREAD_CPUTIME_ID);
    tutti_status st;

    w.nsplits = w.max_length = w.max_total = 0;
    w.recvbuffs = NULL;
    w.recv_all_split_lengths = NULL;
    st = tutti_replay_start(x->replay[without], &w, 0);
    x->start_cpu_us = cpu_us(CLOCK_THREAD_CPUTIME_ID) - began;
    return st ? st : tutti_replay_wait(x->replay[without], &x->arrived, 0);
}

static const struct method {
    const char *name;
    tutti_status (*run)(struct exchange *x, uint32_t arg);
    uint32_t arg;
    bool replays, padded;
} methods[METHODS] = {
    { "dynamic", dynamic, 0, false, false },
    { "known", known, 0, false, false },
    { "padded", padded, 0, false, true },
    { "padded_seen", padded, 1, false, true },
    { "replay", replayed, 0, true, false },
    { "replay_without_chain", replayed, TUTTI_REPLAY_NO_CHAIN, true, false },
    { "replay_without_bypass", replayed, TUTTI_REPLAY_NO_BYPASS, true, false },
    { "replay_without_handles", replayed, TUTTI_REPLAY_NO_HANDLES, true, false },
    { "replay_without_chain_bypass", replayed, TUTTI_REPLAY_NO_CHAIN | TUTTI_REPLAY_NO_BYPASS, true,
      false },
    { "replay_without_all", replayed,
      TUTTI_REPLAY_NO_CHAIN | TUTTI_REPLAY_NO_BYPASS | TUTTI_REPLAY_NO_HANDLES, true, false },
};

static bool is_wanted(const struct options *o, int method)
{
    return !o->methods || o->methods >> method & 1;
}

static void take_methods(void *options, struct argp_state *state, char *arg)
{
    struct options *o = options;

    for (const char *at = arg; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        int m = 0;

        while (m < METHODS &&
               (strlen(methods[m].name) != n || strncmp(methods[m].name, at, n) != 0))
            m++;
        if (m == METHODS)
            argp_error(state,
                       "--methods %s: unknown method \"%.*s\" (use dynamic, known, padded, "
                       "padded_seen, replay, replay_without_chain, replay_without_bypass, "
                       "replay_without_handles, replay_without_chain_bypass or replay_without_all)",
                       arg, (int)n, at);
        o->methods |= 1u << m;
    }
}

static const struct option_row option_rows[] = {
    { "ranks", 'n', "N", 1, OPTION_INTEGER(struct options, nranks, 1, 4096),
      "number of ranks to start on this host (default 4). In a job, the job's ranks are used, and "
      "N must equal their number" },
    { "wire", 0, "shm,tcp", 1, OPTION_WIRES(struct options, wire),
      "allowed transports (default: all usable ones except verbs and ofi)" },
    { "tokens", 0, "N", 2, OPTION_INTEGER(struct options, tokens, 1, 1u << 20),
      "tokens per rank (default 256)" },
    { "bytes", 0, "SIZE", 2, OPTION_SIZE(struct options, bytes, 1),
      "bytes per token, with an optional K, M, G or T (default 4K)" },
    { "experts", 0, "N", 2, OPTION_INTEGER(struct options, experts, 1, EXPERTS_MAX),
      "experts in total, a multiple of the number of ranks (default 8 per rank)" },
    { "top", 0, "K", 2, OPTION_INTEGER(struct options, top, 1, 64),
      "experts per token (default 1)" },
    { "skew", 0, "S", 2, OPTION_REAL(struct options, skew, 0, 4),
      "exponent of the Zipf distribution of tokens over experts; 0: uniform (default 0)" },
    { "dealt", 0, NULL, 2, OPTION_FLAG(struct options, dealt),
      "assign experts to ranks round-robin, so that the data for each rank consists of many "
      "pieces (default: consecutive experts per rank, one piece)" },
    { "methods", 0, "LIST", 3, OPTION_CALL(take_methods),
      "methods, separated by commas: dynamic, known, padded, padded_seen, replay, "
      "replay_without_chain, ... (default: all)" },
    { "ways", 0, NULL, 3, { 0 }, NULL },
    { "iters", 0, "N", 3, OPTION_INTEGER(struct options, iters, 1, 1000000),
      "measured rounds; each runs all methods (default 20)" },
    { "seed", 0, "N", 3, OPTION_INTEGER(struct options, seed, 0, UINT64_MAX),
      "seed of the routing (default 1)" },
    { "json", 0, NULL, 4, OPTION_FLAG(struct options, json), "print one JSON object per line" },
    { 0 },
};

static const struct command_line command = {
    .rows = option_rows,
    .doc =
        "Compares several methods for the all-to-all exchange of a mixture of experts.\v"
        "Methods:\n"
        "  dynamic      tutti_alltoallv_dynamic\n"
        "  known        tutti_alltoallv, with sizes that are set on all ranks in advance\n"
        "  padded       two allgathers, then alltoall padded to the largest possible\n"
        "               size\n"
        "  padded_seen  the same, padded to the largest actual size\n"
        "  replay       tutti_replay, with and without its optimizations\n\n"
        "Columns: `bytes sent`: from rank 0 to other ranks; `time`: time of the exchange on the "
        "slowest rank; `cpu`: CPU time of the exchange, mean over ranks; `Tc`: CPU time to start "
        "a replay, per destination rank, mean over ranks. All times are medians over rounds.\n\n"
        "Exit status: 0 on success, 1 on failure, 2 on a usage error.\n\n"
        "Examples:\n"
        "  tutti perf a2av -n 4 --tokens 1024 --top 2\n",
        NULL, NULL, NULL,
};

/* ---- received data ---- */

static const uint8_t *came_from(const struct exchange *x, const struct method *w, uint32_t sender)
{
    if (w->padded)
        return x->padded_in + sender * (w->arg ? x->seen_bytes : x->pad_bytes);
    return w->replays ? x->arrived.recvbuffs[sender] : x->recvbuffs[sender];
}

/* The number of received bytes that differ from the sent ones. Pieces keep their offsets, or
 * (known, padded) are contiguous. */
static uint64_t wrong_bytes(const struct exchange *x, const struct method *w)
{
    const bool packed = w->padded || w->run == known;
    uint64_t wrong = 0;

    for (uint32_t s = 0; s < x->nranks; s++) {
        const uint8_t *got = came_from(x, w, s);
        size_t from = 0, to = 0;

        for (size_t e = 0; e < x->o->experts; e++) {
            const size_t bytes = x->lengths[s * x->o->experts + e];

            if (home_of(x, e) == x->rank) {
                for (size_t i = 0; i < bytes; i++)
                    wrong += got[(packed ? to : from) + i] != byte_of(s, from + i);
                to += bytes;
            }
            from += bytes;
        }
    }
    return wrong;
}

static tutti_status check(struct exchange *x, const struct method *w)
{
    uint64_t mine = 0, all = 0;
    tutti_status st;

    memset(x->recv, 0, x->nranks * x->max_total);
    memset(x->padded_in, 0, x->nranks * x->pad_bytes);
    st = w->run(x, w->arg);
    if (!st) {
        mine = wrong_bytes(x, w);
        st = tutti_allreduce(&mine, &all, 1, TUTTI_U64, TUTTI_SUM, x->comm, NULL);
    }
    return st || !all
               ? st
               : tt_fail(
                     TUTTI_ERR_PROTOCOL,
                     "wrong data with method %s: %llu received bytes differ from the sent bytes",
                     w->name, (unsigned long long)all);
}

/* ---- measuring ---- */

struct sample {
    double us, cpu_us, start_cpu_us;
};

/* Runs one round. *out: the time of the slowest rank, and the CPU times of the exchange and of its
 * start, as means over ranks. */
static tutti_status round_of(struct exchange *x, const struct method *w, struct sample *out)
{
    double mine, cpu[2], mean[2] = { 0 };
    uint64_t began;
    tutti_status st = tutti_barrier(x->comm, NULL);

    if (st)
        return st;
    cpu[0] = cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    began = tt_now_ns();
    st = w->run(x, w->arg);
    mine = (double)(tt_now_ns() - began) / 1e3;
    cpu[0] = cpu_us(CLOCK_PROCESS_CPUTIME_ID) - cpu[0];
    cpu[1] = w->replays ? x->start_cpu_us : 0;
    if (!st)
        st = tutti_allreduce(&mine, &out->us, 1, TUTTI_F64, TUTTI_MAX, x->comm, NULL);
    if (!st)
        st = tutti_allreduce(cpu, mean, 2, TUTTI_F64, TUTTI_AVG, x->comm, NULL);
    out->cpu_us = mean[0];
    out->start_cpu_us = mean[1];
    return st;
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *of, size_t n)
{
    qsort(of, n, sizeof *of, by_number);
    return n % 2 ? of[n / 2] : (of[n / 2 - 1] + of[n / 2]) / 2;
}

/* The bytes that one rank sends to another with method w. */
static uint64_t sent_to(const struct exchange *x, const struct method *w, uint32_t from,
                        uint32_t to)
{
    return from == to   ? 0
           : !w->padded ? to_rank(x, from, to)
           : w->arg     ? x->seen_bytes
                        : x->pad_bytes;
}

/* The largest number of bytes that any rank sends or receives. */
static uint64_t busiest_bytes(const struct exchange *x, const struct method *w)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < x->nranks; r++) {
        uint64_t out = 0, in = 0;

        for (uint32_t other = 0; other < x->nranks; other++) {
            out += sent_to(x, w, r, other);
            in += sent_to(x, w, other, r);
        }
        most = out > most ? out : most;
        most = in > most ? in : most;
    }
    return most;
}

static void print(const struct exchange *x, const struct method *w, const struct sample *samples)
{
    const size_t n = x->o->iters;
    double *us = room(n, sizeof *us), *cpu = room(n, sizeof *cpu), *start = room(n, sizeof *start),
           tc;
    size_t held = 0;
    uint64_t sent = 0;

    tutti_alltoallv_dynamic_bytes(x->comm, &held);
    for (size_t i = 0; i < n; i++) {
        us[i] = samples[i].us;
        cpu[i] = samples[i].cpu_us;
        start[i] = samples[i].start_cpu_us;
    }
    for (uint32_t r = 0; r < x->nranks; r++)
        sent += sent_to(x, w, x->rank, r);
    tc = median(start, n) / (x->nranks > 1 ? x->nranks - 1 : 1);
    if (x->o->json)
        printf("{\"method\": \"%s\", \"ranks\": %u, \"tokens\": %zu, \"bytes\": %zu, \"experts\": "
               "%zu, \"top\": %zu, \"skew\": %g, "
               "\"dealt\": %s, \"sent_bytes\": %llu, \"busiest_bytes\": %llu, \"time_us\": %.2f, "
               "\"cpu_us\": %.2f, \"tc_us\": %.3f, \"held_bytes\": %zu}\n",
               w->name, x->nranks, x->o->tokens, x->o->bytes, x->o->experts, x->o->top, x->o->skew,
               x->o->dealt ? "true" : "false", (unsigned long long)sent,
               (unsigned long long)busiest_bytes(x, w), median(us, n), median(cpu, n), tc, held);
    else if (w->replays)
        printf("%-28s %12llu %12.2f %12.2f %10.3f\n", w->name, (unsigned long long)sent,
               median(us, n), median(cpu, n), tc);
    else
        printf("%-28s %12llu %12.2f %12.2f %10s\n", w->name, (unsigned long long)sent,
               median(us, n), median(cpu, n), "");
    free(us);
    free(cpu);
    free(start);
}

static tutti_status measure(struct exchange *x)
{
    const size_t iters = x->o->iters;
    struct sample *samples = room(METHODS * iters, sizeof *samples);
    tutti_status st = TUTTI_OK;

    gather_pieces(x, x->packed, 0);
    for (int m = 0; m < METHODS && !st; m++) {
        const tutti_replay_conf conf = {
            .size = sizeof conf,
            .nsplits = x->o->experts,
            .max_length = x->max_length,
            .max_total = x->max_total,
            .type = TUTTI_U8,
            .without = methods[m].arg,
        };

        if (!is_wanted(x->o, m))
            continue;
        if (methods[m].replays)
            st = tutti_replay_create(x->comm, &conf, &x->replay[methods[m].arg]);
        for (int k = 0; k < 2 && !st; k++)
            st = check(x, &methods[m]);
    }
    for (size_t i = 0; i < iters && !st; i++)       /* in turn, so that drift affects all methods
                                                       alike */
        for (int m = 0; m < METHODS && !st; m++)
            if (is_wanted(x->o, m))
                st = round_of(x, &methods[m], &samples[(size_t)m * iters + i]);
    if (!st && x->rank == 0) {
        if (!x->o->json)
            printf("%-28s %12s %12s %12s %10s\n", "method", "bytes sent", "time us", "cpu us",
                   "Tc us");
        for (int m = 0; m < METHODS; m++)
            if (is_wanted(x->o, m))
                print(x, &methods[m], samples + (size_t)m * iters);
    }
    free(samples);
    return st;
}

static int be_rank(struct options *o)
{
    const tutti_conf conf = { .size = sizeof conf, .wires = o->wire };
    struct exchange x = { .o = o };
    tutti_status st = tutti_comm_create(&x.comm, &conf);

    if (st) {
        tool_failed("tutti perf a2av", NULL, st);
        return 1;
    }
    x.rank = (uint32_t)tutti_comm_rank(x.comm);
    x.nranks = (uint32_t)tutti_comm_size(x.comm);
    if (!o->experts)
        o->experts = 8 * x.nranks;
    if (o->experts % x.nranks || o->experts > EXPERTS_MAX || o->top > o->experts) {
        if (x.rank == 0)
            fprintf(
                stderr,
                "tutti perf a2av: --experts %zu: must be a multiple of %u (the number of ranks), "
                "from %zu (--top) to %u\n",
                o->experts, x.nranks, o->top, EXPERTS_MAX);
        tutti_comm_destroy(x.comm);
        return 2;
    }
    st = perf_rooms_check(x.comm, buffer_bytes(o, x.nranks), 0);
    if (!st) {
        plan(&x);
        st = measure(&x);
    }
    if (st)
        tool_failed("tutti perf a2av", NULL, st);
    forget(&x);
    tutti_comm_destroy(x.comm);
    return st ? 1 : 0;
}

int perf_a2av_main(int argc, char **argv)
{
    struct options o = { .tokens = 256, .bytes = 4096, .top = 1, .iters = 20, .seed = 1 };
    static char name[] = "tutti perf a2av";
    uint32_t there;

    argv[1] = name;
    command_line_read(&command, &o, argc - 1, argv + 1);
    there = perf_job_ranks();
    if (there && o.nranks && o.nranks != there) {
        fprintf(stderr,
                "tutti perf a2av: --ranks %u differs from the %u rank%s of the current job\n",
                o.nranks, there, TT_PLURAL(there));
        return 2;
    }
    if (there || o.nranks == 1)
        return be_rank(&o);
    argv[1] = (char[]){ "a2av" };
    return perf_launch(o.nranks ? o.nranks : RANKS_DEFAULT, argc, argv);
}
