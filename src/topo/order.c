/* The idea: a rack holds floor(slots / g) groups of g ranks, independently of others. A zone holds
 * floor(sum / m) groups of m g ranks, where sum counts the groups in its racks; and so on. Filling
 * groups one after another reaches each level's maximum. A walk down the tree that takes at most
 * the maximum from each group therefore finds an order if there is one. */
#include "topo/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define REASON_BYTES 640

struct ordering {
    const struct tt_order_host *hosts;
    uint32_t n;
    struct tt_order_rule rules[TT_ORDER_RULES_MAX];     /* by ranks, ascending; levels ascend too */
    uint32_t nrules;
    uint32_t *sorted;       /* [n] hosts, sorted so that each group is contiguous */
    uint32_t *order, *take, used;
};

static int by_ranks(const void *a, const void *b)
{
    const struct tt_order_rule *x = a, *y = b;

    if (x->ranks != y->ranks)
        return x->ranks < y->ranks ? -1 : 1;
    return (x->within > y->within) - (x->within < y->within);
}

/* Drops rules that others imply: a smaller group within a level that a larger group also stays
 * within. */
static void simplify(struct ordering *o)
{
    uint32_t kept = 0;

    qsort(o->rules, o->nrules, sizeof *o->rules, by_ranks);
    for (uint32_t i = 0; i < o->nrules; i++) {
        bool implied = false;

        for (uint32_t k = 0; k < o->nrules; k++)
            implied |= k != i && o->rules[k].ranks >= o->rules[i].ranks &&
                       o->rules[k].within <= o->rules[i].within &&
                       (k > i || o->rules[k].ranks > o->rules[i].ranks ||
                        o->rules[k].within < o->rules[i].within) &&
                       o->rules[k].ranks % o->rules[i].ranks == 0;
        if (!implied)
            o->rules[kept++] = o->rules[i];
    }
    o->nrules = kept;
}

static tutti_status check_rules(const struct ordering *o, uint32_t nranks)
{
    for (uint32_t i = 0; i < o->nrules; i++) {
        const uint32_t whole = i + 1 < o->nrules ? o->rules[i + 1].ranks : nranks;

        if (whole % o->rules[i].ranks == 0)
            continue;
        if (i + 1 < o->nrules)
            return tt_fail(TUTTI_ERR_INVALID,
                           "cannot keep groups of %u ranks within groups of %u ranks: %u is not a "
                           "multiple of %u",
                           o->rules[i].ranks, whole, whole, o->rules[i].ranks);
        return tt_fail(TUTTI_ERR_INVALID,
                       "cannot form groups: %u rank%s not a multiple of the group size %u", nranks,
                       nranks == 1 ? " is" : "s are", o->rules[i].ranks);
    }
    return TUTTI_OK;
}

/* ---- the given order ---- */

static void fill_in_order(struct ordering *o, uint32_t nranks)
{
    for (uint32_t h = 0; h < o->n && nranks > 0; h++) {
        const uint32_t take = o->hosts[h].slots < nranks ? o->hosts[h].slots : nranks;

        o->order[o->used] = h;
        o->take[o->used++] = take;
        nranks -= take;
    }
}

/* Checks the given order. On a violation returns the rule, the first rank of the group, and its two
 * hosts. */
static bool keeps_rules(const struct ordering *o, uint32_t *rule, uint32_t *first, uint32_t torn[2])
{
    for (uint32_t i = 0; i < o->nrules; i++) {
        const uint32_t size = o->rules[i].ranks;
        uint32_t rank = 0, leader = 0;

        for (uint32_t k = 0; k < o->used; k++) {
            const uint32_t *group = o->hosts[o->order[k]].group;

            if (rank % size != 0 &&
                group[o->rules[i].within] != o->hosts[leader].group[o->rules[i].within]) {
                *rule = i;
                *first = rank / size * size;
                torn[0] = leader;
                torn[1] = o->order[k];
                return false;
            }
            rank += o->take[k];
            leader = o->order[k];
        }
    }
    return true;
}

/* ---- a new order ---- */

static int by_group(const void *a, const void *b, void *hosts_of)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct tt_order_host *hosts = hosts_of;

    for (int level = TT_NEAR_WAN - 1; level >= TT_NEAR_HOST; level--)
        if (hosts[x].group[level] != hosts[y].group[level])
            return hosts[x].group[level] < hosts[y].group[level] ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The end of the run of sorted[begin..) in sorted[begin]'s group of that level. */
static uint32_t run_end(const struct ordering *o, uint32_t begin, uint32_t end,
                        enum tt_distance level)
{
    uint32_t i = begin;

    while (i < end &&
           o->hosts[o->sorted[i]].group[level] == o->hosts[o->sorted[begin]].group[level])
        i++;
    return i;
}

/* The maximum number of groups of rule i - 1 (single ranks for i = 0) in sorted[begin, end). */
static uint64_t groups_max(const struct ordering *o, uint32_t i, uint32_t begin, uint32_t end)
{
    uint64_t sum = 0;
    uint32_t next;

    if (i == 0) {
        for (uint32_t h = begin; h < end; h++)
            sum += o->hosts[o->sorted[h]].slots;
        return sum;
    }
    for (uint32_t at = begin; at < end; at = next) {
        const uint32_t each = o->rules[i - 1].ranks / (i > 1 ? o->rules[i - 2].ranks : 1);

        next = run_end(o, at, end, o->rules[i - 1].within);
        sum += groups_max(o, i - 1, at, next) / each;
    }
    return sum;
}

/* Takes `groups` groups of rule i - 1 from sorted[begin, end), which must have space for them. */
static void take_groups(struct ordering *o, uint32_t i, uint32_t begin, uint32_t end,
                        uint64_t groups)
{
    uint32_t next;

    if (i == 0) {
        for (uint32_t h = begin; h < end && groups > 0; h++) {
            const uint32_t slots = o->hosts[o->sorted[h]].slots,
                           n = slots < groups ? slots : (uint32_t)groups;

            o->order[o->used] = o->sorted[h];
            o->take[o->used++] = n;
            groups -= n;
        }
        return;
    }
    for (uint32_t at = begin; at < end && groups > 0; at = next) {
        const uint32_t each = o->rules[i - 1].ranks / (i > 1 ? o->rules[i - 2].ranks : 1);
        uint64_t here;

        next = run_end(o, at, end, o->rules[i - 1].within);
        here = groups_max(o, i - 1, at, next) / each;
        if (here > groups)
            here = groups;
        take_groups(o, i - 1, at, next, here * each);
        groups -= here;
    }
    tt_assert(groups == 0);
}

/* Describes the capacity of each group for the first violated rule, for the error message. */
static void explain_violation(const struct ordering *o, uint32_t i, char out[REASON_BYTES])
{
    const struct tt_order_rule *r = &o->rules[i];
    const uint32_t each = r->ranks / (i > 0 ? o->rules[i - 1].ranks : 1);
    size_t n = 0;
    uint32_t next, shown = 0;

    *out = '\0';
    for (uint32_t at = 0; at < o->n && n < REASON_BYTES; at = next) {
        next = run_end(o, at, o->n, r->within);
        if (shown++ == 6) {
            snprintf(out + n, REASON_BYTES - n, "; and so on");
            break;
        }
        n += (size_t)snprintf(
            out + n, REASON_BYTES - n, "%sthe %s of %s holds %llu, with %llu slots on %u host%s",
            at ? "; " : "", tt_distance_name(r->within), o->hosts[o->sorted[at]].name,
            (unsigned long long)(groups_max(o, i, at, next) / each),
            (unsigned long long)groups_max(o, 0, at, next), next - at, next - at == 1 ? "" : "s");
    }
}

static tutti_status reorder_hosts(struct ordering *o, uint32_t nranks)
{
    char reason[REASON_BYTES];

    for (uint32_t h = 0; h < o->n; h++)
        o->sorted[h] = h;
    qsort_r(o->sorted, o->n, sizeof *o->sorted, by_group, (void *)(uintptr_t)o->hosts);
    for (uint32_t i = 0; i < o->nrules; i++) {
        const uint64_t can = groups_max(o, i + 1, 0, o->n), must = nranks / o->rules[i].ranks;

        if (can >= must)
            continue;
        explain_violation(o, i, reason);
        return tt_fail(
            TUTTI_ERR_INVALID,
            "%llu group%s of %u rank%s, each within one %s, %s not fit: there is room for %llu "
            "(%s)",
            (unsigned long long)must, TT_PLURAL(must), o->rules[i].ranks,
            TT_PLURAL(o->rules[i].ranks), tt_distance_name(o->rules[i].within),
            must == 1 ? "does" : "do", (unsigned long long)can, reason);
    }
    o->used = 0;
    take_groups(o, o->nrules, 0, o->n, o->nrules ? nranks / o->rules[o->nrules - 1].ranks : nranks);
    return TUTTI_OK;
}

tutti_status tt_order_ranks(const struct tt_order_host *hosts, uint32_t n, uint32_t nranks,
                            const struct tt_order_rule *rules, uint32_t nrules, bool reorder,
                            uint32_t *order, uint32_t *take_out, uint32_t *used)
{
    struct ordering o = {
        .hosts = hosts, .n = n, .nrules = nrules, .order = order, .take = take_out
    };
    uint32_t rule = 0, first = 0, torn[2] = { 0, 0 };
    uint64_t slots = 0;
    tutti_status st;

    tt_assert(nrules <= TT_ORDER_RULES_MAX && nranks > 0);
    if (nrules)
        memcpy(o.rules, rules, nrules * sizeof *rules);
    simplify(&o);
    st = check_rules(&o, nranks);
    for (uint32_t h = 0; h < n; h++)
        slots += hosts[h].slots;
    if (!st && slots < nranks)
        st = tt_fail(TUTTI_ERR_INVALID, "%u rank%s not fit: the %u host%s %llu slot%s", nranks,
                     nranks == 1 ? " does" : "s do", n, n == 1 ? " has" : "s have",
                     (unsigned long long)slots, TT_PLURAL(slots));
    if (st)
        return st;
    fill_in_order(&o, nranks);
    if (!keeps_rules(&o, &rule, &first, torn)) {
        if (!reorder)
            return tt_fail(TUTTI_ERR_INVALID,
                           "cannot place ranks %u to %u within one %s: they are on hosts %s and %s "
                           "(--reorder allows another order)",
                           first, first + o.rules[rule].ranks - 1,
                           tt_distance_name(o.rules[rule].within), hosts[torn[0]].name,
                           hosts[torn[1]].name);
        o.sorted = malloc(n * sizeof *o.sorted);
        st = o.sorted ? reorder_hosts(&o, nranks)
                      : tt_fail(TUTTI_ERR_NOMEM, "out of memory for %u hosts", n);
        free(o.sorted);
    }
    if (!st)
        *used = o.used;
    return st;
}
