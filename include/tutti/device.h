/* Tutti, device-initiated communication: put, signal, fence, quiet and wait, called by the blocks
 * of a running kernel.
 *
 * The same kernel source runs on two kinds of devices. Kernels call the functions marked
 * TUTTI_DEVICE. All of these functions are in this header and compile as C, C++ and CUDA (nvcc,
 * sm_70 and newer). On a CUDA device a block is a thread block. On the CPU device a block is a
 * thread started by tutti_device_run, so kernels can run and be tested without a GPU.
 *
 *     create (host, per window) -> view -> kernels put, signal and wait with the view -> destroy
 *
 * Implementation. If the memory of a rank on this host is mapped, blocks store to this memory
 * directly. Blocks of a GPU store only data in this way, not signals. All other commands pass
 * through a FIFO in host memory. The FIFO is a ring of 16-byte triggers. Any number of blocks write
 * triggers, and one proxy thread of this process reads the triggers and issues the puts.
 *
 * Flow control. A block waits while the FIFO is full; the proxy empties the FIFO continuously. In
 * addition, each peer has credits: at most tutti_device_conf.pending commands per peer may be in
 * the FIFO or wait for the transport. If a peer's credits are exhausted, a block waits before it
 * enqueues a command for this peer. Therefore an unresponsive peer blocks only the blocks that send
 * to it. tutti_device_has_room queries the credits.
 *
 * Guarantees for each peer, in every mode:
 *  - Puts are unordered. A source is reusable after tutti_device_quiet or tutti_device_flush.
 *  - A signal of put_signal becomes visible after the data of its put. A signal after a fence
 *    becomes visible after the data of all puts to that peer that were issued before the fence.
 *    This includes puts of other blocks, if the calling block has synchronized with them, by a
 *    group's counter or a barrier of the kernel.
 *  - A fence does not wait and does not affect other peers. Only quiet and flush wait for the
 *    network. All commands wait if the FIFO is full or the peer's credits are exhausted.
 *
 * Device signals update the same words as tutti_window_signal. Host code can therefore wait for a
 * signal of a device and vice versa (see tutti_device_conf.wakes_hosts).
 *
 * The mode selects how the proxy orders a signal after data; kernels are the same in all modes.
 *     mode       put_signal (and group_put)           fence   a group of n tiles to one peer
 *     COUPLED    put, drain, signal                   drain   n drains
 *     DECOUPLED  group_put: put; else as COUPLED      drain   1 drain, by the leader's fence
 *     ORDERED    put, mark, signal                    mark    n marks, 0 drains
 *     FULL       group_put: put; else as ORDERED      mark    1 mark, 0 drains
 *     DEFAULT    ORDERED if the transports to all ranks preserve order, so that marks cost nothing;
 *                else FULL
 * A drain stops the proxy until all data of this device, to any peer, is complete. Drains are
 * needed on networks that do not guarantee ordering. In COUPLED and DECOUPLED an unresponsive peer
 * therefore blocks all others. A mark orders the next signal to a peer after earlier data to the
 * same peer, without stopping the proxy. The transport implements marks by a lane that preserves
 * order, or by sequence numbers on several lanes.
 *
 * Blocks. All threads of a block call a TUTTI_DEVICE function together, with the same arguments,
 * like __syncthreads. A block of the CPU device has one thread. A put includes all writes that
 * threads of the block made to the source before the call. Several blocks may call functions
 * concurrently.
 *
 * Errors. For invalid arguments, a call returns TUTTI_ERR_INVALID and sends nothing. The device
 * fails when a peer is lost, or when a peer accepts or completes nothing for the timeout of the
 * device. Pending and later calls then return the error status of the device. tutti_device_status
 * also returns this status, and sets the message. GPU blocks detect the error when they wait, or
 * after about 256 triggers; until then the proxy drops their puts. A wait that times out returns
 * TUTTI_ERR_TIMEOUT, and the device stays usable. On the CPU device, the message contains the
 * expected and the actual value of the word.
 *
 * Sources: "Eliminating Hidden Serialization in Multi-Node Megakernel Communication" (2026) for
 * decoupled signaling and ordering by the NIC; MSCCL++ (arXiv 2504.09014) for lap parity and
 * 16-byte triggers. Details: docs/one-sided.md. */
#ifndef TUTTI_DEVICE_H
#define TUTTI_DEVICE_H

#include "tutti/rma.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_DEVICE_PENDING 8192   /* default of tutti_device_conf.pending */
/* maximum number of calls in progress per peer, separately for quiet and for flush */
#define TUTTI_DEVICE_TICKETS 64
#define TUTTI_DEVICE_ALL 0xffffffu  /* value of `peer` for quiet and flush: all peers */

/* A device: the FIFO of a window and its proxy thread. */
typedef struct tutti_device tutti_device;

/* How the proxy orders a signal after data (see the table at the top of this header). */
typedef enum tutti_device_mode {
    TUTTI_DEVICE_DEFAULT = 0,   /* ORDERED or FULL, chosen when the mode is set */
    TUTTI_DEVICE_COUPLED,
    TUTTI_DEVICE_DECOUPLED,
    TUTTI_DEVICE_ORDERED,
    TUTTI_DEVICE_FULL,          /* decoupled and ordered */
    TUTTI_DEVICE_MODES
} tutti_device_mode;

/* Selects the lane (TCP connection, queue pair) of a put. All policies preserve ordering. */
typedef enum tutti_device_lanes {
    TUTTI_DEVICE_SEQUENCED = 0, /* the lane that is currently fastest; needs sequence numbers */
    TUTTI_DEVICE_PINNED,        /* lane (peer mod number of lanes) for all traffic to that peer */
    TUTTI_DEVICE_ROUND_ROBIN,   /* each lane in turn; needs sequence numbers */
    TUTTI_DEVICE_LANES
} tutti_device_lanes;

/* The kind of memory that tutti_device_conf.alloc returns. */
typedef enum tutti_device_memory {
    TUTTI_DEVICE_SHARED = 0,    /* for kernels and the host: pinned, at the same address for both */
    TUTTI_DEVICE_LOCAL          /* for kernels only: the device's own memory, zeroed */
} tutti_device_memory;

/* Options of tutti_device_create. Set `size` to sizeof(tutti_device_conf). A field that is zero (or
 * NULL) takes its default value. */
typedef struct tutti_device_conf {
    size_t size;
    tutti_device_mode mode;
    tutti_device_lanes lanes;
    uint32_t fifo_slots;        /* Size of the FIFO in triggers, a power of two from 8 to 2^20; 0:
                                 * 4096. A put uses 2 triggers, a put_signal 3 (1 if its data is
                                 * stored directly), and any other command 1. */
    uint32_t groups;            /* Number of counters for tutti_device_group_*, at most 2^20 */
    int64_t timeout_ms;         /* Timeout of blocking calls, and the time after which an
                                 * unresponsive peer is declared lost; 0: the communicator's
                                 * timeout; negative: none */
    uint8_t no_direct;          /* 1: no direct stores; data for ranks on this host also passes
                                   through the FIFO */
    uint8_t wakes_hosts;        /* 1: directly stored signals also wake host threads in
                                 * tutti_window_wait. 0: only device code and tutti_window_test
                                 * detect such signals without delay. Always 1 if `polls` is set. */
    uint8_t polls;              /* 1: blocks are treated like GPU blocks, which cannot wake the
                                 * proxy or make progress: the proxy sends all signals, and polls
                                 * the FIFO. The proxy polls continuously while blocks wait and for
                                 * 1 ms after a put, else every 50 us. Implied by alloc. */
    uint8_t pad[1];
    uint32_t flags;             /* Number of flags (tutti_device_flag), at most 2^16 */
    /* For kernels on a GPU: alloc returns zeroed memory aligned to 64 bytes, or NULL; free releases
     * it. Set both or neither, e.g. to tutti_device_cuda_alloc and tutti_device_cuda_free
     * (below). */
    void *(*alloc)(size_t bytes, tutti_device_memory memory, void *arg);
    void (*free)(void *mem, tutti_device_memory memory, void *arg);
    void *arg;
    uint32_t pending;           /* Maximum number of commands queued per peer, 1 to 2^20; 0:
                                 * TUTTI_DEVICE_PENDING. At this limit, only blocks that send to
                                 * that peer wait. */
    uint32_t pad2;
} tutti_device_conf;

/* Counters of a device since its creation or tutti_device_counters_reset. Set `size` to
 * sizeof(tutti_device_counters) before the call. */
typedef struct tutti_device_counters {
    size_t size;
    uint64_t triggers;          /* triggers that the proxy read from the FIFO */
    uint64_t puts, put_bytes;   /* puts issued by the proxy, including those of put_signal */
    uint64_t signals;           /* signals issued by the proxy, including those of put_signal */
    uint64_t drains;            /* number of times that the proxy stopped until all data was
                                 * complete */
    uint64_t fences;            /* signals that were ordered by a mark instead of a drain */
    uint64_t quiets;            /* completed calls of quiet and flush */
    uint64_t full_waits;        /* triggers that were delayed because the FIFO was full */
    uint64_t stalls;            /* passes of the proxy in which the transport accepted no command */
    uint64_t room_waits;        /* commands that were delayed because no credit was available for
                                 * their peer */
} tutti_device_counters;

/* ---- for hosts ------------------------------------------------------------------------------- */

/* Creates a device for puts and signals to a window. Not collective: a rank may create none or
 * several. conf NULL: defaults. Connects to the ranks of this host. The window's memory must be
 * 8-byte aligned on ranks that receive signals, and at most 64 GiB on each rank. The caller owns
 * *out, and must destroy it before the window and the communicator. If the device still exists,
 * tutti_window_free returns TUTTI_ERR_INVALID, and the destruction of the communicator aborts the
 * process. Any thread. */
TUTTI_API tutti_status tutti_device_create(tutti_window *window, const tutti_device_conf *conf,
                                           tutti_device **out);
/* Destroys the device; no kernel may be running. Issues the commands in the FIFO, for at most the
 * timeout of the device, and stops the proxy. Does not wait for remote completion (see
 * tutti_window_quiet). Returns TUTTI_OK, or the error status of a failed device. NULL is a
 * no-op. */
TUTTI_API tutti_status tutti_device_destroy(tutti_device *device);
/* Returns TUTTI_OK, or the error status of a failed device, and sets its message. Any thread. */
TUTTI_API tutti_status tutti_device_status(tutti_device *device);
/* Aborts the device: pending and later calls of kernels return TUTTI_ERR_ABORTED. Any thread. */
TUTTI_API tutti_status tutti_device_abort(tutti_device *device);
/* Changes the mode and the lane policy; no kernel may be running. Waits until the proxy has issued
 * all earlier puts; if this takes longer than tutti_device_conf.timeout_ms, returns
 * TUTTI_ERR_TIMEOUT and changes nothing. Earlier views of the device become invalid. */
TUTTI_API tutti_status tutti_device_set_mode(tutti_device *device, tutti_device_mode mode,
                                             tutti_device_lanes lanes);
/* Reads the counters. Any thread; concurrent operations may or may not be included. */
TUTTI_API tutti_status tutti_device_read_counters(tutti_device *device, tutti_device_counters *out);
/* Resets all counters to 0; no kernel may be running. */
TUTTI_API tutti_status tutti_device_counters_reset(tutti_device *device);
/* Return the name of a mode ("default", "coupled", "decoupled", "ordered", "full") or of a lane
 * policy ("sequenced", "pinned", "round-robin"); "?" for an unknown value. */
TUTTI_API const char *tutti_device_mode_name(tutti_device_mode mode);
TUTTI_API const char *tutti_device_lanes_name(tutti_device_lanes lanes);

/* Sets *out to the address of the flag with index `flag` (from 0) of the device. A flag is a word,
 * initially 0. Kernels set flags (tutti_device_raise_flag) or wait for them
 * (tutti_device_await_flag); the host accesses flags with atomic instructions. A flag can be
 * tutti_dynamic.start or tutti_dynamic.over of an exchange (tutti/moe.h). The device owns the
 * memory. Any thread. */
TUTTI_API tutti_status tutti_device_flag(tutti_device *device, uint32_t flag, uint64_t **out);

/* A slot of the FIFO. The lowest bit of `head` is the parity of the writer's lap around the ring.
 * `head` is written last: a slot is full if this bit equals the parity of the reader's lap. */
typedef struct tutti_device_trigger {
    uint64_t head, body;
} tutti_device_trigger;

/* The view of a device that kernels use, passed by value. The header and the library must have the
 * same version. Fields are private to the functions below. The device owns all memory. Totals count
 * from the creation of the device. */
typedef struct tutti_device_view {
    uint32_t rank, nranks;      /* of the window */
    uint32_t mode, wakes_hosts; /* mode: a tutti_device_mode, not DEFAULT */
    uint32_t fifo_slots, ngroups, nflags;
    uint32_t by_proxy;          /* 1: all signals go through the proxy, because blocks cannot
                                 * update host memory atomically with respect to the host */
    tutti_device_trigger *fifo; /* [fifo_slots] */
    uint64_t *reserved;         /* total triggers that blocks have reserved */
    uint64_t *taken_seen;       /* the blocks' cached copy of `taken` */
    const uint64_t *taken;      /* total triggers that the proxy has read */
    uint64_t *full_waits;
    uint32_t *asleep;           /* 1: the proxy sleeps and must be woken. NULL: it polls */
    const uint64_t *status;     /* error status of a failed device, or 0 */
    uint64_t *status_seen;      /* GPU: the blocks' cached copy of `status` */
    const uint64_t *clock_ms;   /* time in ms, updated by the proxy every few milliseconds */
    uint64_t timeout_ms;        /* UINT64_MAX: none */
    uint64_t *pulse;            /* heartbeat of waiting blocks that cannot wake the proxy; the proxy
                                 * polls continuously while the value changes */
    uint64_t *tickets;          /* [2][nranks + 1] number of calls to quiet and to flush, per
                                 * peer; the last column is for TUTTI_DEVICE_ALL */
    const uint64_t *answers;    /* [2][nranks + 1] number of these calls that the proxy has
                                 * completed */
    uint32_t pending, pad;      /* limit of entered - given, for each peer */
    uint64_t *entered;          /* [nranks] total commands that blocks issued for each peer */
    uint64_t *given_seen;       /* [nranks] the blocks' cached copy of `given` */
    const uint64_t *given;      /* [nranks] total commands for each peer that the proxy has issued,
                                 * or dropped because the device has failed */
    uint64_t *room_waits;
    uint64_t *groups;           /* [ngroups][8] counters, each the first word of a cache line */
    uint64_t *flags;            /* [nflags][8] flags, each the first word of a cache line */
    uint64_t *wake_sent;             /* [nranks] 1: the FIFO contains a trigger that wakes the host
                                 * threads of that rank */
    uint8_t *mine;              /* this rank's memory in the window */
    uint8_t *const *direct;     /* [nranks] memory that blocks store to directly; NULL: none */
    const uint64_t *bytes;      /* [nranks] size of each rank's memory in the window */
    const uint8_t *words;       /* [nranks] 1: the memory of that rank supports signals */
    tutti_device *device;       /* for functions that run on the host */
} tutti_device_view;

/* Writes the view of the device to *out. The view is valid until tutti_device_set_mode or
 * tutti_device_destroy. Any thread. */
TUTTI_API tutti_status tutti_device_view_of(tutti_device *device, tutti_device_view *out);

/* CPU device: runs kernel(view, block, nblocks, arg) in nblocks threads, 1 to 1024, and waits until
 * all of them have ended. Returns TUTTI_OK, or the first error status, with a message that names
 * the block. TUTTI_ERR_INVALID: the device was created with conf.alloc. */
typedef tutti_status tutti_device_kernel(const tutti_device_view *view, uint32_t block,
                                         uint32_t nblocks, void *arg);
TUTTI_API tutti_status tutti_device_run(tutti_device *device, uint32_t nblocks,
                                        tutti_device_kernel *kernel, void *arg);

/* Internal functions, which the functions below call on the CPU device:
 *   tutti_device_rest    Pauses between two polls of memory, and makes progress unless `device` is
 *                        NULL. `turn` is the number of previous polls.
 *   tutti_device_wake    Wakes the proxy.
 *   tutti_device_refuse  Returns TUTTI_ERR_INVALID, and sets a message about an invalid argument of
 *                        the function `call`. `what` is the kind of the argument: a range (0), a
 *                        signal word (1), a group (2), a flag (3) or a source (4). For a group or
 *                        flag, `peer` is its number. */
TUTTI_API void tutti_device_rest(tutti_device *device, uint32_t turn);
TUTTI_API void tutti_device_wake(tutti_device *device);
TUTTI_API tutti_status tutti_device_refuse(tutti_device *device, const char *call, uint32_t peer,
                                           uint64_t offset, uint64_t bytes, int what);

/* Also internal: returns TUTTI_ERR_TIMEOUT and sets a message. `what` is the kind of the wait
 * (TUTTI_DEVICE_LATE_*). `which` is the offset of the word, or the number of the group, flag or
 * rank. `value` is the expected value of the word, and `seen` its actual value. */
enum {
    TUTTI_DEVICE_LATE_WORD = 0,
    TUTTI_DEVICE_LATE_GROUP,
    TUTTI_DEVICE_LATE_FLAG,
    TUTTI_DEVICE_LATE_QUIET,
    TUTTI_DEVICE_LATE_FLUSH
};
TUTTI_API tutti_status tutti_device_late(int what, uint64_t which, tutti_compare compare,
                                         uint64_t value, uint64_t seen);

#ifdef __cplusplus
}
#endif

/* ---- for kernels: memory primitives of CPU and GPU ------------------------------------------ */

#if defined(__CUDACC__)
#define TUTTI_DEVICE static __host__ __device__ inline
#else
#define TUTTI_DEVICE static inline
#endif

/* The next three functions load, store and add with system scope: their effects are visible to
 * blocks, the proxy and other ranks. */
TUTTI_DEVICE uint64_t tutti_device_load_acquire(const uint64_t *at)
{
#if defined(__CUDA_ARCH__)
    uint64_t value;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
#else
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
#endif
}

TUTTI_DEVICE void tutti_device_store_release(uint64_t *at, uint64_t value)
{
#if defined(__CUDA_ARCH__)
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
#else
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}

/* Adds with acquire and release order; returns the previous value. */
TUTTI_DEVICE uint64_t tutti_device_add(uint64_t *at, uint64_t value)
{
#if defined(__CUDA_ARCH__)
    uint64_t before;

    asm volatile("atom.add.acq_rel.sys.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(at), "l"(value)
                 : "memory");
    return before;
#else
    return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
#endif
}

/* Like tutti_device_add, for a word that only this device accesses (device scope). */
TUTTI_DEVICE uint64_t tutti_device_add_own(uint64_t *at, uint64_t value)
{
#if defined(__CUDA_ARCH__)
    uint64_t before;

    asm volatile("atom.add.acq_rel.gpu.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(at), "l"(value)
                 : "memory");
    return before;
#else
    return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
#endif
}

/* The next three functions access words that only blocks of this device change while kernels run.
 * They are relaxed on a GPU. On a CPU they have acquire or release order, which costs nothing on
 * x86. */
TUTTI_DEVICE uint64_t tutti_device_reserve(uint64_t *at, uint64_t n)
{
#if defined(__CUDA_ARCH__)
    uint64_t before;

    asm volatile("atom.add.relaxed.gpu.u64 %0, [%1], %2;"
                 : "=l"(before)
                 : "l"(at), "l"(n)
                 : "memory");
    return before;
#else
    return __atomic_fetch_add(at, n, __ATOMIC_ACQ_REL);
#endif
}

TUTTI_DEVICE uint64_t tutti_device_load_own(const uint64_t *at)
{
#if defined(__CUDA_ARCH__)
    uint64_t value;

    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
#else
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
#endif
}

TUTTI_DEVICE void tutti_device_store_own(uint64_t *at, uint64_t value)
{
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
#else
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}

/* Stores with system scope. On a GPU, call tutti_device_release first to order earlier writes; on a
 * CPU the store itself has release order. */
TUTTI_DEVICE void tutti_device_store(uint64_t *at, uint64_t value)
{
#if defined(__CUDA_ARCH__)
    asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
#else
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}

/* Release fence: a reader that observes a later tutti_device_store also sees all earlier writes. */
TUTTI_DEVICE void tutti_device_release(void)
{
#if defined(__CUDA_ARCH__)
    asm volatile("fence.acq_rel.sys;" : : : "memory");
#endif
}

/* Sequentially consistent fence with system scope. */
TUTTI_DEVICE void tutti_device_full_fence(void)
{
#if defined(__CUDA_ARCH__)
    asm volatile("fence.sc.sys;" : : : "memory");
#else
    __sync_synchronize();
#endif
}

/* Returns the index of this thread in its block. */
TUTTI_DEVICE uint32_t tutti_device_thread(void)
{
#if defined(__CUDA_ARCH__)
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#else
    return 0;
#endif
}

/* Returns the number of threads of the block. */
TUTTI_DEVICE uint32_t tutti_device_threads(void)
{
#if defined(__CUDA_ARCH__)
    return blockDim.x * blockDim.y * blockDim.z;
#else
    return 1;
#endif
}

/* Barrier of the threads of the block. */
TUTTI_DEVICE void tutti_device_sync(void)
{
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
}

/* Broadcasts a status in the block: returns the argument of thread 0 in all threads. */
TUTTI_DEVICE tutti_status tutti_device_agree(tutti_status mine)
{
#if defined(__CUDA_ARCH__)
    __shared__ int agreed;

    __syncthreads();
    if (tutti_device_thread() == 0)
        agreed = (int)mine;
    __syncthreads();
    return (tutti_status)agreed;
#else
    return mine;
#endif
}

/* A waiting block checks the status and the clock every LOOK_TURNS polls, and changes the pulse
 * every PULSE_TURNS polls. On a GPU these intervals are longer, because each access is a round trip
 * to host memory. On a CPU both happen at every poll, because a poll may include a sleep. */
#if defined(__CUDA_ARCH__)
#define TUTTI_DEVICE_LOOK_TURNS 16
#define TUTTI_DEVICE_PULSE_TURNS 32
#else
#define TUTTI_DEVICE_LOOK_TURNS 1
#define TUTTI_DEVICE_PULSE_TURNS 1
#endif

/* Returns TUTTI_OK, or the error status of a failed device. On a GPU, reads the cached copy. */
TUTTI_DEVICE tutti_status tutti_device_failure(const tutti_device_view *v)
{
#if defined(__CUDA_ARCH__)
    return (tutti_status)tutti_device_load_own(v->status_seen);
#else
    return (tutti_status)tutti_device_load_acquire(v->status);
#endif
}

/* Like tutti_device_failure, but reads host memory. On a GPU, also updates the cached copy. */
TUTTI_DEVICE tutti_status tutti_device_look(const tutti_device_view *v)
{
    const uint64_t st = tutti_device_load_acquire(v->status);

#if defined(__CUDA_ARCH__)
    if (st)
        tutti_device_store_own(v->status_seen, st);
#endif
    return (tutti_status)st;
}

/* Changes the pulse, so that a polling proxy polls without pauses. Does not wait for the store. */
TUTTI_DEVICE void tutti_device_show(const tutti_device_view *v)
{
#if defined(__CUDA_ARCH__)
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    tutti_device_store(v->pulse, now);
#else
    __atomic_fetch_add(v->pulse, 1, __ATOMIC_RELAXED);
#endif
}

/* Pauses between two polls of memory; `turn` is the number of previous polls. Every waiting loop
 * must call this function: it makes progress, or keeps the proxy polling if the block cannot make
 * progress itself. */
TUTTI_DEVICE void tutti_device_pause(const tutti_device_view *v, uint32_t turn)
{
    if (!v->asleep && turn % TUTTI_DEVICE_PULSE_TURNS == 0)
        tutti_device_show(v);
#if defined(__CUDA_ARCH__)
    if ((turn + 1) % TUTTI_DEVICE_LOOK_TURNS == 0)
        tutti_device_look(v);       /* so that a polling block detects a failed device */
    __nanosleep(turn < 64 ? 20 : 500);
#else
    tutti_device_rest(v->device, turn);
#endif
}

/* Returns TUTTI_ERR_INVALID. On the CPU device, also sets the error message
 * (tutti_device_refuse). */
TUTTI_DEVICE tutti_status tutti_device_invalid(const tutti_device_view *v, const char *call,
                                               uint32_t peer, uint64_t offset, uint64_t bytes,
                                               int what)
{
#if defined(__CUDA_ARCH__)
    (void)v, (void)call, (void)peer, (void)offset, (void)bytes, (void)what;
    return TUTTI_ERR_INVALID;
#else
    return tutti_device_refuse(v->device, call, peer, offset, bytes, what);
#endif
}

/* Returns TUTTI_ERR_TIMEOUT. On the CPU device, also sets the error message (tutti_device_late). */
TUTTI_DEVICE tutti_status tutti_device_timeout(int what, uint64_t which, tutti_compare compare,
                                               uint64_t value, uint64_t seen)
{
#if defined(__CUDA_ARCH__)
    (void)what, (void)which, (void)compare, (void)value, (void)seen;
    return TUTTI_ERR_TIMEOUT;
#else
    return tutti_device_late(what, which, compare, value, seen);
#endif
}

/* ---- for kernels: the FIFO ------------------------------------------------------------------- */

/* Kinds of triggers. Bits of `head`: 0 parity; 1 to 3 kind; 4 and 5 signal operation; 6 to 29 peer;
 * 30 to 63 offset of the signal, divided by 8. In a SOURCE trigger, bits 6 to 63 are the size in
 * bytes. `body` is the offset of a PUT, the address of a SOURCE or the value of a SIGNAL, else
 * 0. */
enum {
    TUTTI_TRIGGER_NONE = 0,
    TUTTI_TRIGGER_PUT,          /* followed by a SOURCE and, with a signal operation, a SIGNAL */
    TUTTI_TRIGGER_SOURCE,
    TUTTI_TRIGGER_SIGNAL,
    TUTTI_TRIGGER_FENCE,
    TUTTI_TRIGGER_QUIET,
    TUTTI_TRIGGER_FLUSH,
    TUTTI_TRIGGER_WAKE
};
#define TUTTI_TRIGGER_PEER_SHIFT 6
#define TUTTI_TRIGGER_WORD_SHIFT 30

/* Returns the head of a trigger with parity bit 0. `word` is the signal's offset divided by 8. */
TUTTI_DEVICE uint64_t tutti_trigger_head(uint32_t what, uint32_t op, uint32_t peer, uint64_t word)
{
    return (uint64_t)what << 1 | (uint64_t)op << 4 | (uint64_t)peer << TUTTI_TRIGGER_PEER_SHIFT |
           word << TUTTI_TRIGGER_WORD_SHIFT;
}

/* Waits until the proxy has read the trigger that was in this slot one lap earlier. The proxy
 * drains the FIFO even after an error, so the wait needs no deadline. Called by one thread. */
TUTTI_DEVICE void tutti_device_await_slot(const tutti_device_view *v, uint64_t position)
{
    uint32_t turn = 0;

    while (position - tutti_device_load_own(v->taken_seen) >= v->fifo_slots) {
        const uint64_t taken = tutti_device_load_acquire(v->taken);

        tutti_device_store_own(v->taken_seen, taken);
        if (position - taken < v->fifo_slots)
            break;
        if (turn == 0)
            tutti_device_reserve(v->full_waits, 1);
        tutti_device_pause(v, turn++);
    }
}

/* Wakes the proxy if it sleeps; called after slots have been filled. The full fence pairs with the
 * full fence of the proxy, between its store to `asleep` and its last check of the FIFO. */
TUTTI_DEVICE void tutti_device_ring(const tutti_device_view *v)
{
#if defined(__CUDA_ARCH__)
    (void)v;
#else
    if (!v->asleep)
        return;
    tutti_device_full_fence();
    if (__atomic_load_n(v->asleep, __ATOMIC_RELAXED))
        tutti_device_wake(v->device);
#endif
}

#define TUTTI_DEVICE_AT_ONCE 8      /* maximum triggers per push: the size of the smallest FIFO */
#define TUTTI_DEVICE_LOOK_SLOTS 256 /* number of triggers between status checks on a GPU */

/* Writes triggers[n] to consecutive slots, n <= TUTTI_DEVICE_AT_ONCE. When the proxy reads the
 * triggers, earlier writes of the thread are visible to it. All bodies are written before any head,
 * so one fence is sufficient. Called by one thread. */
TUTTI_DEVICE void tutti_device_push_all(const tutti_device_view *v,
                                        const tutti_device_trigger *triggers, uint32_t n)
{
    const uint64_t at = tutti_device_reserve(v->reserved, n);

    tutti_device_await_slot(v, at + n - 1);
    for (uint32_t i = 0; i < n; i++)
        tutti_device_store(&v->fifo[(at + i) & (v->fifo_slots - 1)].body, triggers[i].body);
    tutti_device_release();
    for (uint32_t i = 0; i < n; i++)
        tutti_device_store(&v->fifo[(at + i) & (v->fifo_slots - 1)].head,
                           triggers[i].head | (((at + i) / v->fifo_slots + 1) & 1));
    tutti_device_ring(v);
#if defined(__CUDA_ARCH__)
    if (at / TUTTI_DEVICE_LOOK_SLOTS != (at + n) / TUTTI_DEVICE_LOOK_SLOTS)
        tutti_device_look(v);       /* a block that never waits must also detect a failed device */
#endif
}

/* Enqueues one trigger. Called by one thread. */
TUTTI_DEVICE void tutti_device_push(const tutti_device_view *v, uint64_t head, uint64_t body)
{
    const tutti_device_trigger one = { head, body };

    tutti_device_push_all(v, &one, 1);
}

/* ---- for kernels: flow control per peer ------------------------------------------------------ */

/* Returns 1 if `n` more commands for `peer` can be enqueued without waiting, else 0. Each put,
 * put_signal, signal and fence is one command. n must be at most v->pending. The result is exact if
 * only one block sends to that peer. Called by one thread. */
TUTTI_DEVICE int tutti_device_has_room(const tutti_device_view *v, uint32_t peer, uint32_t n)
{
    const uint64_t behind = tutti_device_load_own(&v->entered[peer]) + n;
    uint64_t given;

    if ((int64_t)(behind - tutti_device_load_own(&v->given_seen[peer])) <= (int64_t)v->pending)
        return 1;
    given = tutti_device_load_acquire(&v->given[peer]);
    tutti_device_store_own(&v->given_seen[peer], given);
    return (int64_t)(behind - given) <= (int64_t)v->pending;
}

/* Takes a credit before a command for `peer` enters the FIFO: waits until fewer than v->pending
 * commands for that peer are queued. Therefore the proxy always has room for the contents of the
 * FIFO. If a peer stops accepting data, only thread blocks that send to this peer wait. Returns
 * early if the device has failed, because the proxy then drops all commands. Called by one
 * thread. */
TUTTI_DEVICE void tutti_device_admit(const tutti_device_view *v, uint32_t peer)
{
    const uint64_t mine = tutti_device_reserve(&v->entered[peer], 1);
    uint32_t turn = 0;

    while ((int64_t)(mine - tutti_device_load_own(&v->given_seen[peer])) >= (int64_t)v->pending) {
        const uint64_t given = tutti_device_load_acquire(&v->given[peer]);

        tutti_device_store_own(&v->given_seen[peer], given);
        if ((int64_t)(mine - given) < (int64_t)v->pending || tutti_device_failure(v))
            return;
        if (turn == 0)
            tutti_device_reserve(v->room_waits, 1);
        tutti_device_pause(v, turn++);
    }
}

/* ---- for kernels: puts and signals ----------------------------------------------------------- */

/* Returns 1 if blocks store data directly to the memory of that rank. */
TUTTI_DEVICE int tutti_device_is_direct(const tutti_device_view *v, uint32_t peer)
{
    return peer < v->nranks && v->direct[peer] != NULL;
}

/* Returns 1 if both data and signals for that rank bypass the FIFO. */
TUTTI_DEVICE int tutti_device_is_alone(const tutti_device_view *v, uint32_t peer)
{
    return tutti_device_is_direct(v, peer) && !v->by_proxy;
}

/* Returns TUTTI_OK if a range lies within the window of `peer`, else TUTTI_ERR_INVALID. */
TUTTI_DEVICE tutti_status tutti_device_check(const tutti_device_view *v, const char *call,
                                             uint32_t peer, uint64_t offset, uint64_t bytes)
{
    if (peer >= v->nranks || offset > v->bytes[peer] || bytes > v->bytes[peer] - offset)
        return tutti_device_invalid(v, call, peer, offset, bytes, 0);
    return TUTTI_OK;
}

/* Like tutti_device_check, for a put. Also returns TUTTI_ERR_INVALID if src is NULL and bytes is
 * not 0. */
TUTTI_DEVICE tutti_status tutti_device_check_put(const tutti_device_view *v, const char *call,
                                                 uint32_t peer, uint64_t offset, const void *src,
                                                 uint64_t bytes)
{
    const tutti_status st = tutti_device_check(v, call, peer, offset, bytes);

    return !st && !src && bytes ? tutti_device_invalid(v, call, peer, offset, bytes, 4) : st;
}

/* Returns TUTTI_OK if a signal word and its operation are valid, else TUTTI_ERR_INVALID. */
TUTTI_DEVICE tutti_status tutti_device_check_word(const tutti_device_view *v, const char *call,
                                                  uint32_t peer, tutti_signal_op op,
                                                  uint64_t offset)
{
    if (peer >= v->nranks || v->bytes[peer] < 8 || offset > v->bytes[peer] - 8 || offset % 8 ||
        !v->words[peer] || (op != TUTTI_SIGNAL_SET && op != TUTTI_SIGNAL_ADD))
        return tutti_device_invalid(v, call, peer, offset, 8, 1);
    return TUTTI_OK;
}

/* First step of each call, made by all threads of the block. Afterwards thread 0 continues alone,
 * and earlier writes of all threads are visible to it. Returns `arguments` if it is an error
 * status, else TUTTI_OK or the error status of a failed device. */
TUTTI_DEVICE tutti_status tutti_device_begin(const tutti_device_view *v, tutti_status arguments)
{
    return arguments ? arguments
                     : tutti_device_agree(tutti_device_thread() == 0 ? tutti_device_failure(v)
                                                                     : TUTTI_OK);
}

/* Copies src[bytes] to mapped memory. Called by all threads of the block. */
TUTTI_DEVICE void tutti_device_copy(uint8_t *to, const void *src, uint64_t bytes)
{
#if defined(__CUDA_ARCH__)
    const uint8_t *from = (const uint8_t *)src;
    const uint64_t words =
        (((uint64_t)(uintptr_t)to | (uint64_t)(uintptr_t)from) & 15) == 0 ? bytes / 16 : 0;

    for (uint64_t i = tutti_device_thread(); i < words; i += tutti_device_threads())
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    for (uint64_t i = words * 16 + tutti_device_thread(); i < bytes; i += tutti_device_threads())
        to[i] = from[i];
#else
    if (bytes)
        __builtin_memmove(to, src, (size_t)bytes);
#endif
}

/* Enqueues a trigger that wakes the waiting host threads of that rank, unless the FIFO already
 * contains such a trigger. Two concurrent blocks may each enqueue a trigger. Called by one
 * thread. */
TUTTI_DEVICE void tutti_device_wake_hosts(const tutti_device_view *v, uint32_t peer)
{
    tutti_device_full_fence();
    if (tutti_device_load_acquire(&v->wake_sent[peer]) != 0)
        return;
    tutti_device_store_release(&v->wake_sent[peer], 1);
    tutti_device_push(v, tutti_trigger_head(TUTTI_TRIGGER_WAKE, 0, peer, 0), 0);
}

/* Raises a signal at a directly mapped rank, after the block's stores. Called by one thread. */
TUTTI_DEVICE void tutti_device_raise(const tutti_device_view *v, uint32_t peer, tutti_signal_op op,
                                     uint64_t offset, uint64_t value)
{
    uint64_t *word = (uint64_t *)(void *)(v->direct[peer] + offset);

    if (v->by_proxy) {
        tutti_device_admit(v, peer);
        tutti_device_push(
            v, tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, (uint32_t)op, peer, offset / 8), value);
        return;
    }
    if (op == TUTTI_SIGNAL_SET)
        tutti_device_store_release(word, value);
    else
        tutti_device_add(word, value);
    if (v->wakes_hosts)
        tutti_device_wake_hosts(v, peer);
}

/* Enqueues a put, with a signal unless op is TUTTI_SIGNAL_NONE. Called by one thread. */
TUTTI_DEVICE void tutti_device_push_put(const tutti_device_view *v, uint32_t peer, uint64_t offset,
                                        const void *src, uint64_t bytes, tutti_signal_op op,
                                        uint64_t signal_offset, uint64_t value)
{
    const tutti_device_trigger all[3] = {
        { tutti_trigger_head(TUTTI_TRIGGER_PUT, (uint32_t)op, peer, 0), offset },
        { (uint64_t)TUTTI_TRIGGER_SOURCE << 1 | bytes << TUTTI_TRIGGER_PEER_SHIFT,
          (uint64_t)(uintptr_t)src },
        { tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, (uint32_t)op, peer, signal_offset / 8), value },
    };

    tutti_device_push_all(v, all, op == TUTTI_SIGNAL_NONE ? 2 : 3);
}

/* Puts src[bytes] into the window of `peer` at `offset`. The source is reusable after
 * tutti_device_flush or tutti_device_quiet, or on return if tutti_device_is_direct. */
TUTTI_DEVICE tutti_status tutti_device_put(const tutti_device_view *v, uint32_t peer,
                                           uint64_t offset, const void *src, uint64_t bytes)
{
    const tutti_status st = tutti_device_begin(
        v, tutti_device_check_put(v, "tutti_device_put", peer, offset, src, bytes));

    if (st)
        return st;
    if (v->direct[peer]) {
        tutti_device_copy(v->direct[peer] + offset, src, bytes);
        tutti_device_sync();
        return TUTTI_OK;
    }
    if (tutti_device_thread() == 0 && bytes) {
        tutti_device_admit(v, peer);
        tutti_device_push_put(v, peer, offset, src, bytes, TUTTI_SIGNAL_NONE, 0, 0);
    }
    return TUTTI_OK;
}

/* Like tutti_device_put, with a signal: after the data, op and value are applied to the word at
 * signal_offset (a multiple of 8) in the window of `peer`. A reader that observes the new value
 * also sees the data. bytes may be 0. */
TUTTI_DEVICE tutti_status tutti_device_put_signal(const tutti_device_view *v, uint32_t peer,
                                                  uint64_t offset, const void *src, uint64_t bytes,
                                                  tutti_signal_op op, uint64_t signal_offset,
                                                  uint64_t value)
{
    tutti_status st =
        tutti_device_check_put(v, "tutti_device_put_signal", peer, offset, src, bytes);

    if (!st)
        st = tutti_device_check_word(v, "tutti_device_put_signal", peer, op, signal_offset);
    st = tutti_device_begin(v, st);
    if (st)
        return st;
    if (v->direct[peer]) {
        tutti_device_copy(v->direct[peer] + offset, src, bytes);
        tutti_device_sync();
    }
    if (tutti_device_thread() != 0)
        return TUTTI_OK;
    if (v->direct[peer]) {
        tutti_device_raise(v, peer, op, signal_offset, value);
        return TUTTI_OK;
    }
    tutti_device_admit(v, peer);
    tutti_device_push_put(v, peer, offset, src, bytes, op, signal_offset, value);
    return TUTTI_OK;
}

/* Applies op and value to the word at `offset` in the window of `peer`. Not ordered after earlier
 * puts, unless tutti_device_fence is called in between. */
TUTTI_DEVICE tutti_status tutti_device_signal(const tutti_device_view *v, uint32_t peer,
                                              tutti_signal_op op, uint64_t offset, uint64_t value)
{
    const tutti_status st =
        tutti_device_begin(v, tutti_device_check_word(v, "tutti_device_signal", peer, op, offset));

    if (st)
        return st;
    if (tutti_device_thread() != 0)
        return TUTTI_OK;
    if (v->direct[peer]) {
        tutti_device_raise(v, peer, op, offset, value);
        return TUTTI_OK;
    }
    tutti_device_admit(v, peer);
    tutti_device_push(v, tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, (uint32_t)op, peer, offset / 8),
                      value);
    return TUTTI_OK;
}

/* Orders earlier puts to `peer` before later signals to it. Does not wait for the network. */
TUTTI_DEVICE tutti_status tutti_device_fence(const tutti_device_view *v, uint32_t peer)
{
    const tutti_status st =
        tutti_device_begin(v, tutti_device_check(v, "tutti_device_fence", peer, 0, 0));

    if (st)
        return st;
    if (tutti_device_thread() == 0) {
        if (v->direct[peer]) {
            tutti_device_full_fence();
        } else {
            tutti_device_admit(v, peer);
            tutti_device_push(v, tutti_trigger_head(TUTTI_TRIGGER_FENCE, 0, peer, 0), 0);
        }
    }
    return TUTTI_OK;
}

/* ---- for kernels: waiting -------------------------------------------------------------------- */

/* Returns the deadline of a call that begins now, in milliseconds of clock_ms. */
TUTTI_DEVICE uint64_t tutti_device_deadline_ms(const tutti_device_view *v)
{
    const uint64_t now_ms = tutti_device_load_acquire(v->clock_ms);

    return v->timeout_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + v->timeout_ms;
}

/* Pauses between two polls of a word; `turn` is the number of previous polls. Returns TUTTI_OK,
 * TUTTI_ERR_TIMEOUT, or the error status of a failed device. *deadline_ms must initially be 0; the
 * first check of the clock sets it. Called by one thread. */
TUTTI_DEVICE tutti_status tutti_device_linger(const tutti_device_view *v, uint32_t turn,
                                              uint64_t *deadline_ms)
{
    tutti_status st = TUTTI_OK;

    if ((turn + 1) % TUTTI_DEVICE_LOOK_TURNS == 0) {
        if (*deadline_ms == 0)
            *deadline_ms = tutti_device_deadline_ms(v);
        st = tutti_device_failure(v);
        if (!st && tutti_device_load_acquire(v->clock_ms) > *deadline_ms)
            st = TUTTI_ERR_TIMEOUT;
    }
    if (!st)
        tutti_device_pause(v, turn);
    return st;
}

/* Waits until the word is at least `least`. `what` and `which` are used in the message of a timeout
 * (tutti_device_late). Called by one thread. */
TUTTI_DEVICE tutti_status tutti_device_wait_least(const tutti_device_view *v, const uint64_t *word,
                                                  uint64_t least, int what, uint64_t which)
{
    uint64_t seen = tutti_device_load_acquire(word), deadline_ms = 0;
    tutti_status st = TUTTI_OK;

    for (uint32_t turn = 0; !st && seen < least; turn++) {
        st = tutti_device_linger(v, turn, &deadline_ms);
        seen = tutti_device_load_acquire(word);
    }
    if (st != TUTTI_ERR_TIMEOUT)
        return st;
    if (seen >= least)
        return TUTTI_OK;
    st = tutti_device_look(v);
    return st ? st : tutti_device_timeout(what, which, TUTTI_AT_LEAST, least, seen);
}

/* Enqueues a QUIET or FLUSH trigger and waits for its completion. The proxy counts completed
 * triggers per peer and kind. A call takes the n-th ticket, and waits until n triggers are
 * complete. The n-th trigger in the FIFO may belong to another call, but it follows the earlier
 * puts of this call. Those puts were enqueued before the n-th ticket was taken, and the n-th
 * trigger afterwards. If the device has failed, the proxy completes all triggers, even if data has
 * not arrived. Called by one thread. */
TUTTI_DEVICE tutti_status tutti_device_ask(const tutti_device_view *v, uint32_t what, uint32_t peer)
{
    const uint32_t column = peer == TUTTI_DEVICE_ALL ? v->nranks : peer;
    const uint32_t word = (what == TUTTI_TRIGGER_FLUSH) * (v->nranks + 1) + column;
    const uint64_t ticket = tutti_device_reserve(&v->tickets[word], 1);
    const uint64_t *answer = &v->answers[word];
    tutti_status st;

    /* No deadline: this thread has a ticket. If the thread returned before it enqueued its trigger,
     * all later calls would wait forever. */
    while ((int64_t)(ticket - tutti_device_load_acquire(answer)) >= TUTTI_DEVICE_TICKETS)
        tutti_device_pause(v, 64);
    tutti_device_push(v, tutti_trigger_head(what, 0, peer, 0), 0);
    st = tutti_device_wait_least(
        v, answer, ticket + 1,
        what == TUTTI_TRIGGER_QUIET ? TUTTI_DEVICE_LATE_QUIET : TUTTI_DEVICE_LATE_FLUSH, peer);
    return st ? st : tutti_device_look(v);      /* the proxy writes `status` before `answers` */
}

/* Waits for remote completion of this device's earlier puts to `peer` (or TUTTI_DEVICE_ALL). */
TUTTI_DEVICE tutti_status tutti_device_quiet(const tutti_device_view *v, uint32_t peer)
{
    tutti_status st = peer == TUTTI_DEVICE_ALL
                          ? TUTTI_OK
                          : tutti_device_check(v, "tutti_device_quiet", peer, 0, 0);

    st = tutti_device_begin(v, st);
    if (st)
        return st;
    if (tutti_device_thread() == 0) {
        tutti_device_full_fence();
        if (!tutti_device_is_alone(v, peer))
            st = tutti_device_ask(v, TUTTI_TRIGGER_QUIET, peer);
    }
    return tutti_device_agree(st);
}

/* Waits for local completion of this device's earlier puts to `peer` (or TUTTI_DEVICE_ALL): their
 * sources are reusable. */
TUTTI_DEVICE tutti_status tutti_device_flush(const tutti_device_view *v, uint32_t peer)
{
    tutti_status st = peer == TUTTI_DEVICE_ALL
                          ? TUTTI_OK
                          : tutti_device_check(v, "tutti_device_flush", peer, 0, 0);

    st = tutti_device_begin(v, st);
    if (st)
        return st;
    if (tutti_device_thread() == 0 && !tutti_device_is_direct(v, peer))
        st = tutti_device_ask(v, TUTTI_TRIGGER_FLUSH, peer);
    return tutti_device_agree(st);
}

/* Returns 1 if the value of `word` satisfies the comparison. */
TUTTI_DEVICE int tutti_device_compares(uint64_t word, tutti_compare compare, uint64_t value)
{
    return compare == TUTTI_EQUAL      ? word == value
           : compare == TUTTI_AT_LEAST ? word >= value
                                       : word != value;
}

/* Tests the word at `offset` in this rank's window. Returns TUTTI_OK if the word satisfies the
 * comparison, else TUTTI_PENDING, or the error status of a failed device. Returns
 * TUTTI_ERR_INVALID if `offset` is out of range or not a multiple of 8. On TUTTI_OK, *seen receives
 * the value of the word (seen may be NULL), and data that was put before the signal is visible. May
 * be called by one thread or by all threads of a block. */
TUTTI_DEVICE tutti_status tutti_device_poll(const tutti_device_view *v, uint64_t offset,
                                            tutti_compare compare, uint64_t value, uint64_t *seen)
{
    tutti_status st =
        tutti_device_check_word(v, "tutti_device_poll", v->rank, TUTTI_SIGNAL_SET, offset);
    uint64_t word;

    if (st)
        return st;
    word = tutti_device_load_acquire((const uint64_t *)(const void *)(v->mine + offset));
    if (!tutti_device_compares(word, compare, value)) {
        st = tutti_device_failure(v);
        return st ? st : TUTTI_PENDING;
    }
    if (seen)
        *seen = word;
    return TUTTI_OK;
}

/* Like tutti_device_poll, but waits until the comparison holds, for at most the device's timeout.
 * Called by one thread; `offset` must be valid. */
TUTTI_DEVICE tutti_status tutti_device_poll_until(const tutti_device_view *v, uint64_t offset,
                                                  tutti_compare compare, uint64_t value,
                                                  uint64_t *seen)
{
    const uint64_t *at = (const uint64_t *)(const void *)(v->mine + offset);
    uint64_t word = tutti_device_load_acquire(at), deadline_ms = 0;
    tutti_status st = TUTTI_OK;

    for (uint32_t turn = 0; !st && !tutti_device_compares(word, compare, value); turn++) {
        st = tutti_device_linger(v, turn, &deadline_ms);
        word = tutti_device_load_acquire(at);
    }
    if (!tutti_device_compares(word, compare, value)) {
        if (st == TUTTI_ERR_TIMEOUT)
            st = tutti_device_look(v);
        return st ? st : tutti_device_timeout(TUTTI_DEVICE_LATE_WORD, offset, compare, value, word);
    }
    if (seen)
        *seen = word;
    return TUTTI_OK;
}

/* Waits until the word at `offset` in this rank's window satisfies the comparison. *seen receives
 * the value of the word (seen may be NULL); data that was put before the signal is then visible. */
TUTTI_DEVICE tutti_status tutti_device_wait(const tutti_device_view *v, uint64_t offset,
                                            tutti_compare compare, uint64_t value, uint64_t *seen)
{
    tutti_status st = TUTTI_OK;

    if (tutti_device_thread() == 0) {
        st = tutti_device_check_word(v, "tutti_device_wait", v->rank, TUTTI_SIGNAL_SET, offset);
        if (!st)
            st = tutti_device_poll_until(v, offset, compare, value, seen);
    }
    return tutti_device_agree(st);
}

/* ---- for kernels: flags between kernels and the host ----------------------------------------- */

/* Returns TUTTI_OK if the index of a flag is valid, else TUTTI_ERR_INVALID. */
TUTTI_DEVICE tutti_status tutti_device_check_flag(const tutti_device_view *v, const char *call,
                                                  uint32_t flag)
{
    return flag < v->nflags ? TUTTI_OK : tutti_device_invalid(v, call, flag, 0, 0, 3);
}

/* Sets a flag of this device to `value`. A reader that observes the value sees all earlier writes
 * of the block. Wakes waiting host threads of this process. An exchange whose tutti_dynamic.start
 * is this flag then starts, and reads the lists that kernels have written. */
TUTTI_DEVICE tutti_status tutti_device_raise_flag(const tutti_device_view *v, uint32_t flag,
                                                  uint64_t value)
{
    const tutti_status st =
        tutti_device_begin(v, tutti_device_check_flag(v, "tutti_device_raise_flag", flag));

    if (!st && tutti_device_thread() == 0) {
        tutti_device_store_release(&v->flags[flag * 8ull], value);
        tutti_device_wake_hosts(v, v->rank);
    }
    return st;
}

/* Waits until a flag is at least `value`; writes made before the flag was set are then visible. */
TUTTI_DEVICE tutti_status tutti_device_await_flag(const tutti_device_view *v, uint32_t flag,
                                                  uint64_t value)
{
    tutti_status st =
        tutti_device_begin(v, tutti_device_check_flag(v, "tutti_device_await_flag", flag));

    if (st)
        return st;
    if (tutti_device_thread() == 0)
        st =
            tutti_device_wait_least(v, &v->flags[flag * 8ull], value, TUTTI_DEVICE_LATE_FLAG, flag);
    return tutti_device_agree(st);
}

/* ---- for kernels: groups, the two phases of decoupled signaling ------------------------------ */

/* A group is a set of blocks that put tiles to one destination (or a few), with one leader block.
 *
 *     each block:      tutti_device_group_put(&v, ...);  tutti_device_group_publish(&v, group);
 *     the leader:      tutti_device_group_signal(&v, group, blocks * round, signals, n);
 *
 * Phase 1: each block puts its tiles without signals and adds 1 to the group's counter. The puts
 * are then in the FIFO, but not necessarily complete. Phase 2: the leader waits until all blocks
 * have published, fences each destination once, and then raises all signals. A group therefore
 * needs one fence per destination, not one per tile.
 *
 * In modes without decoupling, and for directly mapped ranks, group_put raises the signal itself,
 * and the leader does not raise it again. Kernels are the same in all cases. */

/* A signal: op and value are applied to the word at `offset` in the window of `peer`. */
typedef struct tutti_device_signal_to {
    uint32_t peer;
    tutti_signal_op op;
    uint64_t offset, value;
} tutti_device_signal_to;

/* Returns 1 if the leader, rather than group_put, raises the signals for `peer`. */
TUTTI_DEVICE int tutti_device_decouples(const tutti_device_view *v, uint32_t peer)
{
    return (v->mode == TUTTI_DEVICE_FULL || v->mode == TUTTI_DEVICE_DECOUPLED) &&
           !tutti_device_is_direct(v, peer);
}

/* Puts a tile, src[bytes], into the window of s->peer at `offset`. The signal *s of the tile is
 * raised by this call or by the leader. The leader's list must contain the same signal. */
TUTTI_DEVICE tutti_status tutti_device_group_put(const tutti_device_view *v, uint64_t offset,
                                                 const void *src, uint64_t bytes,
                                                 const tutti_device_signal_to *s)
{
    if (tutti_device_decouples(v, s->peer))
        return tutti_device_put(v, s->peer, offset, src, bytes);
    return tutti_device_put_signal(v, s->peer, offset, src, bytes, s->op, s->offset, s->value);
}

/* Adds 1 to the group's counter. Each block makes this call after it has called group_put for all
 * its tiles of the round. Counters are never reset: with n blocks, round r (from 1) is complete
 * when the counter is n * r. */
TUTTI_DEVICE tutti_status tutti_device_group_publish(const tutti_device_view *v, uint32_t group)
{
    if (group >= v->ngroups)
        return tutti_device_invalid(v, "tutti_device_group_publish", group, 0, 0, 2);
    tutti_device_sync();
    if (tutti_device_thread() == 0)
        tutti_device_add_own(&v->groups[group * 8ull], 1);
    return TUTTI_OK;
}

/* Appends a trigger for `peer` to all[]. If all[] is full, or before waiting for credits, writes
 * the triggers of all[] to the FIFO. Called by one thread. */
TUTTI_DEVICE void tutti_device_gather(const tutti_device_view *v, tutti_device_trigger *all,
                                      uint32_t *n, uint32_t peer, uint64_t head, uint64_t body)
{
    if (*n > 0 && !tutti_device_has_room(v, peer, 1)) {
        tutti_device_push_all(v, all, *n);
        *n = 0;
    }
    tutti_device_admit(v, peer);
    all[*n].head = head;
    all[*n].body = body;
    if (++*n < TUTTI_DEVICE_AT_ONCE)
        return;
    tutti_device_push_all(v, all, *n);
    *n = 0;
}

/* Enqueues one fence for each sequence of adjacent signals to the same peer, then all signals.
 * Called by one thread. */
TUTTI_DEVICE void tutti_device_push_signals(const tutti_device_view *v,
                                            const tutti_device_signal_to *signals, uint32_t n)
{
    tutti_device_trigger all[TUTTI_DEVICE_AT_ONCE];
    uint32_t fenced = TUTTI_DEVICE_ALL, nall = 0;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t peer = signals[i].peer;

        if (peer != fenced && tutti_device_decouples(v, peer))
            tutti_device_gather(v, all, &nall, peer,
                                tutti_trigger_head(TUTTI_TRIGGER_FENCE, 0, peer, 0), 0);
        fenced = peer;
    }
    for (uint32_t i = 0; i < n; i++)
        if (tutti_device_decouples(v, signals[i].peer))
            tutti_device_gather(v, all, &nall, signals[i].peer,
                                tutti_trigger_head(TUTTI_TRIGGER_SIGNAL, (uint32_t)signals[i].op,
                                                   signals[i].peer, signals[i].offset / 8),
                                signals[i].value);
    if (nall > 0)
        tutti_device_push_all(v, all, nall);
}

/* Waits until the group's counter is at least `complete`, then fences each destination and raises
 * signals[n], the signals of all tiles of the round. Called by one block, the leader. If the leader
 * itself puts tiles, it publishes them before this call. Signals to the same peer should be
 * adjacent, because each sequence of adjacent signals to one peer needs a fence. All fences precede
 * the first signal: if fences are drains, only the first drain waits. If a signal is invalid,
 * returns TUTTI_ERR_INVALID, and nothing is sent. */
TUTTI_DEVICE tutti_status tutti_device_group_signal(const tutti_device_view *v, uint32_t group,
                                                    uint64_t complete,
                                                    const tutti_device_signal_to *signals,
                                                    uint32_t n)
{
    tutti_status st = TUTTI_OK;

    if (group >= v->ngroups)
        return tutti_device_invalid(v, "tutti_device_group_signal", group, 0, 0, 2);
    if (tutti_device_thread() == 0) {
        st = tutti_device_wait_least(v, &v->groups[group * 8ull], complete, TUTTI_DEVICE_LATE_GROUP,
                                     group);
        for (uint32_t i = 0; i < n && !st; i++)
            st = tutti_device_check_word(v, "tutti_device_group_signal", signals[i].peer,
                                         signals[i].op, signals[i].offset);
        if (!st)
            st = tutti_device_failure(v);
        if (!st)
            tutti_device_push_signals(v, signals, n);
    }
    return tutti_device_agree(st);
}

/* ---- CUDA: stream-ordered flags -------------------------------------------------------------- */

#if defined(__CUDACC__)
/* A template, so that it is instantiated only in sources that use it. */
template <int threads>
__global__ void tutti_device_flag_kernel(tutti_device_view v, uint32_t flag, uint64_t value,
                                         int waits)
{
    if (waits)
        tutti_device_await_flag(&v, flag, value);
    else
        tutti_device_raise_flag(&v, flag, value);
}

/* Raises a flag in stream order: after all earlier work in the stream has completed. */
static inline cudaError_t tutti_device_raise_flag_on(cudaStream_t stream,
                                                     const tutti_device_view *v, uint32_t flag,
                                                     uint64_t value)
{
    tutti_device_flag_kernel<1><<<1, 1, 0, stream>>>(*v, flag, value, 0);
    return cudaGetLastError();
}

/* Waits in stream order. Later work in the stream begins once the flag is at least `value`, the
 * device has failed, or the wait has timed out. tutti_device_status and the next Tutti call made in
 * a kernel report a failure of the device. A timeout is not reported. */
static inline cudaError_t tutti_device_await_flag_on(cudaStream_t stream,
                                                     const tutti_device_view *v, uint32_t flag,
                                                     uint64_t value)
{
    tutti_device_flag_kernel<1><<<1, 1, 0, stream>>>(*v, flag, value, 1);
    return cudaGetLastError();
}
#endif

/* ---- CUDA: memory for tutti_device_conf ------------------------------------------------------ */

#if defined(__CUDACC__)
/* For tutti_device_conf.alloc: allocates zeroed memory of the current GPU (TUTTI_DEVICE_LOCAL) or
 * pinned host memory. Returns NULL on failure. arg is ignored. */
static inline void *tutti_device_cuda_alloc(size_t bytes, tutti_device_memory memory, void *arg)
{
    void *mem = NULL;

    (void)arg;
    if (memory == TUTTI_DEVICE_LOCAL) {
        if (cudaMalloc(&mem, bytes) != cudaSuccess)
            return NULL;
        if (cudaMemset(mem, 0, bytes) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess)
            return mem;
        cudaFree(mem);
        return NULL;
    }
    if (cudaHostAlloc(&mem, bytes, cudaHostAllocPortable | cudaHostAllocMapped) != cudaSuccess)
        return NULL;
    __builtin_memset(mem, 0, bytes);
    return mem;
}

/* For tutti_device_conf.free: frees memory that tutti_device_cuda_alloc returned. */
static inline void tutti_device_cuda_free(void *mem, tutti_device_memory memory, void *arg)
{
    (void)arg;
    if (memory == TUTTI_DEVICE_LOCAL)
        cudaFree(mem);
    else
        cudaFreeHost(mem);
}
#endif

#endif
