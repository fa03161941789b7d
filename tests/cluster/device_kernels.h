/* Test kernels with the same source for CPUs and GPUs: test_device.c runs them on the CPU device,
 * device_kernels.cu makes CUDA kernels of them. */
#ifndef TESTS_CLUSTER_DEVICE_KERNELS_H
#define TESTS_CLUSTER_DEVICE_KERNELS_H

#include "tutti/device.h"
#include "tutti/hash_device.h"

#define EXCHANGE_BLOCKS_MAX 8

/* All ranks send to all others, block to block: tiles of random sizes, each checked as soon as its
 * signal arrives. */
struct exchange {
    uint32_t rounds, first;         /* values of signals count rounds from `first` */
    uint32_t flush_every;           /* rounds between flushes; in the others, a source is reused
                                       when its receiver has acknowledged it */
    uint64_t seed, slot_bytes;
    uint8_t *src;                   /* [nblocks][nranks][slot_bytes] */
    uint64_t *published;            /* rounds of each rank's group so far */
    uint64_t wrong;                 /* result of a block: a round + 1, with the sender in the
                                       upper half; 0: no error */
};

/* The finalizer of SplitMix64. */
TUTTI_DEVICE uint64_t exchange_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* All parameters of one tile are derived from this number. */
TUTTI_DEVICE uint64_t exchange_draw(const struct exchange *x, uint32_t round, uint32_t from,
                                    uint32_t to, uint32_t block)
{
    return exchange_mix(x->seed +
                        exchange_mix((uint64_t)round << 32 | from << 20 | to << 8 | block));
}

/* Mostly short; some are segmented by transports. */
TUTTI_DEVICE uint64_t exchange_bytes(const struct exchange *x, uint64_t draw)
{
    const uint64_t kind = draw % 16, most = kind < 8    ? 64
                                            : kind < 13 ? 4096
                                            : kind < 15 ? 40000
                                                        : x->slot_bytes;

    return (draw >> 8) % (most < x->slot_bytes ? most : x->slot_bytes);
}

TUTTI_DEVICE uint8_t exchange_byte(uint64_t draw, uint64_t i)
{
    return (uint8_t)((draw >> 40) + i * 7 + (i >> 8));
}

/* In every window: a word per sender block, a word per receiver block that has checked its tile,
 * and a slot per sender block. */
TUTTI_DEVICE uint64_t exchange_word(uint32_t nblocks, uint32_t rank, uint32_t block)
{
    return 64ull * (rank * nblocks + block);
}

TUTTI_DEVICE uint64_t exchange_ack(const tutti_device_view *v, uint32_t nblocks, uint32_t rank,
                                   uint32_t block)
{
    return exchange_word(nblocks, v->nranks, 0) + exchange_word(nblocks, rank, block);
}

TUTTI_DEVICE uint64_t exchange_slot(const tutti_device_view *v, const struct exchange *x,
                                    uint32_t nblocks, uint32_t rank, uint32_t block)
{
    return 2 * exchange_word(nblocks, v->nranks, 0) + x->slot_bytes * (rank * nblocks + block);
}

TUTTI_DEVICE void exchange_fill(uint8_t *src, uint64_t bytes, uint64_t draw)
{
    for (uint64_t i = tutti_device_thread(); i < bytes; i += tutti_device_threads())
        src[i] = exchange_byte(draw, i);
}

TUTTI_DEVICE void exchange_pause(const tutti_device_view *v, uint64_t turns)
{
    for (uint64_t i = 0; i < turns; i++)
        tutti_device_pause(v, 40 + (uint32_t)i);
}

/* Sends this block's tile of a round to one peer, in one of three ways, the same for all blocks:
 * with its signal; as puts, a fence and a signal; or as a member of a group, whose leader, block 0,
 * signals for all. */
TUTTI_DEVICE tutti_status exchange_send(const tutti_device_view *v, struct exchange *x,
                                        uint32_t round, uint32_t to, uint32_t block,
                                        uint32_t nblocks)
{
    const uint64_t draw = exchange_draw(x, round, v->rank, to, block),
                   bytes = exchange_bytes(x, draw), half = bytes / 2;
    const uint64_t at = exchange_slot(v, x, nblocks, v->rank, block);
    const uint32_t way = (uint32_t)((x->seed + round) % 3);
    uint8_t *src = x->src + x->slot_bytes * (block * v->nranks + to);
    tutti_device_signal_to signals[EXCHANGE_BLOCKS_MAX];
    uint64_t published;
    tutti_status st;

    for (uint32_t b = 0; b < nblocks; b++) {
        signals[b].peer = to;
        signals[b].op = (draw >> 4) % 2 || way == 2 ? TUTTI_SIGNAL_SET : TUTTI_SIGNAL_ADD;
        signals[b].offset = exchange_word(nblocks, v->rank, b);
        signals[b].value = signals[b].op == TUTTI_SIGNAL_ADD ? 1 : round + 1;
    }
    exchange_fill(src, bytes, draw);
    exchange_pause(v, (draw >> 16) % 4 ? 0 : (draw >> 20) % 60);
    if (way == 0)
        return tutti_device_put_signal(v, to, at, src, bytes, signals[block].op,
                                       signals[block].offset, signals[block].value);
    if (way == 1) {
        st = tutti_device_put(v, to, at, src, half);
        if (!st)
            st = tutti_device_put(v, to, at + half, src + half, bytes - half);
        if (!st)
            st = tutti_device_fence(v, to);
        return st ? st
                  : tutti_device_signal(v, to, signals[block].op, signals[block].offset,
                                        signals[block].value);
    }
    st = tutti_device_group_put(v, at, src, bytes, &signals[block]);
    if (!st)
        st = tutti_device_group_publish(v, to);
    if (st || block != 0)
        return st;
    published = x->published[to] + 1;
    tutti_device_sync();        /* all threads have read it */
    if (tutti_device_thread() == 0)
        x->published[to] = published;
    return tutti_device_group_signal(v, to, nblocks * published, signals, nblocks);
}

/* Checks the tile sent by the same block of a peer in this round, and releases its slot. */
TUTTI_DEVICE tutti_status exchange_receive(const tutti_device_view *v, struct exchange *x,
                                           uint32_t round, uint32_t from, uint32_t block,
                                           uint32_t nblocks)
{
    const uint64_t draw = exchange_draw(x, round, from, v->rank, block),
                   bytes = exchange_bytes(x, draw);
    const uint8_t *slot = v->mine + exchange_slot(v, x, nblocks, from, block);
    const tutti_status st =
        tutti_device_wait(v, exchange_word(nblocks, from, block), TUTTI_AT_LEAST, round + 1, NULL);

    for (uint64_t i = tutti_device_thread(); i < bytes && !st; i += tutti_device_threads())
        if (slot[i] != exchange_byte(draw, i)) {
            tutti_device_store_release(&x->wrong, (uint64_t)from << 32 | (round + 1));
            break;
        }
    tutti_device_sync();
    return st ? st
              : tutti_device_signal(v, from, TUTTI_SIGNAL_SET,
                                    exchange_ack(v, nblocks, v->rank, block), round + 1);
}

TUTTI_DEVICE tutti_status exchange_kernel(const tutti_device_view *v, uint32_t block,
                                          uint32_t nblocks, void *arg)
{
    struct exchange *x = (struct exchange *)arg;
    tutti_status st = TUTTI_OK;

    for (uint32_t round = x->first; round < x->first + x->rounds && !st; round++) {
        for (uint32_t k = 1; k < v->nranks && !st; k++)
            st = exchange_send(v, x, round, (v->rank + k) % v->nranks, block, nblocks);
        if (!st && round % x->flush_every == 0) {       /* sources are reused by the block before
                                                           they have arrived */
            st = tutti_device_flush(v, TUTTI_DEVICE_ALL);
            for (uint32_t to = 0; to < v->nranks && !st; to++)
                exchange_fill(x->src + x->slot_bytes * (block * v->nranks + to),
                              exchange_bytes(x, exchange_draw(x, round, v->rank, to, block)),
                              ~0ull);
        }
        for (uint32_t k = 1; k < v->nranks && !st; k++)
            st = exchange_receive(v, x, round, (v->rank + k) % v->nranks, block, nblocks);
        for (uint32_t k = 1; k < v->nranks && !st; k++)
            st = tutti_device_wait(v, exchange_ack(v, nblocks, (v->rank + k) % v->nranks, block),
                                   TUTTI_AT_LEAST, round + 1, NULL);
    }
    return st ? st : tutti_device_quiet(v, TUTTI_DEVICE_ALL);
}

/* `times` times, every block adds its number + 1 to the word of rank 1 at 0, and puts that number
 * to its own place. */
struct crowd {
    uint32_t times;
    uint64_t *src;                  /* [nblocks] */
};

TUTTI_DEVICE tutti_status crowd_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                       void *arg)
{
    const struct crowd *c = (const struct crowd *)arg;
    tutti_status st = TUTTI_OK;

    (void)nblocks;
    if (tutti_device_thread() == 0)
        c->src[block] = block + 1;
    for (uint32_t i = 0; i < c->times && !st; i++)
        st = tutti_device_put_signal(v, 1, 64 + 8ull * block, &c->src[block], 8, TUTTI_SIGNAL_ADD,
                                     0, block + 1);
    return st ? st : tutti_device_quiet(v, 1);
}

/* Adds 1 to the first word of all ranks, including this one, `times` times. */
TUTTI_DEVICE tutti_status add_to_all_kernel(const tutti_device_view *v, uint32_t times)
{
    tutti_status st = TUTTI_OK;

    for (uint32_t i = 0; i < times && !st; i++)
        for (uint32_t to = 0; to < v->nranks && !st; to++)
            st = tutti_device_signal(v, to, TUTTI_SIGNAL_ADD, 0, 1);
    return st ? st : tutti_device_quiet(v, TUTTI_DEVICE_ALL);
}

/* fence A, fence B, signal B, signal A: A is rank 1, B is rank 2. */
struct fences {
    uint32_t npieces;
    uint64_t piece_bytes;
    const uint8_t *src;
};

TUTTI_DEVICE tutti_status fences_kernel(const tutti_device_view *v, uint32_t block,
                                        uint32_t nblocks, void *arg)
{
    const struct fences *f = (const struct fences *)arg;
    tutti_status st = TUTTI_OK;

    (void)block, (void)nblocks;
    for (uint32_t i = 0; i < f->npieces && !st; i++)
        for (uint32_t to = 1; to <= 2 && !st; to++)
            st = tutti_device_put(v, to, 64 + i * f->piece_bytes, f->src + i * f->piece_bytes,
                                  f->piece_bytes);
    for (uint32_t to = 1; to <= 2 && !st; to++)
        st = tutti_device_fence(v, to);
    for (uint32_t to = 2; to >= 1 && !st; to--)
        st = tutti_device_signal(v, to, TUTTI_SIGNAL_SET, 0, 1);
    return st;
}

/* An exchange (tutti/moe.h) that starts when this kernel has written its lists and raised one flag.
 * The kernel checks the received pieces when another flag reports the end. Elements are bytes. */
#define ROUTE_SPLITS 12
#define ROUTE_LENGTH_MAX 3000

struct route {
    uint64_t turn;                  /* number of this exchange, from 1; the value of flags */
    uint32_t start, over;           /* offsets of flags */
    size_t *lengths, *indices, *block_lens;     /* [ROUTE_SPLITS], [nranks * ROUTE_SPLITS],
                                                   [nranks]: read by the host */
    uint8_t *send;                  /* [ROUTE_SPLITS * ROUTE_LENGTH_MAX] */
    void *const *recv;              /* [nranks], of the same size */
    uint64_t wrong;                 /* sender + 1 of wrong pieces; 0: none */
};

TUTTI_DEVICE uint64_t route_length(uint64_t turn, uint32_t rank, uint32_t split)
{
    const uint64_t draw = exchange_mix(turn << 32 | rank << 16 | split);

    return draw % 4 == 0 ? 0 : (draw >> 8) % (draw % 4 == 1 ? ROUTE_LENGTH_MAX : 40);
}

/* Each piece goes to one rank, or to two. */
TUTTI_DEVICE int route_goes(uint64_t turn, uint32_t nranks, uint32_t split, uint32_t to)
{
    return (split + turn) % nranks == to || (split % 3 == 0 && split % nranks == to);
}

TUTTI_DEVICE uint8_t route_byte(uint64_t turn, uint32_t rank, uint64_t i)
{
    return (uint8_t)(turn * 7 + rank * 31 + i * 3 + (i >> 8));
}

TUTTI_DEVICE uint64_t route_total(uint64_t turn, uint32_t rank)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < ROUTE_SPLITS; i++)
        total += route_length(turn, rank, i);
    return total;
}

/* All threads write bytes; one writes the lists. */
TUTTI_DEVICE void route_write(const tutti_device_view *v, const struct route *x)
{
    const uint64_t total = route_total(x->turn, v->rank);
    uint32_t n = 0;

    for (uint64_t i = tutti_device_thread(); i < total; i += tutti_device_threads())
        x->send[i] = route_byte(x->turn, v->rank, i);
    if (tutti_device_thread() != 0)
        return;
    for (uint32_t i = 0; i < ROUTE_SPLITS; i++)
        x->lengths[i] = (size_t)route_length(x->turn, v->rank, i);
    for (uint32_t to = 0; to < v->nranks; to++) {
        const uint32_t before = n;

        for (uint32_t i = 0; i < ROUTE_SPLITS; i++)
            if (route_goes(x->turn, v->nranks, i, to))
                x->indices[n++] = i;
        x->block_lens[to] = n - before;
    }
}

TUTTI_DEVICE void route_look(const tutti_device_view *v, struct route *x, uint32_t from)
{
    const uint8_t *got = (const uint8_t *)x->recv[from];
    uint64_t at = 0;

    for (uint32_t i = 0; i < ROUTE_SPLITS; i++) {
        const uint64_t end = at + route_length(x->turn, from, i);

        for (at += tutti_device_thread(); at < end && route_goes(x->turn, v->nranks, i, v->rank);
             at += tutti_device_threads())
            if (got[at] != route_byte(x->turn, from, at))
                tutti_device_store_release(&x->wrong, from + 1);
        at = end;
    }
}

/* Block 0 only; several blocks would each write parts of the lists. */
TUTTI_DEVICE tutti_status route_kernel(const tutti_device_view *v, uint32_t block, uint32_t nblocks,
                                       void *arg)
{
    struct route *x = (struct route *)arg;
    tutti_status st;

    (void)nblocks;
    if (block != 0)
        return TUTTI_OK;
    route_write(v, x);
    st = tutti_device_raise_flag(v, x->start, x->turn);
    if (!st)
        st = tutti_device_await_flag(v, x->over, x->turn);
    for (uint32_t from = 0; from < v->nranks && !st; from++)
        route_look(v, x, from);
    return st;
}

/* The hash of data[bytes], computed by all blocks of the device. */
struct hashing {
    const uint8_t *data;
    uint64_t bytes, first_block;
    uint32_t sum[4];
};

TUTTI_DEVICE tutti_status hashing_kernel(const tutti_device_view *v, uint32_t block,
                                         uint32_t nblocks, void *arg)
{
    struct hashing *h = (struct hashing *)arg;

    (void)v;
    return tutti_hash_blocks(block, nblocks, h->data, h->bytes, h->first_block, h->sum);
}

#endif
