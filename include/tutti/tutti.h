/* Tutti: collective communication for machine learning, in C.
 *
 * Conventions of all calls below:
 *  - Shapes: `src[count]` and `dst[nranks][count]` are contiguous arrays of `type`, row-major.
 *  - Units: counts, displacements and offsets are `size_t` elements. Names in _bytes are bytes,
 *    names in _ms and _ns are milliseconds and nanoseconds.
 *  - Errors: every call returns a tutti_status and writes its outputs only on TUTTI_OK. The error
 *    message is in tutti_last_error() of the calling thread, and on stderr (see TUTTI_LOG).
 *  - Order: all ranks of a communicator call its collectives in the same order.
 *  - Threads: one thread at a time may call on a communicator. A second one gets TUTTI_ERR_INVALID
 *    at once, and nothing is started; if that leaves ranks out of step, they get
 *    TUTTI_ERR_MISMATCH or TUTTI_ERR_TIMEOUT. Different threads may use different communicators.
 *    Calls marked "any thread" have no such restriction.
 *  - Blocking: with `call` NULL, a call blocks and uses the communicator's deadline.
 *  - Structs: set `size` to sizeof the struct and zero the rest; zero (or NULL) means default.
 *    Structs grow at their end. The library reads fields that an older program lacks as zero, from
 *    release 0.1 on. An older library accepts unknown fields only if they are zero; otherwise it
 *    returns TUTTI_ERR_INVALID.
 *  - Ownership: buffers belong to the caller. Tutti reads and writes them until the call returns
 *    (blocking) or its request completes, with any status, and does not touch them afterwards.
 *  - In place, as in NCCL: allreduce, reduce, broadcast and alltoall with src == dst;
 *    allgather and gather with src == dst[rank]; reduce_scatter and scatter with dst == src[rank].
 *    Any other overlap of src and dst is an error.
 *
 * Any collective, send, receive or wait may return the errors of tutti_status below. Comments name
 * only errors that need more explanation.
 *
 * Sources: NCCL 2.x user guide (names, argument order, in-place rules, busbw); MPI 4.0, chapters 5
 * and 6 (definitions of the operations); NCCLX (arXiv 2510.20171). */
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
    TUTTI_PENDING = 1,          /* no error: the request has not completed yet */
    TUTTI_ERR_INVALID = 2,      /* invalid argument or setting; nothing was started */
    TUTTI_ERR_NOMEM = 3,        /* out of memory, descriptors or another local resource */
    TUTTI_ERR_SYSTEM = 4,       /* an operating-system call failed */
    TUTTI_ERR_TIMEOUT = 5,      /* the deadline passed; the message names the missing ranks */
    TUTTI_ERR_PEER_LOST = 6,    /* a rank died or does not respond; the message names it */
    TUTTI_ERR_ABORTED = 7,      /* tutti_comm_abort was called on this or another rank */
    TUTTI_ERR_MISMATCH = 8,     /* ranks made different calls; the message shows both */
    TUTTI_ERR_UNSUPPORTED = 9,  /* valid, but not supported by this build or machine */
    TUTTI_ERR_PROTOCOL = 10,    /* a remote process violated the protocol */
    TUTTI_ERR_FORKED = 11,      /* object of the parent process, used in the child of a fork */
    TUTTI_ERR_RANGE = 12,       /* a late-decided size exceeds its declared maximum; the same on
                                   all ranks; nothing was written */
    TUTTI_STATUS_COUNT = 13
} tutti_status;

/* Returns the name of a status, e.g. "PEER_LOST", or "?" for an unknown value. Any thread. */
TUTTI_API const char *tutti_status_name(tutti_status status);

/* Returns the message of the calling thread's last failed call, or "" if none has failed. The
 * string is valid until the thread's next failing call. */
TUTTI_API const char *tutti_last_error(void);

/* Returns the library's version, e.g. "0.1.0". Any thread. */
TUTTI_API const char *tutti_version(void);

/* ---- types and operations -------------------------------------------------------------------- */

typedef enum tutti_dtype {
    TUTTI_I8 = 0, TUTTI_U8, TUTTI_I16, TUTTI_U16, TUTTI_I32, TUTTI_U32, TUTTI_I64, TUTTI_U64,
    TUTTI_F16,          /* IEEE 754 binary16 */
    TUTTI_BF16,         /* upper half of a binary32 */
    TUTTI_F32, TUTTI_F64,
    TUTTI_F8E4M3,       /* OCP 8-bit, 4 exponent bits, no infinity, saturating (arXiv 2209.05433) */
    TUTTI_F8E5M2,       /* OCP 8-bit, 5 exponent bits, IEEE-like */
    TUTTI_DTYPE_COUNT
} tutti_dtype;

/* Reduction operations.
 * A reduction step on 16-bit or 8-bit floats adds in f32 and rounds the result once, to nearest
 * even. With n ranks there are at most n - 1 steps. For values of equal sign, the relative error of
 * the sum is at most (n - 1) * u. u is 2^-11 (f16), 2^-8 (bf16), 2^-4 (e4m3) or 2^-3 (e5m2).
 * Integer sums and products wrap. MIN and MAX return NaN if an operand is NaN. */
typedef enum tutti_redop {
    TUTTI_SUM = 0,
    TUTTI_PROD,
    TUTTI_MIN,
    TUTTI_MAX,
    TUTTI_AVG,          /* the sum, divided once at the end by nranks or tutti_call.divisor.
                           Integer sums wrap before the division, which truncates: the AVG of the
                           u8 values 200, 200 and 200 is 29 */
    TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR,      /* integer types only */
    TUTTI_PREMUL_SUM,   /* each input is multiplied by its rank's tutti_call.scale (rounded to the
                           type), then summed */
    TUTTI_REDOP_COUNT
} tutti_redop;

/* Encodings of quantized collectives (tutti_call.quant).
 * Values are sent in blocks of 256 bytes, or of 128 bytes with 4-bit codes. A block has parameters
 * and one code for each of 248 elements (F8*: 252; U4: 240). N is 255 or 15. For the elements x of
 * a block:
 *   MINMAX  q = round((x - min) / (max - min) * N), decoded as min + q / N * (max - min).
 *           The minimum, the maximum and constant blocks are exact.
 *   ZERO    q = round(x / scale) + zero. The range is extended to include 0,
 *           scale = (max - min) / N, and zero is the code of 0. Zeros are exact.
 *   F8      q = x / scale as an 8-bit float. scale is a power of two that brings the largest
 *           magnitude into the range of the type.
 * Each rank adds its own input, unquantized, to the received values in f32. It quantizes what it
 * sends. A finished result is forwarded unchanged, and its rank keeps the value that it sent.
 * Therefore all ranks, and all runs, produce the same bits.
 *
 * Error. Let S and R be the sums, over the ranks, of a block's largest magnitude and of its range
 * (ZERO: the extended range, R <= 2 S). A sum is quantized m times: nranks times in a ring,
 * m <= 2 (nranks - 1) in general, and m = 1 without a reduction. Then
 *   MINMAX, ZERO   |error| <= m (R / 2N + 2^-20 S) + m N 2^-149
 *   F8             |error| <= ((1 + e)^m - 1) S + m 2^-135, e = 2^-4 (E4M3), 2^-3 (E5M2)
 * plus the rounding to the type (f64 is sent as f32). AVG divides the bound by nranks. Negative
 * and denormal numbers have the same bounds. A block with an infinity, a NaN or an overflowing f32
 * sum becomes NaN as a whole; other blocks are unaffected. A result beyond the range of f16 or
 * bf16 becomes the largest finite number of the type. */
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

/* Returns the bytes of one element, or 0 for an unknown type. Any thread. */
TUTTI_API size_t tutti_dtype_bytes(tutti_dtype type);
/* Return the names that the tools print and accept, or "?" for an unknown value. Any thread. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype type);       /* "f32" */
TUTTI_API const char *tutti_redop_name(tutti_redop op);         /* "sum" */
TUTTI_API const char *tutti_quant_name(tutti_quant quant);      /* "none", "minmax8", "e4m3" */

/* ---- communicators --------------------------------------------------------------------------- */

typedef struct tutti_comm tutti_comm;
typedef struct tutti_request tutti_request;

/* Options of a new communicator. Zero (or NULL) means default; set `size` to sizeof. */
typedef struct tutti_conf {
    size_t size;
    const char *rendezvous; /* "tcp://host:port", "tcp://[v6]:port" or "file:///path";
                               NULL: from the environment */
    int32_t nranks;         /* 0: nranks and rank are taken from the environment */
    int32_t rank;           /* read only if nranks > 0 */
    const char *token;      /* shared secret of the job; NULL: TUTTI_TOKEN, else none */
    int64_t timeout_ms;     /* deadline of start-up and default deadline of every call;
                               0: TUTTI_TIMEOUT_MS (default 300000); negative: none */
    const char *wires;      /* allowed transports, e.g. "shm,verbs,tcp";
                               NULL: TUTTI_WIRES, else all usable ones except verbs and ofi */
    const char *interfaces; /* network interfaces: "eth", "=eth0", "^docker,lo";
                               NULL: TUTTI_INTERFACES, else chosen by route */
    int32_t lanes;          /* 1..16 per peer: TCP connections, or RDMA queue pairs or endpoints for
                               bulk data; 0: TUTTI_LANES, else chosen */
    int32_t no_restore;     /* 1: do not restore in-place input after a failure (saves one copy) */
    const char *security;   /* of connections between hosts: "plain"; "token" or "certificate" for
                               TLS 1.3 (TUTTI_CERTIFICATE, TUTTI_KEY, TUTTI_AUTHORITY);
                               NULL: TUTTI_SECURITY, else plain. The same on all ranks */
} tutti_conf;

/* Rendezvous address that the application itself distributes to the other ranks. */
typedef struct tutti_id {
    char bytes[128];
} tutti_id;

/* Creates the communicator of all ranks of the job. Collective: blocks until all ranks have
 * connected, or until the deadline.
 * conf   rank, size and rendezvous; NULL or zero fields: from the environment
 *        (TUTTI_RANK/TUTTI_SIZE/TUTTI_RENDEZVOUS, `tutti run`, mpirun of Open MPI or MPICH, srun,
 *        torchrun)
 * *out   owned by the caller, who frees it with tutti_comm_destroy
 * TIMEOUT: ranks are missing. The message names them on every rank that connected. If rank 0 is
 * missing, which serves tcp:// and file://, the message names rank 0 only. */
TUTTI_API tutti_status tutti_comm_create(tutti_comm **out, const tutti_conf *conf);

/* Creates an id in one process, which need not become rank 0. The process then serves the start-up
 * in the background until all ranks have connected or the deadline has passed. conf may be NULL. */
TUTTI_API tutti_status tutti_id_create(tutti_id *out, const tutti_conf *conf);
/* Like tutti_comm_create, but the id replaces conf->rendezvous and conf->token. */
TUTTI_API tutti_status tutti_comm_create_id(tutti_comm **out, const tutti_id *id, int nranks,
                                            int rank, const tutti_conf *conf);

/* Splits `parent` by colour; within a colour, ranks are ordered by key, then by parent rank. A rank
 * with a negative colour participates and gets *out = NULL. Collective over parent. The new
 * communicator shares the parent's connections. Source: MPI_Comm_split. */
TUTTI_API tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out);
/* Creates a communicator of the same ranks, whose messages never match those of `parent`.
 * Collective over parent. Source: MPI_Comm_dup. */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out);

/* Return this process's rank and the number of ranks; -1 if comm is NULL. Any thread. */
TUTTI_API int tutti_comm_rank(const tutti_comm *comm);
TUTTI_API int tutti_comm_size(const tutti_comm *comm);

/* Returns TUTTI_OK if the communicator is usable, else the error that ended it. Never blocks.
 * Any thread. */
TUTTI_API tutti_status tutti_comm_status(const tutti_comm *comm);

/* Aborts all calls on `comm` on all of its ranks: they return TUTTI_ERR_ABORTED soon. Does not
 * wait. Afterwards only tutti_comm_destroy is useful. Any thread. Source: ncclCommAbort. */
TUTTI_API tutti_status tutti_comm_abort(tutti_comm *comm);

/* Frees the communicator. Not collective. Aborts pending requests first; the caller must still wait
 * for each of them. comm may be NULL. */
TUTTI_API void tutti_comm_destroy(tutti_comm *comm);

/* ---- call options ---------------------------------------------------------------------------- */

/* Options of one call. Zero means default; set `size` to sizeof. */
typedef struct tutti_call {
    size_t size;
    tutti_request **request;    /* not NULL: non-blocking. The call returns at once; *request is the
                                   caller's, who must complete it with one of the waits below */
    int64_t timeout_ms;         /* 0: the communicator's; negative: none. On an idle
                                   machine the call ends within 5 ms of it. Before it fails, it
                                   queries the ranks that it waits for, one round trip each. If one
                                   has stopped responding, it takes 500 ms to identify it, and up to
                                   5 s on a busy machine */
    const char *algo;           /* forces an algorithm by name (`tutti info --algos`):
                                   "allreduce_ring", or short "ring"; the same on all ranks */
    uint32_t tag;               /* send and recv only: matched in order per (peer, tag). Each tag
                                   used in a direction takes up to 48 bytes until the communicator
                                   is destroyed */
    double scale;               /* TUTTI_PREMUL_SUM only: the factor; 0 is TUTTI_ERR_INVALID. May
                                   differ between ranks */
    tutti_quant quant;          /* quantized transfer. For allreduce, reduce, reduce_scatter,
                                   allgather and broadcast of f16, bf16, f32 and f64; reductions
                                   with SUM or AVG. TUTTI_ERR_UNSUPPORTED for everything else. The
                                   same on all ranks */
    float *error_feedback;      /* with quant only, on all ranks or none: [elements of src], zeros
                                   before the first call, kept by the caller between calls. The
                                   quantization error of this rank is added to src in the next call,
                                   so that errors do not accumulate. Unchanged if the call fails */
    uint64_t divisor;           /* TUTTI_AVG only: divides the sum instead of nranks, at most
                                   2^32 - 1; 0: nranks. For a fixed world size in which some ranks
                                   contribute nothing. The same on all ranks, which is checked */
} tutti_call;

/* Makes progress and returns TUTTI_PENDING while the request runs, else its final status. Does not
 * free the request. */
TUTTI_API tutti_status tutti_test(tutti_request *request);
/* Blocks until the request completes, frees it and returns its status.
 * INVALID: request is NULL. */
TUTTI_API tutti_status tutti_wait(tutti_request *request);
/* Waits for requests[n] and frees all of them; skips NULL entries. Returns the first error by
 * index, or TUTTI_OK. */
TUTTI_API tutti_status tutti_wait_all(tutti_request **requests, size_t n);
/* Waits until one of requests[n] completes, frees it, sets its entry to NULL and *index to its
 * index, and returns its status. INVALID: all entries are NULL. */
TUTTI_API tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index);

/* ---- collectives ----------------------------------------------------------------------------- */

/* dst[i] = op over all ranks r of src_r[i]. Shapes: src[count], dst[count], on every rank. */
TUTTI_API tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_redop op, tutti_comm *comm, const tutti_call *call);
/* As allreduce, with the result on `root` only; dst is ignored on other ranks. */
TUTTI_API tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                    tutti_redop op, int root, tutti_comm *comm,
                                    const tutti_call *call);
/* Reduces src[nranks][count]; dst[count] is row `rank` of the result. */
TUTTI_API tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count,
                                            tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                            const tutti_call *call);
/* As reduce_scatter, with rows of counts[r] elements packed in rank order, and dst[counts[rank]].
 * counts[nranks] is the same on all ranks. */
TUTTI_API tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                             tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                             const tutti_call *call);
/* dst[r] = src of rank r. Shapes: src[count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_comm *comm, const tutti_call *call);
/* As allgather, with counts[r] elements of rank r at dst + displs[r]. counts[nranks] and
 * displs[nranks] are the same on all ranks. displs NULL: packed in rank order. */
TUTTI_API tutti_status tutti_allgatherv(const void *src, void *dst, const size_t *counts,
                                        const size_t *displs, tutti_dtype type, tutti_comm *comm,
                                        const tutti_call *call);
/* dst[count] on every rank = src[count] of root; src is ignored on other ranks. */
TUTTI_API tutti_status tutti_broadcast(const void *src, void *dst, size_t count, tutti_dtype type,
                                       int root, tutti_comm *comm, const tutti_call *call);
/* dst[r] on root = src of rank r. Shapes: src[count], dst[nranks][count] on root; dst is ignored on
 * other ranks. */
TUTTI_API tutti_status tutti_gather(const void *src, void *dst, size_t count, tutti_dtype type,
                                    int root, tutti_comm *comm, const tutti_call *call);
/* As gather, with counts and displs as in tutti_allgatherv. */
TUTTI_API tutti_status tutti_gatherv(const void *src, void *dst, const size_t *counts,
                                     const size_t *displs, tutti_dtype type, int root,
                                     tutti_comm *comm, const tutti_call *call);
/* dst of rank r = src[r] of root. Shapes: src[nranks][count] on root, dst[count]; src is ignored on
 * other ranks. */
TUTTI_API tutti_status tutti_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                     int root, tutti_comm *comm, const tutti_call *call);
/* As scatter, with counts[r] elements for rank r at src + displs[r]; arrays as in
 * tutti_allgatherv. */
TUTTI_API tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts,
                                      const size_t *displs, tutti_dtype type, int root,
                                      tutti_comm *comm, const tutti_call *call);
/* dst[r] on this rank = src[rank] of rank r. Shapes: src[nranks][count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                                      tutti_comm *comm, const tutti_call *call);
/* As alltoall, with this rank's own counts and displacements, each [nranks]; displs NULL: packed.
 * recv_counts[r] here must equal send_counts of rank r for this rank.
 * In place: src == dst, with equal counts and equal displacements. The row received from r replaces
 * the row sent to r. Rows must not overlap. */
TUTTI_API tutti_status tutti_alltoallv(const void *src, const size_t *send_counts,
                                       const size_t *send_displs, void *dst,
                                       const size_t *recv_counts, const size_t *recv_displs,
                                       tutti_dtype type, tutti_comm *comm, const tutti_call *call);
/* Returns TUTTI_OK on a rank only after all ranks have called it. */
TUTTI_API tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call);

/* ---- point to point -------------------------------------------------------------------------- */

/* Send and receive buf[count]. They match in call order per (pair, direction, tag). Type and count
 * must be equal on both ranks, else both return MISMATCH, and the message shows both calls.
 * I8 and U8 stand for bytes: with one of them on either side, only the sizes in bytes must be
 * equal. The peer may be this rank; then start one of the two with a request first, or put both
 * into a group. INVALID: a blocking call to this rank itself whose counterpart was not started. */
TUTTI_API tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);
TUTTI_API tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);

/* One send or receive of a group. */
typedef struct tutti_p2p {
    int is_recv;        /* 0: send from buf; 1: receive into buf */
    int peer;
    void *buf;
    size_t count;
    tutti_dtype type;
    uint32_t tag;
} tutti_p2p;

/* Runs the sends and receives ops[n] together. No order among them can deadlock; sends between one
 * pair still match in list order. All ops are checked before the first one is started.
 * call->request is one request for the whole group and completes with its last op.
 * call->timeout_ms is the deadline of each op; call->tag and call->algo are ignored.
 * ops[n] may be freed when the call returns. Returns the first error by index.
 * Source: ncclGroupStart and ncclGroupEnd; MPI_Isend, MPI_Irecv and MPI_Waitall. */
TUTTI_API tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm,
                                   const tutti_call *call);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates zeroed, page-aligned memory that other ranks of this host can map, so that a transfer
 * to it needs one copy. Local. At most 256 allocations at a time for all communicators of one
 * start-up; NOMEM beyond. The caller frees *out with tutti_mem_free, before the communicator is
 * destroyed, when no call uses it. */
TUTTI_API tutti_status tutti_mem_alloc(tutti_comm *comm, size_t bytes, void **out);
TUTTI_API tutti_status tutti_mem_free(tutti_comm *comm, void *mem);
/* Registers mem[bytes] of the caller for frequent use. The memory stays the caller's and must
 * outlive the registration, which tutti_mem_deregister ends with the same `mem`. Local; valid for
 * all communicators. RDMA devices register the whole range: at once, in the background or at first
 * use, as TUTTI_REGISTER selects (docs/rdma.md); memory of tutti_mem_alloc likewise. Other
 * transports gain nothing from it. A buffer may span several adjacent registrations.
 * NOMEM: a device could not register it at once. Source: ncclCommRegister.
 *
 * Deregister returns INVALID and changes nothing for an address that is not the start of a
 * registration, or is deregistered already, and while an operation uses the memory. If an RDMA
 * device has registered it, that holds also while a window or a put uses it. Memory must be
 * deregistered before it is unmapped. */
TUTTI_API tutti_status tutti_mem_register(tutti_comm *comm, void *mem, size_t bytes);
TUTTI_API tutti_status tutti_mem_deregister(tutti_comm *comm, void *mem);

/* Kind of device memory. libfabric needs it; libibverbs does not. */
typedef enum tutti_mem_kind {
    TUTTI_MEM_MAPPED = 0,       /* device memory mapped into this process and usable by its CPU */
    TUTTI_MEM_CUDA,
    TUTTI_MEM_ROCM,
    TUTTI_MEM_LEVEL_ZERO
} tutti_mem_kind;

/* Describes device memory. Zero means default; set `size` to sizeof. */
typedef struct tutti_mem_device {
    size_t size;
    tutti_mem_kind kind;
    int device;                 /* device number in the runtime of `kind` (CUDA: its ordinal) */
    int has_dmabuf;             /* 1: dmabuf and dmabuf_offset are set; 0: RDMA devices register the
                                   address, which needs a kernel module like nvidia-peermem */
    int dmabuf;                 /* descriptor, e.g. of cuMemGetHandleForAddressRange or
                                   hsa_amd_portable_export_dmabuf; the caller's, who may close it
                                   after the call */
    size_t dmabuf_offset;       /* bytes: where mem begins in the dma-buf */
} tutti_mem_device;

/* Registers mem[bytes] as device (GPU) memory. Tutti then never accesses it by CPU, only by RDMA.
 * It may back a window (tutti_window_create) and be the source of a put. Signals
 * (tutti_rma.signal_window), gets, atomics, puts to the own rank, collectives and messages need
 * host memory and return UNSUPPORTED for it. Both ends of a put need a transport that supports
 * device memory: verbs, or ofi with a provider that neither copies nor registers per endpoint
 * (docs/rdma.md).
 * mem, bytes and dmabuf_offset are multiples of the page size. The registration ends with
 * tutti_mem_deregister, which must come before the memory is freed. Local; valid for all
 * communicators. UNSUPPORTED: no transport of this job supports it, or no device can register it.
 * Sources: dma-buf (kernel.org, driver-api/dma-buf), ibv_reg_dmabuf_mr(3), fi_mr(3). */
TUTTI_API tutti_status tutti_mem_register_device(tutti_comm *comm, void *mem, size_t bytes,
                                                 const tutti_mem_device *what);

/* RDMA registrations of this process, over all communicators (docs/rdma.md). Set `size` to
 * sizeof. */
typedef struct tutti_registered {
    size_t size;
    uint64_t hits;              /* uses of memory that was already registered */
    uint64_t misses;            /* registrations made at a use or by tutti_mem_register */
    uint64_t dynamic;           /* of these, of memory that the program did not register itself */
    uint64_t evicted;           /* registrations ended by TUTTI_REGISTER_BYTES, by
                                   TUTTI_REGISTER_COUNT or by a limit of the device */
    uint64_t invalidated;       /* registrations ended because the memory was unmapped, remapped or
                                   released */
    uint64_t count, bytes;      /* current registrations and their bytes */
    uint64_t bytes_most;        /* highest value of `bytes` */
    uint64_t told_bytes;        /* bytes registered by tutti_mem_register and not deregistered */
    uint64_t registering_ns, undoing_ns;    /* time in the devices' libraries, registering and
                                               deregistering */
} tutti_registered;

/* Writes the numbers of this process to *out. Any thread, at any time. INVALID: out is NULL, or
 * out->size is wrong. */
TUTTI_API tutti_status tutti_mem_registered(tutti_registered *out);

/* Memory that Tutti uses for one purpose. */
typedef struct tutti_memory_part {
    const char *purpose;        /* e.g. "engine: peers"; static storage */
    int shared;                 /* 1: shared by all communicators of one start-up; 0: of this one */
    uint64_t fixed_bytes;       /* independent of the number of ranks */
    uint64_t rank_bytes;        /* of tables with an entry for each rank, connected or not */
    uint64_t peer_bytes;        /* for ranks with which this rank has communicated */
} tutti_memory_part;

/* Memory of a communicator in this process, without the overhead of allocators and the kernel. Set
 * `size` to sizeof. An idle rank, with which nothing was exchanged, costs idle_bytes: the sum of
 * rank_bytes / nranks. This assumes a job with as many ranks as the communicator. */
typedef struct tutti_memory {
    size_t size;
    uint32_t nranks;            /* of the communicator */
    uint32_t job_ranks;         /* of the start-up; determines the size of shared tables */
    uint32_t connected;         /* ranks with a connection to this one */
    uint32_t nparts;
    double idle_bytes;          /* per idle rank */
    uint64_t bytes;             /* total */
    tutti_memory_part parts[40];
} tutti_memory;

/* Writes the memory use of `comm` to *out. Local. Any thread, but not while the communicator is
 * being destroyed. INVALID: out is NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_memory(tutti_comm *comm, tutti_memory *out);

/* Time of operations in this process by phase, in nanoseconds, over all communicators of one
 * start-up. In an elastic run, the times of tutti_run_comm include the run's own operations since
 * its members last connected (tutti_run_stats_t.worlds). Time in no phase was waiting. Set `size`
 * to sizeof. Source of the phases: "Collective Communication for 100k+ GPUs", 2025, section 5.3. */
typedef struct tutti_times {
    size_t size;
    uint64_t calls;             /* completed operations; very short ones are not timed */
    uint64_t call_ns;           /* from begin to end */
    uint64_t send_ns;           /* copy out: from the caller's memory to a peer or a transport */
    uint64_t forward_ns;        /* reduce and forward in one pass, without a local store */
    uint64_t reduce_ns;         /* reductions that store their result */
    uint64_t copy_ns;           /* copy in: from the landing buffer to the destination, including a
                                   copy to the next peer in the same pass */
    uint64_t wire_ns;           /* transfers done by this process's CPU (tcp) */
    uint64_t most_in_flight;    /* maximum bytes in flight to one peer, for algorithms that bound
                                   them ("ftar") */
} tutti_times;

/* Starts the timers from zero (on != 0) or stops them. They cost a few clock readings per segment.
 * Operations in progress are not timed, or not completely. Local; any thread. INVALID: comm is NULL
 * or is being destroyed. */
TUTTI_API tutti_status tutti_comm_time(tutti_comm *comm, int on);
/* Writes the timers to *out; all zero unless they run. Local; any thread. INVALID: an argument is
 * NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_times(tutti_comm *comm, tutti_times *out);

#ifdef __cplusplus
}
#endif
#endif
