#include "move.h"

#include <string.h>

#include "order.h"
#include "team.h"

/* ---- address translation ---- */

static bool is_in(const struct sh_segment *s, size_t head, const void *addr, size_t bytes,
                  struct sh_place *out)
{
    const uintptr_t base = (uintptr_t)s->base, at = (uintptr_t)addr;

    if (!s->window || at < base + head || at - base > s->bytes || bytes > s->bytes - (at - base))
        return false;
    *out = (struct sh_place){ .segment = s, .offset = at - base };
    return true;
}

bool sh_find(const void *addr, size_t bytes, struct sh_place *out)
{
    return is_in(&sh_job.heap, SH_HEAD_BYTES, addr, bytes, out) ||
           is_in(&sh_job.globals, 0, addr, bytes, out);
}

struct sh_place sh_place_of(const char *call, const char *what, const void *addr, size_t bytes)
{
    struct sh_place place;

    sh_need(call);
    if (sh_find(addr, bytes, &place))
        return place;
    if (!sh_job.globals.window)
        sh_die(call,
               "%s = %p with %zu bytes is not in the symmetric heap (global variables are not "
               "symmetric here: PEs run different programs)",
               what, addr, bytes);
    sh_die(call,
           "%s = %p with %zu bytes is not symmetric: neither in the symmetric heap (%p to %p) nor "
           "a global variable of the program",
           what, addr, bytes, (void *)(sh_job.heap.base + SH_HEAD_BYTES),
           (void *)(sh_job.heap.base + sh_job.heap.bytes));
}

size_t sh_bytes(const char *call, size_t nelems, size_t bytes)
{
    size_t all;

    if (__builtin_mul_overflow(nelems, bytes, &all))
        sh_die(call, "nelems = %zu is too large: elements of %zu bytes exceed the address space",
               nelems, bytes);
    return all;
}

/* ---- puts ---- */

/* Puts an aligned 8-byte word as a signal, which a fence orders without waiting and which is
 * written atomically. Returns false for other sizes and alignments. */
static bool put_word(const char *call, const struct sh_place *to, const void *src, size_t bytes,
                     int pe)
{
    uint64_t value;

    if (bytes != sizeof value || to->offset % sizeof value)
        return false;
    memcpy(&value, src, sizeof value);
    sh_order_pass(call, pe);
    sh_check(call,
             tutti_window_signal(to->segment->window, pe, to->offset, TUTTI_SIGNAL_SET, value));
    return true;
}

static void add_signal(const char *call, tutti_rma *rma, const struct sh_signal *signal)
{
    const struct sh_place at = sh_place_of(call, "sig_addr", signal->addr, sizeof *signal->addr);

    if (signal->op != SHMEM_SIGNAL_SET && signal->op != SHMEM_SIGNAL_ADD)
        sh_die(call, "sig_op = %d is invalid: must be SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD",
               signal->op);
    if (at.offset % sizeof *signal->addr)
        sh_die(call, "sig_addr = %p is misaligned: must be a multiple of 8", (void *)signal->addr);
    rma->signal_op = signal->op == SHMEM_SIGNAL_SET ? TUTTI_SIGNAL_SET : TUTTI_SIGNAL_ADD;
    rma->signal_value = signal->value;
    rma->signal_offset = at.offset;
    rma->signal_window = at.segment->window;
}

void sh_put(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe,
            bool nbi, const struct sh_signal *signal)
{
    tutti_rma rma = { .size = sizeof rma, .counter = nbi ? &sh_job.nbi : NULL };
    struct sh_place to = { .segment = &sh_job.heap };
    int at;

    sh_need(call);
    at = sh_pe(call, ctx, pe);
    if (bytes)
        to = sh_place_of(call, "dest", dest, bytes);
    if (signal)
        add_signal(call, &rma, signal);
    else if (!bytes || put_word(call, &to, src, bytes, at))
        return;
    if (bytes)
        sh_order_drain(call, at);
    else
        sh_order_pass(call, at);
    sh_check(call, tutti_window_put(to.segment->window, at, to.offset, src, bytes, &rma));
}

/* ---- gets ---- */

/* Returns the address for loads by this process, after the waits that fences require. NULL: not
 * mapped; a get of the window is ordered by the window. */
static const char *loadable(const char *call, const struct sh_place *from, int pe)
{
    if (pe == sh_job.me)
        return from->segment->base + from->offset;
    if (from->segment != &sh_job.heap || !sh_job.heap_at[pe]) {
        sh_order_pass(call, pe);
        return NULL;
    }
    sh_order_drain(call, pe);
    return sh_job.heap_at[pe] + from->offset;
}

void sh_get(const char *call, shmem_ctx_t ctx, void *dest, const void *src, size_t bytes, int pe,
            bool nbi)
{
    const tutti_rma rma = { .size = sizeof rma, .counter = nbi ? &sh_job.nbi : NULL };
    struct sh_place from;
    const char *there;
    int at;

    sh_need(call);
    at = sh_pe(call, ctx, pe);
    if (!bytes)
        return;
    from = sh_place_of(call, "source", src, bytes);
    there = loadable(call, &from, at);
    if (there)
        memmove(dest, there, bytes);
    else
        sh_check(call, tutti_window_get(from.segment->window, at, from.offset, dest, bytes, &rma));
}

/* ---- strided ---- */

/* Bytes from the start of the first element to the end of the last, with `stride` elements between
 * element starts. */
static size_t span(const char *call, const char *what, const struct sh_stride *s, ptrdiff_t stride)
{
    if (stride < 1)
        sh_die(call, "%s = %td is invalid: a stride must be at least 1", what, stride);
    return sh_bytes(call, sh_bytes(call, s->nelems - 1, (size_t)stride) + 1, s->bytes);
}

void sh_iput(const char *call, shmem_ctx_t ctx, void *dest, const void *src,
             const struct sh_stride *s, int pe)
{
    tutti_rows rows = { .rows = s->nelems, .row_bytes = s->bytes };
    struct sh_place to;
    int at;

    sh_need(call);
    at = sh_pe(call, ctx, pe);
    if (!s->nelems)
        return;
    to = sh_place_of(call, "dest", dest, span(call, "dst", s, s->dst));
    span(call, "sst", s, s->sst);
    rows.stride = s->nelems == 1 ? s->bytes : (size_t)s->dst * s->bytes;
    rows.src_stride = s->nelems == 1 ? s->bytes : (size_t)s->sst * s->bytes;
    sh_order_drain(call, at);
    sh_check(call, tutti_window_put_rows(to.segment->window, at, to.offset, src, &rows, NULL));
}

void sh_iget(const char *call, shmem_ctx_t ctx, void *dest, const void *src,
             const struct sh_stride *s, int pe)
{
    uint64_t counter = 0;
    const tutti_rma rma = { .size = sizeof rma, .counter = &counter };
    struct sh_place from;
    const char *there;
    int at;

    sh_need(call);
    at = sh_pe(call, ctx, pe);
    if (!s->nelems)
        return;
    from = sh_place_of(call, "source", src, span(call, "sst", s, s->sst));
    span(call, "dst", s, s->dst);
    there = loadable(call, &from, at);
    for (size_t i = 0; i < s->nelems; i++) {
        char *to = (char *)dest + i * (size_t)s->dst * s->bytes;
        const size_t offset = i * (size_t)s->sst * s->bytes;

        if (there)
            memmove(to, there + offset, s->bytes);
        else
            sh_check(call, tutti_window_get(from.segment->window, at, from.offset + offset, to,
                                            s->bytes, &rma));
    }
    if (!there)
        sh_check(call, tutti_window_wait_counter(from.segment->window, &counter, s->nelems, 0));
}

/* ---- atomics ---- */

static struct sh_place word_of(const char *call, const void *dest, size_t bytes)
{
    const struct sh_place at = sh_place_of(call, "dest", dest, bytes);

    if (at.offset % bytes)
        sh_die(call, "dest = %p is misaligned: must be a multiple of %zu", dest, bytes);
    return at;
}

uint64_t sh_fetch(const char *call, shmem_ctx_t ctx, const void *dest, size_t bytes,
                  tutti_atomic_op op, uint64_t operand, uint64_t compare, int pe)
{
    const struct sh_place word = word_of(call, dest, bytes);
    const int at = sh_pe(call, ctx, pe);
    uint64_t old = 0;

    sh_order_pass(call, at);
    sh_check(call, tutti_window_atomic(word.segment->window, at, word.offset, bytes, op, operand,
                                       compare, &old));
    return old;
}

void sh_change(const char *call, shmem_ctx_t ctx, void *dest, size_t bytes, tutti_atomic_op op,
               uint64_t operand, int pe)
{
    const struct sh_place word = word_of(call, dest, bytes);
    const int at = sh_pe(call, ctx, pe);

    sh_order_pass(call, at);
    /* supported by window signals */
    if (bytes == sizeof operand && (op == TUTTI_ATOMIC_ADD || op == TUTTI_ATOMIC_SWAP)) {
        sh_check(call, tutti_window_signal(
                           word.segment->window, at, word.offset,
                           op == TUTTI_ATOMIC_ADD ? TUTTI_SIGNAL_ADD : TUTTI_SIGNAL_SET, operand));
        return;
    }
    sh_check(call, tutti_window_atomic(word.segment->window, at, word.offset, bytes, op, operand, 0,
                                       NULL));
}
