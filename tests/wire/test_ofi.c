/* The ofi wire with several endpoints for bulk data to a peer: which of them carries what, and that no order depends on it; and what the trial of a
 * provider finds. Where libfabric has nothing that could serve, the test is skipped, with the reason; a provider that is there and fails its trial is a failure. */
#include "support/unit.h"

#ifdef TUTTI_HAVE_OFI

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "nodes.h"
#include "wire/ofi.h"

#define KIB 1024ull
#define LANES 4
#define SLOTS 8u
#define SLOT_BYTES (1200 * KIB)     /* several writes, and a rest */
#define ROUNDS (UNIT_SHARE > 1 ? 2u : 10u)
#define SKIPPED 77

enum { ARRIVED, CHECKED };          /* words of the links */

#define PROVIDER "tcp;ofi_rxm"      /* at whose targets nothing lands by itself */

static struct setting setting = { .ops = &tt_wire_ofi, .lanes = LANES };
static bool has_provider;

/* What rank 0 puts to rank 1: each message says its number when it has come. */
struct flow {
    struct tt_rkey there;
    struct tt_region *mine, *source;
    struct tt_ofi_lane *data;
};

/* Links are up, and all endpoints have met. */
static void begin(struct node *n, struct flow *f)
{
    node_open(n);
    node_connect_all(n);
    f->data = &((struct tt_ofi_link *)tt_sparse_get(&tt_ofi_of(n->w)->links, !n->rank))->lanes[TT_OFI_DATA];
    CHECK(n, f->data->nboth == LANES);
    UNTIL(n, !tt_ofi_ends_wait(f->data));
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &f->mine) == TUTTI_OK);
    CHECK(n, n->ops->reg(n->w, NULL, SLOTS * SLOT_BYTES, &f->source) == TUTTI_OK);
    node_share(n, 0, f->mine);
    node_barrier(n);
    f->there = node_import(n, !n->rank, 0);
}

static uint64_t salt(uint32_t round, uint32_t slot)
{
    return 100ull * round + slot;
}

/* lane: as tt_desc has it, with its flags. Short ones are among them. */
static void send_round(struct node *n, struct flow *f, uint32_t round, uint8_t lane, uint32_t flags)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct tt_desc d = node_signal(n, 1, ARRIVED, TT_SIGNAL_SET, round * SLOTS + i + 1);

        d.local = (uint8_t *)f->source->mem + i * SLOT_BYTES;
        d.bytes = i % 4 == 3 ? 100 * i : SLOT_BYTES - 1000 * i;
        d.key = &f->there;
        d.offset = i * SLOT_BYTES;
        d.flags = flags;
        d.lane = lane;
        pattern_fill(d.local, d.bytes, salt(round, i));
        node_post(n, &d);
    }
}

/* Numbers come in order, each with its bytes. */
static void check_round(struct node *n, struct flow *f, uint32_t round)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint64_t bytes = i % 4 == 3 ? 100 * i : SLOT_BYTES - 1000 * i, number = round * SLOTS + i + 1;

        UNTIL(n, node_word(n, 0, ARRIVED) >= number);
        CHECK(n, pattern_differs((uint8_t *)f->mine->mem + i * SLOT_BYTES, bytes, salt(round, i)) == bytes);
    }
    CHECK(n, node_word(n, 0, ARRIVED) == (round + 1) * SLOTS);
    node_tell(n, 0, CHECKED, TT_SIGNAL_SET, round + 1);
}

static void one_round(struct node *n, struct flow *f, uint32_t round, uint8_t lane, uint32_t flags)
{
    if (n->rank == 1) {
        check_round(n, f, round);
        return;
    }
    send_round(n, f, round, lane, flags);
    UNTIL(n, node_word(n, 1, CHECKED) == round + 1);
}

static void spread_role(struct node *n)
{
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < ROUNDS; round++)
        one_round(n, &f, round, 0, 0);
    for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
        CHECK(n, f.data->end[i].writes > 0 && f.data->end[i].bytes > 0);
    node_barrier(n);
}

static void writes_are_dealt_out_over_all_lanes_and_messages_keep_their_order(void **state)
{
    (void)state;
    nodes_run(&setting, 2, spread_role);
}

static void named_role(struct node *n)
{
    uint64_t before[LANES];
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < LANES; round++) {
        for (uint32_t i = 0; i < LANES; i++)
            before[i] = f.data->end[i].writes;
        one_round(n, &f, round, (uint8_t)(1 + round), 0);
        for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
            CHECK(n, (f.data->end[i].writes > before[i]) == (i == round));
    }
    for (uint32_t i = 0; i < LANES; i++)
        before[i] = f.data->end[i].writes;
    one_round(n, &f, LANES, 2, TT_DESC_FEW_LANES);
    for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
        CHECK(n, (f.data->end[i].writes > before[i]) == (i < 2));
    node_barrier(n);
}

static void a_put_keeps_to_the_lane_or_the_first_few_that_it_names(void **state)
{
    (void)state;
    nodes_run(&setting, 2, named_role);
}

/* Rank 0's endpoints end in the middle of a round, as if one had failed. */
static void mend_role(struct node *n)
{
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (n->rank == 1) {
            check_round(n, &f, round);
            continue;
        }
        send_round(n, &f, round, 0, 0);
        f.data->link->broken = true;
        UNTIL(n, node_word(n, 1, CHECKED) == round + 1);
    }
    CHECK(n, f.data->link->incarnation > 1);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void endpoints_that_fail_lose_and_double_nothing(void **state)
{
    (void)state;
    nodes_run(&setting, 2, mend_role);
}

/* ---- strangers ---- */

static int refusals;                        /* of receives, that are still to be */
static const struct fi_ops_msg *real_msg;

static ssize_t refuse(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t from, void *context)
{
    if (refusals > 0) {
        refusals--;
        return -FI_EAGAIN;
    }
    return real_msg->recv(ep, buf, bytes, desc, from, context);
}

/* Rank 1's second endpoint waits for its peer once more. A stranger's message comes, and then it takes no receive for a while: the peer's is heard
 * all the same. */
static void hear_again(struct node *n, struct tt_ofi_lane *lane)
{
    struct tt_ofi_end *end = &lane->end[1];
    struct fi_ops_msg refusing = *end->ep->msg, *const real = end->ep->msg;

    real_msg = real;
    refusing.recv = refuse;
    end->ep->msg = &refusing;
    tt_dqplb_lanes_down(&lane->load, 1);
    end->unposted = true;
    UNTIL(n, !end->unposted);
    refusals = 3;
    node_barrier(n);
    UNTIL(n, refusals == 0 && !end->unposted);
    CHECK(n, lane->load.lane[1].down);
    node_barrier(n);
    UNTIL(n, !lane->load.lane[1].down);
    end->ep->msg = real;
}

/* Rank 0 is the stranger first, as it does not know the token, and then the peer. */
static void speak_again(struct node *n, struct tt_ofi_lane *lane)
{
    const uint64_t deadline_ns = node_deadline();

    node_barrier(n);
    tt_dqplb_lanes_down(&lane->load, 1);
    while (lane->load.lane[1].down) {       /* until it is taken */
        lane->link->theirs_token ^= 1;
        tt_ofi_ends_meet(lane);
        lane->link->theirs_token ^= 1;
        tt_ofi_collect(lane->link);
        CHECK(n, tt_now_ns() < deadline_ns);
    }
    node_barrier(n);
    tt_dqplb_lanes_down(&lane->load, 1);
    UNTIL(n, !lane->load.lane[1].down);
}

static void stranger_role(struct node *n)
{
    uint32_t incarnation;
    struct flow f;

    begin(n, &f);
    incarnation = f.data->link->incarnation;
    if (n->rank == 1)
        hear_again(n, f.data);
    else
        speak_again(n, f.data);
    node_barrier(n);
    CHECK(n, f.data->link->incarnation == incarnation && !f.data->link->broken);
    one_round(n, &f, 0, 2, 0);
    node_barrier(n);
}

static void a_stranger_breaks_no_link_where_the_next_receive_must_wait(void **state)
{
    (void)state;
    nodes_run(&setting, 2, stranger_role);
}

/* ---- providers that do not do what they say ---- */

enum { MESSAGES = 1, WRITES = 2 };

/* What is planted. */
enum lie {
    HONEST,
    LATE_WRITES,                /* a message comes before the writes that were posted before it */
    EARLY_WRITES,               /* writes are told to be over that have not landed */
    EARLY_DELIVERY,             /* only those that are to be told when they have landed */
    LATE_READS                  /* sources are read when the endpoint is closed, too */
};

#define HELD 8u

/* A write that the provider was given. */
static struct held {
    struct fid_ep *ep;
    struct iovec source;
    struct fi_rma_iov target;
    void *desc, *context;
    fi_addr_t to;
    uint64_t flags;
    bool told;
} held[HELD];
static uint32_t nheld;
static struct fi_context2 own[64];          /* of writes that are made when they were told to be over long ago */
static uint32_t nown;
static bool note_came, is_closed;
static enum lie lie;
static const struct tt_ofi_provider *liar;
static uint8_t *target;                     /* memory that may be written */

static int wakes_by;                        /* of these; 0: the trial is not on */
static atomic_bool is_deaf;
static const struct fi_ops_rma *real_rma;
static struct fi_ops_domain *real_domain;
static struct fi_ops_fabric *real_fabric;
static struct fi_ops_mr *real_mr;
static struct fi_ops_cq *real_cq;
static struct fi_ops *real_fid;
static struct fi_ops_msg planted_msg;
static struct fi_ops_rma planted_rma;
static struct fi_ops_cq planted_cq;
static struct fi_ops planted_fid;

/* In the place of the system's: nothing wakes who is deaf. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct timespec t = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
    const long got = syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &t, NULL, 0);

    return is_deaf ? 0 : (int)got;
}

static ssize_t send_note(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    is_deaf = wakes_by && !(wakes_by & MESSAGES);
    return real_msg->sendmsg(ep, msg, flags);
}

/* Whether it is kept back. */
static bool is_held(uint64_t flags)
{
    return lie == LATE_WRITES || lie == EARLY_WRITES || (lie == EARLY_DELIVERY && flags & FI_DELIVERY_COMPLETE);
}

static ssize_t write_bytes(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    is_deaf = wakes_by && !(wakes_by & WRITES);
    if (lie != HONEST && nheld == HELD) {
        if (is_held(flags))
            return -FI_EAGAIN;
        nheld = 0;      /* long over */
    }
    if (lie != HONEST)
        held[nheld++] = (struct held){ .ep = ep,
                                       .source = *msg->msg_iov,
                                       .target = *msg->rma_iov,
                                       .desc = *msg->desc,
                                       .context = msg->context,
                                       .to = msg->addr,
                                       .flags = flags & ~FI_MORE };
    return is_held(flags) ? 0 : real_rma->writemsg(ep, msg, flags);
}

/* What was kept back goes out, as far as it was told to be over, if it is. */
static void let_go(void)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nheld; i++) {
        struct held *h = &held[i];
        const bool early = lie != LATE_WRITES;
        const struct fi_msg_rma msg = {
            .msg_iov = &h->source, .desc = &h->desc, .iov_count = 1, .addr = h->to, .rma_iov = &h->target,
            .rma_iov_count = 1, .context = early ? &own[nown++ % 64] : h->context,
        };

        if (early && !h->told)
            held[kept++] = *h;
        else if (real_rma->writemsg(h->ep, &msg, h->flags) != 0)
            abort();
    }
    nheld = kept;
}

/* As long as anybody looks. */
static void read_again(void)
{
    for (uint32_t i = 0; i < nheld; i++)
        if (!held[i].told)
            memcpy(target + (held[i].target.addr - tt_ofi_mr_address(liar, target, 0)), held[i].source.iov_base,
                   held[i].source.iov_len);
}

static bool is_own(const void *context)
{
    return (const struct fi_context2 *)context >= own && (const struct fi_context2 *)context < own + 64;
}

/* Completions, of which some are too early, and some, which nobody waits for, are left out. */
static ssize_t read_queue(struct fid_cq *cq, void *buf, size_t count)
{
    struct fi_cq_msg_entry *e = buf;
    ssize_t n, kept = 0;

    if (note_came && (lie == LATE_WRITES || lie == EARLY_WRITES))
        let_go();
    if (is_closed)
        read_again();
    note_came = false;
    for (uint32_t i = 0; i < nheld && (lie == EARLY_WRITES || lie == EARLY_DELIVERY); i++) {
        const bool early = !held[i].told && is_held(held[i].flags);

        held[i].told = true;
        if (!early)
            continue;
        *e = (struct fi_cq_msg_entry){ .op_context = held[i].context, .flags = FI_RMA | FI_WRITE };
        return 1;
    }
    n = real_cq->read(cq, buf, count);
    for (ssize_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < nheld; k++)
            held[k].told |= held[k].context == e[i].op_context;
        note_came |= e[i].flags & FI_RECV;
        if (!is_own(e[i].op_context))
            e[kept++] = e[i];
    }
    return n > 0 ? (kept ? kept : -FI_EAGAIN) : n;
}

static int close_end(struct fid *fid)
{
    is_closed = lie == LATE_READS;
    return real_fid->close(fid);
}

/* The provider's parts, planted. */
static int open_end(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    const int err = real_domain->endpoint(domain, info, ep, context);

    if (err)
        return err;
    real_msg = (*ep)->msg;
    real_rma = (*ep)->rma;
    real_fid = (*ep)->fid.ops;
    planted_msg = *real_msg;
    planted_rma = *real_rma;
    planted_fid = *real_fid;
    planted_msg.sendmsg = send_note;
    planted_rma.writemsg = write_bytes;
    planted_fid.close = close_end;
    (*ep)->msg = &planted_msg;
    (*ep)->rma = &planted_rma;
    (*ep)->fid.ops = &planted_fid;
    return 0;
}

static int open_queue(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    const int err = real_domain->cq_open(domain, attr, cq, context);

    if (err)
        return err;
    real_cq = (*cq)->ops;
    planted_cq = *real_cq;
    planted_cq.read = read_queue;
    (*cq)->ops = &planted_cq;
    return 0;
}

static int register_memory(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
    if (attr->access & FI_REMOTE_WRITE)
        target = attr->mr_iov[0].iov_base;
    return real_mr->regattr(fid, attr, flags, mr);
}

static int may_sleep(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return is_deaf ? 0 : real_fabric->trywait(fabric, fids, count);
}

/* Why a provider with that lie, by whose messages and writes a sleeper is woken or not, fails its trial; NULL: it does not. */
static const char *tried(struct tt_ofi_provider *p, enum lie planted, int what)
{
    struct fi_ops_domain domain = *p->domain->ops;
    struct fi_ops_fabric fabric = *p->fabric->ops;
    struct fi_ops_mr mr = *p->domain->mr;
    static uint32_t times;
    const char *why;
    bool good;

    real_domain = p->domain->ops;
    real_fabric = p->fabric->ops;
    real_mr = p->domain->mr;
    domain.endpoint = open_end;
    domain.cq_open = open_queue;
    fabric.trywait = may_sleep;
    mr.regattr = register_memory;
    p->domain->ops = &domain;
    p->fabric->ops = &fabric;
    p->domain->mr = &mr;
    wakes_by = what;
    lie = planted;
    liar = p;
    nheld = 0;
    note_came = is_closed = false;
    snprintf(p->name, sizeof p->name, "the %uth", ++times);     /* each name is tried once */
    good = tt_ofi_trial(p, &why);
    wakes_by = 0;
    lie = HONEST;
    is_deaf = false;
    p->domain->ops = real_domain;
    p->fabric->ops = real_fabric;
    p->domain->mr = real_mr;
    return good ? NULL : why;
}

static void deaf_role(struct node *n)
{
    const struct tt_wire_conf conf = { .nranks = 1, .ofi_provider = PROVIDER };
    struct tt_ofi_provider p;

    CHECK(n, tt_ofi_provider_open(&p, &conf) == TUTTI_OK);
    CHECK(n, !tried(&p, HONEST, MESSAGES | WRITES) && !p.unwoken);
    CHECK(n, !tried(&p, HONEST, WRITES) && strcmp(p.unwoken, "messages do not wake a waiting thread") == 0);
    CHECK(n, !tried(&p, HONEST, MESSAGES) && strcmp(p.unwoken, "writes do not wake a waiting thread") == 0);
    tt_ofi_provider_close(&p);
}

static void a_provider_that_does_not_wake_for_messages_or_for_writes_is_found(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, deaf_role);
}

/* Whether a provider that lies so, and says of itself what p does, fails its trial, with this in the reason; an honest one that says the same does not. */
static bool is_found(struct tt_ofi_provider *p, enum lie planted, const char *reason)
{
    const char *honest = tried(p, HONEST, MESSAGES | WRITES), *why = tried(p, planted, MESSAGES | WRITES);

    fprintf(stderr, "honest: %s, planted: %s\n", honest ? honest : "passes its trial", why ? why : "passes its trial");
    if (honest)
        return false;
    return why && strncmp(why, "failed its trial: ", 18) == 0 && strstr(why, reason);
}

static void lying_role(struct node *n)
{
    const struct tt_wire_conf conf = { .nranks = 1, .ofi_provider = PROVIDER };
    struct tt_ofi_provider p;

    CHECK(n, tt_ofi_provider_open(&p, &conf) == TUTTI_OK);
    CHECK(n, p.ordered && !p.delivers);
    CHECK(n, is_found(&p, LATE_WRITES, "it claims to order messages after writes, but does not"));
    p.delivers = true;
    CHECK(n, is_found(&p, EARLY_DELIVERY, "it claims to report remote completions"));
    p.ordered = p.delivers = false;
    p.info->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    CHECK(n, is_found(&p, EARLY_WRITES,
                      "it reports remote completion of writes that have "
                      "not arrived"));
    tt_ofi_provider_close(&p);
}

static void a_provider_that_breaks_order_or_tells_of_delivery_early_fails_its_trial(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, lying_role);
}

static void late_role(struct node *n)
{
    const struct tt_wire_conf conf = { .nranks = 1, .ofi_provider = PROVIDER };
    struct tt_ofi_provider p;

    CHECK(n, tt_ofi_provider_open(&p, &conf) == TUTTI_OK);
    CHECK(n, !tried(&p, HONEST, MESSAGES | WRITES) && !p.copies);
    CHECK(n, !tried(&p, LATE_READS, MESSAGES | WRITES) && p.copies);
    tt_ofi_provider_close(&p);
}

static void a_provider_that_reads_sources_of_closed_endpoints_is_given_copies(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, late_role);
}

/* ---- what is posted as one ---- */

#define ROWS 24u

static uint32_t nposted, nmore;             /* operations on an endpoint; those with more behind them */
static bool last_has_more;

static void note_post(uint64_t flags)
{
    nposted++;
    last_has_more = flags & FI_MORE;
    nmore += last_has_more;
}

static ssize_t count_send(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    note_post(flags);
    return real_msg->sendmsg(ep, msg, flags);
}

static ssize_t count_write(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    note_post(flags);
    return real_rma->writemsg(ep, msg, flags);
}

/* Rows of so many bytes to the link region, which takes no asking, and a signal behind the last; all of them in one post. */
static void post_rows(struct node *n, struct flow *f, uint64_t bytes, uint32_t operations)
{
    struct fid_ep *ep = f->data->end[0].ep;
    struct fi_ops_msg msg = *ep->msg, *const msg_before = ep->msg;
    struct fi_ops_rma rma = *ep->rma, *const rma_before = ep->rma;
    struct tt_desc rows[ROWS + 1];

    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (struct tt_desc){ .kind = TT_DESC_PUT,
                                    .local = (uint8_t *)f->source->mem + i * bytes,
                                    .bytes = bytes,
                                    .key = &n->link[1].theirs,
                                    .offset = 8192 + i * bytes };
    rows[ROWS] = node_signal(n, 1, ARRIVED, TT_SIGNAL_ADD, 1);
    real_msg = msg_before;
    real_rma = rma_before;
    msg.sendmsg = count_send;
    rma.writemsg = count_write;
    ep->msg = &msg;
    ep->rma = &rma;
    nposted = nmore = 0;
    CHECK(n, n->ops->post(n->w, rows, ROWS + 1) == ROWS + 1);
    ep->msg = msg_before;
    ep->rma = rma_before;
    CHECK(n, nposted == operations && nmore == operations - 1 && !last_has_more);
}

static void rows_role(struct node *n)
{
    struct flow f;

    node_open(n);
    node_connect_all(n);
    f.data = &((struct tt_ofi_link *)tt_sparse_get(&tt_ofi_of(n->w)->links, !n->rank))->lanes[TT_OFI_DATA];
    CHECK(n, n->ops->reg(n->w, NULL, ROWS * 2048, &f.source) == TUTTI_OK);
    node_tell(n, !n->rank, CHECKED, TT_SIGNAL_SET, 1);      /* the endpoints have met */
    UNTIL(n, node_word(n, !n->rank, CHECKED) == 1);
    node_barrier(n);
    if (n->rank == 0) {
        post_rows(n, &f, 192, ROWS + 1);
        UNTIL(n, node_word(n, 1, CHECKED) == 2);
        post_rows(n, &f, 2048, 2 * ROWS + 1);       /* a write each, and a record */
        UNTIL(n, node_word(n, 1, CHECKED) == 3);
    } else {
        for (uint32_t round = 1; round < 3; round++) {
            UNTIL(n, node_word(n, 0, ARRIVED) == round);
            node_tell(n, 0, CHECKED, TT_SIGNAL_SET, round + 1);
        }
    }
    node_barrier(n);
}

static void rows_that_are_posted_as_one_tell_the_provider_that_more_follows(void **state)
{
    static const struct setting one_lane = { .ops = &tt_wire_ofi, .seed = 1 };

    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&one_lane, 2, rows_role);
}

/* ---- what there is ---- */

/* What a provider is said to be that is there and does not do what it says. */
static bool is_broken(const char *told) { return strstr(told, "failed its trial"); }

/* 0: there is a provider with so many lanes. SKIPPED: there is none. 1: one says that it is, and is not. What it found it prints. */
static int look(const char *provider, uint32_t lanes)
{
    const struct tt_wire_conf conf = {
        .nranks = 1, .secret = node_secret, .link_bytes = 4096, .lanes = lanes, .ofi_provider = provider,
    };
    struct tt_wire *w;
    bool broken, has;

    if (tt_wire_ofi.open(&w, &conf) != TUTTI_OK) {
        puts(tutti_last_error());
        return is_broken(tutti_last_error()) ? 1 : SKIPPED;
    }
    puts(w->about);
    broken = is_broken(w->about);
    has = tt_ofi_of(w)->nends == lanes;
    tt_wire_ofi.close(w);
    return broken ? 1 : has ? 0 : SKIPPED;
}

/* That in a process of its own: what a provider leaves running stays there. One that it crashes is broken, too. */
static int look_apart(const char *provider, uint32_t lanes)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        status = look(provider, lanes);
        fflush(stdout);
        _exit(status);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_dealt_out_over_all_lanes_and_messages_keep_their_order),
        cmocka_unit_test(a_put_keeps_to_the_lane_or_the_first_few_that_it_names),
        cmocka_unit_test(endpoints_that_fail_lose_and_double_nothing),
        cmocka_unit_test(a_stranger_breaks_no_link_where_the_next_receive_must_wait),
        cmocka_unit_test(a_provider_that_does_not_wake_for_messages_or_for_writes_is_found),
        cmocka_unit_test(a_provider_that_breaks_order_or_tells_of_delivery_early_fails_its_trial),
        cmocka_unit_test(a_provider_that_reads_sources_of_closed_endpoints_is_given_copies),
        cmocka_unit_test(rows_that_are_posted_as_one_tell_the_provider_that_more_follows),
    };
    const int found = look_apart(NULL, LANES);

    if (found) {
        puts(found == SKIPPED ? "no provider of libfabric here has several lanes" : "a provider does not do what it says");
        return found;
    }
    has_provider = look_apart(PROVIDER, 1) == 0;
    setting.seed = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* no libfabric here, and no ofi wire in the library */
}

#endif
