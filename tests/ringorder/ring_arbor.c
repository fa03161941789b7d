/* Idea: each node selects the cheapest link into it. If that closes a cycle, the cycle is
 * contracted to one node. A link into that node costs the difference to the link that it would
 * replace. This repeats until a single node remains. Then the cycles are expanded from peer 0: each
 * keeps all its links except the one into the member where it is entered. */
#include "ringorder/ring_arbor.h"

#include <stdbool.h>
#include <string.h>

#include "base/status.h"

#define NOBODY UINT32_MAX

/* Nodes 0 to n - 1 are peers, higher ones are contracted cycles. */
struct arbor {
    uint32_t n, nodes;
    int64_t *row;           /* [n][n]: the cheapest link from a peer into a node, in the node's
                               row */
    uint32_t *head;         /* [n][n]: the peer in the node to which that link leads */
    uint32_t *top;          /* [n]: the outermost node that contains a peer */
    uint32_t *row_of, *parent, *child, *sibling;    /* [2n] */
    uint32_t *in_from, *in_to;                      /* [2n]: the peers of the link that a node
                                                       selected */
    int64_t *in_weight;                             /* [2n] */
    uint32_t *path;         /* [n]: nodes, each of which selected a link from the next one */
    bool *on_path;          /* [2n] */
};

size_t tt_ring_arbor_bytes(uint32_t n)
{
    return (size_t)n * n * (sizeof(int64_t) + sizeof(uint32_t)) +
           (size_t)n * (2 * sizeof(int64_t) + 14 * sizeof(uint32_t) + 2);
}

static struct arbor arbor_begin(uint32_t n, const int64_t *weight, void *memory)
{
    struct arbor a = { .n = n, .nodes = n, .row = memory };

    a.in_weight = a.row + (size_t)n * n;
    a.head = (uint32_t *)(a.in_weight + 2 * (size_t)n);
    a.top = a.head + (size_t)n * n;
    a.row_of = a.top + n;
    a.parent = a.row_of + 2 * (size_t)n;
    a.child = a.parent + 2 * (size_t)n;
    a.sibling = a.child + 2 * (size_t)n;
    a.in_from = a.sibling + 2 * (size_t)n;
    a.in_to = a.in_from + 2 * (size_t)n;
    a.path = a.in_to + 2 * (size_t)n;
    a.on_path = (bool *)(a.path + n);
    for (uint32_t k = 0; k < 2 * n; k++) {
        a.parent[k] = a.child[k] = a.sibling[k] = NOBODY;
        a.on_path[k] = false;
    }
    for (uint32_t k = 0; k < n; k++) {
        a.top[k] = a.row_of[k] = k;
        for (uint32_t i = 0; i < n; i++) {
            a.row[(size_t)k * n + i] = weight[(size_t)i * n + k];
            a.head[(size_t)k * n + i] = k;
        }
    }
    return a;
}

/* Selects the cheapest link into the node from outside. */
static void select_link(struct arbor *a, uint32_t node)
{
    const int64_t *row = a->row + (size_t)a->row_of[node] * a->n;
    uint32_t best = NOBODY;

    for (uint32_t i = 0; i < a->n; i++)
        if (a->top[i] != node && (best == NOBODY || row[i] < row[best]))
            best = i;
    tt_assert(best != NOBODY);
    a->in_from[node] = best;
    a->in_to[node] = a->head[(size_t)a->row_of[node] * a->n + best];
    a->in_weight[node] = row[best];
}

/* Contracts path[first, last] to one node; returns it. */
static uint32_t contract(struct arbor *a, uint32_t first, uint32_t last)
{
    const uint32_t node = a->nodes++, n = a->n;
    int64_t *into = a->row + (size_t)a->row_of[a->path[first]] * n;
    uint32_t *heads = a->head + (size_t)a->row_of[a->path[first]] * n;

    for (uint32_t i = 0; i < n; i++)
        into[i] -= a->in_weight[a->path[first]];
    for (uint32_t at = first; at <= last; at++) {
        const uint32_t member = a->path[at];
        const int64_t *row = a->row + (size_t)a->row_of[member] * n;
        const uint32_t *head = a->head + (size_t)a->row_of[member] * n;

        a->parent[member] = node;
        a->sibling[member] = a->child[node];
        a->child[node] = member;
        for (uint32_t i = 0; i < n && at > first; i++)
            if (row[i] - a->in_weight[member] < into[i]) {
                into[i] = row[i] - a->in_weight[member];
                heads[i] = head[i];
            }
        for (uint32_t i = 0; i < n; i++)
            if (a->top[i] == member)
                a->top[i] = node;
    }
    a->row_of[node] = a->row_of[a->path[first]];
    return node;
}

/* Contracts until a single node remains; returns it. */
static uint32_t contract_all(struct arbor *a)
{
    uint32_t length = 1, left = a->n, first;

    a->path[0] = 0;
    a->on_path[0] = true;
    while (left > 1) {
        const uint32_t node = a->path[length - 1];
        uint32_t next;

        select_link(a, node);
        next = a->top[a->in_from[node]];
        if (!a->on_path[next]) {
            a->path[length++] = next;
            a->on_path[next] = true;
            continue;
        }
        for (first = length - 1; a->path[first] != next;)
            first--;
        left -= length - 1 - first;
        a->path[first] = contract(a, first, length - 1);
        length = first + 1;
        a->on_path[a->path[first]] = true;
    }
    return a->path[0];
}

/* Expands the nodes, beginning with the whole at peer 0. A cycle that is entered at a member
 * keeps the links into its other members, which are entered where these links end. Uses `top`
 * and the path as the stack, which are free then. */
static void expand(struct arbor *a, uint32_t whole, uint32_t *from)
{
    uint32_t *entered = a->top, *up_to = a->path, n = 1;

    entered[0] = 0;
    up_to[0] = whole;
    while (n > 0) {
        uint32_t at = entered[--n];
        const uint32_t end = up_to[n];

        for (; at != end; at = a->parent[at])
            for (uint32_t other = a->child[a->parent[at]]; other != NOBODY;
                 other = a->sibling[other]) {
                if (other == at)
                    continue;
                from[a->in_to[other]] = a->in_from[other];
                entered[n] = a->in_to[other];
                up_to[n++] = other;
            }
    }
}

int64_t tt_ring_arbor(uint32_t n, const int64_t *weight, uint32_t *from, void *memory)
{
    struct arbor a = arbor_begin(n, weight, memory);
    int64_t sum = 0;

    tt_assert(n >= 2);
    expand(&a, contract_all(&a), from);
    for (uint32_t k = 1; k < n; k++)
        sum += weight[(size_t)from[k] * n + k];
    return sum;
}
