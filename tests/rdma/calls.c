/* Calls of libibverbs between two processes: states, keys, messages, atomic operations, errors and
 * events. The program uses only public calls, so it can also run on devices. Skipped without a
 * device. */
#include "support/unit.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77
#define BYTES 65536u
#define DEPTH 16
#define ALL_ACCESS                                                                    \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |      \
     IBV_ACCESS_REMOTE_ATOMIC)

/* A failed check exits the process; the parent checks the child's status. */
#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s does not hold (%s:%d), errno %d\n", #condition, __FILE__, \
                    __LINE__, errno);                                                     \
            _exit(1);                                                                 \
        }                                                                             \
    } while (0)

/* One end of a connection. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *mem;
    union ibv_gid gid;
    int peer;           /* socket to the other process */
    uint8_t rnr_retry;
};

struct address {
    uint32_t qpn, rkey;
    uint64_t mem;
    union ibv_gid gid;
};

/* ---- set-up ---- */

static struct ibv_context *device_open(void)
{
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    struct ibv_context *c = n > 0 ? ibv_open_device(list[0]) : NULL;

    if (list)
        ibv_free_device_list(list);
    return c;
}

static void end_open(struct end *e, bool with_srq)
{
    struct ibv_qp_init_attr init = {
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2,
                 .max_inline_data = 64 },
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 2 } };

    e->context = device_open();
    CHECK(e->context);
    CHECK(ibv_query_gid(e->context, 1, 0, &e->gid) == 0);
    e->pd = ibv_alloc_pd(e->context);
    e->channel = ibv_create_comp_channel(e->context);
    CHECK(e->pd && e->channel);
    e->send_cq = ibv_create_cq(e->context, 4 * DEPTH, e, e->channel, 0);
    e->recv_cq = ibv_create_cq(e->context, 4 * DEPTH, e, e->channel, 0);
    CHECK(e->send_cq && e->recv_cq);
    e->srq = with_srq ? ibv_create_srq(e->pd, &srq) : NULL;
    init.send_cq = e->send_cq;
    init.recv_cq = e->recv_cq;
    init.srq = e->srq;
    e->qp = ibv_create_qp(e->pd, &init);
    CHECK(e->qp && init.cap.max_inline_data >= 64);
    e->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(e->mem != MAP_FAILED);
    e->mr = ibv_reg_mr(e->pd, e->mem, BYTES, ALL_ACCESS);
    CHECK(e->mr);
}

static void end_close(struct end *e)
{
    CHECK(ibv_destroy_qp(e->qp) == 0);
    CHECK(ibv_dealloc_pd(e->pd) == EBUSY);      /* a region uses it */
    CHECK(ibv_dereg_mr(e->mr) == 0);
    CHECK(!e->srq || ibv_destroy_srq(e->srq) == 0);
    CHECK(ibv_destroy_cq(e->send_cq) == 0 && ibv_destroy_cq(e->recv_cq) == 0);
    CHECK(ibv_destroy_comp_channel(e->channel) == 0);
    CHECK(ibv_dealloc_pd(e->pd) == 0);
    CHECK(ibv_close_device(e->context) == 0);
    munmap(e->mem, BYTES);
}

static int to_init(struct end *e)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qp_access_flags = ALL_ACCESS };

    return ibv_modify_qp(e->qp, &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct end *e, const struct address *there)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = there->qpn,
        .rq_psn = 7,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 6,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = there->gid, .hop_limit = 1 } },
    };

    return ibv_modify_qp(e->qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct end *e)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS,
                             .timeout = 12,     /* 17 ms */
                             .retry_cnt = 2,
                             .rnr_retry = e->rnr_retry,
                             .sq_psn = 7,
                             .max_rd_atomic = 1 };

    return ibv_modify_qp(e->qp, &a,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int to_state(struct end *e, enum ibv_qp_state state)
{
    struct ibv_qp_attr a = { .qp_state = state };

    return ibv_modify_qp(e->qp, &a, IBV_QP_STATE);
}

static void peer_notify(struct end *e)
{
    CHECK(write(e->peer, "x", 1) == 1);
}

static void peer_wait(struct end *e)
{
    char c;

    CHECK(read(e->peer, &c, 1) == 1);
}

/* Exchanges addresses with the other process, and connects. */
static void end_connect(struct end *e, struct address *there)
{
    const struct address here = {
        .qpn = e->qp->qp_num, .rkey = e->mr->rkey, .mem = (uintptr_t)e->mem, .gid = e->gid
    };

    CHECK(write(e->peer, &here, sizeof here) == sizeof here);
    CHECK(read(e->peer, there, sizeof *there) == sizeof *there);
    CHECK(to_init(e) == 0 && to_rtr(e, there) == 0 && to_rts(e) == 0);
    peer_notify(e);
    peer_wait(e);
}

/* ---- both processes ---- */

struct role {
    void (*first)(struct end *, const struct address *);
    void (*second)(struct end *, const struct address *);
    bool srq;
    uint8_t rnr_retry;
};

static _Noreturn void process(const struct role *r, int socket, bool first)
{
    struct end e = { .peer = socket, .rnr_retry = r->rnr_retry };
    struct address there;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(240);
    end_open(&e, r->srq);
    end_connect(&e, &there);
    (first ? r->first : r->second)(&e, &there);
    end_close(&e);
    _exit(0);
}

static void run(const struct role *r)
{
    int sockets[2], status;
    pid_t pid[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            close(sockets[!i]);
            process(r, sockets[i], i == 0);
        }
    }
    close(sockets[0]);
    close(sockets[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
                    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    }
}

/* ---- work requests ---- */

static struct ibv_wc completion(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int n;

    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
        sched_yield();
    CHECK(n == 1);
    return wc;
}

static int receive(struct end *e, uint64_t id, uint32_t at, uint32_t bytes)
{
    struct ibv_sge sge = { .addr = (uintptr_t)e->mem + at, .length = bytes, .lkey = e->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

    return e->srq ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad);
}

/* A work request for `bytes` of the local memory at `at`, to the same offset in the other
 * process. */
struct request {
    struct ibv_sge sge;
    struct ibv_send_wr wr;
};

static struct request *request(struct request *r, struct end *e, const struct address *there,
                               enum ibv_wr_opcode opcode, uint32_t at, uint32_t bytes)
{
    *r = (struct request){
        .sge = { .addr = (uintptr_t)e->mem + at, .length = bytes, .lkey = e->mr->lkey },
        .wr = { .wr_id = 100 + at,
                .sg_list = &r->sge,
                .num_sge = bytes > 0,
                .opcode = opcode,
                .send_flags = IBV_SEND_SIGNALED,
                .imm_data = 0x01020304,
                .wr.rdma = { .remote_addr = there->mem + at, .rkey = there->rkey } },
    };
    return r;
}

static int post(struct end *e, struct request *r)
{
    struct ibv_send_wr *bad = NULL;
    const int err = ibv_post_send(e->qp, &r->wr, &bad);

    CHECK(err == 0 || bad == &r->wr);
    return err;
}

/* Posts and returns the status of the completion. */
static enum ibv_wc_status status_of(struct end *e, struct request *r)
{
    struct ibv_wc wc;

    CHECK(post(e, r) == 0);
    wc = completion(e->send_cq);
    CHECK(wc.wr_id == r->wr.wr_id && wc.qp_num == e->qp->qp_num);
    return wc.status;
}

/* ---- states ---- */

static void states_role(struct end *e, const struct address *there)
{
    struct request r;

    CHECK(to_state(e, IBV_QPS_RESET) == 0);
    CHECK(post(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)) == EINVAL);
    CHECK(to_rts(e) == EINVAL && to_rtr(e, there) == EINVAL);
    CHECK(to_state(e, IBV_QPS_INIT) == EINVAL);     /* attributes are missing */
    CHECK(to_init(e) == 0 && to_init(e) == 0);
    CHECK(post(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)) == EINVAL);
    CHECK(to_rts(e) == EINVAL);
    CHECK(to_rtr(e, there) == 0 && to_rtr(e, there) == EINVAL);
    CHECK(post(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)) == EINVAL);
    CHECK(to_rts(e) == 0 && to_init(e) == EINVAL);
    CHECK(to_state(e, IBV_QPS_ERR) == 0 && to_rts(e) == EINVAL);
    CHECK(to_state(e, IBV_QPS_RESET) == 0);
}

static void states_change_in_order(void **state)
{
    (void)state;
    run(&(struct role){ states_role, states_role, .rnr_retry = 7 });
}

/* ---- messages ---- */

static void send_role(struct end *e, const struct address *there)
{
    struct request r;

    memset(e->mem, 'a', 64);
    memset(e->mem + 1000, 'b', 5000);
    request(&r, e, there, IBV_WR_SEND, 0, 64)->wr.send_flags |= IBV_SEND_INLINE;
    CHECK(post(e, &r) == 0);
    memset(e->mem, 'x', 64);            /* the source of inline data may be reused at once */
    CHECK(completion(e->send_cq).status == IBV_WC_SUCCESS);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_SEND_WITH_IMM, 1000, 5000)) == IBV_WC_SUCCESS);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_SEND, 0, 0)) == IBV_WC_SUCCESS);
    request(&r, e, there, IBV_WR_SEND, 0, 65)->wr.send_flags |= IBV_SEND_INLINE;
    CHECK(post(e, &r) == EINVAL);       /* longer than the limit */
    peer_wait(e);
}

static void receive_role(struct end *e, const struct address *there)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < 3; i++)
        CHECK(receive(e, i, i * 8192, 8192) == 0);
    wc = completion(e->recv_cq);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.wr_id == 0);
    CHECK(wc.byte_len == 64 && wc.qp_num == e->qp->qp_num && !(wc.wc_flags & IBV_WC_WITH_IMM));
    CHECK(e->mem[0] == 'a' && e->mem[63] == 'a' && e->mem[64] == 0);
    wc = completion(e->recv_cq);
    CHECK(wc.wr_id == 1 && wc.byte_len == 5000 && wc.wc_flags & IBV_WC_WITH_IMM);
    CHECK(wc.imm_data == 0x01020304 && wc.src_qp == there->qpn);
    CHECK(e->mem[8192] == 'b' && e->mem[8192 + 4999] == 'b' && e->mem[8192 + 5000] == 0);
    wc = completion(e->recv_cq);
    CHECK(wc.wr_id == 2 && wc.byte_len == 0);
    peer_notify(e);
}

static void messages_arrive_in_order(void **state)
{
    (void)state;
    run(&(struct role){ send_role, receive_role, .rnr_retry = 7 });
    run(&(struct role){ send_role, receive_role, .rnr_retry = 7, .srq = true });
}

static void write_role(struct end *e, const struct address *there)
{
    struct request r;

    memset(e->mem, 'w', 20000);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 10000)) == IBV_WC_SUCCESS);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_WRITE_WITH_IMM, 10000, 10000)) ==
          IBV_WC_SUCCESS);
    peer_wait(e);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_READ, 30000, 5000)) == IBV_WC_SUCCESS);
    CHECK(e->mem[30000] == 'r' && e->mem[34999] == 'r' && e->mem[35000] == 0);
}

static void written_role(struct end *e, const struct address *there)
{
    struct ibv_wc wc;

    (void)there;
    CHECK(receive(e, 5, 0, 0) == 0);
    wc = completion(e->recv_cq);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 5 && wc.byte_len == 10000);
    CHECK(wc.imm_data == 0x01020304 && wc.wc_flags & IBV_WC_WITH_IMM);
    CHECK(e->mem[0] == 'w' && e->mem[19999] == 'w' && e->mem[20000] == 0);
    memset(e->mem + 30000, 'r', 5000);
    peer_notify(e);
    CHECK(read(e->peer, &wc, 1) == 0);      /* until the other process exits */
}

static void writes_and_reads_move_bytes(void **state)
{
    (void)state;
    run(&(struct role){ write_role, written_role, .rnr_retry = 7 });
}

#define ADDS 200u

static struct request *add_one(struct request *r, struct end *e, uint64_t at, uint32_t key)
{
    struct address there = { .mem = at, .rkey = key };

    request(r, e, &there, IBV_WR_ATOMIC_FETCH_AND_ADD, 4096, 8);
    r->wr.wr.atomic.remote_addr = at;
    r->wr.wr.atomic.rkey = key;
    r->wr.wr.atomic.compare_add = 1;
    return r;
}

/* Each operation returns the previous value. */
static void add_all(struct end *e, uint64_t word, uint32_t key)
{
    uint64_t last = 0;
    struct request r;

    for (uint32_t i = 0; i < ADDS; i++) {
        uint64_t old;

        CHECK(status_of(e, add_one(&r, e, word, key)) == IBV_WC_SUCCESS);
        memcpy(&old, e->mem + 4096, 8);
        CHECK(i == 0 || old == last + 1);
        last = old;
    }
}

static void adding_role(struct end *e, const struct address *there)
{
    uint64_t old;
    struct request r;

    add_all(e, there->mem, there->rkey);
    peer_wait(e);
    request(&r, e, there, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8);
    r.wr.wr.atomic.remote_addr = there->mem;
    r.wr.wr.atomic.rkey = there->rkey;
    r.wr.wr.atomic.compare_add = ADDS;
    r.wr.wr.atomic.swap = 77;
    CHECK(status_of(e, &r) == IBV_WC_SUCCESS);
    memcpy(&old, e->mem, 8);
    CHECK(old == ADDS);
    CHECK(status_of(e, &r) == IBV_WC_SUCCESS);      /* the value differs now: no swap */
    memcpy(&old, e->mem, 8);
    CHECK(old == 77);
    CHECK(status_of(e, add_one(&r, e, there->mem + 4, there->rkey)) == IBV_WC_REM_INV_REQ_ERR);
}

static void added_role(struct end *e, const struct address *there)
{
    char c;

    (void)there;
    peer_notify(e);
    CHECK(read(e->peer, &c, 1) == 0);
}

static void atomic_operations_return_old_values(void **state)
{
    (void)state;
    run(&(struct role){ adding_role, added_role, .rnr_retry = 7 });
}

/* ---- errors ---- */

enum { WRONG_KEY, BEYOND, BEFORE, GONE, WRONG_LOCAL, NCASES };

static int which;

static void wrong_role(struct end *e, const struct address *there)
{
    struct request r;
    struct ibv_wc wc;

    peer_wait(e);
    request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 100);
    if (which == WRONG_KEY)
        r.wr.wr.rdma.rkey ^= 1;
    if (which == BEYOND)
        r.wr.wr.rdma.remote_addr = there->mem + BYTES - 99;
    if (which == BEFORE)
        r.wr.wr.rdma.remote_addr = there->mem - 1;
    if (which == WRONG_LOCAL)
        r.sge.lkey ^= 1;
    CHECK(post(e, &r) == 0);
    r.wr.wr_id = 999;
    CHECK(post(e, &r) == 0);
    wc = completion(e->send_cq);
    CHECK(wc.wr_id == 100);
    CHECK(wc.status == (which == WRONG_LOCAL ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR));
    wc = completion(e->send_cq);
    CHECK(wc.wr_id == 999 && wc.status == IBV_WC_WR_FLUSH_ERR);
    peer_notify(e);
}

static void refusing_role(struct end *e, const struct address *there)
{
    struct ibv_async_event event;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    (void)there;
    if (which == GONE)
        CHECK(ibv_dereg_mr(e->mr) == 0);
    peer_notify(e);
    peer_wait(e);
    CHECK(e->mem[0] == 0 && e->mem[BYTES - 1] == 0);
    CHECK(ibv_query_qp(e->qp, &attr, IBV_QP_STATE, &init) == 0);
    CHECK(attr.qp_state == (which == WRONG_LOCAL ? IBV_QPS_RTS : IBV_QPS_ERR));
    if (which != WRONG_LOCAL) {
        CHECK(ibv_get_async_event(e->context, &event) == 0);
        CHECK(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == e->qp);
        ibv_ack_async_event(&event);
    }
    if (which == GONE)
        e->mr = ibv_reg_mr(e->pd, e->mem, BYTES, ALL_ACCESS);
}

static void keys_are_checked(void **state)
{
    (void)state;
    for (which = 0; which < NCASES; which++)
        run(&(struct role){ wrong_role, refusing_role, .rnr_retry = 7 });
}

static void impatient_role(struct end *e, const struct address *there)
{
    struct request r;

    CHECK(status_of(e, request(&r, e, there, IBV_WR_SEND, 0, 8)) == IBV_WC_RNR_RETRY_EXC_ERR);
    peer_notify(e);
}

static void patient_role(struct end *e, const struct address *there)
{
    struct request r;

    memset(e->mem, 'p', 8);
    request(&r, e, there, IBV_WR_SEND, 0, 8)->wr.send_flags |= IBV_SEND_INLINE;
    CHECK(post(e, &r) == 0);
    memset(e->mem, 'x', 8);
    peer_notify(e);
    CHECK(completion(e->send_cq).status == IBV_WC_SUCCESS);
}

static void never_ready_role(struct end *e, const struct address *there)
{
    (void)there;
    peer_wait(e);
}

static void late_ready_role(struct end *e, const struct address *there)
{
    (void)there;
    peer_wait(e);
    CHECK(receive(e, 1, 0, 100) == 0);
    CHECK(completion(e->recv_cq).byte_len == 8);
    CHECK(e->mem[0] == 'p');
}

static void receiver_not_ready_is_retried(void **state)
{
    (void)state;
    run(&(struct role){ impatient_role, never_ready_role, .rnr_retry = 2 });
    run(&(struct role){ patient_role, late_ready_role, .rnr_retry = 7 });
    run(&(struct role){ patient_role, late_ready_role, .rnr_retry = 7, .srq = true });
}

static void long_message_role(struct end *e, const struct address *there)
{
    struct request r;

    peer_wait(e);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_SEND, 0, 101)) == IBV_WC_REM_INV_REQ_ERR);
    peer_notify(e);
}

static void short_receive_role(struct end *e, const struct address *there)
{
    (void)there;
    CHECK(receive(e, 1, 0, 100) == 0 && receive(e, 2, 0, 100) == 0);
    peer_notify(e);
    CHECK(completion(e->recv_cq).status == IBV_WC_LOC_LEN_ERR);
    CHECK(completion(e->recv_cq).status == IBV_WC_WR_FLUSH_ERR);
    peer_wait(e);
}

static void message_longer_than_its_receive_fails(void **state)
{
    (void)state;
    run(&(struct role){ long_message_role, short_receive_role, .rnr_retry = 7 });
}

static void survivor_role(struct end *e, const struct address *there)
{
    struct request r;
    char c;

    CHECK(read(e->peer, &c, 1) == 0);       /* its socket is closed after its memory is freed */
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 0)) == IBV_WC_RETRY_EXC_ERR);
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)) == IBV_WC_WR_FLUSH_ERR);
}

static void dying_role(struct end *e, const struct address *there)
{
    (void)e;
    (void)there;
    kill(getpid(), SIGKILL);
}

static void dead_peer_exceeds_the_retries(void **state)
{
    (void)state;
    run(&(struct role){ survivor_role, dying_role, .rnr_retry = 7 });
}

static void flush_role(struct end *e, const struct address *there)
{
    struct ibv_wc wc;
    struct request r;

    for (uint64_t i = 0; i < 3; i++)
        CHECK(receive(e, i, 0, 8) == 0);
    CHECK(to_state(e, IBV_QPS_ERR) == 0);
    for (uint64_t i = 0; i < 3; i++) {
        wc = completion(e->recv_cq);
        CHECK(wc.wr_id == i && wc.status == IBV_WC_WR_FLUSH_ERR);
    }
    CHECK(status_of(e, request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)) == IBV_WC_WR_FLUSH_ERR);
    request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8)->wr.send_flags = 0;
    CHECK(status_of(e, &r) == IBV_WC_WR_FLUSH_ERR);     /* errors are always reported */
    CHECK(receive(e, 9, 0, 8) == 0);
    CHECK(completion(e->recv_cq).wr_id == 9);
}

static void error_state_flushes_requests(void **state)
{
    (void)state;
    run(&(struct role){ flush_role, flush_role, .rnr_retry = 7 });
}

static void full_role(struct end *e, const struct address *there)
{
    struct request r;

    for (int i = 0; i < DEPTH; i++) {
        request(&r, e, there, IBV_WR_RDMA_WRITE, 0, 8);
        r.wr.send_flags = i == DEPTH - 1 ? IBV_SEND_SIGNALED : 0;
        CHECK(post(e, &r) == 0);
    }
    CHECK(post(e, &r) == ENOMEM);
    CHECK(completion(e->send_cq).status == IBV_WC_SUCCESS);
    CHECK(status_of(e, &r) == IBV_WC_SUCCESS);
    peer_notify(e);
    peer_wait(e);
}

static void send_queue_is_bounded(void **state)
{
    (void)state;
    run(&(struct role){ full_role, full_role, .rnr_retry = 7 });
}

/* ---- events ---- */

static bool is_readable(int fd, int timeout_ms)
{
    return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, timeout_ms) == 1;
}

static void event_get(struct end *e, struct ibv_cq *expected)
{
    struct ibv_cq *cq;
    void *context;

    CHECK(ibv_get_cq_event(e->channel, &cq, &context) == 0);
    CHECK(cq == expected && context == e);
    ibv_ack_cq_events(cq, 1);
}

static void notifying_role(struct end *e, const struct address *there)
{
    struct request r;

    for (int i = 0; i < 3; i++) {
        peer_wait(e);
        request(&r, e, there, IBV_WR_SEND, 0, 8);
        if (i == 2)
            r.wr.send_flags |= IBV_SEND_SOLICITED;
        CHECK(status_of(e, &r) == IBV_WC_SUCCESS);
        peer_notify(e);
    }
}

/* Without a request there is no event; a request causes one event; a request for solicited messages
 * ignores other messages. */
static void notified_role(struct end *e, const struct address *there)
{
    (void)there;
    for (uint64_t i = 0; i < 3; i++)
        CHECK(receive(e, i, 0, 8) == 0);
    CHECK(ibv_req_notify_cq(e->recv_cq, 0) == 0);
    peer_notify(e);
    event_get(e, e->recv_cq);
    peer_wait(e);
    CHECK(completion(e->recv_cq).wr_id == 0);
    CHECK(ibv_req_notify_cq(e->recv_cq, 1) == 0);
    peer_notify(e);
    peer_wait(e);
    CHECK(completion(e->recv_cq).wr_id == 1 && !is_readable(e->channel->fd, 0));
    peer_notify(e);
    event_get(e, e->recv_cq);
    peer_wait(e);
    CHECK(completion(e->recv_cq).wr_id == 2 && !is_readable(e->channel->fd, 0));
}

static void completions_wake_a_sleeper(void **state)
{
    (void)state;
    run(&(struct role){ notifying_role, notified_role, .rnr_retry = 7 });
}

static void limited_role(struct end *e, const struct address *there)
{
    struct ibv_srq_attr attr = { .srq_limit = 2 };
    struct ibv_async_event event;

    (void)there;
    for (uint64_t i = 0; i < 3; i++)
        CHECK(receive(e, i, 0, 8) == 0);
    CHECK(ibv_modify_srq(e->srq, &attr, IBV_SRQ_LIMIT) == 0);
    for (int i = 0; i < 3; i++) {
        peer_notify(e);
        peer_wait(e);
        if (i == 0)
            CHECK(!is_readable(e->context->async_fd, 0));
    }
    CHECK(ibv_get_async_event(e->context, &event) == 0);
    CHECK(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == e->srq);
    ibv_ack_async_event(&event);
    CHECK(ibv_query_srq(e->srq, &attr) == 0 && attr.srq_limit == 0);
}

static void shared_queue_reports_its_limit(void **state)
{
    (void)state;
    run(&(struct role){ notifying_role, limited_role, .rnr_retry = 7, .srq = true });
}

/* ---- one process ---- */

static void registration_checks_access(void **state)
{
    struct ibv_context *c = device_open();
    struct ibv_pd *pd = ibv_alloc_pd(c);
    uint8_t *mem = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr;

    (void)state;
    assert_ptr_not_equal(mem, MAP_FAILED);
    assert_null(ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
    mr = ibv_reg_mr(pd, mem, BYTES, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_null(ibv_reg_mr(pd, mem, BYTES, IBV_ACCESS_REMOTE_WRITE));
    assert_int_equal(errno, EINVAL);
    munmap(mem, BYTES);
    assert_null(ibv_reg_mr(pd, mem, BYTES, 0));
    assert_int_equal(errno, EFAULT);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(c), 0);
}

/* Calls that the emulation does not support return an error, and do not crash. */
static void other_calls_are_refused(void **state)
{
    struct ibv_context *c = device_open();
    struct ibv_pd *pd = ibv_alloc_pd(c);
    struct ibv_cq *cq = ibv_create_cq(c, 1, NULL, NULL, 0);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD };
    struct ibv_device_attr device;

    (void)state;
    assert_int_equal(ibv_query_device(c, &device), 0);
    if (strcmp(device.fw_ver, "tutti") == 0) {
        assert_null(ibv_create_qp(pd, &init));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_null(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_int_equal(ibv_resize_cq(cq, 2), EOPNOTSUPP);
    }
    assert_null(ibv_create_cq(c, 0, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(c), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_change_in_order),
        cmocka_unit_test(messages_arrive_in_order),
        cmocka_unit_test(writes_and_reads_move_bytes),
        cmocka_unit_test(atomic_operations_return_old_values),
        cmocka_unit_test(keys_are_checked),
        cmocka_unit_test(receiver_not_ready_is_retried),
        cmocka_unit_test(message_longer_than_its_receive_fails),
        cmocka_unit_test(dead_peer_exceeds_the_retries),
        cmocka_unit_test(error_state_flushes_requests),
        cmocka_unit_test(send_queue_is_bounded),
        cmocka_unit_test(completions_wake_a_sleeper),
        cmocka_unit_test(shared_queue_reports_its_limit),
        cmocka_unit_test(registration_checks_access),
        cmocka_unit_test(other_calls_are_refused),
    };
    struct ibv_context *c;

    unsetenv("TUTTI_EMU_RDMA_STRICT");      /* receivers are intentionally not ready */
    c = device_open();
    if (!c) {
        printf("there is no RDMA device\n");
        return SKIPPED;
    }
    ibv_close_device(c);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
