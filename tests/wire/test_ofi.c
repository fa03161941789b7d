/* The ofi transport with several endpoints for bulk data to a peer: the order of messages does not
 * depend on the distribution over endpoints; and the trial of a provider. Without a usable provider
 * the test is skipped, and prints the reason; if an available provider fails its trial, the test
 * fails. */
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
#include "wire/ofi/ofi.h"

#define KIB 1024ull
#define LANES 4
#define SLOTS 8u
#define SLOT_BYTES (1200 * KIB)     /* several writes, and a remainder */
#define ROUNDS (UNIT_SHARE > 1 ? 2u : 10u)
#define SKIPPED 77

enum { ARRIVED, CHECKED };          /* words of the links */

#define PROVIDER "tcp;ofi_rxm"      /* the targets of this provider need active progress */

static struct setting setting = { .ops = &tt_wire_ofi, .lanes = LANES };
static bool has_provider;

/* Puts from rank 0 to rank 1: each message carries its number. */
struct flow {
    struct tt_rkey there;
    struct tt_region *mine, *source;
    struct tt_ofi_lane *data;
};

/* Establishes links with all endpoints. */
static void begin(struct node *n, struct flow *f)
{
    node_open(n);
    node_connect_all(n);
    f->data = &((struct tt_ofi_link *)tt_sparse_get(&tt_ofi_of(n->w)->base.links, !n->rank))
                   ->lanes[TT_RPUT_DATA];
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

/* lane, flags: as in tt_desc. Some messages are short. */
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

/* Numbers arrive in order, each with its bytes. */
static void check_round(struct node *n, struct flow *f, uint32_t round)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const uint64_t bytes = i % 4 == 3 ? 100 * i : SLOT_BYTES - 1000 * i,
                       number = round * SLOTS + i + 1;

        UNTIL(n, node_word(n, 0, ARRIVED) >= number);
        CHECK(n, pattern_differs((uint8_t *)f->mine->mem + i * SLOT_BYTES, bytes, salt(round, i)) ==
                     bytes);
    }
    CHECK(n, node_word(n, 0, ARRIVED) == (round + 1) * SLOTS);
    node_post_signal(n, 0, CHECKED, TT_SIGNAL_SET, round + 1);
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
        CHECK(n, f.data->end[i].posts.n > 0 && f.data->end[i].posts.bytes > 0);
    node_barrier(n);
}

static void lanes_share_writes_in_message_order(void **state)
{
    (void)state;
    nodes_run(&setting, 2, spread_role);
}

/* The first lane also counts records. */
static uint64_t writes_of(const struct flow *f, uint32_t lane)
{
    return f->data->end[lane].posts.n - (lane == 0 ? f->data->sent : 0);
}

static void named_role(struct node *n)
{
    uint64_t before[LANES];
    struct flow f;

    begin(n, &f);
    for (uint32_t round = 0; round < LANES; round++) {
        for (uint32_t i = 0; i < LANES; i++)
            before[i] = writes_of(&f, i);
        one_round(n, &f, round, (uint8_t)(1 + round), 0);
        for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
            CHECK(n, (writes_of(&f, i) > before[i]) == (i == round));
    }
    for (uint32_t i = 0; i < LANES; i++)
        before[i] = writes_of(&f, i);
    one_round(n, &f, LANES, 2, TT_DESC_FEW_LANES);
    for (uint32_t i = 0; i < LANES && n->rank == 0; i++)
        CHECK(n, (writes_of(&f, i) > before[i]) == (i < 2));
    node_barrier(n);
}

static void put_respects_its_selected_lanes(void **state)
{
    (void)state;
    nodes_run(&setting, 2, named_role);
}

/* Rank 0's endpoints fail in the middle of a round. */
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
    CHECK(n, f.data->link->session.incarnation > 1);
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void failed_endpoints_lose_nothing(void **state)
{
    (void)state;
    nodes_run(&setting, 2, mend_role);
}

/* ---- unauthenticated peers ---- */

static int refusals;                        /* number of further receives to refuse */
static const struct fi_ops_msg *real_msg;

static ssize_t refuse(struct fid_ep *ep, void *buf, size_t bytes, void *desc, fi_addr_t from,
                      void *context)
{
    if (refusals > 0) {
        refusals--;
        return -FI_EAGAIN;
    }
    return real_msg->recv(ep, buf, bytes, desc, from, context);
}

/* Rank 1's second endpoint waits for its peer again. Another peer's message arrives, and then the
 * provider refuses receives for a while: the peer's message still arrives. */
static void receive_again(struct node *n, struct tt_ofi_lane *lane)
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

/* Rank 0 acts first as another peer, without the token, and then as itself. */
static void send_again(struct node *n, struct tt_ofi_lane *lane)
{
    const uint64_t deadline_ns = node_deadline();

    node_barrier(n);
    tt_dqplb_lanes_down(&lane->load, 1);
    while (lane->load.lane[1].down) {       /* until it is accepted */
        lane->link->theirs_token ^= 1;
        tt_ofi_connect_endpoints(lane);
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
    incarnation = f.data->link->session.incarnation;
    if (n->rank == 1)
        receive_again(n, f.data);
    else
        send_again(n, f.data);
    node_barrier(n);
    CHECK(n, f.data->link->session.incarnation == incarnation && !f.data->link->broken);
    one_round(n, &f, 0, 2, 0);
    node_barrier(n);
}

static void stranger_does_not_break_the_link(void **state)
{
    (void)state;
    nodes_run(&setting, 2, stranger_role);
}

/* ---- providers with defects ---- */

enum { MESSAGES = 1, WRITES = 2 };

/* The planted defect. */
enum lie {
    HONEST,
    LATE_WRITES,                /* a message arrives before earlier writes */
    EARLY_WRITES,               /* writes complete before they have landed */
    EARLY_DELIVERY,             /* only writes with delivery completion complete early */
    LATE_READS                  /* sources are read even when the endpoint is closed */
};

#define HELD 8u

/* A write posted to the provider. */
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
static struct fi_context2 own[64];          /* contexts of writes whose completion was reported
                                               before */
static uint32_t nown;
static bool note_came, is_closed;
static enum lie lie;
static const struct tt_ofi_provider *liar;
static uint8_t *target;                     /* memory that may be written */

static int wakes_by;                        /* which of MESSAGES and WRITES wake a sleeper; 0: no
                                               trial is active */
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

/* Replaces the libc function: a deaf provider is never woken. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct timespec t = { .tv_sec = timeout_ms / 1000,
                                .tv_nsec = timeout_ms % 1000 * 1000000L };
    const long got = syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &t, NULL, 0);

    return is_deaf ? 0 : (int)got;
}

static ssize_t send_note(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    is_deaf = wakes_by && !(wakes_by & MESSAGES);
    return real_msg->sendmsg(ep, msg, flags);
}

/* Returns whether an operation with these flags is held back. */
static bool is_held(uint64_t flags)
{
    return lie == LATE_WRITES || lie == EARLY_WRITES ||
           (lie == EARLY_DELIVERY && flags & FI_DELIVERY_COMPLETE);
}

static ssize_t write_bytes(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    is_deaf = wakes_by && !(wakes_by & WRITES);
    if (lie != HONEST && nheld == HELD) {
        if (is_held(flags))
            return -FI_EAGAIN;
        nheld = 0;      /* completed before */
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

/* Posts the writes that were held back; early completed ones only after the report of their
 * completion. */
static void let_go(void)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nheld; i++) {
        struct held *h = &held[i];
        const bool early = lie != LATE_WRITES;
        const struct fi_msg_rma msg = {
            .msg_iov = &h->source,
            .desc = &h->desc,
            .iov_count = 1,
            .addr = h->to,
            .rma_iov = &h->target,
            .rma_iov_count = 1,
            .context = early ? &own[nown++ % 64] : h->context,
        };

        if (early && !h->told)
            held[kept++] = *h;
        else if (real_rma->writemsg(h->ep, &msg, h->flags) != 0)
            abort();
    }
    nheld = kept;
}

/* Reads the sources of held writes again, as long as any process polls. */
static void read_again(void)
{
    for (uint32_t i = 0; i < nheld; i++)
        if (!held[i].told)
            memcpy(target + (held[i].target.addr - tt_ofi_mr_address(liar, target, 0)),
                   held[i].source.iov_base, held[i].source.iov_len);
}

static bool is_own(const void *context)
{
    return (const struct fi_context2 *)context >= own &&
           (const struct fi_context2 *)context < own + 64;
}

/* Reads completions. Adds early ones, and omits those of writes that were reported before. */
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

/* Functions of the provider, with the defect. */
static int open_end(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    void *context)
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

static int open_queue(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                      void *context)
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

static int register_memory(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                           struct fid_mr **mr)
{
    if (attr->access & FI_REMOTE_WRITE)
        target = attr->mr_iov[0].iov_base;
    return real_mr->regattr(fid, attr, flags, mr);
}

static int may_sleep(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return is_deaf ? 0 : real_fabric->trywait(fabric, fids, count);
}

/* Returns why a provider with that defect, whose messages and writes wake a sleeper or not, fails
 * its trial; NULL: it passes. */
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
    snprintf(p->name, sizeof p->name, "the %uth", ++times);     /* a provider's trial runs once per
                                                                   name */
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
    CHECK(n, !tried(&p, HONEST, WRITES) &&
                 strcmp(p.unwoken, "messages do not wake a waiting thread") == 0);
    CHECK(n, !tried(&p, HONEST, MESSAGES) &&
                 strcmp(p.unwoken, "writes do not wake a waiting thread") == 0);
    tt_ofi_provider_close(&p);
}

static void provider_without_wake_ups_is_detected(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, deaf_role);
}

/* Returns whether a provider with this defect and the attributes of p fails its trial with this
 * reason, while a correct provider with the same attributes passes. */
static bool is_found(struct tt_ofi_provider *p, enum lie planted, const char *reason)
{
    const char *honest = tried(p, HONEST, MESSAGES | WRITES),
               *why = tried(p, planted, MESSAGES | WRITES);

    fprintf(stderr, "honest: %s, planted: %s\n", honest ? honest : "passes its trial",
            why ? why : "passes its trial");
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

static void unordered_provider_fails_its_trial(void **state)
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

static void late_reading_provider_gets_copies(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, late_role);
}

/* ---- combined posts ---- */

#define ROWS 24u

static uint32_t nposted, nmore;             /* operations on an endpoint; of these, with FI_MORE */
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

/* Posts rows of this size to the link region, which needs no RTS, and a signal, all in one call. */
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
    f.data = &((struct tt_ofi_link *)tt_sparse_get(&tt_ofi_of(n->w)->base.links, !n->rank))
                  ->lanes[TT_RPUT_DATA];
    CHECK(n, n->ops->reg(n->w, NULL, ROWS * 2048, &f.source) == TUTTI_OK);
    node_post_signal(n, !n->rank, CHECKED, TT_SIGNAL_SET, 1);      /* the endpoints are connected */
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
            node_post_signal(n, 0, CHECKED, TT_SIGNAL_SET, round + 1);
        }
    }
    node_barrier(n);
}

static void rows_of_one_post_announce_more(void **state)
{
    static const struct setting one_lane = { .ops = &tt_wire_ofi, .seed = 1 };

    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&one_lane, 2, rows_role);
}

/* ---- available providers ---- */

/* Returns whether the message describes a provider that is available but does not work. */
static bool is_broken(const char *told) { return strstr(told, "failed its trial"); }

/* Returns 0 if there is a provider with this number of lanes, SKIPPED if there is none, or 1 if a
 * provider does not work. Prints the result. */
static int look(const char *provider, uint32_t lanes)
{
    const struct tt_wire_conf conf = {
        .nranks = 1,
        .secret = node_secret,
        .link_bytes = 4096,
        .lanes = lanes,
        .ofi_provider = provider,
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

/* The same in a separate process, so that the provider's threads stay there. If it crashes, the
 * provider counts as broken, too. */
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
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_share_writes_in_message_order),
        cmocka_unit_test(put_respects_its_selected_lanes),
        cmocka_unit_test(failed_endpoints_lose_nothing),
        cmocka_unit_test(stranger_does_not_break_the_link),
        cmocka_unit_test(provider_without_wake_ups_is_detected),
        cmocka_unit_test(unordered_provider_fails_its_trial),
        cmocka_unit_test(late_reading_provider_gets_copies),
        cmocka_unit_test(rows_of_one_post_announce_more),
    };
    const int found = look_apart(NULL, LANES);

    if (found) {
        puts(found == SKIPPED ? "no provider of libfabric here has several lanes"
                              : "a provider does not do what it says");
        return found;
    }
    has_provider = look_apart(PROVIDER, 1) == 0;
    setting.seed = 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 77;                  /* no libfabric here, and no ofi transport in the library */
}

#endif
