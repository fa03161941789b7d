/* Self-test of a provider before its claims are trusted: two endpoints in this process, one of
 * which writes to the other's memory.
 *
 *  - Order. A message is posted after writes; when it arrives, their data must be there. If the
 *    provider does not promise order, a write reported as delivered must have arrived. This must
 *    also hold if several lanes are configured, which are not ordered.
 *  - Sources. An endpoint is closed with writes in flight, and their source is changed. If the
 *    change appears at the target, the provider reads revoked sources and must get only copies.
 *    Providers within the host are not tested: they read another process's memory at any time
 *    (and shm of libfabric 1.17 crashes if both ends are in one process).
 *  - Waking. A thread that sleeps on the completion queue's descriptor must be woken by a
 *    message. It must also be woken by a write without a following operation, unless that
 *    arrives without progress calls. Otherwise the wire polls periodically.
 *
 * A passed test proves nothing about a network that reorders packets: there the provider's claim is
 * trusted. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "wire/ofi/ofi.h"

#define BYTES ((size_t)512 << 10)       /* size of source and target */
#define SMALL_BYTES ((size_t)100)
#define ROUNDS 4
#define PATIENCE_NS (10 * TT_SECOND)    /* timeout of a wait */
/* minimum number of checks, as this process may have had little CPU time */
#define PATIENCE_LOOKS 10000
/* checks without an event, each followed by a pause of one millisecond */
#define WAKE_LOOKS 500
#define SETTLE_POLLS 200

/* An operation of the test. */
struct pending {
    struct fi_context2 context;
    bool over;
};

/* boundaries of the writes, short and long */
static const size_t cuts[] = { 0, 64, 70000, 200000, BYTES };
#define NWRITES (sizeof cuts / sizeof *cuts - 1)

struct side {
    struct fid_cq *cq;
    int fd;
    struct fid_ep *ep;
    fi_addr_t to;               /* address of the other end */
};

struct trial {
    const struct tt_ofi_provider *provider;
    struct side from, at;
    uint8_t *source, *target, *note;    /* [BYTES], [BYTES], [SMALL_BYTES] twice */
    struct fid_mr *source_mr, *target_mr, *note_mr;
    uint64_t address, key;      /* of the target */
    struct pending writes[NWRITES], sent, came;     /* not on a stack: some are in flight until
                                                       the endpoints are closed */
    size_t cut;                 /* the awaited write */
    bool failed;
    const char *why;
};

/* ---- two endpoints ---- */

static bool side_open(const struct tt_ofi_provider *p, struct side *s)
{
    s->to = FI_ADDR_UNSPEC;
    s->cq = tt_ofi_cq_open(p, &s->fd);
    s->ep = s->cq ? tt_ofi_ep_open(p, s->cq) : NULL;
    return s->ep;
}

static void side_close(const struct tt_ofi_provider *p, struct side *s)
{
    tt_ofi_close(s->ep ? &s->ep->fid : NULL);
    if (s->ep && s->to != FI_ADDR_UNSPEC)
        fi_av_remove(p->av, &s->to, 1, 0);
    tt_ofi_close(s->cq ? &s->cq->fid : NULL);
    *s = (struct side){ .fd = -1, .to = FI_ADDR_UNSPEC };
}

static bool side_learn(const struct tt_ofi_provider *p, struct side *s, const struct side *other)
{
    uint8_t name[TT_OFI_NAME_BYTES];

    return tt_ofi_ep_name(other->ep, name) > 0 &&
           fi_av_insert(p->av, name, 1, &s->to, 0, NULL) == 1;
}

static bool trial_open(struct trial *t)
{
    const struct tt_ofi_provider *p = t->provider;
    struct fid_ep *per_endpoint;

    t->why = "cannot be used: cannot open endpoints";
    if (!side_open(p, &t->from) || !side_open(p, &t->at))
        return false;
    t->why = "failed its trial: its endpoints have no addresses";
    if (!side_learn(p, &t->from, &t->at) || !side_learn(p, &t->at, &t->from))
        return false;
    t->why = "cannot be used: memory registration failed";
    t->source = calloc(1, BYTES);
    t->target = calloc(1, BYTES);
    t->note = calloc(2, SMALL_BYTES);
    if (!t->source || !t->target || !t->note)
        return false;
    per_endpoint = p->per_endpoint ? t->at.ep : NULL;
    t->target_mr = tt_ofi_mr_open(p, t->target, BYTES, FI_REMOTE_WRITE, per_endpoint);
    if (!per_endpoint) {
        t->source_mr = tt_ofi_mr_open(p, t->source, BYTES, FI_WRITE, NULL);
        t->note_mr = tt_ofi_mr_open(p, t->note, 2 * SMALL_BYTES, FI_SEND | FI_RECV, NULL);
        if (!t->source_mr || !t->note_mr)
            return false;
    }
    if (!t->target_mr)
        return false;
    t->address = tt_ofi_mr_address(p, t->target, 0);
    t->key = fi_mr_key(t->target_mr);
    return true;
}

static void trial_close(struct trial *t)
{
    tt_ofi_close(t->target_mr && t->provider->per_endpoint ? &t->target_mr->fid : NULL);
    side_close(t->provider, &t->from);
    side_close(t->provider, &t->at);
    tt_ofi_close(t->target_mr && !t->provider->per_endpoint ? &t->target_mr->fid : NULL);
    tt_ofi_close(t->source_mr ? &t->source_mr->fid : NULL);
    tt_ofi_close(t->note_mr ? &t->note_mr->fid : NULL);
    free(t->source);
    free(t->target);
    free(t->note);
}

/* ---- operations ---- */

static void progress(struct trial *t, struct side *s)
{
    struct fi_cq_msg_entry e[8];
    struct fi_cq_err_entry err = { 0 };
    const ssize_t n = fi_cq_read(s->cq, e, 8);

    for (ssize_t i = 0; i < n; i++)
        ((struct pending *)e[i].op_context)->over = true;
    if (n == -FI_EAVAIL && fi_cq_readerr(s->cq, &err, 0) >= 0) {
        tt_log(TT_LOG_DEBUG, "ofi: an operation in the trial of %s failed: %s", t->provider->name,
               tt_ofi_strerror(err.err));
        t->failed = true;
    }
}

struct patience {
    uint64_t until_ns;
    uint32_t looks;
};

static struct patience patience_new(void)
{
    return (struct patience){ .until_ns = tt_now_ns() + PATIENCE_NS };
}

/* Called once per check. */
static bool patience_is_over(struct patience *p)
{
    return ++p->looks > PATIENCE_LOOKS && tt_now_ns() > p->until_ns;
}

/* Makes progress until *over. Returns false on failure or timeout. */
static bool trial_wait(struct trial *t, const bool *over)
{
    struct patience patience = patience_new();

    while (!*over && !t->failed) {
        progress(t, &t->from);
        progress(t, &t->at);
        t->failed |= !*over && patience_is_over(&patience);
    }
    return *over && !t->failed;
}

/* Returns whether the post must be retried. */
static bool trial_should_retry(struct trial *t, ssize_t err, struct patience *patience)
{
    t->failed |= err != 0 && (err != -FI_EAGAIN || patience_is_over(patience));
    if (err == 0 || t->failed)
        return false;
    progress(t, &t->from);
    progress(t, &t->at);
    return true;
}

/* Posts a write and returns libfabric's result. flags as in tt_ofi_ep_write. */
static ssize_t give_write(struct trial *t, struct pending *op, size_t offset, size_t bytes,
                          uint64_t flags)
{
    const struct tt_ofi_write w = {
        .data = t->source + offset, .bytes = bytes, .target = t->address + offset, .key = t->key,
    };

    return tt_ofi_ep_write(t->provider, t->from.ep, t->from.to, &w, t->source_mr, flags,
                           &op->context);
}

static void post_write(struct trial *t, struct pending *op, size_t offset, size_t bytes,
                       uint64_t flags)
{
    struct patience patience = patience_new();
    ssize_t err;

    op->over = false;
    do {
        err = give_write(t, op, offset, bytes, flags);
    } while (trial_should_retry(t, err, &patience));
}

static void post_note(struct trial *t, struct pending *op)
{
    struct patience patience = patience_new();
    ssize_t err;

    op->over = false;
    do {
        err = tt_ofi_ep_send(t->provider, t->from.ep, t->from.to, t->note, SMALL_BYTES, t->note_mr,
                             0, &op->context);
    } while (trial_should_retry(t, err, &patience));
}

static void post_receive(struct trial *t, struct pending *op)
{
    struct patience patience = patience_new();
    ssize_t err;

    op->over = false;
    do {
        err = fi_recv(t->at.ep, t->note + SMALL_BYTES, SMALL_BYTES, tt_ofi_mr_desc(t->note_mr),
                      FI_ADDR_UNSPEC, &op->context);
    } while (trial_should_retry(t, err, &patience));
}

/* ---- tests ---- */

/* Posts writes followed at once by a note, in a batch as links do. Sets *before to whether all
 * writes had arrived before the note. Clears *landed if the data of a write had not arrived when it
 * was reported as complete. */
static bool try_order(struct trial *t, uint8_t value, bool *before, bool *landed)
{
    memset(t->source, value, BYTES);
    post_receive(t, &t->came);
    for (size_t i = 0; i < NWRITES; i++)
        post_write(t, &t->writes[i], cuts[i], cuts[i + 1] - cuts[i], FI_MORE);
    post_note(t, &t->sent);
    if (!trial_wait(t, &t->came.over))
        return false;
    *before = memcmp(t->source, t->target, BYTES) == 0;
    for (size_t i = 0; i < NWRITES; i++) {
        if (!trial_wait(t, &t->writes[i].over))
            return false;
        *landed &= memcmp(t->source + cuts[i], t->target + cuts[i], cuts[i + 1] - cuts[i]) == 0;
    }
    return trial_wait(t, &t->sent.over);
}

/* Posts single writes. Each must be reported, and its data must have arrived by then. The target
 * makes no calls between the report and the check. */
static bool try_delivery(struct trial *t, uint8_t value)
{
    memset(t->source, value, BYTES);
    for (size_t i = 0; i < NWRITES; i++) {
        struct patience patience = patience_new();

        post_write(t, &t->writes[i], cuts[i], cuts[i + 1] - cuts[i], FI_DELIVERY_COMPLETE);
        for (progress(t, &t->from);
             !t->writes[i].over && !t->failed && !patience_is_over(&patience);
             progress(t, &t->from))
            progress(t, &t->at);
        if (!t->writes[i].over || t->failed ||
            memcmp(t->source + cuts[i], t->target + cuts[i], cuts[i + 1] - cuts[i]) != 0)
            return false;
    }
    return true;
}

/* Makes progress at the receiver until it may sleep. Returns false if it always has work, or its
 * descriptor stays readable. */
static bool fall_asleep(struct trial *t)
{
    struct pollfd p = { .fd = t->at.fd, .events = POLLIN };
    struct fid *fid = &t->at.cq->fid;

    for (uint32_t looks = 0; looks < WAKE_LOOKS; looks++) {
        progress(t, &t->from);
        progress(t, &t->at);
        if (fi_trywait(t->provider->fabric, &fid, 1) == 0 && poll(&p, 1, 0) == 0)
            return true;
        poll(NULL, 0, 1);
    }
    return false;
}

/* The sender makes progress; the receiver makes calls only when its descriptor wakes it. Returns
 * whether is_there becomes true. */
static bool comes_asleep(struct trial *t, bool (*is_there)(const struct trial *))
{
    struct pollfd p = { .fd = t->at.fd, .events = POLLIN };
    struct fid *fid = &t->at.cq->fid;
    struct patience patience = patience_new();
    bool asleep = true;

    for (uint32_t looks = 0;
         looks < WAKE_LOOKS && !is_there(t) && !t->failed && !patience_is_over(&patience);) {
        progress(t, &t->from);
        if (asleep) {
            asleep = poll(&p, 1, 1) <= 0;
            looks += asleep;
        } else {
            progress(t, &t->at);
            asleep = fi_trywait(t->provider->fabric, &fid, 1) == 0;
        }
    }
    return is_there(t);
}

static bool note_came(const struct trial *t) { return t->came.over; }

/* Reads while the provider may be writing, as any device may; the thread sanitizer would report a
 * race. */
__attribute__((no_sanitize("thread"))) static bool write_landed(const struct trial *t)
{
    const volatile uint8_t *target = t->target;

    for (size_t i = cuts[t->cut]; i < cuts[t->cut + 1]; i++)
        if (target[i] != t->source[i])
            return false;
    return true;
}

static bool note_wakes(struct trial *t)
{
    bool woken;

    post_receive(t, &t->came);
    if (!fall_asleep(t))
        return false;
    post_note(t, &t->sent);
    woken = comes_asleep(t, note_came);
    return trial_wait(t, &t->came.over) && trial_wait(t, &t->sent.over) && woken;
}

/* After long puts, over several endpoints or after RTS/CTS, the message that would wake the
 * receiver may wait until the writes have arrived. */
static bool writes_wake(struct trial *t)
{
    bool woken = true;

    memset(t->source, 64, BYTES);
    for (t->cut = 0; t->cut < NWRITES && woken && !t->failed; t->cut++) {
        woken = fall_asleep(t);
        post_write(t, &t->writes[t->cut], cuts[t->cut], cuts[t->cut + 1] - cuts[t->cut], 0);
        woken = woken && comes_asleep(t, write_landed);
        trial_wait(t, &t->writes[t->cut].over);
    }
    return woken;
}

/* Returns why some arrivals do not wake a sleeper; NULL: all do. */
static const char *try_waking(struct trial *t)
{
    if (t->at.fd < 0)
        return "it has no wait descriptor";
    if (!note_wakes(t))
        return "messages do not wake a waiting thread";
    return writes_wake(t) ? NULL : "writes do not wake a waiting thread";
}

/* See write_landed. */
__attribute__((no_sanitize("thread"))) static bool target_has_value(const volatile uint8_t *at,
                                                                    size_t n, uint8_t value)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] == value)
            return true;
    return false;
}

/* psm3 sometimes crashes if an endpoint is closed with writes in flight (libfabric 2.1): assumed,
 * without a test, not to read sources afterwards. */
static bool may_cut(const struct tt_ofi_provider *p) { return strncmp(p->name, "psm3", 4) != 0; }

/* Tests whether a closed endpoint's sources are still read. The last test, since it closes one
 * end. */
static bool try_sources(struct trial *t)
{
    memset(t->source, 1, BYTES);
    for (size_t i = 0; i < NWRITES; i++)
        give_write(t, &t->writes[i], cuts[i], cuts[i + 1] - cuts[i], 0);
    side_close(t->provider, &t->from);
    memset(t->source, 2, BYTES);
    for (uint32_t i = 0; i < SETTLE_POLLS; i++)
        progress(t, &t->at);
    return target_has_value(t->target, BYTES, 2);
}

static bool trial_run(struct tt_ofi_provider *p, struct trial *t)
{
    bool landed = true, before;

    if (!trial_open(t))
        return false;
    t->why = "failed its trial: two endpoints of one process cannot communicate";
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if (!try_order(t, (uint8_t)(16 + i), &before, &landed))
            return false;
        if (p->ordered && !before) {
            t->why = "failed its trial: it claims to order messages after writes, but does not";
            return false;
        }
    }
    if (!p->ordered && !landed) {
        t->why = "failed its trial: it reports remote completion of writes that have not arrived";
        return false;
    }
    t->why = "failed its trial: it claims to report remote completions (needed for TUTTI_LANES), "
             "but does not";
    for (uint32_t i = 0; i < ROUNDS && p->delivers; i++)
        if (!try_delivery(t, (uint8_t)(32 + i)))
            return false;
    t->why = "failed its trial: it lost messages";
    p->unwoken = try_waking(t);
    if (t->failed)
        return false;
    p->copies = p->local || (may_cut(p) && try_sources(t));
    return true;
}

/* ---- results, once per provider ---- */

#define KNOWN_MAX 16

static struct known {
    char name[48], device[64];
    bool ordered, delivers, good, copies;
    const char *why, *unwoken;
} known[KNOWN_MAX];
static uint32_t nknown;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct known *known_find(const struct tt_ofi_provider *p)
{
    for (uint32_t i = 0; i < nknown; i++)
        if (strcmp(known[i].name, p->name) == 0 && strcmp(known[i].device, p->device) == 0 &&
            known[i].ordered == p->ordered && known[i].delivers == p->delivers)
            return &known[i];
    return NULL;
}

static const struct known *known_add(struct tt_ofi_provider *p, struct known *spare)
{
    struct trial t = { .provider = p, .from = { .fd = -1 }, .at = { .fd = -1 } };
    struct known *k = nknown < KNOWN_MAX ? &known[nknown++] : spare;

    snprintf(k->name, sizeof k->name, "%s", p->name);
    snprintf(k->device, sizeof k->device, "%s", p->device);
    k->ordered = p->ordered;
    k->delivers = p->delivers;
    p->unwoken = NULL;      /* until try_waking has a result */
    k->good = trial_run(p, &t);
    trial_close(&t);
    k->why = t.why;
    k->copies = p->copies;
    k->unwoken = p->unwoken;
    return k;
}

bool tt_ofi_trial(struct tt_ofi_provider *p, const char **why)
{
    const struct known *k;
    struct known spare;
    bool good;

    pthread_mutex_lock(&known_lock);
    k = known_find(p);
    if (!k)
        k = known_add(p, &spare);
    p->copies = k->copies;
    p->unwoken = k->unwoken;
    *why = k->why;
    good = k->good;
    pthread_mutex_unlock(&known_lock);
    return good;
}
