/* Tutti: collective communication for machine learning, in C.
 *
 * Conventions for all calls below:
 *  - Shapes: `src[count]` and `dst[nranks][count]` are contiguous arrays of `type`, row-major.
 *  - Units: counts, displacements and offsets are `size_t`, in elements. A suffix gives any other
 *    unit: _bytes, _ms (milliseconds) or _ns (nanoseconds).
 *  - Errors: every call returns a tutti_status and writes its outputs only on TUTTI_OK. The error
 *    message is in tutti_last_error() of the calling thread, and on stderr (see TUTTI_LOG).
 *  - Order: all ranks of a communicator call its collectives in the same order.
 *  - Threads: only one thread at a time may use a communicator. A concurrent call returns
 *    TUTTI_ERR_INVALID at once and starts nothing. If the ranks then make different calls, they get
 *    TUTTI_ERR_MISMATCH or TUTTI_ERR_TIMEOUT. Different threads may use different communicators.
 *    Calls marked "any thread" have no such restriction.
 *  - Local: calls marked "local" do not communicate with other ranks.
 *  - Blocking: with `call` NULL, a call blocks and uses the communicator's timeout.
 *  - Structs: set `size` to sizeof the struct and zero the rest; zero (or NULL) means default.
 *    New releases add fields at the end. Fields that an older program (0.1 or later) does not have
 *    are read as zero. An older library accepts unknown fields only if they are zero; otherwise it
 *    returns TUTTI_ERR_INVALID.
 *  - Ownership: buffers belong to the caller. Tutti reads and writes them until the call returns
 *    (blocking) or its request completes, with any status, and does not touch them afterwards.
 *  - In place, as in NCCL: allreduce, reduce, broadcast and alltoall with src == dst;
 *    allgather and gather with src == dst[rank]; reduce_scatter and scatter with dst == src[rank].
 *    Any other overlap of src and dst is an error.
 *
 * Any collective, send, receive or wait may return the errors of tutti_status below. Comments on
 * calls describe only errors that need more explanation.
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
    TUTTI_ERR_RANGE = 12,       /* a size read when an exchange started exceeds its declared maximum
                                   (tutti_alltoallv_dynamic); returned on all ranks; nothing was
                                   written */
    TUTTI_STATUS_COUNT = 13
} tutti_status;

/* Returns the name of a status, e.g. "PEER_LOST", or "?" for an unknown value. Any thread. */
TUTTI_API const char *tutti_status_name(tutti_status status);

/* Returns the message of the calling thread's last failed call, or "" if no call has failed. The
 * string is valid until the thread's next failed call. */
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
 * the sum is at most (n - 1) * u, where u is 2^-11 (f16), 2^-8 (bf16), 2^-4 (e4m3) or 2^-3 (e5m2).
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
 * Values are sent in blocks of 256 bytes, or of 128 bytes with 4-bit codes. A block contains its
 * parameters and one code for each of 248 elements (F8*: 252; U4: 240). N is 255 (U8) or 15 (U4).
 * For the elements x of a block:
 *   MINMAX  q = round((x - min) / (max - min) * N), decoded as min + q / N * (max - min).
 *           The minimum, the maximum and constant blocks are exact.
 *   ZERO    q = round(x / scale) + zero, with min and max extended to include 0,
 *           scale = (max - min) / N, and zero the code of 0. Zeros are exact.
 *   F8      q = x / scale as an 8-bit float. scale is the power of two that brings the largest
 *           magnitude into the range of the type.
 * Each rank adds its own input, unquantized, to the received values in f32, and quantizes the sum
 * that it sends. A final result is forwarded unchanged. The rank that computed it keeps the decoded
 * value that it sent. Therefore results are bitwise identical on all ranks and in all runs.
 *
 * Error. Let S and R be the sums, over all ranks, of a block's largest magnitude and of its range
 * (ZERO: the extended range, R <= 2 S). A sum is quantized m times: m = nranks in a ring,
 * m <= 2 (nranks - 1) in general, and m = 1 without a reduction. Then
 *   MINMAX, ZERO   |error| <= m (R / 2N + 2^-20 S) + m N 2^-149
 *   F8             |error| <= ((1 + e)^m - 1) S + m 2^-135, e = 2^-4 (E4M3), 2^-3 (E5M2)
 * plus the rounding to the type (f64 is sent as f32). AVG divides the bound by nranks. Negative
 * and denormal numbers have the same bounds. If a block contains an infinity, a NaN or an f32 sum
 * that overflows, all its elements become NaN; other blocks are unaffected. Results outside the
 * range of f16 or bf16 become the largest finite number of the type. */
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

/* Returns the size of one element in bytes, or 0 for an unknown type. Any thread. */
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
                               NULL: read from the environment */
    int32_t nranks;         /* 0: nranks and rank are read from the environment */
    int32_t rank;           /* read only if nranks > 0 */
    const char *token;      /* shared secret of the job; NULL: TUTTI_TOKEN, else no token */
    int64_t timeout_ms;     /* timeout of start-up, and default timeout of every call;
                               0: TUTTI_TIMEOUT_MS (default 300000); negative: none */
    const char *wires;      /* allowed transports, e.g. "shm,verbs,tcp";
                               NULL: TUTTI_WIRES, else all usable transports except verbs and ofi */
    const char *interfaces; /* network interfaces: "eth" (prefix), "=eth0" (exact name) or
                               "^docker,lo" (all except these); NULL: TUTTI_INTERFACES, else
                               selected by the routing table */
    int32_t lanes;          /* 1 to 16 per peer: TCP connections, or for bulk data RDMA queue pairs
                               or endpoints; 0: TUTTI_LANES, else automatic */
    int32_t no_restore;     /* 1: do not restore in-place input after a failure; saves a copy */
    const char *security;   /* connections between hosts: "plain" (unencrypted), or TLS 1.3 with a
                               "token" or a "certificate" (TUTTI_CERTIFICATE, TUTTI_KEY,
                               TUTTI_AUTHORITY); NULL: TUTTI_SECURITY, else plain. Must be the
                               same on all ranks */
} tutti_conf;

/* Rendezvous id that the application distributes to all ranks (tutti_id_create). */
typedef struct tutti_id {
    char bytes[128];
} tutti_id;

/* Creates the communicator of all ranks of the job. Collective: blocks until all ranks have
 * connected, or until the deadline.
 * conf   rank, size and rendezvous; if it is NULL or has zero fields, they are read from the
 *        environment (TUTTI_RANK, TUTTI_SIZE and TUTTI_RENDEZVOUS, or the variables of `tutti run`,
 *        mpirun of Open MPI or MPICH, srun, torchrun)
 * *out   is owned by the caller and freed with tutti_comm_destroy
 * TIMEOUT: ranks are missing. The message names them on every rank that connected. Rank 0 serves
 * tcp:// and file:// rendezvous; if it is missing, the message names rank 0 only. */
TUTTI_API tutti_status tutti_comm_create(tutti_comm **out, const tutti_conf *conf);

/* Creates an id in one process, which need not be rank 0. Until all ranks have connected, or the
 * timeout has expired, this process serves their start-up in the background. conf may be NULL. */
TUTTI_API tutti_status tutti_id_create(tutti_id *out, const tutti_conf *conf);
/* Like tutti_comm_create, but uses the id instead of conf->rendezvous and conf->token. */
TUTTI_API tutti_status tutti_comm_create_id(tutti_comm **out, const tutti_id *id, int nranks,
                                            int rank, const tutti_conf *conf);

/* Splits `parent` by colour; within a colour, ranks are ordered by key, then by parent rank. Ranks
 * with a negative colour also call it, and get *out = NULL. Collective over parent. The new
 * communicator shares the parent's connections. Source: MPI_Comm_split. */
TUTTI_API tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out);
/* Creates a communicator with the same ranks and separate message matching. Collective over parent.
 * Source: MPI_Comm_dup. */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out);

/* Creates a communicator of ranks[n] of `parent`, in this order. Collective over these ranks only:
 * the others need not call it. All ranks of the list pass the same list and tag. It uses
 * point-to-point messages on parent with this tag. Groups that have a rank in common and may be
 * created in a different order on their ranks need different tags. The new communicator shares the
 * parent's connections. Source: MPI_Comm_create_group.
 * INVALID: a rank is out of range or listed twice, this rank is not listed, or n is not positive.
 * MISMATCH or TIMEOUT: ranks passed different lists. TIMEOUT: a listed rank did not call it. */
TUTTI_API tutti_status tutti_comm_create_group(tutti_comm *parent, const int *ranks, int n,
                                               uint32_t tag, tutti_comm **out);

/* Return this process's rank, and the number of ranks; -1 if comm is NULL. Any thread. */
TUTTI_API int tutti_comm_rank(const tutti_comm *comm);
TUTTI_API int tutti_comm_size(const tutti_comm *comm);

/* Returns TUTTI_OK if the communicator is usable, else the error that made it unusable. Does not
 * block. Any thread. */
TUTTI_API tutti_status tutti_comm_status(const tutti_comm *comm);

/* Aborts the communicator on all its ranks: current and later calls return TUTTI_ERR_ABORTED. Does
 * not wait for them. Afterwards the communicator can only be destroyed. Any thread.
 * Source: ncclCommAbort. */
TUTTI_API tutti_status tutti_comm_abort(tutti_comm *comm);

/* Frees the communicator. Not collective. Pending requests are aborted first; the caller must still
 * free each of them with a wait. comm may be NULL. */
TUTTI_API void tutti_comm_destroy(tutti_comm *comm);

/* ---- call options ---------------------------------------------------------------------------- */

/* Options of one call. Zero means default; set `size` to sizeof. */
typedef struct tutti_call {
    size_t size;
    tutti_request **request;    /* non-NULL: the call does not block; it returns at once. The caller
                                   owns *request and must free it with one of the waits below */
    int64_t timeout_ms;         /* 0: the communicator's timeout; negative: none. On an idle machine
                                   a call returns within 5 ms of its deadline. Before it returns, it
                                   queries the ranks that it waits for, with one round trip each. If
                                   a rank does not respond, identifying it takes another 500 ms, and
                                   on a busy machine up to 5 s */
    const char *algo;           /* name of the algorithm to use (`tutti info --algos`), e.g.
                                   "allreduce_ring", or just "ring"; must be the same on all ranks.
                                   NULL: automatic */
    uint32_t tag;               /* send and recv only: calls match in order per (peer, tag). Each
                                   (direction, tag) in use takes up to 48 bytes until the
                                   communicator is destroyed */
    double scale;               /* TUTTI_PREMUL_SUM only: factor of this rank's input, which may
                                   differ between ranks; must not be 0 */
    tutti_quant quant;          /* quantized transfer, for allreduce, reduce, reduce_scatter,
                                   allgather and broadcast of f16, bf16, f32 and f64; reductions
                                   only with SUM or AVG. Other calls return TUTTI_ERR_UNSUPPORTED.
                                   Must be the same on all ranks */
    float *error_feedback;      /* with quant only, on all ranks or none: array [elements of src],
                                   zeroed before the first call and passed to all later calls. It
                                   receives the quantization error of this rank, which the next call
                                   adds to src, so that errors do not accumulate. Unchanged if the
                                   call fails */
    uint64_t divisor;           /* TUTTI_AVG only: divisor of the sum, at most 2^32 - 1; 0: nranks.
                                   Set it if some ranks contribute nothing to the average. Must be
                                   the same on all ranks, which is checked */
    int *source;                /* recv only: where the sender's rank is written when the receive
                                   completes with TUTTI_OK, also with a named peer. Must stay valid
                                   until then. NULL: not needed */
} tutti_call;

/* Makes progress. Returns TUTTI_PENDING while the request is pending, else its final status. Does
 * not free the request. */
TUTTI_API tutti_status tutti_test(tutti_request *request);
/* Blocks until the request completes, frees it and returns its status.
 * INVALID: request is NULL. */
TUTTI_API tutti_status tutti_wait(tutti_request *request);
/* Waits for requests[n] and frees all of them; skips NULL entries. Returns the error of the request
 * with the lowest index, or TUTTI_OK. */
TUTTI_API tutti_status tutti_wait_all(tutti_request **requests, size_t n);
/* Waits until one of requests[n] completes and frees it. Sets its entry to NULL and *index to its
 * index, and returns its status. Skips NULL entries. INVALID: all entries are NULL. */
TUTTI_API tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index);

/* Calls notify(arg) once, when the request completes with any status; at once if it has completed.
 * The call comes from the thread that completes the request, which may be one of Tutti's own.
 * `notify` must return soon and must not call Tutti: it sets a flag or wakes a thread. The request
 * must be waited for as without it. Any thread, but not while another one waits for the request.
 * INVALID: request or notify is NULL, or the request already has a notification. */
TUTTI_API tutti_status tutti_request_notify(tutti_request *request, void (*notify)(void *arg),
                                            void *arg);

/* ---- collectives ----------------------------------------------------------------------------- */

/* dst[i] = op over all ranks r of src_r[i]. Shapes: src[count], dst[count], on every rank. */
TUTTI_API tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_redop op, tutti_comm *comm, const tutti_call *call);
/* Like allreduce, with the result only on `root`; dst is ignored on other ranks. */
TUTTI_API tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                    tutti_redop op, int root, tutti_comm *comm,
                                    const tutti_call *call);
/* Reduces src[nranks][count] over all ranks; dst[count] is row `rank` of the result. */
TUTTI_API tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count,
                                            tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                            const tutti_call *call);
/* Like reduce_scatter, with rows of counts[r] elements in src, packed in rank order, and
 * dst[counts[rank]]. counts[nranks] must be the same on all ranks. */
TUTTI_API tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                             tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                             const tutti_call *call);
/* dst[r] = src of rank r. Shapes: src[count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_comm *comm, const tutti_call *call);
/* Like allgather, with counts[r] elements of rank r at dst + displs[r]. counts[nranks] and
 * displs[nranks] must be the same on all ranks. displs NULL: packed in rank order. */
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
/* Like gather, with counts and displs as in tutti_allgatherv. */
TUTTI_API tutti_status tutti_gatherv(const void *src, void *dst, const size_t *counts,
                                     const size_t *displs, tutti_dtype type, int root,
                                     tutti_comm *comm, const tutti_call *call);
/* dst of rank r = src[r] of root. Shapes: src[nranks][count] on root, dst[count]; src is ignored on
 * other ranks. */
TUTTI_API tutti_status tutti_scatter(const void *src, void *dst, size_t count, tutti_dtype type,
                                     int root, tutti_comm *comm, const tutti_call *call);
/* Like scatter, with counts[r] elements for rank r at src + displs[r]; the arrays are as in
 * tutti_allgatherv. */
TUTTI_API tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts,
                                      const size_t *displs, tutti_dtype type, int root,
                                      tutti_comm *comm, const tutti_call *call);
/* dst[r] on this rank = src[rank] of rank r. Shapes: src[nranks][count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                                      tutti_comm *comm, const tutti_call *call);
/* Like alltoall, with counts and displacements of this rank, each [nranks]; displs NULL: packed.
 * recv_counts[r] on this rank must equal send_counts[rank] on rank r.
 * In place: src == dst, with equal counts and equal displacements. The row received from r replaces
 * the row sent to r. Rows must not overlap. */
TUTTI_API tutti_status tutti_alltoallv(const void *src, const size_t *send_counts,
                                       const size_t *send_displs, void *dst,
                                       const size_t *recv_counts, const size_t *recv_displs,
                                       tutti_dtype type, tutti_comm *comm, const tutti_call *call);
/* Returns TUTTI_OK on a rank only after all ranks have called it. */
TUTTI_API tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call);

/* ---- point to point -------------------------------------------------------------------------- */

/* Send and receive buf[count]. Calls match in order per (pair, direction, tag). Type and count must
 * be equal on both ranks; otherwise both return MISMATCH, and the message shows both calls. If one
 * of the types is I8 or U8, only the sizes in bytes must be equal. The peer may be this rank: then
 * start the first of the two calls with a request, or use a group. INVALID: the peer is this rank,
 * the call blocks, and its counterpart has not been started.
 *
 * A receive with peer TUTTI_ANY_RANK takes the next unreceived message with its tag from any rank,
 * including this one; tutti_call.source returns which. Messages of one sender are received in
 * order. If several ranks have sent, they take turns. A message matches the receive that was
 * started first among those that accept it, with or without a named peer. Therefore later receives
 * with the same tag wait while such a receive waits. After a rank's first receive from any rank,
 * each long send to it on this communicator costs one more short message, unless its receive is
 * already there.
 * TIMEOUT: no rank sent. PEER_LOST: a rank of the communicator was lost, which might have been the
 * sender, or all other ranks have closed the communicator.
 * Source: MPI_ANY_SOURCE; MPI 4.0, section 3.5. */
#define TUTTI_ANY_RANK (-1)

TUTTI_API tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);
TUTTI_API tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);

/* A send or receive in a group. */
typedef struct tutti_p2p {
    int is_recv;        /* 0: send from buf; 1: receive into buf */
    int peer;           /* of a receive also TUTTI_ANY_RANK */
    void *buf;
    size_t count;
    tutti_dtype type;
    uint32_t tag;
} tutti_p2p;

/* Runs the sends and receives ops[n] concurrently. They cannot deadlock, whatever their order in
 * ops[]; operations of the same pair, direction and tag match in list order. All ops are checked
 * before the first one is started. call->request is one request for the whole group and completes
 * with its last op. call->timeout_ms applies to each op; call->tag, call->algo and
 * call->source are ignored.
 * ops[n] may be freed when the call returns. Returns the error with the lowest index.
 * Source: ncclGroupStart and ncclGroupEnd; MPI_Isend, MPI_Irecv and MPI_Waitall. */
TUTTI_API tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm,
                                   const tutti_call *call);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates zeroed, page-aligned memory that other ranks of this host can map, so that a transfer
 * to it needs one copy. Local. The maximum is 256 allocations at a time for all communicators of a
 * start-up; beyond it the call returns NOMEM. The caller frees *out with tutti_mem_free, after the
 * last call that uses it and before the communicator is destroyed. */
TUTTI_API tutti_status tutti_mem_alloc(tutti_comm *comm, size_t bytes, void **out);
TUTTI_API tutti_status tutti_mem_free(tutti_comm *comm, void *mem);
/* Registers mem[bytes] of the caller, who keeps owning it, for frequent use. Local; valid for all
 * communicators. TUTTI_REGISTER selects when RDMA transports register the range: in this call, in
 * the background or at first use (docs/rdma.md). The same applies to memory from tutti_mem_alloc.
 * Registration has no effect on other transports. A buffer may span several adjacent registrations.
 * NOMEM: a device could not register the memory in this call. Source: ncclCommRegister.
 *
 * tutti_mem_deregister ends the registration that starts at `mem`; call it before the memory is
 * unmapped. It returns INVALID, without any effect, if no registration starts at `mem`, or if an
 * operation, a window, a put or a get uses part of the memory. */
TUTTI_API tutti_status tutti_mem_register(tutti_comm *comm, void *mem, size_t bytes);
TUTTI_API tutti_status tutti_mem_deregister(tutti_comm *comm, void *mem);

/* Kind of device memory. Used by libfabric; ignored by libibverbs. */
typedef enum tutti_mem_kind {
    TUTTI_MEM_MAPPED = 0,       /* device memory that is mapped into this process for the CPU */
    TUTTI_MEM_CUDA,
    TUTTI_MEM_ROCM,
    TUTTI_MEM_LEVEL_ZERO
} tutti_mem_kind;

/* Describes device memory. Zero means default; set `size` to sizeof. */
typedef struct tutti_mem_device {
    size_t size;
    tutti_mem_kind kind;
    int device;                 /* device number in the runtime of `kind` (CUDA: its ordinal) */
    int has_dmabuf;             /* 1: dmabuf and dmabuf_offset are set; 0: memory is registered by
                                   address, which requires a kernel module like nvidia-peermem */
    int dmabuf;                 /* file descriptor, e.g. from cuMemGetHandleForAddressRange or
                                   hsa_amd_portable_export_dmabuf; owned by the caller, and may be
                                   closed after the call */
    size_t dmabuf_offset;       /* offset of mem in the dma-buf, in bytes */
} tutti_mem_device;

/* Registers mem[bytes] as device (GPU) memory. Tutti accesses it only with RDMA, not with the CPU.
 * It can be the memory of a window (tutti_window_create) and the source of a put. Signals
 * (tutti_rma.signal_window), gets, atomics, puts to the calling rank, collectives and messages
 * require host memory and return UNSUPPORTED for device memory. A put requires a transport that
 * supports device memory at both ends: verbs, or ofi with a provider that neither copies nor
 * registers per endpoint (docs/rdma.md).
 * mem, bytes and dmabuf_offset must be multiples of the page size. tutti_mem_deregister ends the
 * registration; call it before the memory is freed. Local; valid for all communicators.
 * UNSUPPORTED: no transport of this job supports device memory, or no device can register it.
 * Sources: dma-buf (kernel.org, driver-api/dma-buf), ibv_reg_dmabuf_mr(3), fi_mr(3). */
TUTTI_API tutti_status tutti_mem_register_device(tutti_comm *comm, void *mem, size_t bytes,
                                                 const tutti_mem_device *what);

/* Statistics of the RDMA registrations of this process, for all communicators (docs/rdma.md). Set
 * `size` to sizeof. */
typedef struct tutti_registered {
    size_t size;
    uint64_t hits;              /* uses of memory that was already registered */
    uint64_t misses;            /* new registrations, at a use or by tutti_mem_register */
    uint64_t dynamic;           /* misses for memory that the program did not register */
    uint64_t evicted;           /* registrations ended by TUTTI_REGISTER_BYTES, by
                                   TUTTI_REGISTER_COUNT or by a limit of the device */
    uint64_t invalidated;       /* registrations ended because the memory was unmapped, remapped or
                                   released */
    uint64_t count, bytes;      /* current registrations and their bytes */
    uint64_t bytes_most;        /* highest value of `bytes` */
    uint64_t told_bytes;        /* bytes that are currently registered by tutti_mem_register */
    uint64_t registering_ns, undoing_ns;    /* time spent in the device libraries for
                                               registration and deregistration */
} tutti_registered;

/* Writes the statistics of this process to *out. Any thread, at any time. INVALID: out is NULL, or
 * out->size is wrong. */
TUTTI_API tutti_status tutti_mem_registered(tutti_registered *out);

/* Memory that Tutti uses for one purpose. */
typedef struct tutti_memory_part {
    const char *purpose;        /* e.g. "engine: peers"; static storage */
    int shared;                 /* 1: shared by all communicators of one start-up; 0: not */
    uint64_t fixed_bytes;       /* independent of the number of ranks */
    uint64_t rank_bytes;        /* tables with an entry for each rank, connected or not */
    uint64_t peer_bytes;        /* state of the ranks with which this rank has communicated */
} tutti_memory_part;

/* Memory of a communicator in this process, without the overhead of allocators and the kernel. Set
 * `size` to sizeof. A rank with which this rank has not communicated is idle. Each idle rank
 * costs this process idle_bytes: the sum over all parts of rank_bytes / nranks, or of
 * rank_bytes / job_ranks for shared parts. */
typedef struct tutti_memory {
    size_t size;
    uint32_t nranks;            /* ranks of the communicator */
    uint32_t job_ranks;         /* ranks of the start-up; determines the size of shared tables */
    uint32_t connected;         /* ranks with a connection to this one */
    uint32_t nparts;
    double idle_bytes;          /* bytes per idle rank */
    uint64_t bytes;             /* total */
    tutti_memory_part parts[40];
} tutti_memory;

/* Writes the memory use of `comm` to *out. Local. Any thread, but not while the communicator is
 * being destroyed. INVALID: out is NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_memory(tutti_comm *comm, tutti_memory *out);

/* Time of operations in this process by phase, for all communicators of one start-up. In an elastic
 * run, the times of tutti_run_comm include the run's own operations since the members last
 * reconnected (tutti_run_stats_t.worlds). The remaining time of an operation was spent waiting. Set
 * `size` to sizeof.
 * Source of the phases: "Collective Communication for 100k+ GPUs", 2025, section 5.3. */
typedef struct tutti_times {
    size_t size;
    uint64_t calls;             /* completed operations; very short operations are not timed */
    uint64_t call_ns;           /* from start to completion */
    uint64_t send_ns;           /* copies from the caller's memory to a peer or a transport */
    uint64_t forward_ns;        /* reductions that forward the result without storing it locally */
    uint64_t reduce_ns;         /* reductions that store their result */
    uint64_t copy_ns;           /* copies from the receive buffer to the destination, with copies to
                                   the next peer in the same pass */
    uint64_t wire_ns;           /* transfers by the CPU of this process (tcp) */
    uint64_t most_in_flight;    /* maximum bytes in flight to a peer, for algorithms that limit them
                                   (e.g. "ftar") */
} tutti_times;

/* Resets and starts the timers (on != 0), or stops them. Timing costs a few clock readings per
 * segment. Operations in progress are timed only partly or not at all. Local; any thread. INVALID:
 * comm is NULL or is being destroyed. */
TUTTI_API tutti_status tutti_comm_time(tutti_comm *comm, int on);
/* Writes the times to *out, or zeros if the timers are stopped. Local; any thread. INVALID: an
 * argument is NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_times(tutti_comm *comm, tutti_times *out);

#ifdef __cplusplus
}
#endif
#endif
