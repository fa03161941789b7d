#include "topo/levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- pairing of hosts ---- */

/* Round-robin tournament: one host stays fixed, the others rotate. With an odd number, the host
 * paired with the missing one is idle. */
uint32_t tt_levels_rounds(uint32_t n)
{
    return n < 2 ? 0 : n - 1 + n % 2;
}

uint32_t tt_levels_partner(uint32_t n, uint32_t round, uint32_t host)
{
    const uint32_t walking = tt_levels_rounds(n);
    uint32_t partner;

    tt_assert(host < n && round < walking);
    if (host == walking)        /* the fixed host */
        return round % 2 ? (round + walking) / 2 : round / 2;
    partner = (round + walking - host) % walking;
    if (partner == host)
        partner = walking;
    return partner < n ? partner : UINT32_MAX;
}

uint32_t tt_levels_core(uint32_t nhosts, uint32_t i)
{
    return nhosts <= TT_LEVELS_CORE ? i : (uint32_t)((uint64_t)i * nhosts / TT_LEVELS_CORE);
}

/* ---- levels ---- */

static uint32_t measured(const uint32_t *latency_ns, uint32_t n, uint32_t a, uint32_t b)
{
    return a < b ? latency_ns[a * n + b] : latency_ns[b * n + a];
}

/* way[a][b]: the longest hop of the best path from a to b. */
static void find_ways(uint32_t way[][TT_LEVELS_CORE], const uint32_t *latency_ns, uint32_t n)
{
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            way[a][b] = a == b ? 0 : measured(latency_ns, n, a, b);
    for (uint32_t over = 0; over < n; over++)
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = 0; b < n; b++) {
                const uint32_t longest = way[a][over] > way[over][b] ? way[a][over] : way[over][b];

                way[a][b] = longest < way[a][b] ? longest : way[a][b];
            }
}

static int by_latency(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the size of a gap, in 1/1024 of the smaller value; 0: not a gap. */
static uint64_t width_of(uint32_t small, uint32_t large)
{
    if (large < 2ull * small || large - small < TT_LEVELS_GAP_NS)
        return 0;
    return 1024ull * large / (small ? small : 1);
}

/* Writes the ends of levels, ascending, to end_ns[TT_LEVELS_MAX]; the last is the largest value. If
 * there are too many, the largest gaps are used. */
static uint32_t find_ends(uint32_t end_ns[TT_LEVELS_MAX], const uint32_t *values, uint32_t n)
{
    uint64_t widths[TT_LEVELS_MAX];
    uint32_t nends = 0;

    for (uint32_t i = 0; i + 1 < n; i++) {
        const uint64_t width = width_of(values[i], values[i + 1]);
        uint32_t narrowest = 0;

        if (width == 0)
            continue;
        if (nends == TT_LEVELS_MAX - 1) {
            for (uint32_t k = 1; k < nends; k++)
                narrowest = widths[k] < widths[narrowest] ? k : narrowest;
            if (widths[narrowest] >= width)
                continue;
            nends--;
            memmove(&end_ns[narrowest], &end_ns[narrowest + 1],
                    (nends - narrowest) * sizeof *end_ns);
            memmove(&widths[narrowest], &widths[narrowest + 1],
                    (nends - narrowest) * sizeof *widths);
        }
        widths[nends] = width;
        end_ns[nends++] = values[i];
    }
    end_ns[nends++] = values[n - 1];
    return nends;
}

/* The usual distance class of a latency, for Ethernet or faster networks. */
static enum tt_distance usual_distance(uint32_t latency_ns)
{
    static const struct {
        uint32_t below_ns;
        enum tt_distance distance;
    } usual[] = { { 100000, TT_NEAR_RACK },
                  { 200000, TT_NEAR_ZONE },
                  { 400000, TT_NEAR_BUILDING },
                  { 2000000, TT_NEAR_FABRIC } };

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (latency_ns < usual[i].below_ns)
            return usual[i].distance;
    return TT_NEAR_WAN;
}

/* Names each level by its usual distance, or by the next farther or nearer unused one, since names
 * must differ. */
static void name_levels(struct tt_levels *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        enum tt_distance d = usual_distance(l->level[i].typical_ns);

        if (i > 0 && d <= l->level[i - 1].distance)
            d = l->level[i - 1].distance + 1;
        l->level[i].distance = d;
    }
    for (uint32_t i = l->n; i-- > 0;) {
        const enum tt_distance most = TT_NEAR_WAN - (l->n - 1 - i);

        if (l->level[i].distance > most)
            l->level[i].distance = most;
        if (i + 1 < l->n && l->level[i].distance >= l->level[i + 1].distance)
            l->level[i].distance = l->level[i + 1].distance - 1;
    }
}

/* Describes the pairs of level i: their median and number. */
static void describe_level(struct tt_level *level, uint32_t way[][TT_LEVELS_CORE],
                           const uint32_t *latency_ns, uint32_t n)
{
    uint32_t of_level[TT_LEVELS_CORE * (TT_LEVELS_CORE - 1) / 2];

    level->npairs = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (way[a][b] >= level->low_ns && way[a][b] <= level->high_ns)
                of_level[level->npairs++] = latency_ns[a * n + b];
    qsort(of_level, level->npairs, sizeof *of_level, by_latency);
    level->least_ns = of_level[0];
    level->typical_ns = of_level[level->npairs / 2];
    level->most_ns = of_level[level->npairs - 1];
}

/* Hosts at most end_ns apart form a group; groups are numbered by their first hosts. */
static void number_groups(struct tt_level_groups *groups, uint32_t level,
                          uint32_t way[][TT_LEVELS_CORE], uint32_t n, uint32_t end_ns)
{
    uint32_t ngroups = 0;

    for (uint32_t a = 0; a < n; a++) {
        uint32_t first = 0;

        while (way[first][a] > end_ns)
            first++;
        groups[a].group[level] = first == a ? ngroups++ : groups[first].group[level];
    }
}

void tt_levels_find(struct tt_levels *out, struct tt_level_groups *groups,
                    const uint32_t *latency_ns, uint32_t n)
{
    uint32_t way[TT_LEVELS_CORE][TT_LEVELS_CORE], values[TT_LEVELS_CORE * TT_LEVELS_CORE / 2];
    uint32_t nvalues = 0, ends_ns[TT_LEVELS_MAX];

    tt_assert(n >= 1 && n <= TT_LEVELS_CORE);
    *out = (struct tt_levels){ .n = 0 };
    memset(groups, 0, n * sizeof *groups);
    if (n < 2)
        return;
    find_ways(way, latency_ns, n);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            values[nvalues++] = way[a][b];
    qsort(values, nvalues, sizeof *values, by_latency);
    out->n = find_ends(ends_ns, values, nvalues);
    for (uint32_t i = 0, v = 0; i < out->n; i++) {
        out->level[i] = (struct tt_level){ .low_ns = values[v], .high_ns = ends_ns[i] };
        while (v < nvalues && values[v] <= ends_ns[i])
            v++;
        describe_level(&out->level[i], way, latency_ns, n);
        number_groups(groups, i, way, n, ends_ns[i]);
    }
    name_levels(out);
}

uint32_t tt_levels_firsts(const struct tt_level_groups *groups, uint32_t n, uint32_t *first)
{
    uint32_t nfirsts = 0;

    for (uint32_t i = 0; i < n; i++)
        if (groups[i].group[0] == nfirsts)      /* groups are numbered in this order */
            first[nfirsts++] = i;
    return nfirsts;
}

/* The level of a latency: up to the midpoint to the next level. */
static uint32_t level_of_latency(const struct tt_levels *l, uint32_t latency_ns)
{
    uint32_t i = 0;

    while (i + 1 < l->n &&
           latency_ns > ((uint64_t)l->level[i].high_ns + l->level[i + 1].low_ns) / 2)
        i++;
    return i;
}

void tt_levels_join(const struct tt_levels *l, struct tt_level_groups *out,
                    const struct tt_level_groups *met, const uint32_t *latency_ns, uint32_t n,
                    uint32_t alone)
{
    uint32_t nearest = 0, level;

    for (uint32_t i = 1; i < n; i++)
        nearest = latency_ns[i] < latency_ns[nearest] ? i : nearest;
    level = level_of_latency(l, latency_ns[nearest]);
    for (uint32_t i = 0; i < TT_LEVELS_MAX; i++)
        out->group[i] = i < level ? alone : met[nearest].group[i];
}

void tt_levels_label(const struct tt_levels *l, const struct tt_level_groups *g, uint32_t host,
                     struct tt_labels *out)
{
    static const char letters[TT_NEAR_WAN] = {
        [TT_NEAR_RACK] = 'r', [TT_NEAR_ZONE] = 'z', [TT_NEAR_BUILDING] = 'b', [TT_NEAR_FABRIC] = 'f'
    };

    *out = (struct tt_labels){ 0 };
    if (l->n == 0 || (l->n == 1 && l->level[0].distance == TT_NEAR_RACK))
        return;     /* the default without labels */
    for (uint32_t i = 0; i < l->n; i++) {
        const enum tt_distance d = l->level[i].distance;

        if (d < TT_NEAR_WAN) {
            snprintf(out->label[d], sizeof out->label[d], "%c%u", letters[d], g->group[i]);
        } else {        /* otherwise only nearer hosts would share a fabric */
            const uint32_t group = i > 0 ? g->group[i - 1] : host;

            snprintf(out->label[TT_NEAR_FABRIC], sizeof out->label[TT_NEAR_FABRIC], "f%u", group);
        }
    }
}
