/* The levels above the host where nobody has told them: from latencies that were measured between hosts. Pure, in whole numbers: equal
 * inputs give equal levels on every rank.
 *
 * Who measures whom is bounded. Of at most TT_LEVELS_CORE hosts each meets each other, in rounds in which no host meets two. Of more,
 * that many, spread evenly over the others, do so; each further host then only meets one of each group that was found.
 *
 * What makes levels: latencies that others only add to. So two hosts count as near as the best way between them over
 * other hosts, its longest hop. What is left are as many numbers as hosts, less one; where one of them is at least twice the
 * next smaller one, and TT_LEVELS_GAP_NS more, a level ends. */
#ifndef TT_TOPO_LEVELS_H
#define TT_TOPO_LEVELS_H

#include "topo/labels.h"
#include "topo/layout.h"

#define TT_LEVELS_CORE 64u          /* hosts of which each pair is measured */
#define TT_LEVELS_GAP_NS 20000u     /* one way */
#define TT_LEVELS_MAX 5             /* RACK to WAN */

/* Pairs of hosts that are alike far from each other, nearest first. */
struct tt_level {
    enum tt_distance distance;      /* what they count as */
    uint32_t low_ns, high_ns;       /* of the best ways */
    uint32_t least_ns, typical_ns, most_ns;     /* of what was measured; typical: the median */
    uint32_t npairs;
};

struct tt_levels {
    uint32_t n;                     /* 0: less than two hosts */
    struct tt_level level[TT_LEVELS_MAX];
};

/* Groups of one host: group[i] is the group that holds it and everything at most level i away, numbered from 0. */
struct tt_level_groups {
    uint32_t group[TT_LEVELS_MAX];
};

/* Rounds in which each of n hosts meets each other once, and whom `host` meets in one of them; UINT32_MAX: nobody. */
uint32_t tt_levels_rounds(uint32_t n);
uint32_t tt_levels_partner(uint32_t n, uint32_t round, uint32_t host);
/* The host that is number i of those that all meet, of nhosts. */
uint32_t tt_levels_core(uint32_t nhosts, uint32_t i);

/* latency_ns[n][n], one way, read above the diagonal only; 1 <= n <= TT_LEVELS_CORE. Fills *out and groups[n]. */
void tt_levels_find(struct tt_levels *out, struct tt_level_groups *groups, const uint32_t *latency_ns, uint32_t n);
/* One host of each nearest group: its number into first[n]; returns how many there are. */
uint32_t tt_levels_firsts(const struct tt_level_groups *groups, uint32_t n, uint32_t *first);
/* For a host that only met some of the others: latency_ns[n] to hosts of groups met[n]. It belongs to the groups of the one that is nearest,
 * but at levels nearer than that it is alone: in groups of number `alone`. */
void tt_levels_join(const struct tt_levels *l, struct tt_level_groups *out, const struct tt_level_groups *met,
                    const uint32_t *latency_ns, uint32_t n, uint32_t alone);
/* What a host is called: labels like "r3" of rack 3, such that the layout derived from them has each pair of hosts at the distance of
 * its level. `host` is its number, for the label of a host that is far from all. */
void tt_levels_label(const struct tt_levels *l, const struct tt_level_groups *g, uint32_t host, struct tt_labels *out);

#endif
