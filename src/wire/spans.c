#include "wire/spans.h"

#include <stddef.h>
#include "base/prng.h"
#include "base/status.h"

static uint64_t last_of(const struct tt_span *s)
{
    return s ? s->last : 0;
}

static void span_update(struct tt_span *s)
{
    s->last = s->end;
    if (last_of(s->left) > s->last)
        s->last = last_of(s->left);
    if (last_of(s->right) > s->last)
        s->last = last_of(s->right);
}

/* Ordered by begin, then by the node's address, so no two nodes are equal. */
static bool span_is_before(const struct tt_span *a, const struct tt_span *b)
{
    return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

/* Splits a tree into the nodes before `at` and the others. */
static void span_split(struct tt_span *tree, const struct tt_span *at, struct tt_span **before,
                       struct tt_span **after)
{
    if (!tree) {
        *before = *after = NULL;
        return;
    }
    if (span_is_before(tree, at)) {
        span_split(tree->right, at, &tree->right, after);
        *before = tree;
    } else {
        span_split(tree->left, at, before, &tree->left);
        *after = tree;
    }
    span_update(tree);
}

static struct tt_span *span_join(struct tt_span *before, struct tt_span *after)
{
    struct tt_span *top;

    if (!before || !after)
        return before ? before : after;
    if (before->priority > after->priority) {
        top = before;
        top->right = span_join(before->right, after);
    } else {
        top = after;
        top->left = span_join(before, after->left);
    }
    span_update(top);
    return top;
}

static void span_insert(struct tt_span **at, struct tt_span *s)
{
    struct tt_span *top = *at;

    if (!top || s->priority > top->priority) {
        span_split(top, s, &s->left, &s->right);
        *at = top = s;
    } else {
        span_insert(span_is_before(s, top) ? &top->left : &top->right, s);
    }
    span_update(top);
}

void tt_spans_add(struct tt_span **tree, struct tt_span *s)
{
    tt_assert(s->begin < s->end);
    s->left = s->right = NULL;
    s->priority = tt_mix64(s->begin ^ tt_mix64((uintptr_t)s));
    span_insert(tree, s);
}

static void span_remove(struct tt_span **at, struct tt_span *s)
{
    struct tt_span *top = *at;

    tt_assert(top);
    if (top == s) {
        *at = span_join(s->left, s->right);
        return;
    }
    span_remove(span_is_before(s, top) ? &top->left : &top->right, s);
    span_update(top);
}

void tt_spans_remove(struct tt_span **tree, struct tt_span *s)
{
    span_remove(tree, s);
    s->left = s->right = NULL;
}

struct tt_span *tt_spans_covering(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg),
                                  const void *arg)
{
    struct tt_span *found;

    if (!tree || tree->last < end)
        return NULL;
    found = tt_spans_covering(tree->left, begin, end, fits, arg);
    if (found || tree->begin > begin)
        return found;
    if (tree->end >= end && (!fits || fits(tree, arg)))
        return tree;
    return tt_spans_covering(tree->right, begin, end, fits, arg);
}

struct tt_span *tt_spans_touching(struct tt_span *tree, uint64_t begin, uint64_t end,
                                  bool (*fits)(const struct tt_span *s, const void *arg),
                                  const void *arg)
{
    struct tt_span *found;

    if (!tree || tree->last <= begin)
        return NULL;
    found = tt_spans_touching(tree->left, begin, end, fits, arg);
    if (found || tree->begin >= end)
        return found;
    if (tree->end > begin && (!fits || fits(tree, arg)))
        return tree;
    return tt_spans_touching(tree->right, begin, end, fits, arg);
}

bool tt_spans_cover(struct tt_span *tree, uint64_t begin, uint64_t end,
                    bool (*fits)(const struct tt_span *s, const void *arg), const void *arg,
                    uint64_t *from, uint64_t *till)
{
    uint64_t first = begin, at = begin;

    while (at < end) {
        const struct tt_span *s = tt_spans_touching(tree, at, at + 1, fits, arg);

        if (!s)
            return false;
        if (at == begin)
            first = s->begin;
        at = s->end;
    }
    *from = first;
    *till = at;
    return true;
}
