/* A peer of a running job that writes anything to the memory that it shares with this rank, while
 * operations run: messages of every kind, keys of memory, words with arrivals and credit. The
 * transport is a stand-in that delivers all of it like a real one. No access goes past an end,
 * every put stays within its key, and all operations end when their context closes. The input:
 * {operations u8, bytes u8}, then a stream of {op u8, fields}; bits of the op select what is made
 * valid first, because otherwise hardly anything would be processed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "algo/algos.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/context.h"
#include "engine/op.h"
#include "engine/progress.h"

enum {
    NRANKS = 3,
    STEPS_MAX = 96,
    OPS_MAX = 4,
    DONES_MAX = 256,
    KEY_BYTES_MAX = 65536,
    EAGER_BYTES = 512,
    SEGMENT_BYTES = 2048
};
enum op { MAIL, READY, WORD, TIME, OPS };
enum {
    OTHER_PEER = 1 << 2,
    OTHER_OP = 1 << 3,
    SAME_DESC = 1 << 4,
    SAME_KEY = 1 << 5,
    GREAT = 1 << 6,
    REFUSE = 1 << 7
};

static const uint64_t sizes[] = { 0, 64, 4096, 40000 };
#define NSIZES (sizeof sizes / sizeof *sizes)

/* ---- the transport ---- */

/* Registered memory; allocated by the transport, unless it belongs to the caller. */
struct fake_region {
    struct tt_region region;
    struct fake_region *next, **at;
    void *own;
};

static struct {
    struct tt_wire base;
    struct fake_region *regions;
    uint8_t *link[NRANKS];      /* written by the peers */
    uint8_t *theirs;            /* written by this rank for rank 2; by posts for the others */
    uint8_t *mapped;            /* [KEY_BYTES_MAX]: memory of a peer that is mapped here */
    struct tt_done done[DONES_MAX];
    uint32_t ndone;
    bool refuses;
} fake;


static tutti_status fake_address(struct tt_wire *w, struct tt_blob *out)
{
    (void)w;
    *out = (struct tt_blob){ .bytes = 1 };
    return TUTTI_OK;
}

static tutti_status fake_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    (void)address;
    fake.done[fake.ndone++] = (struct tt_done){
        .kind = TT_DONE_LINK_UP,
        .peer = peer,
        .link = { .mine = fake.link[peer],
                  .theirs = { .wire = w,
                              .peer = peer,
                              .mapped = peer == 2 ? fake.theirs : NULL,
                              .bytes = TT_LINK_BYTES },
                  .anymem = peer == 1 },
    };
    return TUTTI_OK;
}

static tutti_status fake_reg(struct tt_wire *w, void *mem, size_t bytes, struct tt_region **out)
{
    struct fake_region *r = calloc(1, sizeof *r);

    tt_assert(r);
    r->own = mem ? NULL : calloc(1, bytes);
    tt_assert(mem || r->own);
    r->region = (struct tt_region){
        .wire = w, .mem = mem ? mem : r->own, .bytes = bytes, .key = { .bytes = 9 }
    };
    r->next = fake.regions;
    r->at = &fake.regions;
    if (r->next)
        r->next->at = &r->next;
    fake.regions = r;
    *out = &r->region;
    return TUTTI_OK;
}

static void fake_dereg(struct tt_region *region)
{
    struct fake_region *r = (struct fake_region *)region;

    *r->at = r->next;
    if (r->next)
        r->next->at = r->at;
    free(r->own);
    free(r);
}

static void fake_close(struct tt_wire *w)
{
    (void)w;
    while (fake.regions)
        fake_dereg(&fake.regions->region);
}

/* A key: {mapped u8, bytes u64}. */
static tutti_status fake_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                                struct tt_rkey *out)
{
    struct tt_reader r;
    uint64_t bytes;
    bool mapped;

    tt_reader_init(&r, key->data, key->bytes);
    mapped = tt_read_u8(&r) & 1;
    bytes = tt_read_u64(&r);
    if (r.bad)
        return tt_fail(TUTTI_ERR_PROTOCOL, "no key");
    if (mapped && bytes > KEY_BYTES_MAX)
        return tt_fail(TUTTI_ERR_PROTOCOL, "more than there is");
    *out = (struct tt_rkey){
        .wire = w,
        .peer = peer,
        .bytes = bytes,
        .mapped = mapped ? fake.mapped + KEY_BYTES_MAX - bytes : NULL,
    };
    return TUTTI_OK;
}

static void check_desc(const struct tt_desc *d)
{
    const uint8_t *from = d->local;

    if (d->kind == TT_DESC_FENCE)
        return;
    tt_assert(d->offset <= d->key->bytes && d->bytes <= d->key->bytes - d->offset);
    tt_assert(!(d->flags & TT_DESC_INLINE) || d->bytes <= TT_INLINE_BYTES);
    if (d->bytes > 0 && d->key->mapped && from != (uint8_t *)d->key->mapped + d->offset)
        memcpy((uint8_t *)d->key->mapped + d->offset, from, d->bytes);
    else if (d->bytes > 0)
        tt_assert(memchr(from, 0, d->bytes) || from[d->bytes - 1]);     /* all of it is readable */
    if (d->signal_op != TT_SIGNAL_NONE)
        tt_assert(d->signal_offset % 8 == 0 && d->signal_offset + 8 <= d->signal_key->bytes);
}

static int fake_post(struct tt_wire *w, const struct tt_desc *d, int n)
{
    if (fake.refuses || fake.ndone + (uint32_t)n > DONES_MAX - NRANKS)
        return 0;
    for (int i = 0; i < n; i++) {
        check_desc(&d[i]);
        if (d[i].kind == TT_DESC_PUT && !(d[i].flags & TT_DESC_INLINE) &&
            !tt_put_is_instant(w, d[i].key))
            fake.done[fake.ndone++] = (struct tt_done){ .kind = TT_DONE_LOCAL,
                                                        .peer = d[i].key->peer,
                                                        .cookie = d[i].cookie };
    }
    return n;
}

static int fake_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    const uint32_t n = fake.ndone < (uint32_t)max ? fake.ndone : (uint32_t)max;

    (void)w;
    memcpy(done, fake.done, n * sizeof *done);
    memmove(fake.done, fake.done + n, (fake.ndone - n) * sizeof *done);
    fake.ndone -= n;
    return (int)n;
}

static int fake_arm(struct tt_wire *w)
{
    (void)w;
    return -1;
}

static const struct tt_wire_ops fake_ops = {
    .name = "fake", .summary = "a peer that writes anything",
    .close = fake_close, .address = fake_address, .connect = fake_connect,
    .reg = fake_reg, .dereg = fake_dereg, .import = fake_import,
    .post = fake_post, .poll = fake_poll, .arm = fake_arm,
};

/* ---- the job ---- */

struct scene {
    struct tt_engine *e;
    struct tt_context *c;
    struct tt_op *op[OPS_MAX];
    void *src[OPS_MAX], *dst[OPS_MAX];
    uint32_t nops;
};

/* All ranks have the card of this one. */
static size_t read_own_card(void *arg, uint32_t rank, uint8_t *card)
{
    size_t bytes;

    (void)rank;
    tt_assert(tt_engine_card(arg, card, TT_ENGINE_CARD_BYTES, &bytes) == TUTTI_OK);
    return bytes;
}

/* A real engine, whose only transport is the fake one. */
static void scene_open(struct scene *s)
{
    static const struct tt_engine_conf conf = { .nranks = NRANKS,
                                                .wires = "tcp",
                                                .interfaces = "=lo" };
    static const uint32_t ranks[] = { 0, 1, 2 };

    *s = (struct scene){ .nops = 0 };
    fake.base =
        (struct tt_wire){ .ops = &fake_ops,
                          .caps = TT_WIRE_CAP_MAPPED | TT_WIRE_CAP_ANYMEM | TT_WIRE_CAP_INSTANT };
    fake.ndone = 0;
    fake.refuses = false;
    fake.mapped = malloc(KEY_BYTES_MAX);
    fake.theirs = aligned_alloc(TT_UNIT, TT_LINK_BYTES);
    tt_assert(fake.mapped && fake.theirs && tt_engine_create(&s->e, &conf) == TUTTI_OK &&
              s->e->nwires == 1);
    tt_bounce_pool_destroy(s->e->pool[0]);
    s->e->wire[0]->ops->close(s->e->wire[0]);
    s->e->wire[0] = &fake.base;
    s->e->pool[0] = tt_bounce_pool_create(&fake.base);
    tt_engine_set_cards(
        s->e, &(struct tt_engine_cards){ .read = read_own_card, .arg = s->e, .nlocal = NRANKS });
    for (uint32_t r = 0; r < NRANKS; r++) {
        fake.link[r] = aligned_alloc(TT_UNIT, TT_LINK_BYTES);
        tt_assert(fake.link[r]);
        memset(fake.link[r], 0, TT_LINK_LONG + 4096);
    }
    tt_assert(tt_context_open(s->e, 1, ranks, NRANKS, 0, &s->c) == TUTTI_OK);
}

static void scene_close(struct scene *s)
{
    tt_context_close(s->c);
    for (uint32_t i = 0; i < s->nops; i++) {
        tt_assert(tt_op_is_over(s->op[i]));
        tt_op_free(s->op[i]);
        free(s->src[i]);
        free(s->dst[i]);
    }
    tt_engine_destroy(s->e);
    for (uint32_t r = 0; r < NRANKS; r++)
        free(fake.link[r]);
    free(fake.mapped);
    free(fake.theirs);
}

static const struct tt_algo *algo_of(const struct tt_coll *coll, uint8_t *id)
{
    for (size_t i = 0; i < tt_nalgos; i++)
        if (tt_algos[i]->kind == coll->kind && tt_algos[i]->fits(coll)) {
            *id = (uint8_t)i;
            return tt_algos[i];
        }
    tt_assert(!"there is none");
    return NULL;
}

/* Kinds whose shape is one number; src and dst have exactly their sizes. */
static void start(struct scene *s, uint8_t which, uint64_t bytes)
{
    static const enum tt_coll_kind kinds[] = {
        TT_ALLREDUCE, TT_SEND,      TT_RECV,   TT_ALLTOALL,
        TT_ALLGATHER, TT_BROADCAST, TT_GATHER, TT_REDUCE_SCATTER,
    };
    struct tt_op_conf conf = {
        .coll = { .kind = kinds[which % 8],
                  .nranks = NRANKS,
                  .root = 1 + which / 128,
                  .elem_bytes = 4,
                  .bytes = bytes },
        .dtype = TUTTI_F32,
        .redop = TUTTI_SUM,
        .count = bytes / 4,
        .tag = which / 8 % 2,
        .segment_bytes = SEGMENT_BYTES,
        .eager_bytes = EAGER_BYTES,
        .streams = 2,
        .depth = 4,
        .timeout_ms = -1,
    };
    const uint64_t src_bytes = tt_coll_src_bytes(&conf.coll),
                   dst_bytes = tt_coll_dst_bytes(&conf.coll);

    conf.algo = algo_of(&conf.coll, &conf.algo_id);
    if (tt_is_p2p((uint8_t)conf.coll.kind))
        conf.count = bytes;
    conf.src = s->src[s->nops] = calloc(1, src_bytes ? src_bytes : 1);
    conf.dst = s->dst[s->nops] = calloc(1, dst_bytes ? dst_bytes : 1);
    tt_assert(conf.src && conf.dst);
    if (tt_op_start(s->c, &conf, &s->op[s->nops]) == TUTTI_OK) {
        s->nops++;
        return;
    }
    free(s->src[s->nops]);
    free(s->dst[s->nops]);
}

/* ---- actions of the peer ---- */

/* Writes the message where the reader looks next; payload[bytes] is truncated at the end of the
 * ring. */
static void write_mail(struct tt_peer *p, const struct tt_cell *cell, uint8_t type, uint8_t credits,
                       const uint8_t *payload, uint32_t bytes)
{
    const uint32_t got = p->mail.got.cells, from = p->mail.got.units[TT_MAIL_LONG] % TT_LONG_UNITS;
    struct tt_cell *at = (void *)(p->mail.mine + tt_mail_place(&p->mail, got));
    const uint32_t units = (bytes + TT_UNIT - 1) / TT_UNIT, left = TT_LONG_UNITS - from;

    *at = *cell;
    if (bytes <= p->mail.inline_bytes)
        memcpy((uint8_t *)at + offsetof(struct tt_cell, data), payload, bytes);
    else if (bytes <= TT_INLINE_BYTES)
        memcpy(p->mail.mine + TT_LINK_LONG + (units > left ? 0 : from) * TT_UNIT, payload, bytes);
    at->state = (uint64_t)(got + 1) << 32 | bytes << 16 | (uint32_t)type << 8 | credits;
}

static struct tt_cell cell_of(const struct scene *s, uint8_t how, struct tt_reader *r)
{
    const struct tt_op *op = s->nops ? s->op[how & OTHER_OP ? s->nops - 1 : 0] : NULL;
    struct tt_cell cell = { .context = how & GREAT ? tt_read_u32(r) : 1, .tag = tt_read_u8(r) };

    cell.opseq = how & SAME_KEY && op ? op->seq : tt_read_u8(r);
    if (how & SAME_DESC && op)
        cell.desc = op->desc;
    else
        tt_read_bytes(r, &cell.desc, sizeof cell.desc);
    if (how & SAME_DESC && tt_is_p2p(cell.desc.kind))
        cell.desc.kind = cell.desc.kind == TT_SEND ? TT_RECV : TT_SEND;
    return cell;
}

static void mail(struct scene *s, struct tt_peer *p, uint8_t how, struct tt_reader *r)
{
    static uint8_t payload[65536];
    const struct tt_cell cell = cell_of(s, how, r);
    const uint8_t type = tt_read_u8(r), credits = tt_read_u8(r);

    write_mail(p, &cell, how & GREAT ? type : 1 + type % 5, credits, payload, tt_read_u16(r));
}

/* Opens a flow to this rank, with memory that is too small, at another address, or correct. */
static void ready(struct scene *s, struct tt_peer *p, uint8_t how, struct tt_reader *r)
{
    const struct tt_cell cell = cell_of(s, how | SAME_DESC | SAME_KEY, r);
    struct tt_cts_msg msg = {
        .handle = tt_read_u8(r), .gen = tt_read_u8(r), .direct = tt_read_u8(r) % 2, .landing = 1
    };
    struct tt_writer w;

    if (how & GREAT) {
        tt_read_bytes(r, &msg, sizeof msg);
    } else {
        msg.landing_offset = tt_read_u16(r);
        msg.direct_offset = tt_read_u16(r);
        msg.bytes = tt_read_u32(r);
        msg.depth = (uint8_t)(1u << msg.handle % 9);    /* 1 << 8 is invalid */
    }
    if (how & SAME_KEY) {
        msg.landing_bytes = msg.direct_bytes = 9;
        tt_writer_init(&w, msg.landing_key, sizeof msg.landing_key);
        tt_write_u8(&w, tt_read_u8(r));
        tt_write_u64(&w, how & SAME_DESC ? KEY_BYTES_MAX : tt_read_u32(r));
        tt_writer_init(&w, msg.direct_key, sizeof msg.direct_key);
        tt_write_u8(&w, tt_read_u8(r));
        tt_write_u64(&w, tt_read_u16(r));
    }
    write_mail(p, &cell, TT_CELL_CTS, 0, (const uint8_t *)&msg,
               sizeof msg - (how & REFUSE ? 1 : 0));
}

/* Writes a flow word: any number with the generation of an open flow, or an arbitrary value in an
 * arbitrary word. */
static void word(struct scene *s, struct tt_peer *p, uint8_t how, struct tt_reader *r)
{
    const struct tt_op *op = s->nops ? s->op[how & OTHER_OP ? s->nops - 1 : 0] : NULL;
    const uint32_t stream = tt_read_u8(r) % 8, count = how & GREAT ? tt_read_u32(r) : tt_read_u8(r);
    uint32_t area = how & SAME_KEY ? TT_LINK_ARRIVED : TT_LINK_CREDIT, handle = tt_read_u8(r),
             gen = tt_read_u8(r);

    for (uint32_t i = 0; how & SAME_DESC && op && !tt_op_is_over(op) && i < op->exec.npeers; i++)
        if (op->flow[i].cp && op->flow[i].cp->peer == p) {
            handle = area == TT_LINK_ARRIVED ? (uint32_t)op->flow[i].in_handle % TT_HANDLES
                                             : op->flow[i].out_handle;
            gen = area == TT_LINK_ARRIVED ? op->flow[i].in_gen : op->flow[i].out_gen;
        }
    atomic_store(tt_link_word(&p->mail, area, handle, stream), (uint64_t)gen << 32 | count);
}

static void step(struct scene *s, uint8_t how, struct tt_reader *r)
{
    struct tt_peer *p = tt_peer_get(s->e, how & OTHER_PEER ? 2 : 1);
    const bool up = p && p->state == TT_PEER_UP;

    if (up && how % 4 == MAIL)
        mail(s, p, how, r);
    else if (up && how % 4 == READY)
        ready(s, p, how, r);
    else if (up && how % 4 == WORD)
        word(s, p, how, r);
    else if (how % 4 == TIME && how & GREAT && s->nops < OPS_MAX)
        start(s, how, sizes[how / 16 % NSIZES]);
    else if (how % 4 == TIME)
        fake.refuses = how & REFUSE;
    tt_progress_lock(s->e);
    tt_engine_progress(s->e);
    tt_progress_unlock(s->e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_reader r;
    struct scene s;

    if (bytes < 4)
        return 0;
    tt_log_set(TT_LOG_NONE);
    scene_open(&s);
    tt_reader_init(&r, data, bytes);
    for (uint32_t i = 0; i < OPS_MAX / 2; i++) {
        const uint8_t which = tt_read_u8(&r);

        start(&s, which, sizes[tt_read_u8(&r) % NSIZES]);
    }
    for (int i = 0; i < STEPS_MAX && r.at < r.end; i++)
        step(&s, tt_read_u8(&r), &r);
    scene_close(&s);
    return 0;
}
