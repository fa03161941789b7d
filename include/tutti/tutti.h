/* Tutti: collective communication for machine learning, in C.
 *
 * Conventions that hold for every call below:
 *  - Shapes are written `src[count]`, `dst[nranks][count]`: elements of `type`, row-major, contiguous.
 *  - Counts, displacements and offsets are `size_t` elements (bytes only where a name ends in _bytes).
 *  - Every call returns a tutti_status. Outputs are written only on TUTTI_OK. What went wrong, with the
 *    ranks, sizes and addresses involved, is one sentence in tutti_last_error() of the calling thread. The sentence
 *    is printed to stderr, too: TUTTI_LOG says what is (none, error, warn, info or debug; warn if it is not set).
 *  - Collectives are called by all ranks of a communicator in the same order, from any one thread at
 *    a time per communicator. Different communicators may be used from different threads.
 *  - `call` may be NULL: the call then blocks, with the communicator's deadline. See tutti_call.
 *  - Option structs (tutti_conf, tutti_call) grow at their end from release to release; `size` tells which one the program was built
 *    for. A library that knows more reads what is missing as zero, from the sizes of release 0.1 on; one that knows less
 *    takes what it does not know if it is zero, and else returns TUTTI_ERR_INVALID. So zero the whole struct.
 *  - Buffers belong to the caller, and are Tutti's to read or write from the call until it returns
 *    (blocking) or its request completes (with any status). Nothing touches them afterwards.
 *  - In place, as in NCCL, is told by the addresses: allreduce, reduce, broadcast, alltoall with src == dst;
 *    allgather and gather with src == dst[rank]; reduce_scatter and scatter with dst == src[rank].
 *    Any other overlap is an error.
 *
 * Sources of the interface: NCCL 2.x user guide (names, argument order, in-place rules, busbw),
 * MPI-4.0 chapters 5 and 6 (definitions of the operations), NCCLX (arXiv 2510.20171). */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* ---- status ---------------------------------------------------------------------------------- */

typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_PENDING = 1,          /* not an error: the request has not completed yet (tutti_test) */
    TUTTI_ERR_INVALID = 2,      /* an argument or a setting is wrong; nothing was started */
    TUTTI_ERR_NOMEM = 3,        /* no memory, descriptors or other local room */
    TUTTI_ERR_SYSTEM = 4,       /* an operating-system call failed */
    TUTTI_ERR_TIMEOUT = 5,      /* the deadline passed; the sentence says who is waited for */
    TUTTI_ERR_PEER_LOST = 6,    /* a rank died or stopped answering; the sentence names it */
    TUTTI_ERR_ABORTED = 7,      /* tutti_comm_abort was called here or on another rank */
    TUTTI_ERR_MISMATCH = 8,     /* ranks called different things; the sentence shows both */
    TUTTI_ERR_UNSUPPORTED = 9,  /* a valid request that this build or machine cannot serve */
    TUTTI_ERR_PROTOCOL = 10,    /* a peer or a stranger sent what it must not */
    TUTTI_ERR_FORKED = 11,      /* the parent's communicator or request, used in the child of a fork */
    TUTTI_ERR_RANGE = 12,       /* a size that is decided late is beyond the most that was declared; the same on all ranks, and nothing was written */
    TUTTI_STATUS_COUNT = 13
} tutti_status;

/* The status's name ("PEER_LOST"); "?" for a value that is none. Any thread. */
TUTTI_API const char *tutti_status_name(tutti_status status);

/* The sentence about the calling thread's last failed call; "" if none failed. Valid until the
 * thread's next failing call. */
TUTTI_API const char *tutti_last_error(void);

/* "0.1.0". */
TUTTI_API const char *tutti_version(void);

/* ---- types and operations ---------------------------------------------------------------------- */

typedef enum tutti_dtype {
    TUTTI_I8 = 0, TUTTI_U8, TUTTI_I16, TUTTI_U16, TUTTI_I32, TUTTI_U32, TUTTI_I64, TUTTI_U64,
    TUTTI_F16,          /* IEEE 754 binary16 */
    TUTTI_BF16,         /* upper half of a binary32 */
    TUTTI_F32, TUTTI_F64,
    TUTTI_F8E4M3,       /* OCP 8-bit, 4 exponent bits, no infinity, saturating (arXiv 2209.05433) */
    TUTTI_F8E5M2,       /* OCP 8-bit, 5 exponent bits, IEEE-like */
    TUTTI_DTYPE_COUNT
} tutti_dtype;

/* Reduction operations. Sums of 16- and 8-bit floats add in f32 and round once (to nearest even) per
 * reduction step; n ranks make at most n - 1 steps, so the relative error of a sum of like-signed
 * values is at most (n - 1) * u, u = 2^-11 (f16), 2^-8 (bf16), 2^-4 (e4m3), 2^-3 (e5m2).
 * Integer sums and products wrap. MIN and MAX return NaN if either operand is one. */
typedef enum tutti_redop {
    TUTTI_SUM = 0,
    TUTTI_PROD,
    TUTTI_MIN,
    TUTTI_MAX,
    TUTTI_AVG,          /* the sum divided by the number of ranks (or tutti_call.divisor), once at the end; integers truncate */
    TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR,      /* integer types only */
    TUTTI_PREMUL_SUM,   /* each rank's input times tutti_call.scale (rounded to the type), then the sum */
    TUTTI_REDOP_COUNT
} tutti_redop;

/* How numbers travel in quantized collectives (tutti_call.quant). They go in blocks of 256 bytes, or of 128 with codes of 4 bits: parameters, then
 * one code for each of 248 elements (F8*: 252; U4: 240); N is 255 or 15. Values, for elements x of a block:
 *   MINMAX  q = round((x - min) / (max - min) * N), and back min + q / N * (max - min): min, max and constant blocks are exact
 *   ZERO    q = round(x / scale) + zero, scale = (max - min) / N of the range with 0 in it, zero the code of 0: zeros are exact
 *   F8      q = x / scale as an 8-bit float, scale a power of two that brings the largest magnitude into its range
 * Each rank adds its own part, as it is, to what arrives, in f32, and what is sent on is packed anew; a finished result is forwarded as it is, and the
 * rank that made it keeps what it sent: all ranks, and all runs, have the same bits.
 *
 * Error. Let S and R be the sums over the ranks of the block's largest magnitude and of its range (ZERO: with 0 in it; R <= 2 S). The result
 * of a sum is packed m times, m <= 2 (nranks - 1), in a ring nranks; m = 1 where nothing is summed. Then
 *   MINMAX, ZERO   |error| <= m (R / 2N + 2^-20 S) + m N 2^-149
 *   F8             |error| <= ((1 + e)^m - 1) S + m 2^-135, e = 2^-4 (E4M3), 2^-3 (E5M2)
 * and the rounding to the type (f64 travels as f32), of AVG after a division by nranks. Negative and denormal numbers are as good as others. A block
 * with an infinity or a NaN, or an f32 sum that overflows, comes out as NaN as a whole; other blocks are not touched by it. What an f16 or a bf16
 * cannot hold becomes its largest finite number. */
typedef enum tutti_quant {
    TUTTI_QUANT_NONE = 0,
    TUTTI_QUANT_MINMAX_U8,
    TUTTI_QUANT_MINMAX_U4,
    TUTTI_QUANT_ZERO_U8,
    TUTTI_QUANT_ZERO_U4,
    TUTTI_QUANT_F8E4M3,
    TUTTI_QUANT_F8E5M2,
    TUTTI_QUANT_COUNT
} tutti_quant;

/* Bytes of one element; 0 for a value that is no type. */
TUTTI_API size_t tutti_dtype_bytes(tutti_dtype type);
/* "f32", "sum", as the tools print and read them; "?" for none. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype type);
TUTTI_API const char *tutti_redop_name(tutti_redop op);
TUTTI_API const char *tutti_quant_name(tutti_quant quant);      /* "none", "minmax8", "e4m3" */

/* ---- communicators ------------------------------------------------------------------------------ */

typedef struct tutti_comm tutti_comm;
typedef struct tutti_request tutti_request;

/* How a communicator is made. Zero (or NULL) means default everywhere; set `size` to sizeof. */
typedef struct tutti_conf {
    size_t size;
    const char *rendezvous; /* "tcp://host:port", "tcp://[v6]:port" or "file:///path"; NULL: from the environment */
    int32_t nranks;         /* 0: from the environment */
    int32_t rank;           /* read only when nranks > 0 */
    const char *token;      /* shared secret of the job; NULL: TUTTI_TOKEN, else none */
    int64_t timeout_ms;     /* deadline of start-up and default deadline of every call; 0: TUTTI_TIMEOUT_MS
                               (default 300000); negative: none */
    const char *wires;      /* e.g. "shm,verbs,tcp": those that may be used; NULL: TUTTI_WIRES, else all usable but verbs and ofi */
    const char *interfaces; /* "eth", "=eth0", "^docker,lo"; NULL: TUTTI_INTERFACES, else by route */
    int32_t lanes;          /* connections per TCP peer, or queue pairs or endpoints for bulk data per RDMA peer, 1..16; 0: TUTTI_LANES, else chosen */
    int32_t no_restore;     /* 1: in-place input is not restored after a failure (saves one copy) */
    const char *security;   /* of connections between hosts: "plain"; TLS 1.3 by the "token", or by "certificate" (TUTTI_CERTIFICATE,
                               TUTTI_KEY, TUTTI_AUTHORITY); NULL: TUTTI_SECURITY, else plain. The same on all ranks */
} tutti_conf;

/* An address of a start-up that the application carries to the other ranks itself. */
typedef struct tutti_id {
    char bytes[128];
} tutti_id;

/* Creates the communicator of all ranks of the job. Collective: blocks until all came, or until the deadline,
 * when every rank that came learns which did not (if rank 0 did not, which serves tcp:// and file://, only that). Who and where comes from `conf`, or from the
 * environment: TUTTI_RANK/TUTTI_SIZE/TUTTI_RENDEZVOUS, `tutti run`, Open MPI's or MPICH's mpirun,
 * srun, torchrun. Caller owns *out and ends it with tutti_comm_destroy. conf may be NULL. */
TUTTI_API tutti_status tutti_comm_create(tutti_comm **out, const tutti_conf *conf);

/* Makes an id, on one process, which then serves start-up in the background until all ranks came or the
 * deadline passed. That process need not become rank 0. conf may be NULL. */
TUTTI_API tutti_status tutti_id_create(tutti_id *out, const tutti_conf *conf);
/* As tutti_comm_create, with the id in place of rendezvous and token. */
TUTTI_API tutti_status tutti_comm_create_id(tutti_comm **out, const tutti_id *id, int nranks, int rank,
                                            const tutti_conf *conf);

/* Splits `parent` by colour; ranks of one colour are ordered by key, then by parent rank. A negative colour
 * takes part but gets *out = NULL. Collective over parent, over its connections. */
TUTTI_API tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out);
/* The same ranks in a new matching space. Collective over parent. */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out);

TUTTI_API int tutti_comm_rank(const tutti_comm *comm);
TUTTI_API int tutti_comm_size(const tutti_comm *comm);

/* TUTTI_OK while the communicator is usable, else what ended it. Any thread; never blocks. */
TUTTI_API tutti_status tutti_comm_status(const tutti_comm *comm);

/* Ends every call on `comm`, on all its ranks, with TUTTI_ERR_ABORTED, soon. Any thread; does not wait.
 * The communicator is then good only for tutti_comm_destroy. */
TUTTI_API tutti_status tutti_comm_abort(tutti_comm *comm);

/* Frees the communicator. Not collective. Requests that are still running are aborted first; the
 * caller still waits for each of them. NULL is fine. */
TUTTI_API void tutti_comm_destroy(tutti_comm *comm);

/* ---- how to call ---------------------------------------------------------------------------------- */

/* Options of one call. Zero means default; set `size` to sizeof. */
typedef struct tutti_call {
    size_t size;
    tutti_request **request;    /* not NULL: the call returns at once, *request is the caller's to finish */
    int64_t timeout_ms;         /* 0: the communicator's; negative: none. Where a rank has just stopped answering, up to half a second more
                                   passes until it is sure that it is the one to blame */
    const char *algo;           /* force an algorithm by name (`tutti info --algos`), "allreduce_ring" or shorter "ring"; the same on all
                                   ranks */
    uint32_t tag;               /* send and recv only: matched in order per (peer, tag). Each that was ever used in a direction takes
                                   up to 48 bytes until the communicator is destroyed */
    double scale;               /* TUTTI_PREMUL_SUM only, which is refused (TUTTI_ERR_INVALID) where this is 0; may differ by rank */
    tutti_quant quant;          /* allreduce, reduce, reduce_scatter, allgather and broadcast of f16, bf16, f32 and f64, reductions with SUM and AVG:
                                   numbers travel quantized; all else is TUTTI_ERR_UNSUPPORTED. The same on all ranks */
    float *error_feedback;      /* with quant only, on all ranks or none: one number for each element of src, zeros before the first call and kept
                                   by the caller from call to call. What this rank's packing loses is added to src the next time, so that the sum of all
                                   results stays near that of all inputs for good. Unchanged if the call fails */
    uint64_t divisor;           /* TUTTI_AVG only: the sum is divided by this, at most 2^32 - 1, instead of by the number of ranks (a fixed world
                                   size, where some ranks have nothing to add); 0: by that. The same on all ranks, which is checked */
} tutti_call;

/* TUTTI_PENDING while it runs, else its final status; the request stays the caller's. Makes progress. */
TUTTI_API tutti_status tutti_test(tutti_request *request);
/* Blocks until it completes, frees it, returns its status. NULL: TUTTI_ERR_INVALID. */
TUTTI_API tutti_status tutti_wait(tutti_request *request);
/* Waits for requests[n] and frees them all; returns the first error by index, else TUTTI_OK. NULL entries are skipped. */
TUTTI_API tutti_status tutti_wait_all(tutti_request **requests, size_t n);
/* Waits until one of requests[n] completes, frees it, sets its entry to NULL and *index to it; returns its status.
 * All entries NULL: TUTTI_ERR_INVALID. */
TUTTI_API tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index);

/* ---- collectives ---------------------------------------------------------------------------------- */

/* dst[i] = op over ranks r of src_r[i]. src[count], dst[count] on every rank. */
TUTTI_API tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                                       tutti_comm *comm, const tutti_call *call);
/* The same result on `root` only; dst is ignored elsewhere. */
TUTTI_API tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                                    int root, tutti_comm *comm, const tutti_call *call);
/* src[nranks][count], dst[count] = row `rank` of the reduction. */
TUTTI_API tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count, tutti_dtype type, tutti_redop op,
                                            tutti_comm *comm, const tutti_call *call);
/* Rows of counts[r] elements, packed in rank order; counts[nranks] alike on all ranks. dst[counts[rank]]. */
TUTTI_API tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts, tutti_dtype type,
                                             tutti_redop op, tutti_comm *comm, const tutti_call *call);
/* src[count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type, tutti_comm *comm,
                                       const tutti_call *call);
/* Block r has counts[r] elements at dst + displs[r]; both arrays alike on all ranks. displs NULL: packed. */
TUTTI_API tutti_status tutti_allgatherv(const void *src, void *dst, const size_t *counts, const size_t *displs,
                                        tutti_dtype type, tutti_comm *comm, const tutti_call *call);
/* dst[count] everywhere = src[count] of root; src is ignored elsewhere. */
TUTTI_API tutti_status tutti_broadcast(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                                       tutti_comm *comm, const tutti_call *call);
/* dst[nranks][count] on root; ignored elsewhere. */
TUTTI_API tutti_status tutti_gather(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                                    tutti_comm *comm, const tutti_call *call);
/* counts and displs [nranks], alike on all ranks. displs NULL: packed. */
TUTTI_API tutti_status tutti_gatherv(const void *src, void *dst, const size_t *counts, const size_t *displs,
                                     tutti_dtype type, int root, tutti_comm *comm, const tutti_call *call);
/* src[nranks][count] on root, dst[count] everywhere. */
TUTTI_API tutti_status tutti_scatter(const void *src, void *dst, size_t count, tutti_dtype type, int root,
                                     tutti_comm *comm, const tutti_call *call);
TUTTI_API tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts, const size_t *displs,
                                      tutti_dtype type, int root, tutti_comm *comm, const tutti_call *call);
/* dst[r] of this rank = src[rank] of rank r. src[nranks][count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type, tutti_comm *comm,
                                      const tutti_call *call);
/* Each array has nranks entries, this rank's own; what r sends here must be what is received from r here.
 * In place where src == dst and the two of counts, and of displacements, say the same: what comes from r then takes the place of what went there, and
 * rows must not overlap. displs may be NULL: packed. */
TUTTI_API tutti_status tutti_alltoallv(const void *src, const size_t *send_counts, const size_t *send_displs, void *dst,
                                       const size_t *recv_counts, const size_t *recv_displs, tutti_dtype type,
                                       tutti_comm *comm, const tutti_call *call);
/* Returns OK on no rank before every rank has called it. */
TUTTI_API tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call);

/* ---- point to point --------------------------------------------------------------------------------- */

/* Matched in call order per (pair, direction, tag); type and count must be equal, else both ranks get TUTTI_ERR_MISMATCH with a sentence that shows
 * both. I8 and U8 stand for bytes: where one of the two says that, the sizes in bytes must be equal, and the other's type may be any. The peer may be this rank itself: then one of the two is
 * started with a request before the other, or both are in a group; a call that would block before its counterpart was started is
 * TUTTI_ERR_INVALID. */
TUTTI_API tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                                  const tutti_call *call);
TUTTI_API tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer, tutti_comm *comm,
                                  const tutti_call *call);

/* One member of a group of sends and receives. */
typedef struct tutti_p2p {
    int is_recv;        /* 0: send from buf; 1: receive into buf */
    int peer;
    void *buf;
    size_t count;
    tutti_dtype type;
    uint32_t tag;
} tutti_p2p;

/* Runs ops[n] together; no order among them can deadlock (sends of a pair still match in list order). One status: the first error by
 * index. Blocks, or gives one request for all of them (call->request), which is over when every member is. ops[n] itself may go when the call
 * returns. All members are checked before the first one is started: INVALID has started none. Of `call`, the deadline is each member's; `tag` and
 * `algo` are ignored. (ncclGroupStart and ncclGroupEnd of NCCL; MPI_Isend, MPI_Irecv and MPI_Waitall.) */
TUTTI_API tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm, const tutti_call *call);

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Memory (zeroed, page aligned) that ranks on this host can map: transfers to it need one copy. Freed by
 * tutti_mem_free, before the communicator is destroyed, when no call uses it. At most 256 at a time, of all communicators
 * of one start-up; NOMEM beyond. Local. */
TUTTI_API tutti_status tutti_mem_alloc(tutti_comm *comm, size_t bytes, void **out);
TUTTI_API tutti_status tutti_mem_free(tutti_comm *comm, void *mem);
/* Tells Tutti of memory of the caller's that will be used often; it stays the caller's and must outlive the registration, which is ended by
 * tutti_mem_deregister with the same mem. RDMA devices register it as a whole, now (NOMEM if they cannot), in the background or at its first use, as
 * TUTTI_REGISTER says, and what tutti_mem_alloc gives likewise (docs/rdma.md). Local, for all communicators. Ignored by wires that gain nothing
 * from it. Not while a call uses the memory: deregister ends what peers reach. */
TUTTI_API tutti_status tutti_mem_register(tutti_comm *comm, void *mem, size_t bytes);
TUTTI_API tutti_status tutti_mem_deregister(tutti_comm *comm, void *mem);

/* Whose memory it is, for libfabric; RDMA devices by libibverbs need not know. */
typedef enum tutti_mem_kind {
    TUTTI_MEM_MAPPED = 0,       /* any device's, mapped into this process so that its processors could use it */
    TUTTI_MEM_CUDA,
    TUTTI_MEM_ROCM,
    TUTTI_MEM_LEVEL_ZERO
} tutti_mem_kind;

/* What memory of a device is. Zero means default everywhere; set `size` to sizeof. */
typedef struct tutti_mem_device {
    size_t size;
    tutti_mem_kind kind;
    int device;                 /* which one, as the kind's runtime counts them (CUDA: its ordinal) */
    int has_dmabuf;             /* 1: dmabuf and dmabuf_offset are set; 0: RDMA devices are given its address, which takes a kernel module like nvidia-peermem */
    int dmabuf;                 /* a descriptor, as cuMemGetHandleForAddressRange and hsa_amd_portable_export_dmabuf give it; the caller's, to close at will */
    size_t dmabuf_offset;       /* bytes, at which mem begins in it */
} tutti_mem_device;

/* Tells Tutti that mem[bytes] is memory of a device (a GPU): from here on Tutti's processors do not touch it, and RDMA devices do. It can be a window
 * (tutti_window_create), and what a put reads. All else is made by processors and takes the host's memory: signals (tutti_rma.signal_window), gets, atomics, puts to
 * the own rank, collectives and messages are UNSUPPORTED there. Both ends of such a put need a wire that carries it:
 * verbs, or ofi without providers that copy or that register per endpoint (docs/rdma.md); UNSUPPORTED here if this job has none, or if no device can register it.
 * mem, bytes and dmabuf_offset are multiples of the page size. It stays registered until tutti_mem_deregister, which comes before it is
 * freed. Local, for all communicators. Source: dma-buf (kernel.org, driver-api/dma-buf), ibv_reg_dmabuf_mr(3), fi_mr(3). */
TUTTI_API tutti_status tutti_mem_register_device(tutti_comm *comm, void *mem, size_t bytes,
                                                 const tutti_mem_device *what);

/* What this process has registered with RDMA devices, of all communicators; docs/rdma.md tells how memory is registered. Set `size` to sizeof. */
typedef struct tutti_registered {
    size_t size;
    uint64_t hits;              /* times that memory was needed and was registered already */
    uint64_t misses;            /* times that it was registered then, or when Tutti was told of it */
    uint64_t dynamic;           /* of these, of memory that Tutti had not been told of */
    uint64_t evicted;           /* registrations that ended because of TUTTI_REGISTER_BYTES and _COUNT, or as the device took no more */
    uint64_t invalidated;       /* that ended because their memory was unmapped, remapped or given back */
    uint64_t count, bytes;      /* there are now */
    uint64_t bytes_most;        /* that there were at a time */
    uint64_t told_bytes;        /* of which Tutti is told now */
    uint64_t registering_ns, undoing_ns;    /* that the devices' libraries took */
} tutti_registered;

/* Any thread, at any time. */
TUTTI_API tutti_status tutti_mem_registered(tutti_registered *out);

/* What Tutti's own memory is for. */
typedef struct tutti_memory_part {
    const char *purpose;        /* "engine: peers", in static storage */
    int shared;                 /* 1: of all communicators that were split from one start-up; 0: of this communicator alone */
    uint64_t fixed_bytes;       /* however many ranks there are */
    uint64_t rank_bytes;        /* in tables that have an entry for each rank, also for those with which nothing was ever exchanged */
    uint64_t peer_bytes;        /* for ranks with which something was */
} tutti_memory_part;

/* Memory of a communicator in this process, as Tutti counts it (without what allocators and the kernel add). Set `size` to sizeof. An idle
 * rank costs idle_bytes; rank_bytes / nranks, added up, where the job has as many ranks as the communicator. */
typedef struct tutti_memory {
    size_t size;
    uint32_t nranks;            /* of the communicator */
    uint32_t job_ranks;         /* of the start-up, by which shared tables go */
    uint32_t connected;         /* ranks to which there is a connection */
    uint32_t nparts;
    double idle_bytes;          /* that a rank costs with which nothing was exchanged */
    uint64_t bytes;             /* all of it */
    tutti_memory_part parts[40];
} tutti_memory;

/* Local. Any thread; not while the communicator is being destroyed. */
TUTTI_API tutti_status tutti_comm_memory(tutti_comm *comm, tutti_memory *out);

/* Where the time of operations went in this process, step by step of how they move bytes, in nanoseconds. Of all communicators that were split from one
 * start-up; in an elastic run that of tutti_run_comm tells of the run's operations, too, from when its members connected (tutti_run_stats_t.worlds). What none of the
 * parts has was waiting. Set `size` to sizeof. Source of the steps: "Collective Communication for 100k+ GPUs", 2025, section 5.3. */
typedef struct tutti_times {
    size_t size;
    uint64_t calls;             /* operations that ended; short ones, which are over before a clock could tell, are not timed */
    uint64_t call_ns;           /* from begin to end */
    uint64_t send_ns;           /* copying out: from the caller's memory to peers, or handing it to wires */
    uint64_t forward_ns;        /* reducing and forwarding in one pass: sums that are stored nowhere here */
    uint64_t reduce_ns;         /* reductions that store */
    uint64_t copy_ns;           /* copying in: from where bytes landed to where they belong (and on to the next peer, in the same pass) */
    uint64_t wire_ns;           /* the transfer itself, on wires that this process's processors carry (tcp) */
    uint64_t most_in_flight;    /* bytes on their way to one peer at once, of operations whose algorithm bounds them ("ftar") */
} tutti_times;

/* on: timers run from here on, from zero; else no longer. They cost some clock readings a segment. Local, any thread; operations that are under way
 * are not timed, or not to their end. INVALID: comm is NULL or being destroyed. */
TUTTI_API tutti_status tutti_comm_time(tutti_comm *comm, int on);
/* What they say, all 0 unless they run. Local, any thread. INVALID: an argument is NULL, or out->size is not that of tutti_times. */
TUTTI_API tutti_status tutti_comm_times(tutti_comm *comm, tutti_times *out);

#ifdef __cplusplus
}
#endif
#endif
