/* Levels above the host, derived from measured latencies between hosts if no labels are set. Pure
 * integer arithmetic: equal inputs give equal levels on every rank.
 *
 * The number of measurements is bounded. Up to TT_LEVELS_CORE hosts measure all pairs, in rounds in
 * which each host has one partner. With more hosts, TT_LEVELS_CORE of them, spread evenly, do so.
 * Each further host then measures only one host of each group found.
 *
 * Noise can only add to latencies. The distance of two hosts is therefore the longest hop on the
 * best path between them over other hosts. This leaves fewer distinct values than hosts. A level
 * ends where a value is at least twice the next smaller one, and larger by TT_LEVELS_GAP_NS. */
#ifndef TT_TOPO_LEVELS_H
#define TT_TOPO_LEVELS_H

#include "topo/labels.h"
#include "topo/layout.h"

#define TT_LEVELS_CORE 64u          /* hosts of which every pair is measured */
#define TT_LEVELS_GAP_NS 20000u     /* one way */
#define TT_LEVELS_MAX 5             /* RACK to WAN */

/* Pairs of hosts at similar distances, nearest first. */
struct tt_level {
    enum tt_distance distance;      /* assigned distance class */
    uint32_t low_ns, high_ns;       /* range of best-path latencies */
    uint32_t least_ns, typical_ns, most_ns;     /* measured values; typical: the median */
    uint32_t npairs;
};

struct tt_levels {
    uint32_t n;                     /* 0: fewer than two hosts */
    struct tt_level level[TT_LEVELS_MAX];
};

/* Groups of a host: group[i] contains it and all hosts at most level i away, numbered from 0. */
struct tt_level_groups {
    uint32_t group[TT_LEVELS_MAX];
};

/* Number of rounds in which each pair of n hosts is measured once, and the partner of `host` in a
 * round (UINT32_MAX: none). */
uint32_t tt_levels_rounds(uint32_t n);
uint32_t tt_levels_partner(uint32_t n, uint32_t round, uint32_t host);
/* Returns the i-th of the hosts that measure all pairs, of nhosts. */
uint32_t tt_levels_core(uint32_t nhosts, uint32_t i);

/* Derives levels from latency_ns[n][n], one way, of which only the upper triangle is read; 1 <= n
 * <= TT_LEVELS_CORE. Fills *out and groups[n]. */
void tt_levels_find(struct tt_levels *out, struct tt_level_groups *groups,
                    const uint32_t *latency_ns, uint32_t n);
/* Writes the index of one host of each nearest group to first[n]. Returns their number. */
uint32_t tt_levels_firsts(const struct tt_level_groups *groups, uint32_t n, uint32_t *first);
/* For a host that measured only some other hosts: latency_ns[n] to hosts with groups met[n]. It
 * joins the groups of the nearest measured host. At levels below their distance it is alone, in
 * groups numbered `alone`. */
void tt_levels_join(const struct tt_levels *l, struct tt_level_groups *out,
                    const struct tt_level_groups *met, const uint32_t *latency_ns, uint32_t n,
                    uint32_t alone);
/* Writes labels such as "r3" for rack 3. The layout derived from these labels has each pair of
 * hosts at the distance of its level. `host` is the host's number, used as label of a host far from
 * all others. */
void tt_levels_label(const struct tt_levels *l, const struct tt_level_groups *g, uint32_t host,
                     struct tt_labels *out);

#endif
