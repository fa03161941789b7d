/* The ofi wire with several endpoints for bulk data to a peer: which of them carries what, and that no order depends on it; and what the trial of a
 * provider finds. Where libfabric has nothing that could serve, the test is skipped, with the reason; a provider that is there and fails its trial is a failure. */
#include "support/unit.h"

#ifdef TUTTI_HAVE_OFI

#include <poll.h>
#include <stdio.h>
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

/* ---- who sleeps ---- */

enum { MESSAGES = 1, WRITES = 2 };

static int wakes_by;                        /* of these; 0: the trial is not on */
static atomic_bool is_deaf;
static const struct fi_ops_rma *real_rma;
static struct fi_ops_domain *real_domain;
static struct fi_ops_fabric *real_fabric;
static struct fi_ops_msg deaf_msg;
static struct fi_ops_rma deaf_rma;

/* In the place of the system's: nothing wakes who is deaf. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct timespec t = { .tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1000000L };
    const long got = syscall(SYS_ppoll, fds, n, timeout_ms < 0 ? NULL : &t, NULL, 0);

    return is_deaf ? 0 : (int)got;
}

static ssize_t send_note(struct fid_ep *ep, const void *buf, size_t bytes, void *desc, fi_addr_t to, void *context)
{
    is_deaf = wakes_by && !(wakes_by & MESSAGES);
    return real_msg->send(ep, buf, bytes, desc, to, context);
}

static ssize_t write_bytes(struct fid_ep *ep, const void *buf, size_t bytes, void *desc, fi_addr_t to, uint64_t at,
                           uint64_t key, void *context)
{
    is_deaf = wakes_by && !(wakes_by & WRITES);
    return real_rma->write(ep, buf, bytes, desc, to, at, key, context);
}

/* The provider's endpoint, which says by what its peer may be woken. */
static int open_deaf(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    const int err = real_domain->endpoint(domain, info, ep, context);

    if (err)
        return err;
    real_msg = (*ep)->msg;
    real_rma = (*ep)->rma;
    deaf_msg = *real_msg;
    deaf_rma = *real_rma;
    deaf_msg.send = send_note;
    deaf_rma.write = write_bytes;
    (*ep)->msg = &deaf_msg;
    (*ep)->rma = &deaf_rma;
    return 0;
}

static int may_sleep(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return is_deaf ? 0 : real_fabric->trywait(fabric, fids, count);
}

/* Why it is not relied on, if a sleeper is woken by these. The name is another, as each name is tried once. */
static const char *unwoken_by(struct node *n, struct tt_ofi_provider *p, int what)
{
    struct fi_ops_domain domain = *p->domain->ops;
    struct fi_ops_fabric fabric = *p->fabric->ops;
    const char *why;

    real_domain = p->domain->ops;
    real_fabric = p->fabric->ops;
    domain.endpoint = open_deaf;
    fabric.trywait = may_sleep;
    p->domain->ops = &domain;
    p->fabric->ops = &fabric;
    wakes_by = what;
    snprintf(p->name, sizeof p->name, "woken by %d", what);
    if (!tt_ofi_trial(p, &why))
        node_fail(n, __FILE__, __LINE__, why);
    wakes_by = 0;
    is_deaf = false;
    p->domain->ops = real_domain;
    p->fabric->ops = real_fabric;
    return p->unwoken;
}

static void deaf_role(struct node *n)
{
    const struct tt_wire_conf conf = { .nranks = 1, .ofi_provider = PROVIDER };
    struct tt_ofi_provider p;

    CHECK(n, tt_ofi_provider_open(&p, &conf) == TUTTI_OK);
    CHECK(n, !unwoken_by(n, &p, MESSAGES | WRITES));
    CHECK(n, strcmp(unwoken_by(n, &p, WRITES), "messages do not wake who sleeps") == 0);
    CHECK(n, strcmp(unwoken_by(n, &p, MESSAGES), "writes do not wake who sleeps") == 0);
    tt_ofi_provider_close(&p);
}

static void a_provider_that_does_not_wake_for_messages_or_for_writes_is_found(void **state)
{
    (void)state;
    if (!has_provider)
        skip();
    nodes_run(&setting, 1, deaf_role);
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
