#include "party.h"

#include <stdlib.h>
#include <string.h>

#include "move.h"
#include "team.h"

#define TAG 0x53484d45u         /* tag of all messages of active sets */

/* ---- members ---- */

struct sh_party sh_party_of_team(const char *call, shmem_team_t team)
{
    const struct sh_team *t = sh_team_of(call, team);

    return (struct sh_party){
        .call = call, .comm = t->comm, .whole = true, .stride = 1, .me = t->me, .n = t->n
    };
}

struct sh_party sh_party_of_set(const char *call, int start, int log_stride, int size)
{
    struct sh_party p = { .call = call, .comm = sh_job.comm, .start = start, .n = size };
    int64_t last;

    sh_need(call);
    if (log_stride < 0 || log_stride > 30 || size < 1 || start < 0)
        sh_die(call, "invalid active set: PE_start = %d, logPE_stride = %d, PE_size = %d", start,
               log_stride, size);
    p.stride = 1 << log_stride;
    last = start + (int64_t)p.stride * (size - 1);
    if (last >= sh_job.n)
        sh_die(call, "invalid active set: its last PE is %lld, but the job has %d PEs",
               (long long)last, sh_job.n);
    p.me = (sh_job.me - start) / p.stride;
    if (sh_job.me < start || sh_job.me > last || (sh_job.me - start) % p.stride)
        sh_die(call,
               "this PE is not in the active set PE_start = %d, logPE_stride = %d, PE_size = %d",
               start, log_stride, size);
    p.whole = size == sh_job.n;
    return p;
}

static void check(const struct sh_party *p, const char *what, const void *buffer, int blocks,
                  size_t bytes)
{
    if (bytes)
        sh_place_of(p->call, what, buffer, sh_bytes(p->call, (size_t)blocks, bytes));
}

void sh_party_buffers(const struct sh_party *p, const void *dest, int dest_blocks,
                      const void *source, int source_blocks, size_t bytes)
{
    check(p, "dest", dest, dest_blocks, bytes);
    check(p, "source", source, source_blocks, bytes);
}

static int pe_of(const struct sh_party *p, int i) { return p->start + i * p->stride; }

/* ---- collectives of an active set ---- */

static tutti_p2p transfer_of(const struct sh_party *p, int i, bool is_recv, const void *buf,
                             size_t bytes)
{
    return (tutti_p2p){
        .is_recv = is_recv,
        .peer = pe_of(p, i),
        .buf = (void *)(uintptr_t)buf,
        .count = bytes,
        .type = TUTTI_U8,
        .tag = TAG,
    };
}

static void transfers_run(const struct sh_party *p, const tutti_p2p *parts, size_t n)
{
    sh_check(p->call, tutti_group(parts, n, p->comm, NULL));
}

/* All-to-all exchange: block i goes to PE i from src + i * step. This PE's own block is copied. */
static void exchange(const struct sh_party *p, char *dest, const char *src, size_t bytes,
                     size_t step)
{
    tutti_p2p *parts = sh_alloc(p->call, 2 * (size_t)p->n * sizeof *parts);
    size_t n = 0;

    for (int k = 1; k < p->n; k++) {        /* start with different peers, to spread the load */
        const int to = (p->me + k) % p->n, from = (p->me + p->n - k) % p->n;

        parts[n++] = transfer_of(p, from, true, dest + (size_t)from * bytes, bytes);
        parts[n++] = transfer_of(p, to, false, src + (size_t)to * step, bytes);
    }
    memcpy(dest + (size_t)p->me * bytes, src + (size_t)p->me * step, bytes);
    transfers_run(p, parts, n);
    free(parts);
}

/* Binomial tree: in step s = 1, 2, 4, ... each PE with data sends it to the PE s places further,
 * counted from the root. */
static void broadcast_tree(const struct sh_party *p, void *buf, size_t bytes, int root)
{
    const int place = (p->me + p->n - root) % p->n;

    for (int step = 1; step < p->n; step *= 2) {
        tutti_p2p one;

        if (place < step && place + step < p->n)
            one = transfer_of(p, (p->me + step) % p->n, false, buf, bytes);
        else if (place >= step && place < 2 * step)
            one = transfer_of(p, (p->me + p->n - step) % p->n, true, buf, bytes);
        else
            continue;
        transfers_run(p, &one, 1);
    }
}

/* Dissemination barrier: after round k each PE has a message that depends on 2^(k+1) PEs. */
static void sync_some(const struct sh_party *p)
{
    for (int step = 1; step < p->n; step *= 2) {
        uint8_t sent = 1, received = 0;
        const tutti_p2p parts[2] = {
            transfer_of(p, (p->me + p->n - step) % p->n, true, &received, 1),
            transfer_of(p, (p->me + step) % p->n, false, &sent, 1),
        };

        transfers_run(p, parts, 2);
    }
}

/* ---- collectives ---- */

void sh_party_sync(const struct sh_party *p)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (p->whole)
        sh_check(p->call, tutti_barrier(p->comm, NULL));
    else
        sync_some(p);
}

/* Copies the source if it overlaps dest, since dest is written while the source is read. Returns
 * the copy, owned by the caller, or NULL without overlap. */
static void *copy_of(const struct sh_party *p, const void *dest, size_t dest_bytes, const void *src,
                     size_t bytes)
{
    const uintptr_t d = (uintptr_t)dest, s = (uintptr_t)src;
    void *copy;

    if (d >= s + bytes || s >= d + dest_bytes)
        return NULL;
    copy = sh_alloc(p->call, bytes);
    memcpy(copy, src, bytes);
    return copy;
}

void sh_party_broadcast(const struct sh_party *p, void *dest, const void *src, size_t bytes,
                        int root, bool to_root)
{
    const bool am_root = p->me == root;
    void *buf = am_root ? (void *)(uintptr_t)src : dest;

    if (root < 0 || root >= p->n)
        sh_die(p->call, "PE_root = %d is out of range: the team or active set has %d PEs", root,
               p->n);
    if (p->whole)
        sh_check(p->call, tutti_broadcast(buf, buf, bytes, TUTTI_U8, root, p->comm, NULL));
    else
        broadcast_tree(p, buf, bytes, root);
    if (am_root && to_root && dest != src && bytes)
        memmove(dest, src, bytes);
}

void sh_party_fcollect(const struct sh_party *p, void *dest, const void *src, size_t bytes)
{
    void *copy = copy_of(p, dest, sh_bytes(p->call, (size_t)p->n, bytes), src, bytes);

    if (copy)
        src = copy;
    if (p->whole)
        sh_check(p->call, tutti_allgather(src, dest, bytes, TUTTI_U8, p->comm, NULL));
    else
        exchange(p, dest, src, bytes, 0);
    free(copy);
}

/* Gathers the blocks of an active set; bytes[n] has the size of each. */
static void collect_some(const struct sh_party *p, char *dest, const void *src, const size_t *bytes)
{
    tutti_p2p *parts = sh_alloc(p->call, 2 * (size_t)p->n * sizeof *parts);
    size_t n = 0, at = 0;

    for (int i = 0; i < p->n; at += bytes[i++]) {
        if (i == p->me) {
            if (bytes[i])
                memmove(dest + at, src, bytes[i]);
            continue;
        }
        parts[n++] = transfer_of(p, i, true, dest + at, bytes[i]);
        parts[n++] = transfer_of(p, i, false, src, bytes[p->me]);
    }
    transfers_run(p, parts, n);
    free(parts);
}

void sh_party_collect(const struct sh_party *p, void *dest, const void *src, size_t bytes)
{
    size_t *sizes = sh_alloc(p->call, (size_t)p->n * sizeof *sizes), all = 0;
    void *copy;

    sh_party_fcollect(p, sizes, &bytes, sizeof bytes);
    for (int i = 0; i < p->n; i++)
        if (__builtin_add_overflow(all, sizes[i], &all))
            sh_die(p->call, "the blocks of all PEs together exceed the address space");
    check(p, "dest", dest, 1, all);
    check(p, "source", src, 1, bytes);
    copy = copy_of(p, dest, all, src, bytes);
    if (copy)
        src = copy;
    if (p->whole)
        sh_check(p->call, tutti_allgatherv(src, dest, sizes, NULL, TUTTI_U8, p->comm, NULL));
    else
        collect_some(p, dest, src, sizes);
    free(copy);
    free(sizes);
}

void sh_party_alltoall(const struct sh_party *p, void *dest, const void *src, size_t bytes)
{
    const size_t all = sh_bytes(p->call, (size_t)p->n, bytes);
    void *copy = copy_of(p, dest, all, src, all);

    if (copy)
        src = copy;
    if (p->whole)
        sh_check(p->call, tutti_alltoall(src, dest, bytes, TUTTI_U8, p->comm, NULL));
    else
        exchange(p, dest, src, bytes, bytes);
    free(copy);
}

/* Bytes from the start of the first of n elements to the end of the last. */
static size_t span(const struct sh_party *p, size_t n, ptrdiff_t stride, size_t bytes)
{
    return sh_bytes(p->call, sh_bytes(p->call, n - 1, (size_t)stride) + 1, bytes);
}

void sh_party_alltoalls(const struct sh_party *p, void *dest, const void *src, ptrdiff_t dst,
                        ptrdiff_t sst, size_t nelems, size_t bytes)
{
    const size_t all = sh_bytes(p->call, sh_bytes(p->call, (size_t)p->n, nelems), bytes);
    char *to, *from;

    if (dst < 1 || sst < 1)
        sh_die(p->call, "dst = %td, sst = %td: a stride must be at least 1", dst, sst);
    if (all) {
        check(p, "dest", dest, 1, span(p, all / bytes, dst, bytes));
        check(p, "source", src, 1, span(p, all / bytes, sst, bytes));
    }
    to = sh_alloc(p->call, all);
    from = sh_alloc(p->call, all);
    for (size_t i = 0; i < all / bytes; i++)
        memcpy(from + i * bytes, (const char *)src + i * (size_t)sst * bytes, bytes);
    sh_party_alltoall(p, to, from, nelems * bytes);
    for (size_t i = 0; i < all / bytes; i++)
        memcpy((char *)dest + i * (size_t)dst * bytes, to + i * bytes, bytes);
    free(from);
    free(to);
}
