/* Start-up of many ranks, as threads of a few processes, over real loopback sockets:
 * prog_start RANKS PROCESSES [CARD_BYTES [RANKS_PER_HOST [RENDEZVOUS [TIMEOUT_MS KILLED US]]]].
 * Consecutive ranks are on one host; without RANKS_PER_HOST, all are. RENDEZVOUS "-" is the
 * default, a port of the loopback address. Runs the code of src/boot that every job runs: the
 * rendezvous and the connection of the control overlay. Prints, as JSON:
 *   seconds            from the common start until the last rank has its result
 *   received_max/mean  bytes that a rank receives
 *   busiest_bytes      bytes that the busiest rank sends and receives; a job has a process per rank
 *   busiest_rank
 *   accepted           connections that rank 0 accepts
 *   memory_mb          sum of the peak memory of all processes
 * With KILLED, the process with that index is killed US microseconds after the start. Its last rank
 * never joins, so that the start-up cannot complete before. With KILLED "rank:N" only rank N is
 * killed, which has its own process, and joins like all others; the start-up may complete before.
 * The output then describes the ranks of the other processes:
 *   started, failed    number of ranks
 *   unnamed            failed ranks whose message names neither missing ranks nor the first rank of
 *                      their host; with "rank:N", neither N nor, if N is that one, the first rank
 *                      of their host
 *   cut_off            with "rank:N", other failed ranks that found no root, although rank 0 has
 *                      started
 *   unnamed_error      message of the last rank of `unnamed`
 *   error              message of the last failed rank
 *   late_s             from the deadline until the last rank returns; negative: before it */
#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/boot.h"
#include "boot/tree_layout.h"
#include "packed.h"
#include "support/unit.h"

#define TIMEOUT_MS 240000
#define NOT_KILLED UINT32_MAX
#define STACK_BYTES (512u << 10)
#define CARD_BYTES_DEFAULT 512u
#define PLACE_BYTES 60u

struct result {
    uint64_t sent, received, accepted, end_ns;
    tutti_status status;
    char error[TT_ERROR_BYTES];
};

/* Shared by all processes. */
struct shared {
    pthread_barrier_t started, ended;
    atomic_ullong begin_ns;
    uint32_t nranks, nprocesses, card_bytes, per_host;
    uint32_t timeout_ms, killed;        /* killed: a process, or NOT_KILLED */
    uint32_t single;                    /* killed "rank:N": N; otherwise NOT_KILLED */
    atomic_uint nended;
    char rendezvous[128];
    uint64_t memory_kb[PACKED_PROCESSES_MAX];
    struct result results[];
};

struct rank {
    pthread_t thread;
    struct shared *shared;
    uint32_t rank;
};

/* As similar as in real jobs: 28 bytes differ between ranks, at five places. */
static void make_card(uint8_t *card, uint32_t bytes, uint32_t rank)
{
    for (uint32_t i = 0; i < bytes; i++)
        card[i] = (uint8_t)(i * 131 >> 3);
    for (uint32_t place = 1; place < 5; place++)
        for (uint32_t k = 0; k < 6 && place * bytes / 5 + k < bytes; k++)
            card[place * bytes / 5 + k] = (uint8_t)tt_hash_bytes(&rank, sizeof rank, place * 8 + k);
    memcpy(card, &rank, sizeof rank);
}

static void make_place(const struct shared *s, uint8_t place[PLACE_BYTES], uint32_t rank)
{
    memset(place, 7, PLACE_BYTES);
    place[30] = (uint8_t)(rank % s->per_host);
}

static void check_places(const struct shared *s, const struct tt_table *t, struct result *out)
{
    uint8_t expected[PLACE_BYTES], bytes;
    struct tt_tree_walk w;
    const uint8_t *place;

    out->status = tt_tree_walk_init(&w, t->layout, t->layout_bytes);
    for (uint32_t r = 0; r < s->nranks && !out->status; r++) {
        make_place(s, expected, r);
        if (tt_tree_walk_next(&w, &place, &bytes) != r / s->per_host || bytes != PLACE_BYTES ||
            memcmp(place, expected, PLACE_BYTES) != 0) {
            out->status = TUTTI_ERR_PROTOCOL;
            snprintf(out->error, sizeof out->error, "rank %u has a wrong place of rank %u", t->rank,
                     r);
        }
    }
    tt_tree_walk_fini(&w);
}

static void check_table(const struct shared *s, struct tt_table *t, struct result *out)
{
    uint8_t card[TT_CARD_BYTES];
    const uint8_t *found;
    uint32_t holder;

    for (uint32_t r = 0; r < s->nranks && !out->status; r++) {
        make_card(card, s->card_bytes, r);
        if (tt_boot_card(&t->records, r, &found, &holder) != s->card_bytes ||
            memcmp(found, card, s->card_bytes) != 0) {
            out->status = TUTTI_ERR_PROTOCOL;
            snprintf(out->error, sizeof out->error, "rank %u has a wrong record of rank %u",
                     t->rank, r);
        }
    }
}

/* Fails if a link of the overlay is not up. */
static void check_overlay(const struct tt_overlay *o, struct result *out)
{
    const uint32_t *peers, n = tt_overlay_neighbours(o, &peers);

    for (uint32_t i = 0; i < n; i++)
        if (!tt_overlay_is_connected(o, peers[i])) {
            out->status = TUTTI_ERR_PROTOCOL;
            snprintf(out->error, sizeof out->error, "not connected to rank %u", peers[i]);
        }
}

/* Returns the first rank of a process; for the number of processes, the end. A single rank is in
 * the last process, and omitted from the process that has its neighbours. */
static uint32_t first_of(const struct shared *s, uint32_t process)
{
    const uint32_t n = s->single == NOT_KILLED ? s->nprocesses : s->nprocesses - 1;

    return (uint32_t)((uint64_t)s->nranks * process / n);
}

static bool is_killed(const struct shared *s, uint32_t rank)
{
    if (s->single != NOT_KILLED)
        return rank == s->single;
    return s->killed != NOT_KILLED && rank >= first_of(s, s->killed) &&
           rank < first_of(s, s->killed + 1);
}

static uint32_t nsurvivors(const struct shared *s)
{
    uint32_t n = 0;

    for (uint32_t r = 0; r < s->nranks; r++)
        n += !is_killed(s, r);
    return n;
}

static void await_kill(void)
{
    for (;;)
        pause();
}

/* No rank may close its overlay before all have connected theirs. */
static void wait_for_others(struct shared *s)
{
    if (s->killed == NOT_KILLED) {
        pthread_barrier_wait(&s->ended);
        return;
    }
    atomic_fetch_add(&s->nended, 1);
    while (atomic_load(&s->nended) < nsurvivors(s))
        poll(NULL, 0, 10);
}

static void *rank_start(void *arg)
{
    const struct rank *me = arg;
    struct shared *s = me->shared;
    struct result *out = &s->results[me->rank];
    struct tt_launch launch = {
        .rank = me->rank, .nranks = s->nranks, .timeout_ms = s->timeout_ms, .launcher = "conf"
    };
    uint8_t card[TT_CARD_BYTES] = { 0 }, place[PLACE_BYTES];
    const struct tt_boot_offer offer = { .overlay_doubling =
                                             getenv("TUTTI_OVERLAY_DOUBLING") != NULL,
                                         .card = card,
                                         .card_bytes = s->card_bytes,
                                         .place = place,
                                         .place_bytes = PLACE_BYTES };
    struct tt_overlay *overlay = NULL;
    struct tt_table table;

    memcpy(launch.rendezvous, s->rendezvous, sizeof s->rendezvous);
    snprintf(launch.token, sizeof launch.token, "a token of this start-up");
    snprintf(launch.host, sizeof launch.host, "host %u", me->rank / s->per_host);
    launch.nlocal =
        me->rank / s->per_host < s->nranks / s->per_host ? s->per_host : s->nranks % s->per_host;
    make_card(card, s->card_bytes, me->rank);
    make_place(s, place, me->rank);
    pthread_barrier_wait(&s->started);
    if (me->rank == 0)
        atomic_store(&s->begin_ns, tt_now_ns());
    if (s->killed != NOT_KILLED && s->single == NOT_KILLED &&
        me->rank + 1 == first_of(s, s->killed + 1))
        await_kill();
    out->status = tt_boot_rendezvous(&launch, &offer, tt_deadline_ns(tt_now_ns(), s->timeout_ms),
                                     &table, &overlay);
    if (is_killed(s, me->rank))
        await_kill();
    out->end_ns = tt_now_ns();
    out->sent = packed_sent;
    out->received = packed_received;
    out->accepted = packed_accepted;
    if (out->status)
        snprintf(out->error, sizeof out->error, "%s", tutti_last_error());
    else
        check_table(s, &table, out);
    if (!out->status)
        check_places(s, &table, out);
    if (!out->status && s->killed == NOT_KILLED)
        check_overlay(overlay, out);
    wait_for_others(s);
    if (overlay) {
        tt_overlay_close(overlay);
        tt_table_fini(&table);
    }
    return NULL;
}

/* Lists the ranks of a process in ranks[nranks]. Returns their number. */
static uint32_t ranks_of(struct shared *s, uint32_t process, struct rank *ranks)
{
    const bool alone = s->single != NOT_KILLED && process == s->killed;
    const uint32_t end = alone ? s->single + 1 : first_of(s, process + 1);
    uint32_t n = 0;

    for (uint32_t r = alone ? s->single : first_of(s, process); r < end; r++)
        if (alone || r != s->single)
            ranks[n++] = (struct rank){ .shared = s, .rank = r };
    return n;
}

static int process_run(struct shared *s, uint32_t index)
{
    struct rank *ranks = calloc(s->nranks, sizeof *ranks);
    struct rusage usage;
    pthread_attr_t attr;
    uint32_t n;

    tt_assert(ranks);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    n = ranks_of(s, index, ranks);
    for (uint32_t i = 0; i < n; i++) {
        if (pthread_create(&ranks[i].thread, &attr, rank_start, &ranks[i]) != 0) {
            fprintf(stderr, "prog_start: cannot start a thread\n");
            return 1;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    getrusage(RUSAGE_SELF, &usage);
    s->memory_kb[index] = (uint64_t)usage.ru_maxrss;
    return 0;
}

/* Returns whether the text lists the rank as missing: "missing: 3, 8-15". */
static bool lists_missing(const char *text, uint32_t rank)
{
    static const char before[] = "missing: ";

    for (const char *at = text; (at = strstr(at, before));) {
        at += sizeof before - 1;
        while (isdigit((unsigned char)*at)) {
            char *end;
            const unsigned long first = strtoul(at, &end, 10);
            const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;

            if (rank >= first && rank <= last)
                return true;
            at = strncmp(end, ", ", 2) == 0 ? end + 2 : end;
        }
    }
    return false;
}

/* Returns whether the text contains "rank N". */
static bool has_rank(const char *text, uint32_t rank)
{
    char name[24];
    const size_t n = (size_t)snprintf(name, sizeof name, "rank %u", rank);

    for (const char *at = text; (at = strstr(at, name)); at++)
        if (!isdigit((unsigned char)at[n]))
            return true;
    return false;
}

/* Returns whether the error of a failed rank names the lost rank. */
static bool is_named(const struct shared *s, uint32_t rank)
{
    const char *error = s->results[rank].error;
    const bool leader = strstr(error, "the first rank of this host");

    if (s->single == NOT_KILLED)
        return strstr(error, "missing") || leader;
    return lists_missing(error, s->single) || has_rank(error, s->single) ||
           (leader && rank / s->per_host == s->single / s->per_host);
}

/* Returns whether the rank did not get the result because the root had left: a limitation that
 * docs/start-up.md describes. */
static bool is_cut_off(const struct shared *s, uint32_t rank)
{
    return s->single != NOT_KILLED && s->single != 0 && !s->results[0].status &&
           strstr(s->results[rank].error, "rank 0 is missing");
}

static void print_string(const char *key, const char *text)
{
    printf(", \"%s\": \"", key);
    for (; *text; text++)
        printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"");
}

static int print_survivors(const struct shared *s)
{
    const uint64_t deadline_ns = atomic_load(&s->begin_ns) + s->timeout_ms * TT_MS;
    const char *error = "", *unnamed_error = "";
    uint32_t started = 0, failed = 0, unnamed = 0, cut_off = 0;
    uint64_t end_ns = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct result *one = &s->results[r];

        if (is_killed(s, r))
            continue;
        end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
        started += !one->status;
        failed += one->status != TUTTI_OK;
        error = one->status ? one->error : error;
        if (one->status && is_cut_off(s, r)) {
            cut_off++;
        } else if (one->status && !is_named(s, r)) {
            unnamed++;
            unnamed_error = one->error;
        }
    }
    printf("{\"started\": %u, \"failed\": %u, \"unnamed\": %u, \"cut_off\": %u, \"late_s\": %.3f",
           started, failed, unnamed, cut_off, ((double)end_ns - (double)deadline_ns) / 1e9);
    print_string("error", error);
    print_string("unnamed_error", unnamed_error);
    printf("}\n");
    return 0;
}

static int print_results(const struct shared *s)
{
    uint64_t end_ns = 0, received = 0, received_max = 0, busiest = 0, memory_kb = 0;
    uint32_t busiest_rank = 0;

    for (uint32_t r = 0; r < s->nranks; r++) {
        const struct result *one = &s->results[r];

        if (one->status) {
            fprintf(stderr, "prog_start: rank %u: %s\n", r, one->error);
            return 1;
        }
        end_ns = one->end_ns > end_ns ? one->end_ns : end_ns;
        received += one->received;
        received_max = one->received > received_max ? one->received : received_max;
        if (one->sent + one->received > busiest) {
            busiest = one->sent + one->received;
            busiest_rank = r;
        }
    }
    for (uint32_t i = 0; i < s->nprocesses; i++)
        memory_kb += s->memory_kb[i];
    printf("{\"ranks\": %u, \"processes\": %u, \"card_bytes\": %u, \"seconds\": %.6f, "
           "\"received_max\": %llu, \"received_mean\": %.1f, \"busiest_bytes\": %llu, "
           "\"busiest_rank\": %u, \"accepted\": %llu, \"memory_mb\": %.1f}\n",
           s->nranks, s->nprocesses, s->card_bytes,
           (double)(end_ns - (uint64_t)atomic_load(&s->begin_ns)) / 1e9,
           (unsigned long long)received_max, (double)received / s->nranks,
           (unsigned long long)busiest, busiest_rank, (unsigned long long)s->results[0].accepted,
           (double)memory_kb / 1e3);
    return 0;
}

static struct shared *shared_create(uint32_t nranks, uint32_t nprocesses, uint32_t card_bytes,
                                    uint32_t per_host, const char *rendezvous)
{
    struct shared *s = packed_shared(sizeof *s + nranks * sizeof *s->results);

    s->nranks = nranks;
    s->nprocesses = nprocesses;
    s->card_bytes = card_bytes;
    s->per_host = per_host;
    if (rendezvous)
        snprintf(s->rendezvous, sizeof s->rendezvous, "%s", rendezvous);
    else
        snprintf(s->rendezvous, sizeof s->rendezvous, "tcp://127.0.0.1:%u", unit_free_port());
    packed_barrier(&s->started, nranks);
    packed_barrier(&s->ended, nranks);
    return s;
}

/* Kills the process, and removes it from pids[n]. */
static void kill_one(const struct shared *s, pid_t *pids, uint32_t n, uint64_t after_us)
{
    while (!atomic_load(&s->begin_ns))
        poll(NULL, 0, 1);
    usleep((useconds_t)after_us);
    kill(pids[s->killed], SIGKILL);
    waitpid(pids[s->killed], NULL, 0);
    pids[s->killed] = pids[n - 1];
}

int main(int argc, char **argv)
{
    const uint32_t nranks = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const uint32_t nprocesses = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    const uint32_t card_bytes =
        argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : CARD_BYTES_DEFAULT;
    const uint32_t per_host = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : nranks;
    pid_t pids[PACKED_PROCESSES_MAX];
    struct shared *s;

    if (nranks < 2 || nprocesses < 1 || nprocesses > PACKED_PROCESSES_MAX || nprocesses > nranks ||
        card_bytes < sizeof(uint32_t) || card_bytes > TT_CARD_BYTES || per_host < 1) {
        fprintf(
            stderr,
            "usage: prog_start RANKS PROCESSES [CARD_BYTES [RANKS_PER_HOST [RENDEZVOUS [TIMEOUT_MS "
            "KILLED US]]]], with 2 ranks at least, 1 to 64 processes, and records of 4 to %u "
            "bytes\n",
            TT_CARD_BYTES);
        return 2;
    }
    tt_log_set(TT_LOG_ERROR);
    packed_raise_descriptor_limit();
    if (argc > 8)
        tt_log_set(TT_LOG_NONE);
    s = shared_create(nranks, nprocesses, card_bytes, per_host,
                      argc > 5 && strcmp(argv[5], "-") != 0 ? argv[5] : NULL);
    s->timeout_ms = argc > 8 ? (uint32_t)strtoul(argv[6], NULL, 10) : TIMEOUT_MS;
    s->killed = s->single = NOT_KILLED;
    if (argc > 8 && strncmp(argv[7], "rank:", 5) == 0) {
        if (nprocesses < 2) {
            fprintf(stderr, "prog_start: a killed rank needs a process of its own, and another\n");
            return 2;
        }
        s->single = (uint32_t)strtoul(argv[7] + 5, NULL, 10) % nranks;
        s->killed = nprocesses - 1;
    } else if (argc > 8) {
        s->killed = (uint32_t)strtoul(argv[7], NULL, 10) % nprocesses;
    }
    for (uint32_t i = 0; i < nprocesses; i++) {
        pids[i] = fork();
        tt_assert(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(process_run(s, i));
    }
    if (s->killed != NOT_KILLED) {
        kill_one(s, pids, nprocesses, strtoul(argv[8], NULL, 10));
        return packed_wait(pids, nprocesses - 1) ? print_survivors(s) : 1;
    }
    return packed_wait(pids, nprocesses) ? print_results(s) : 1;
}
