#include "comm/link_probe.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/comm.h"

/* Latency measurement: one round trip for warm-up, then at least TRIPS_MIN, and up to TRIPS_MAX
 * within TRIPS_NS_MAX. The fastest counts. */
#define TRIPS_MIN 3
#define TRIPS_MAX 16
#define TRIPS_NS_MAX (20 * TT_MS)
/* Rate measurement: the message size grows fourfold until one message takes STREAM_NS and
 * STREAM_WAYS times the latency. */
#define STREAM_FIRST_BYTES (64u << 10)
#define STREAM_LAST_BYTES (16u << 20)
#define STREAM_NS (50 * TT_MS)
#define STREAM_WAYS 20

/* Returns the number of core hosts. */
static uint32_t ncore_of(uint32_t nhosts)
{
    return nhosts < TT_LEVELS_CORE ? nhosts : TT_LEVELS_CORE;
}

void tt_link_probe_fini(struct tt_link_probe *b)
{
    free(b->groups);
    free(b->core_ns);
    *b = (struct tt_link_probe){ 0 };
}

/* ---- measurements between two ranks ---------------------------------------------------------- */

static tutti_status send_word(tutti_comm *comm, uint32_t peer, uint64_t word)
{
    return tutti_send(&word, 1, TUTTI_U64, (int)peer, comm, NULL);
}

static tutti_status recv_word(tutti_comm *comm, uint32_t peer, uint64_t *word)
{
    return tutti_recv(word, 1, TUTTI_U64, (int)peer, comm, NULL);
}

/* Returns all words to the sender, until a word is 0. */
static tutti_status echo_words(tutti_comm *comm, uint32_t peer)
{
    uint64_t word = 1;
    tutti_status st = TUTTI_OK;

    while (word && !st) {
        st = recv_word(comm, peer, &word);
        if (!st)
            st = send_word(comm, peer, word);
    }
    return st;
}

/* Measures the one-way latency: half of the fastest round trip, at least 1 ns. */
static tutti_status measure_latency(tutti_comm *comm, uint32_t peer, uint32_t *out)
{
    uint64_t best = UINT64_MAX, began = 0, more = 1;
    tutti_status st = TUTTI_OK;

    for (uint32_t trip = 0; more && !st; trip++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        began = trip <= 1 ? start : began;
        more = trip < TRIPS_MIN || (trip < TRIPS_MAX && start - began < TRIPS_NS_MAX);
        st = send_word(comm, peer, more);
        if (!st)
            st = recv_word(comm, peer, &more);
        took = tt_now_ns() - start;
        best = trip > 0 && took < best ? took : best;
    }
    if (st)
        return st;
    best /= 2;
    *out = best < 1 ? 1 : best > UINT32_MAX ? UINT32_MAX : (uint32_t)best;
    return TUTTI_OK;
}

static tutti_status sink_stream(tutti_comm *comm, uint32_t peer, uint8_t *mem)
{
    uint64_t bytes = 1;
    tutti_status st = TUTTI_OK;

    while (bytes && !st) {
        st = recv_word(comm, peer, &bytes);
        if (st || !bytes)
            continue;
        tt_assert(bytes <= STREAM_LAST_BYTES);
        st = tutti_recv(mem, bytes, TUTTI_U8, (int)peer, comm, NULL);
        if (!st)
            st = send_word(comm, peer, bytes);
    }
    return st;
}

/* Measures the rate of the longest message in bytes per second. Subtracts four latencies: RTS,
 * CTS, first byte, and response. */
static tutti_status measure_rate(tutti_comm *comm, uint32_t peer, uint8_t *mem, uint32_t latency_ns,
                                 uint64_t *out)
{
    const uint64_t ways_ns = 4ull * latency_ns, far_ns = (uint64_t)STREAM_WAYS * latency_ns;
    const uint64_t enough_ns = far_ns > STREAM_NS ? far_ns : STREAM_NS;
    uint64_t took = 0;
    tutti_status st = TUTTI_OK;

    for (uint64_t bytes = STREAM_FIRST_BYTES; bytes <= STREAM_LAST_BYTES && took < enough_ns && !st;
         bytes *= 4) {
        const uint64_t start = tt_now_ns();
        uint64_t answer;

        st = send_word(comm, peer, bytes);
        if (!st)
            st = tutti_send(mem, bytes, TUTTI_U8, (int)peer, comm, NULL);
        if (!st)
            st = recv_word(comm, peer, &answer);
        took = tt_now_ns() - start;
        if (!st)
            *out = (uint64_t)((double)bytes * 1e9 /
                              (double)(took > 2 * ways_ns ? took - ways_ns : took / 2 + 1));
    }
    return st ? st : send_word(comm, peer, 0);
}

/* ---- measurements between hosts -------------------------------------------------------------- */

static uint32_t leader(const tutti_comm *comm, uint32_t host)
{
    return tt_layout_rank(&comm->layout, host, 0);
}

/* Returns the index of this host among the core hosts (of_core), or among the other hosts.
 * UINT32_MAX if it is not one of them, or this rank is not its leader. */
static uint32_t my_index(const tutti_comm *comm, bool of_core)
{
    const uint32_t nhosts = comm->layout.nhosts, host = tt_layout_host(&comm->layout, comm->rank),
                   ncore = ncore_of(nhosts);
    uint32_t before = 0;

    if (leader(comm, host) != comm->rank)
        return UINT32_MAX;
    while (before < ncore && tt_levels_core(nhosts, before) < host)
        before++;
    if (before < ncore && tt_levels_core(nhosts, before) == host)
        return of_core ? before : UINT32_MAX;
    return of_core ? UINT32_MAX : host - before;
}

static tutti_status measure_core(tutti_comm *comm, uint32_t *core_ns)
{
    const uint32_t nhosts = comm->layout.nhosts, n = ncore_of(nhosts), mine = my_index(comm, true);
    tutti_status st = TUTTI_OK;

    for (uint32_t round = 0; mine != UINT32_MAX && round < tt_levels_rounds(n) && !st; round++) {
        const uint32_t other = tt_levels_partner(n, round, mine);

        if (other == UINT32_MAX)
            continue;
        if (mine < other)
            st = measure_latency(comm, leader(comm, tt_levels_core(nhosts, other)),
                                 &core_ns[mine * n + other]);
        else
            st = echo_words(comm, leader(comm, tt_levels_core(nhosts, other)));
    }
    return st ? st
              : tutti_allreduce(core_ns, core_ns, (size_t)n * n, TUTTI_U32, TUTTI_MAX, comm, NULL);
}

/* Lists the hosts outside of the core in ascending order: other[nhosts - ncore]. */
static void list_non_core(uint32_t nhosts, uint32_t *other)
{
    const uint32_t n = ncore_of(nhosts);

    for (uint32_t h = 0, i = 0, k = 0; h < nhosts; h++)
        if (i < n && tt_levels_core(nhosts, i) == h)
            i++;
        else
            other[k++] = h;
}

/* Measures the latency between each host outside of the core and the first host of each group:
 * ns[nothers][ngroups]. In each step, the ngroups hosts of a block measure, each with a different
 * group. */
static tutti_status measure_non_core(tutti_comm *comm, const uint32_t *other, uint32_t nothers,
                                     const uint32_t *group_host, uint32_t ngroups, uint32_t *ns)
{
    const uint32_t host = tt_layout_host(&comm->layout, comm->rank), mine = my_index(comm, false);
    uint32_t group = 0;
    tutti_status st = TUTTI_OK;

    while (group < ngroups && (group_host[group] != host || leader(comm, host) != comm->rank))
        group++;
    for (uint32_t block = 0; block < nothers && !st; block += ngroups)
        for (uint32_t step = 0; step < ngroups && !st; step++) {
            const uint32_t host_index = block + (group + step) % ngroups;

            if (mine != UINT32_MAX && mine >= block && mine < block + ngroups) {
                const uint32_t to = (mine - block + ngroups - step) % ngroups;

                st = measure_latency(comm, leader(comm, group_host[to]),
                                     &ns[(size_t)mine * ngroups + to]);
            } else if (group < ngroups && host_index < nothers) {
                st = echo_words(comm, leader(comm, other[host_index]));
            }
        }
    return st ? st
              : tutti_allreduce(ns, ns, (size_t)nothers * ngroups, TUTTI_U32, TUTTI_MAX, comm,
                                NULL);
}

/* Groups the hosts outside of the core. core[n] are the groups of the core hosts. */
static tutti_status group_non_core(tutti_comm *comm, struct tt_link_probe *b,
                                   const struct tt_level_groups *core)
{
    const uint32_t n = ncore_of(b->nhosts), nothers = b->nhosts - n;
    uint32_t first[TT_LEVELS_CORE], group_host[TT_LEVELS_CORE];
    const uint32_t ngroups = tt_levels_firsts(core, n, first);
    struct tt_level_groups met[TT_LEVELS_CORE];
    uint32_t *other = calloc(nothers + 1u, sizeof *other),
             *ns = calloc((size_t)nothers * ngroups + 1, sizeof *ns);
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < ngroups; i++) {
        met[i] = core[first[i]];
        group_host[i] = tt_levels_core(b->nhosts, first[i]);
    }
    if (!other || !ns) {
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for the measurement between %u hosts",
                     b->nhosts);
    } else if (nothers) {
        list_non_core(b->nhosts, other);
        st = measure_non_core(comm, other, nothers, group_host, ngroups, ns);
        for (uint32_t i = 0; i < nothers && !st; i++)
            tt_levels_join(&b->levels, &b->groups[other[i]], met, &ns[(size_t)i * ngroups], ngroups,
                           TT_LEVELS_CORE + i);
        b->npairs += nothers * ngroups;
    }
    free(other);
    free(ns);
    return st;
}

tutti_status tt_link_probe_hosts(tutti_comm *comm, struct tt_link_probe *out)
{
    const uint32_t nhosts = comm->layout.nhosts, n = ncore_of(nhosts);
    struct tt_link_probe b = { .nhosts = nhosts, .npairs = n * (n - 1) / 2 };
    struct tt_level_groups core[TT_LEVELS_CORE];
    const uint64_t start = tt_now_ns();
    tutti_status st;

    b.groups = calloc(nhosts + 1u, sizeof *b.groups);
    b.core_ns = calloc((size_t)n * n + 1, sizeof *b.core_ns);
    if (!b.groups || !b.core_ns)
        st = tt_fail(TUTTI_ERR_NOMEM, "out of memory for the measurement between %u hosts", nhosts);
    else
        st = measure_core(comm, b.core_ns);
    if (!st) {
        tt_levels_find(&b.levels, core, b.core_ns, n);
        for (uint32_t i = 0; i < n; i++)
            b.groups[tt_levels_core(nhosts, i)] = core[i];
        st = group_non_core(comm, &b, core);
    }
    b.took_ns = tt_now_ns() - start;
    if (st)
        tt_link_probe_fini(&b);
    else
        *out = b;
    return st;
}

/* ---- distances ------------------------------------------------------------------------------- */

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the median latency of the measured hosts at that distance, or 0 if there are none.
 * pair[2]: the leaders of the first two. */
static uint32_t median_latency(const tutti_comm *comm, const struct tt_link_probe *b,
                               enum tt_distance d, uint32_t pair[2])
{
    uint32_t of_distance[TT_LEVELS_CORE * TT_LEVELS_CORE / 2], found = 0;
    const uint32_t n = ncore_of(b->nhosts);

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = i + 1; k < n; k++) {
            const uint32_t x = leader(comm, tt_levels_core(b->nhosts, i)),
                           y = leader(comm, tt_levels_core(b->nhosts, k));

            if (tt_layout_distance(&comm->layout, x, y) != d)
                continue;
            if (found == 0) {
                pair[0] = x;
                pair[1] = y;
            }
            of_distance[found++] = b->core_ns[i * n + k];
        }
    qsort(of_distance, found, sizeof *of_distance, compare_u32);
    return found ? of_distance[found / 2] : 0;
}

/* Finds two ranks of one host at that distance: the host's first rank, and the first rank that has
 * this distance to it. */
static bool find_local_pair(const tutti_comm *comm, enum tt_distance d, uint32_t pair[2])
{
    const struct tt_layout *l = &comm->layout;

    for (uint32_t h = 0; h < l->nhosts; h++)
        for (uint32_t i = 1; i < tt_layout_host_ranks(l, h); i++)
            if (tt_layout_distance(l, leader(comm, h), tt_layout_rank(l, h, i)) == d) {
                pair[0] = leader(comm, h);
                pair[1] = tt_layout_rank(l, h, i);
                return true;
            }
    return false;
}

tutti_status tt_link_probe_measure(tutti_comm *comm, const uint32_t pair[2], uint32_t *latency_ns)
{
    return comm->rank == pair[0] ? measure_latency(comm, pair[1], latency_ns)
                                 : echo_words(comm, pair[0]);
}

bool tt_link_probe_pair(const tutti_comm *comm, uint32_t pair[2])
{
    enum tt_distance nearest = TT_DISTANCES;

    for (uint32_t h = 0; h < comm->layout.nhosts; h++) {
        const enum tt_distance d = tt_layout_distance(&comm->layout, 0, leader(comm, h));

        if (d < TT_NEAR_RACK || d >= nearest || comm->links[d].latency_ns)
            continue;
        nearest = d;
        pair[0] = 0;
        pair[1] = leader(comm, h);
    }
    return nearest < TT_DISTANCES;
}

/* Runs this rank's part of a pair's measurement: latency (unless known), then rate. */
static tutti_status pair_measure(tutti_comm *comm, const uint32_t pair[2], uint8_t *mem,
                                 uint64_t *latency_ns, uint64_t *rate)
{
    const bool asks = comm->rank == pair[0];
    const uint32_t peer = pair[asks];
    uint32_t ns = (uint32_t)*latency_ns;
    tutti_status st = TUTTI_OK;

    if (!asks && comm->rank != pair[1])
        return TUTTI_OK;
    if (ns == 0)
        st = tt_link_probe_measure(comm, pair, &ns);
    if (!st)
        st = asks ? measure_rate(comm, peer, mem, ns, rate) : sink_stream(comm, peer, mem);
    *latency_ns = ns;
    return st;
}

/* Converts measurements between pairs of ranks to links in the form of descriptions. A latency
 * excludes the ranks' own work. The link at RACK is one rail; a farther link gets a rate only if
 * the measured rate is clearly below that of the rails. */
static void fill_links(const tutti_comm *comm, const uint64_t *way_ns, const uint64_t *rate,
                       struct tt_topo_link *links)
{
    const struct tt_layout *l = &comm->layout;
    const bool striped = tt_layout_widest(l) == 1 && l->nrails > 1;
    double rail = (double)rate[TT_NEAR_RACK];

    for (int d = TT_NEAR_ZONE; d < TT_DISTANCES && rate[TT_NEAR_RACK] == 0; d++)
        rail = (double)rate[d] > rail ? (double)rate[d] : rail;
    for (int d = 0; d < TT_DISTANCES; d++) {
        links[d] = (struct tt_topo_link){ .bytes_per_s = (double)rate[d], .oversubscription = 1 };
        if (way_ns[d])
            links[d].latency_ns = (uint64_t)tt_constants_latency_ns(
                &comm->world->constants, comm->near_is_shm, (enum tt_distance)d, (double)way_ns[d]);
        if (d > TT_NEAR_RACK && (double)rate[d] > 0.8 * rail)
            links[d].bytes_per_s = 0;
    }
    links[TT_NEAR_RACK].bytes_per_s = striped ? rail / l->nrails : rail;
}

tutti_status tt_link_probe_links(tutti_comm *comm, const struct tt_link_probe *b,
                                 struct tt_topo_link links[TT_DISTANCES])
{
    uint64_t found[2 * TT_DISTANCES] = { 0 }, *const way_ns = found,
                       *const rate = &found[TT_DISTANCES];
    uint8_t *mem = malloc(STREAM_LAST_BYTES);
    tutti_status st = TUTTI_OK;

    if (!mem)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for a bandwidth measurement");
    memset(mem, 1, STREAM_LAST_BYTES);      /* fault in the pages before the measurement */
    for (int d = TT_NEAR_SOCKET; d < TT_DISTANCES && !st; d++) {
        uint32_t pair[2] = { 0 };

        if (d <= TT_NEAR_HOST) {
            if (!find_local_pair(comm, (enum tt_distance)d, pair))
                continue;
        } else {
            way_ns[d] = median_latency(comm, b, (enum tt_distance)d, pair);
            if (way_ns[d] == 0)
                continue;
        }
        st = pair_measure(comm, pair, mem, &way_ns[d], &rate[d]);
    }
    free(mem);
    if (!st)
        st = tutti_allreduce(found, found, 2 * TT_DISTANCES, TUTTI_U64, TUTTI_MAX, comm, NULL);
    for (int d = TT_DISTANCES - 1; d >= TT_NEAR_RACK && !st; d--)
        if (way_ns[d])
            /* last, and thus final: the nearest distance, as with TT_MEASURE_PAIR */
            comm->world->constants.hosts.way_ns = (double)way_ns[d];
    if (!st)
        fill_links(comm, way_ns, rate, links);
    return st;
}
