#include "comm/measure.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/progress.h"
#include "reduce/reduce.h"
#include "wire/copy_policy.h"

/* software cost per message over shared memory, in addition to the exchange of the cache line */
#define SOFTWARE_NS 120.0
#define SLOT_BYTES (64u << 10)
#define SINGLE_BYTES (256u << 10)
/* size of one process_vm_readv call, as in src/wire/shm/shm_cma.c */
#define SINGLE_WHOLE_BYTES (512u << 10)
/* minimum size of messages that both ends copy: TT_SHM_SHARE_BYTES of src/wire/shm/shm.h */
#define SHARED_BYTES (64u << 10)
#define STREAM_BYTES (512u << 10)
#define STREAMS 6
#define ROUNDS 64
#define SLOT_ROUNDS 32
#define YIELDS 32
/* timeout of a socket call; after a longer interruption the defaults are used */
#define SOCKET_TIMEOUT_MS 500

/* Costs for the simulation that are not measured. Fitted to the measured times of all algorithms
 * (docs/tuning.md), as ratios where possible. */
#define SHM_SEND_NS 470.0           /* software cost of a message */
#define SHM_RECEIVE_NS 42.0
#define PLAN_NS 3000.0              /* of a call that is not a straight-line program (exec.h) */
#define STEP_NS 116.0               /* of each step of such a call */
#define TCP_SOFTWARE_NS 2500.0      /* of a message at each end, in addition to the system calls */
#define TCP_LATENCY_NS 500.0        /* minimum latency of loopback, without the work of its ends */
#define TCP_EMPTY_POLLS 2           /* polls without a result, per received message */

/* Factors for oversubscribed ranks. */
/* Writing a slot: its cache lines move to the reader, and must be fetched again. */
#define SHM_CACHES_FILL 0.45
/* Reading a slot: bytes just written by another core cost more than those in the reader's cache. */
#define SHM_CACHES_READ 3.4
/* Reading a slot with a reduction, which overlaps with the fetch. */
#define SHM_CACHES_ADD 2.6
/* Single copy: unlike in the measurement, the kernel looks up pages of another process, which are
 * not cached, for several receivers concurrently. */
#define SINGLE_PAGES 2.0
/* Single copy if each rank has a core: one receiver at a time. */
#define SINGLE_ALONE 1.0
/* TCP: copying data that the kernel has just copied. Reductions are not affected, since this core
 * has just received the data. */
#define TCP_CACHES 4.0
/* Context switches before a waiting rank runs, because other ranks poll in between; and further
 * switches per waiting rank. */
#define SHM_SWITCHES_WAKE 1.7
#define SHM_SWITCHES_IDLE 0.35      /* ranks that poll memory need few switches */
#define TCP_SWITCHES_WAKE 2.5
#define TCP_SWITCHES_IDLE 5.5       /* ranks that poll sockets sleep and are woken */

const struct tt_constants tt_constants_default = {
    .shm = {
        .message_ns = 250, .byte_ns = 0.12, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.08,
        .near_message_ns = 250, .near_byte_ns = 0.12,
    },
    .tcp = {
        .message_ns = 8000, .byte_ns = 0.35, .reduce_byte_ns = 0.1, .copy_byte_ns = 0.08,
        .near_message_ns = 250, .near_byte_ns = 0.12,
    },
    .work = {
        .line_ns = 100, .tcp_send_ns = 4500, .tcp_receive_ns = 1200, .tcp_send_byte_ns = 0.15,
        .tcp_receive_byte_ns = 0.2,
        .look_ns = 500, .switch_ns = 1500, .single_ns = 600, .single_byte_ns = 0.12,
        .fill_byte_ns = 0.08, .drain_byte_ns = 0.12, .add_byte_ns = 0.14,
    },
};

static double clamped(double measured, double assumed)
{
    if (measured < assumed / 4)
        return assumed / 4;
    return measured > assumed * 4 ? assumed * 4 : measured;
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Starts a thread on another processor, where another rank would run: one that this thread may
 * use, or any one if this thread is bound. */
static int start_on_other_core(pthread_t *thread, void *(*run)(void *), void *arg)
{
    const int here = sched_getcpu();
    const long all = sysconf(_SC_NPROCESSORS_CONF);
    pthread_attr_t attr;
    cpu_set_t set;
    int err;

    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof set, &set) < 0)
        return EAGAIN;
    CPU_CLR(here, &set);
    for (int i = 0, bound = CPU_COUNT(&set) == 0; bound && i < all && i < CPU_SETSIZE; i++)
        if (i != here)
            CPU_SET(i, &set);
    err = pthread_attr_init(&attr);
    if (err)
        return err;
    err = pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    if (!err)
        err = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return err;
}

struct line {
    _Alignas(64) atomic_uint ping;
    _Alignas(64) atomic_uint pong;
    uint64_t until_ns;
};

static void *echo_line(void *arg)
{
    struct line *l = arg;

    for (uint32_t i = 1; i <= ROUNDS; i++) {
        while (atomic_load_explicit(&l->ping, memory_order_acquire) < i)
            if (tt_now_ns() > l->until_ns)
                return NULL;
        atomic_store_explicit(&l->pong, i, memory_order_release);
    }
    return NULL;
}

/* Returns the one-way time in nanoseconds of the fastest round, since disturbances only add to
 * it; 0 if it could not be measured. */
static double line_ns(void)
{
    struct line l = { .until_ns = tt_now_ns() + 5 * TT_MS };
    uint64_t best = UINT64_MAX;
    pthread_t thread;

    if (start_on_other_core(&thread, echo_line, &l))
        return 0;
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t now = start;

        atomic_store_explicit(&l.ping, i, memory_order_release);
        while (atomic_load_explicit(&l.pong, memory_order_acquire) < i && now < l.until_ns)
            now = tt_now_ns();
        now = tt_now_ns();
        if (now >= l.until_ns)
            break;
        best = now - start < best ? now - start : best;
    }
    atomic_store(&l.ping, ROUNDS);
    pthread_join(thread, NULL);
    return best == UINT64_MAX ? 0 : (double)best / 2;
}

/* Returns the time of the fastest pass over a slot, copying or reducing, in nanoseconds per
 * byte. */
static double pass_ns(uint8_t *a, uint8_t *b, tt_reduce_fn *kernel)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 8; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        if (kernel)
            kernel(b, NULL, a, b, SLOT_BYTES / 4, false, 1);
        else
            tt_copy(b, NULL, a, SLOT_BYTES, false);
        took = tt_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / SLOT_BYTES;
}

/* ---- slots between two cores ---- */

#define SLOTS 4u                    /* number of slots, as in an operation */
/* timeout: other ranks start, too, and time slices on the other processor may last some
 * milliseconds */
#define SLOTS_TIMEOUT_MS 20

struct slots {
    _Alignas(64) atomic_uint full;
    _Alignas(64) atomic_uint empty;
    uint8_t *bytes, *own;           /* [SLOTS][SLOT_BYTES], [SLOT_BYTES] */
    uint64_t until_ns;
    uint64_t drain_ns, add_ns;      /* of the fastest round */
};

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Waits until *word reaches value. Returns false after until_ns. Pauses between polls, since
 * continuous polling delays the writer. */
static bool await_word(const atomic_uint *word, uint32_t value, uint64_t until_ns)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
        if (tt_now_ns() > until_ns)
            return false;
        tt_relax();
    }
    return true;
}

static uint8_t *measured_slot(const struct slots *s, uint32_t round)
{
    return s->bytes + round % SLOTS * SLOT_BYTES;
}

/* Empties the slots: copies from one, and reduces the next, in turn. */
static void *empty_slots(void *arg)
{
    tt_reduce_fn *add = tt_reduce_kernel(TUTTI_F32, TUTTI_SUM, false);
    struct slots *s = arg;

    for (uint32_t i = 1; i <= SLOT_ROUNDS && await_word(&s->full, i, s->until_ns); i++) {
        const uint64_t start = tt_now_ns();

        if (i % 2) {
            tt_copy(s->own, NULL, measured_slot(s, i), SLOT_BYTES, tt_other_core_flag());
            s->drain_ns = min_u64(s->drain_ns, tt_now_ns() - start);
        } else {
            add(s->own, NULL, measured_slot(s, i), s->own, SLOT_BYTES / 4, tt_other_core_flag(), 1);
            s->add_ns = min_u64(s->add_ns, tt_now_ns() - start);
        }
        atomic_store_explicit(&s->empty, i, memory_order_release);
    }
    return NULL;
}

/* Fills the slots with ordinary or non-temporal stores. Returns the fastest time, or 0 if other
 * ranks occupy the cores: results of a few rounds are unreliable. */
static uint64_t fill_slots(struct slots *s, const uint8_t *from, uint32_t stream)
{
    uint64_t fill_ns = UINT64_MAX;
    pthread_t thread;
    bool all;

    s->until_ns = tt_now_ns() + SLOTS_TIMEOUT_MS * TT_MS;
    s->drain_ns = s->add_ns = UINT64_MAX;
    atomic_store(&s->full, 0);
    atomic_store(&s->empty, 0);
    if (start_on_other_core(&thread, empty_slots, s))
        return 0;
    for (uint32_t i = 1; i <= SLOT_ROUNDS && await_word(&s->empty, i - 1, s->until_ns); i++) {
        const uint64_t start = tt_now_ns();

        tt_copy(measured_slot(s, i), NULL, from, SLOT_BYTES, stream);
        if (i > SLOTS)
            fill_ns = min_u64(fill_ns, tt_now_ns() - start);
        atomic_store_explicit(&s->full, i, memory_order_release);
    }
    all = await_word(&s->empty, SLOT_ROUNDS, s->until_ns);
    pthread_join(thread, NULL);
    return all ? fill_ns : 0;
}

/* Measures slots. mem: memory for source, destination and slots. The better kind of stores
 * counts, since it is also chosen at run time (copy_policy.h). No effect with only one core,
 * or if the other one is not available. */
static void measure_slots(struct tt_work_costs *w, uint8_t *mem)
{
    struct slots s = { .own = mem + SLOT_BYTES, .bytes = mem + 2 * SLOT_BYTES };
    uint64_t best_ns = UINT64_MAX;

    for (uint32_t past = 0; past < 2; past++) {
        const uint64_t fill_ns = fill_slots(&s, mem, past ? TT_STREAM_DST : 0);

        if (!fill_ns)
            return;
        if (fill_ns + s.drain_ns >= best_ns)
            continue;
        best_ns = fill_ns + s.drain_ns;
        w->fill_byte_ns =
            clamped((double)fill_ns / SLOT_BYTES, tt_constants_default.work.fill_byte_ns);
        w->drain_byte_ns =
            clamped((double)s.drain_ns / SLOT_BYTES, tt_constants_default.work.drain_byte_ns);
        w->add_byte_ns =
            clamped((double)s.add_ns / SLOT_BYTES, tt_constants_default.work.add_byte_ns);
    }
}

/* Measures a single copy by reading this process's memory as if it were another's: the fastest
 * of `times`. 0 if the kernel does not permit it. */
static double single_ns(uint8_t *a, uint8_t *b, size_t bytes, int times)
{
    const struct iovec here = { b, bytes }, there = { a, bytes };
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < times; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)bytes)
            return 0;
        took = tt_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best;
}

static void measure_single(struct tt_work_costs *w, uint8_t *a, uint8_t *b)
{
    const double some = single_ns(a, b, 8, 16), all = single_ns(a, b, SINGLE_BYTES, 6);

    if (some > 0)
        w->single_ns = clamped(some, w->single_ns);
    if (all > 0)
        w->single_byte_ns = clamped(all / SINGLE_BYTES, w->single_byte_ns);
}

/* ---- TCP ------------------------------------------------------------------------------------- */

/* Returns the address of fd, or of its peer. False: it has none. */
static bool socket_address(int fd, bool of_peer, struct sockaddr_in *out)
{
    socklen_t len = sizeof *out;

    return (of_peer ? getpeername(fd, (struct sockaddr *)out, &len)
                    : getsockname(fd, (struct sockaddr *)out, &len)) == 0;
}

int tt_measure_accept_own(int listener, int own)
{
    struct sockaddr_in ours, theirs;

    if (!socket_address(own, false, &ours))
        return -1;
    for (int i = 0; i <= TT_MEASURE_STRANGERS_MAX; i++) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            return -1;
        if (socket_address(fd, true, &theirs) && theirs.sin_port == ours.sin_port &&
            theirs.sin_addr.s_addr == ours.sin_addr.s_addr)
            return fd;
        close(fd);
    }
    return -1;
}

/* Sets a timeout of SOCKET_TIMEOUT_MS for the calls on fd. */
static bool socket_set_timeouts(int fd)
{
    const struct timeval patience = { .tv_usec = SOCKET_TIMEOUT_MS * 1000 };

    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0;
}

/* Connects two sockets over loopback; false on failure. Other processes of this host may connect
 * meanwhile; they must not block the measurement. */
static bool tcp_pair(int fd[2])
{
    struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good;

    fd[0] = fd[1] = -1;
    good = listener >= 0 && socket_set_timeouts(listener) &&
           bind(listener, (struct sockaddr *)&addr, sizeof addr) == 0 &&
           listen(listener, TT_MEASURE_STRANGERS_MAX) == 0 &&
           socket_address(listener, false, &addr);
    if (good) {
        fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        good = fd[0] >= 0 && socket_set_timeouts(fd[0]) &&
               connect(fd[0], (struct sockaddr *)&addr, sizeof addr) == 0;
    }
    if (good)
        fd[1] = tt_measure_accept_own(listener, fd[0]);
    if (listener >= 0)
        close(listener);
    if (fd[1] < 0 || !socket_set_timeouts(fd[1]))
        return false;
    setsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
    return true;
}

/* Time spent by the ends of a connection, in nanoseconds. */
struct ends {
    double send, receive;
};

/* Sends bytes and receives them, in chunks that fit into the socket buffers. False on an error or
 * timeout. */
static bool through_tcp(const int fd[2], uint8_t *buf, size_t bytes, struct ends *out)
{
    *out = (struct ends){ 0, 0 };
    for (size_t left = bytes; left > 0;) {
        const size_t piece = left < SLOT_BYTES ? left : SLOT_BYTES;
        const uint64_t begin = tt_now_ns();
        uint64_t sent;

        if (send(fd[0], buf, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            return false;
        sent = tt_now_ns();
        if (recv(fd[1], buf, piece, MSG_WAITALL) != (ssize_t)piece)
            return false;
        out->send += (double)(sent - begin);
        out->receive += (double)(tt_now_ns() - sent);
        left -= piece;
    }
    return true;
}

/* Returns the fastest time of a poll of a socket without data. */
static double empty_poll_ns(int fd)
{
    uint64_t best = UINT64_MAX;
    uint8_t byte;

    for (int i = 0; i < 16; i++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        if (recv(fd, &byte, 1, MSG_DONTWAIT) >= 0)
            return 0;
        took = tt_now_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best;
}

/* Measures some streams; the fastest counts for each end separately. */
static void measure_stream(struct tt_constants *c, const int fd[2], uint8_t *buf)
{
    struct ends best = { 1e12, 1e12 }, one;
    double together = 1e12;

    for (int i = 0; i < STREAMS; i++) {
        if (!through_tcp(fd, buf, STREAM_BYTES, &one))
            return;
        together = one.send + one.receive < together ? one.send + one.receive : together;
        best.send = one.send < best.send ? one.send : best.send;
        best.receive = one.receive < best.receive ? one.receive : best.receive;
    }
    c->tcp.byte_ns = clamped(together / STREAM_BYTES, c->tcp.byte_ns);
    c->work.tcp_send_byte_ns = clamped(best.send / STREAM_BYTES, c->work.tcp_send_byte_ns);
    c->work.tcp_receive_byte_ns = clamped(best.receive / STREAM_BYTES, c->work.tcp_receive_byte_ns);
}

static void measure_tcp(struct tt_constants *c, uint8_t *buf)
{
    struct ends small = { 1e9, 1e9 }, one;
    double together = 1e9;
    int fd[2];

    if (tcp_pair(fd)) {
        for (int i = 0; i < 16 && through_tcp(fd, buf, 8, &one); i++) {
            together = one.send + one.receive < together ? one.send + one.receive : together;
            small.send = one.send < small.send ? one.send : small.send;
            small.receive = one.receive < small.receive ? one.receive : small.receive;
        }
        if (together < 1e9) {
            c->tcp.message_ns = clamped(together, c->tcp.message_ns);
            c->work.tcp_send_ns = clamped(small.send, c->work.tcp_send_ns);
            c->work.tcp_receive_ns = clamped(small.receive, c->work.tcp_receive_ns);
            c->work.look_ns = clamped(empty_poll_ns(fd[1]), c->work.look_ns);
            measure_stream(c, fd, buf);
        }
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

/* ---- processors ------------------------------------------------------------------------------ */

struct yielder {
    atomic_bool stop;
    int processor;
};

static void stay_on(int processor)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void *yield_back(void *arg)
{
    struct yielder *t = arg;

    stay_on(t->processor);
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed))
        sched_yield();
    return NULL;
}

/* Two threads yield a processor to each other. Measures the fastest pass, per switch. */
static void *yield_alternately(void *arg)
{
    struct yielder t = { .processor = sched_getcpu() };
    uint64_t best = UINT64_MAX;
    pthread_t other;

    if (t.processor < 0 || (stay_on(t.processor), pthread_create(&other, NULL, yield_back, &t)))
        return NULL;
    for (int pass = 0; pass < 8; pass++) {
        const uint64_t start = tt_now_ns();
        uint64_t took;

        for (int i = 0; i < YIELDS; i++)
            sched_yield();
        took = tt_now_ns() - start;
        best = pass > 0 && took < best ? took : best;
    }
    atomic_store(&t.stop, true);
    pthread_join(other, NULL);
    *(double *)arg = (double)best / (2 * YIELDS);
    return NULL;
}

/* Runs in its own thread, because it binds itself to a processor. Returns 0 if it could not be
 * measured. */
static double switch_ns(void)
{
    double ns = 0;
    pthread_t thread;

    if (pthread_create(&thread, NULL, yield_alternately, &ns) == 0)
        pthread_join(thread, NULL);
    return ns;
}

void tt_constants_measure(struct tt_constants *out)
{
    uint8_t *buf = calloc(2, SINGLE_BYTES);
    double line, copy, reduce;

    *out = tt_constants_default;
    if (!buf)
        return;
    line = line_ns();
    copy = pass_ns(buf, buf + SLOT_BYTES, NULL);
    reduce = pass_ns(buf, buf + SLOT_BYTES, tt_reduce_kernel(TUTTI_F32, TUTTI_SUM, false));
    if (line > 0)
        out->shm.message_ns = clamped(line + SOFTWARE_NS, out->shm.message_ns);
    out->shm.byte_ns = clamped(2 * copy, out->shm.byte_ns);     /* into the slot and out of it */
    out->shm.copy_byte_ns = out->tcp.copy_byte_ns = clamped(copy, out->shm.copy_byte_ns);
    out->shm.reduce_byte_ns = out->tcp.reduce_byte_ns = clamped(reduce, out->shm.reduce_byte_ns);
    measure_tcp(out, buf);
    out->work.line_ns = line > 0 ? clamped(line, out->work.line_ns) : out->work.line_ns;
    out->work.switch_ns = clamped(switch_ns(), out->work.switch_ns);
    measure_single(&out->work, buf, buf + SINGLE_BYTES);
    measure_slots(&out->work, buf);
    out->shm.near_message_ns = out->tcp.near_message_ns = out->shm.message_ns;
    out->shm.near_byte_ns = out->tcp.near_byte_ns = out->shm.byte_ns;
    free(buf);
}

/* ---- derived constants ----------------------------------------------------------------------- */

static double max_double(double a, double b) { return a > b ? a : b; }

void tt_constants_model(const struct tt_constants *c, bool all_local, enum tt_distance farthest,
                        struct tt_cost_model *out)
{
    *out = all_local ? c->shm : c->tcp;
    if (farthest < TT_NEAR_RACK)
        return;
    out->message_ns = c->hosts.way_ns > 0 ? c->hosts.way_ns : out->message_ns;
    out->byte_ns = max_double(out->byte_ns, c->hosts.rail_byte_ns);
}

static double tcp_send_ns(const struct tt_work_costs *w)
{
    return w->tcp_send_ns + TCP_SOFTWARE_NS;
}

static double tcp_receive_ns(const struct tt_work_costs *w)
{
    return w->tcp_receive_ns + TCP_EMPTY_POLLS * w->look_ns + TCP_SOFTWARE_NS;
}

static double tcp_ends_ns(const struct tt_work_costs *w)
{
    return tcp_send_ns(w) + tcp_receive_ns(w);
}

/* Returns the fraction of the TCP ends' work that fits into the measured latency between hosts.
 * Less than 1 for user-space transports. */
static double ends_fraction(const struct tt_constants *c)
{
    const double way = c->hosts.way_ns, ends = tcp_ends_ns(&c->work);

    return way > 0 && way < ends + TCP_LATENCY_NS ? max_double(way - TCP_LATENCY_NS, way / 2) / ends
                                                  : 1;
}

void tt_constants_ends(const struct tt_constants *c, bool near_is_shm, struct tt_ends *out)
{
    const double tcp = tcp_ends_ns(&c->work);

    out->far_ns = tcp * ends_fraction(c);
    out->near_ns = near_is_shm ? SHM_SEND_NS + SHM_RECEIVE_NS : tcp;
}

double tt_constants_latency_ns(const struct tt_constants *c, bool near_is_shm, enum tt_distance d,
                               double way_ns)
{
    const bool near = d <= TT_NEAR_HOST;
    struct tt_ends ends;

    tt_constants_ends(c, near_is_shm, &ends);
    return max_double(way_ns - (near ? ends.near_ns : ends.far_ns),
                      near && near_is_shm ? c->work.line_ns : TCP_LATENCY_NS);
}

void tt_constants_costs(const struct tt_constants *c, bool near_is_shm, uint32_t cores,
                        struct tt_tune_costs *out)
{
    const struct tt_work_costs *w = &c->work;
    const struct tt_des_way tcp = {
        .send_ns = tcp_send_ns(w),
        .receive_ns = tcp_receive_ns(w),
        .send_byte_ns = w->tcp_send_byte_ns,
        .receive_byte_ns = w->tcp_receive_byte_ns,
        .direct = true,
    };
    const struct tt_des_way shm = { .send_ns = SHM_SEND_NS,
                                    .receive_ns = SHM_RECEIVE_NS,
                                    .send_byte_ns = SHM_CACHES_FILL * c->shm.copy_byte_ns,
                                    .mapped = true,
                                    .single_bytes = TT_COPY_CROWDED_MIN,
                                    .single_ns = w->single_ns,
                                    .single_byte_ns = SINGLE_PAGES * w->single_byte_ns,
                                    .whole_bytes = SINGLE_WHOLE_BYTES };
    struct tt_des_way fetched = shm, far = tcp;

    fetched.single_bytes = near_is_shm ? TT_COPY_MESSAGE_MIN : 0;
    fetched.single_byte_ns = SINGLE_ALONE * w->single_byte_ns;
    fetched.shared_bytes = near_is_shm ? SHARED_BYTES : 0;
    far.send_ns *= ends_fraction(c);
    far.receive_ns *= ends_fraction(c);
    *out = (struct tt_tune_costs){
        .far = far, .near = near_is_shm ? shm : tcp, .fetched = fetched,
        .far_latency_ns = tt_constants_latency_ns(c, near_is_shm, TT_NEAR_RACK, c->hosts.way_ns),
        .far_byte_ns = c->hosts.rail_byte_ns,
        .near_latency_ns = near_is_shm ? w->line_ns : TCP_LATENCY_NS,
        .reduce_byte_ns = (near_is_shm ? SHM_CACHES_ADD : 1) * c->shm.reduce_byte_ns,
        .copy_byte_ns = (near_is_shm ? SHM_CACHES_READ : TCP_CACHES) * c->shm.copy_byte_ns,
        .plan_ns = PLAN_NS,
        .step_ns = STEP_NS,
        .apart = { w->fill_byte_ns, w->drain_byte_ns, w->add_byte_ns },
        .own = { 0, c->shm.copy_byte_ns, c->shm.reduce_byte_ns },
        .wake_ns = (near_is_shm ? SHM_SWITCHES_WAKE : TCP_SWITCHES_WAKE) * w->switch_ns,
        .idle_ns = (near_is_shm ? SHM_SWITCHES_IDLE : TCP_SWITCHES_IDLE) * w->switch_ns,
        .cores = cores,
    };
}

/* ---- cards ----------------------------------------------------------------------------------- */

#define OF(field) offsetof(struct tt_constants, field)
#define MODEL(m)                                                                                   \
    OF(m.message_ns), OF(m.byte_ns), OF(m.reduce_byte_ns), OF(m.copy_byte_ns),                     \
        OF(m.near_message_ns), OF(m.near_byte_ns)

/* The constants in a card, in this order, as integers in units of 1/1000. */
static const size_t in_card[] = {
    MODEL(shm), MODEL(tcp), OF(hosts.way_ns), OF(hosts.rail_byte_ns), OF(work.line_ns),
    OF(work.tcp_send_ns), OF(work.tcp_receive_ns), OF(work.tcp_send_byte_ns),
    OF(work.tcp_receive_byte_ns), OF(work.look_ns), OF(work.switch_ns), OF(work.single_ns),
    OF(work.single_byte_ns), OF(work.fill_byte_ns), OF(work.drain_byte_ns), OF(work.add_byte_ns),
};

void tt_constants_write(const struct tt_constants *c, struct tt_writer *w)
{
    for (size_t i = 0; i < sizeof in_card / sizeof *in_card; i++)
        tt_write_u64(w, (uint64_t)(*(const double *)((const char *)c + in_card[i]) * 1000));
}

void tt_constants_read(struct tt_constants *c, struct tt_reader *r)
{
    for (size_t i = 0; i < sizeof in_card / sizeof *in_card; i++)
        *(double *)((char *)c + in_card[i]) = (double)tt_read_u64(r) / 1000;
}
