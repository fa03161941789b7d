/* Diagnoses as text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analyze/diagnosis.h"
#include "analyze/ends.h"

static const char *const names[TT_DIAGNOSIS_KINDS] = {
    [TT_DIAGNOSIS_NONE] = "no failure",
    [TT_DIAGNOSIS_DIED] = "died",
    [TT_DIAGNOSIS_MISMATCH] = "mismatch",
    [TT_DIAGNOSIS_LINK] = "link",
    [TT_DIAGNOSIS_STOPPED] = "stopped",
    [TT_DIAGNOSIS_ORDER] = "order",
    [TT_DIAGNOSIS_OUTSIDE] = "outside",
    [TT_DIAGNOSIS_NEVER_CALLED] = "never called",
    [TT_DIAGNOSIS_SLOW] = "slow",
    [TT_DIAGNOSIS_DEADLINE] = "deadline",
    [TT_DIAGNOSIS_UNKNOWN] = "unknown",
};

const char *tt_diagnosis_kind_name(enum tt_diagnosis_kind kind)
{
    return names[kind];
}

void tt_diagnosis_trim(char *text)
{
    const size_t n = strlen(text);
    size_t begin = n;

    while (begin > 0 && n - begin < 3 && ((unsigned char)text[begin - 1] & 0xc0) == 0x80)
        begin--;
    if (begin > 0 && ((unsigned char)text[begin - 1] & 0xc0) == 0xc0) {
        const unsigned char lead = (unsigned char)text[begin - 1];
        const size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

        if (n - begin + 1 < bytes)
            text[begin - 1] = '\0';
    }
}

const char *tt_diagnosis_op_words(const struct tt_dumps *d, const struct tt_dumps_op *op, char *out,
                                  size_t cap)
{
    char comm[32], peer[40] = "";

    if ((op->class == TT_OP_P2P || op->class == TT_OP_ONE_SIDED) && op->peer != TT_DUMPS_NONE)
        snprintf(peer, sizeof peer, " %s rank %u",
                 strcmp(tt_dumps_text(d, op->kind), "recv") == 0 ? "from" : "to", op->peer);
    snprintf(out, cap, "%s %llu%s of \"%s\"", tt_dumps_text(d, op->kind),
             (unsigned long long)op->seq, peer, tt_dumps_comm_name(d, op->comm, comm));
    tt_diagnosis_trim(out);
    return out;
}

/* Text of limited size that grows at its end. */
struct words {
    char *out;
    size_t cap, n;
};

static void words_add(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void words_add(struct words *w, const char *fmt, ...)
{
    va_list ap;
    int n;

    if (w->n + 1 >= w->cap)
        return;
    va_start(ap, fmt);
    n = vsnprintf(w->out + w->n, w->cap - w->n, fmt, ap);
    va_end(ap);
    w->n = n < 0 ? w->n : w->n + (size_t)n < w->cap ? w->n + (size_t)n : w->cap - 1;
}

static void words_culprits(struct words *w, const struct tt_diagnosis *x)
{
    const uint32_t n = x->nculprits < TT_DIAGNOSIS_CULPRITS ? x->nculprits : TT_DIAGNOSIS_CULPRITS;

    words_add(w, x->nculprits == 1 ? "Rank" : "Ranks");
    for (uint32_t i = 0; i < n; i++)
        words_add(w, "%s %u", i == 0 ? "" : i + 1 == x->nculprits ? " and" : ",", x->culprits[i]);
    if (x->nculprits > n)
        words_add(w, " and %u others", x->nculprits - n);
}

static void words_headline(struct words *w, const struct tt_diagnosis *x, const char *op)
{
    switch (x->kind) {
    case TT_DIAGNOSIS_DIED:
        words_add(w, " died");
        break;
    case TT_DIAGNOSIS_STOPPED:
        words_add(w, " stopped making progress, but did not end");
        break;
    case TT_DIAGNOSIS_NEVER_CALLED:
        words_add(w, " did not call %s in time", op);
        break;
    case TT_DIAGNOSIS_OUTSIDE:
        words_add(w, " did work outside Tutti and did not call %s in time", op);
        break;
    case TT_DIAGNOSIS_MISMATCH:
        words_add(w, " called %s with other arguments than the other ranks", op);
        break;
    case TT_DIAGNOSIS_ORDER:
        words_add(
            w, " called operations of several communicators in another order than the other ranks");
        break;
    case TT_DIAGNOSIS_LINK:
        if (x->to != TT_DUMPS_NONE)
            words_add(w,
                      " sent data to rank %u that did not arrive (a lane, a link or a NIC failed)",
                      x->to);
        else
            words_add(w, " cannot exchange data with its peers (its NIC or links failed)");
        break;
    case TT_DIAGNOSIS_SLOW:
        if (x->to != TT_DUMPS_NONE)
            words_add(w, " sends slowly to rank %u", x->to);
        else
            words_add(w, " is slow");
        break;
    default:
        words_add(w, " may be the cause");
        break;
    }
}

/* Writes the first sentence if no rank is at fault, or none is proven to be. */
static void words_without_culprit(struct words *w, const struct tt_diagnosis *x, const char *op)
{
    switch (x->kind) {
    case TT_DIAGNOSIS_NONE:
        words_add(w, "No operation is incomplete, and no rank is lost");
        break;
    case TT_DIAGNOSIS_MISMATCH:
        words_add(w, "The ranks called %s with different arguments", op);
        break;
    case TT_DIAGNOSIS_ORDER:
        words_add(w, "Ranks called operations of several communicators in different orders");
        break;
    case TT_DIAGNOSIS_SLOW:
        words_add(w, "%s is slow, but data still arrives", op);
        break;
    case TT_DIAGNOSIS_DEADLINE:
        words_add(w, "The timeout of %s is too short: it usually takes about this long", op);
        break;
    default:
        if (x->at != TT_DUMPS_NONE)
            words_add(w, "The cause is not known: the evidence ends at rank %u", x->at);
        else
            words_add(w, "The dumps do not show the cause");
        break;
    }
}

static void words_waiter(struct words *w, const struct tt_diagnosis *x, const struct tt_dumps *d)
{
    char op[128];

    if (x->waits_op == TT_DUMPS_NONE || x->kind == TT_DIAGNOSIS_NONE)
        return;
    tt_diagnosis_op_words(d, &d->ops[x->waits_op], op, sizeof op);
    if (x->waits_for != TT_DUMPS_NONE)
        words_add(w, " Rank %u waits for rank %u in %s.", x->waits_by, x->waits_for, op);
    else
        words_add(w, " Rank %u waits in %s.", x->waits_by, op);
    if (x->nwaiting > 1)
        words_add(w, " %u ranks wait for the same cause.", x->nwaiting);
}

const char *tt_diagnosis_words(const struct tt_diagnosis *x, const struct tt_dumps *d, char *out,
                               size_t cap)
{
    struct words w = { .out = out, .cap = cap };
    char op[128] = "an operation";

    out[0] = '\0';
    if (x->op != TT_DUMPS_NONE)
        tt_diagnosis_op_words(d, &d->ops[x->op], op, sizeof op);
    if (x->nculprits > 0) {
        words_culprits(&w, x);
        words_headline(&w, x, op);
    } else {
        words_without_culprit(&w, x, op);
    }
    words_add(&w, ".");
    words_waiter(&w, x, d);
    for (uint32_t i = 0; i < x->nevidence; i++)
        words_add(&w, "%s%s", i == 0 ? " Evidence: " : "; ", x->evidence[i]);
    if (x->nevidence > 0)
        words_add(&w, ".");
    tt_diagnosis_trim(out);
    return out;
}
