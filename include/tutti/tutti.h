/* Tutti: collective communication for machine learning, in C.
 *
 * Conventions for all calls below:
 *  - Shapes: `src[count]` and `dst[nranks][count]` are contiguous arrays of `type`, row-major.
 *  - Units: counts and displacements are `size_t`, in elements. Offsets are in bytes. Names of
 *    other quantities end with their unit: _bytes, _ms (milliseconds) or _ns (nanoseconds).
 *  - Errors: calls that can fail return a tutti_status. They write their outputs only on TUTTI_OK.
 *    Exception: the contents of `dst` are undefined after a failed transfer (see
 *    tutti_conf.restore). tutti_last_error() returns the message in the thread that made the failed
 *    call. The message is also logged to stderr (see TUTTI_LOG).
 *  - A process that ends without tutti_comm_destroy is a lost rank. An operation of another rank
 *    completes if all its data has arrived, and otherwise returns TUTTI_ERR_PEER_LOST.
 *  - Order: all ranks of a communicator call its collectives in the same order.
 *  - Threads: only one thread at a time may use a communicator. A concurrent call returns
 *    TUTTI_ERR_INVALID at once and has no effect. If the rejected call was a collective, this rank
 *    has skipped it, and later collectives return TUTTI_ERR_MISMATCH or TUTTI_ERR_TIMEOUT.
 *    Different threads may use different communicators at the same time. Calls marked "any thread"
 *    have no such restriction.
 *  - Local: calls marked "local" do not communicate with other ranks.
 *  - Blocking: a function with the argument `call` is non-blocking if call->request is not NULL.
 *    Otherwise, or if `call` is NULL, the function blocks until the operation completes or times
 *    out.
 *  - Structs: zero the whole struct, then set `size` to the sizeof of its type. A field that is
 *    zero (or NULL) takes its default value. New releases add fields at the end. If an older
 *    program lacks a field, a newer library treats the field as zero. An older library accepts
 *    unknown fields only if they are zero; otherwise it returns TUTTI_ERR_INVALID. tutti_state and
 *    tutti_elastic must have exactly the size of the library's struct.
 *  - Ownership: buffers belong to the caller. Tutti accesses them until the call returns or, for a
 *    non-blocking call, until its request completes. This also applies to failed calls.
 *  - In place, as in NCCL: allreduce, reduce and broadcast with src == dst; allgather and gather
 *    with src == dst[rank]; reduce_scatter and scatter with dst == src[rank]. Also alltoall with
 *    src == dst. Any other overlap of src and dst is an error.
 *
 * Any collective, send, receive or wait may return any error of tutti_status below. The comments on
 * individual calls explain only errors that need it.
 *
 * Sources: NCCL 2.x user guide (names, argument order, in-place rules, busbw); MPI 4.0, chapters 3
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

/* Result of a call: TUTTI_OK, TUTTI_PENDING or an error. */
typedef enum tutti_status {
    TUTTI_OK = 0,
    TUTTI_PENDING = 1,          /* no error: the request has not completed yet */
    TUTTI_ERR_INVALID = 2,      /* invalid argument or setting; nothing was started */
    TUTTI_ERR_NOMEM = 3,        /* out of memory, descriptors or another local resource */
    TUTTI_ERR_SYSTEM = 4,       /* an operating-system call failed */
    TUTTI_ERR_TIMEOUT = 5,      /* the deadline passed; the message names the missing ranks */
    TUTTI_ERR_PEER_LOST = 6,    /* a rank died or does not respond; the message names the rank */
    TUTTI_ERR_ABORTED = 7,      /* tutti_comm_abort was called on this or another rank */
    TUTTI_ERR_MISMATCH = 8,     /* ranks made different calls; the message shows both */
    TUTTI_ERR_UNSUPPORTED = 9,  /* the call is valid, but not supported by this build or machine */
    TUTTI_ERR_PROTOCOL = 10,    /* a remote process violated the protocol */
    TUTTI_ERR_FORKED = 11,      /* the object was created by the parent process, before fork() */
    TUTTI_ERR_RANGE = 12,       /* tutti_alltoallv_dynamic: a size exceeds its declared maximum;
                                   returned on all ranks; no output was written */
    TUTTI_STATUS_COUNT = 13
} tutti_status;

/* Returns the name of a status, e.g. "PEER_LOST", or "?" for an unknown value. Any thread. */
TUTTI_API const char *tutti_status_name(tutti_status status);

/* Returns the error message of the calling thread's last failed call, or "" if no call has failed.
 * The string is valid until the thread's next failed call. */
TUTTI_API const char *tutti_last_error(void);

/* Returns the library's version, e.g. "0.1.0". Any thread. */
TUTTI_API const char *tutti_version(void);

/* ---- types and operations -------------------------------------------------------------------- */

/* Element types. */
typedef enum tutti_dtype {
    TUTTI_I8 = 0, TUTTI_U8, TUTTI_I16, TUTTI_U16, TUTTI_I32, TUTTI_U32, TUTTI_I64, TUTTI_U64,
    TUTTI_F16,          /* IEEE 754 binary16 */
    TUTTI_BF16,         /* bfloat16: the upper 16 bits of a binary32 */
    TUTTI_F32, TUTTI_F64,
    TUTTI_F8E4M3,       /* OCP 8-bit, 4 exponent bits, no infinity, saturating (arXiv 2209.05433) */
    TUTTI_F8E5M2,       /* OCP 8-bit, 5 exponent bits, IEEE-like */
    TUTTI_DTYPE_COUNT
} tutti_dtype;

/* Reduction operations.
 * Each addition of 16-bit or 8-bit floats is computed in f32 and rounded once, to nearest even. A
 * sum over n ranks has at most n - 1 roundings. For values of equal sign, the relative error of the
 * sum is at most (n - 1) * u. The unit roundoff u is 2^-11 (f16), 2^-8 (bf16), 2^-4 (e4m3) or 2^-3
 * (e5m2). Integer sums and products wrap on overflow. MIN and MAX return NaN if an operand is
 * NaN. */
typedef enum tutti_redop {
    TUTTI_SUM = 0,
    TUTTI_PROD,
    TUTTI_MIN,
    TUTTI_MAX,
    TUTTI_AVG,          /* the sum, divided once at the end by nranks or tutti_call.divisor.
                           Integer sums wrap before the division, and the quotient is truncated: the
                           AVG of the u8 values 200, 200 and 200 is 29 */
    TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR,      /* integer types only */
    TUTTI_PREMUL_SUM,   /* each input is multiplied by its rank's tutti_call.scale (rounded to the
                           data type), then summed */
    TUTTI_REDOP_COUNT
} tutti_redop;

/* Encodings of quantized collectives (tutti_call.quant).
 * Values are sent in blocks of 256 bytes (U4: 128 bytes). A block contains its scaling parameters
 * and the codes q of 248 elements (F8: 252; U4: 240). The largest code N is 255 (U8) or 15 (U4). An
 * element x of a block is encoded as follows:
 *   MINMAX  q = round((x - min) / (max - min) * N), decoded as min + q / N * (max - min).
 *           The minimum, the maximum and blocks of equal elements are exact.
 *   ZERO    q = round(x / scale) + zero. min and max are extended to include 0,
 *           scale = (max - min) / N, and zero is the code of 0. Zeros are exact.
 *   F8      q = x / scale as an 8-bit float. scale is the power of two that brings the largest
 *           magnitude into the range of the type.
 * Each rank adds its own unquantized input to the received values in f32, and quantizes the sum
 * before sending it. Final results are forwarded in encoded form. All ranks decode the same codes,
 * including the rank that computed the result. Therefore results are bitwise identical on all
 * ranks. Results are also identical in all runs with the same number of ranks and the same
 * algorithm, over every transport. To run the same algorithm, set tutti_call.algo, or use the same
 * tune file. Otherwise runs may select different algorithms, because the selection depends on
 * measured times. Results are then rounded differently. The same applies to sums of floats without
 * quantization.
 *
 * Error bound. Each rank's input block has a largest magnitude and a range max - min (ZERO: the
 * extended range). Let S be the sum of these magnitudes over all ranks, and R the sum of these
 * ranges (R <= 2 S). A sum is quantized m times: m = nranks in a ring, m <= 2 (nranks - 1) in
 * general, and m = 1 without a reduction. Then
 *   MINMAX, ZERO   |error| <= m (R / 2N + 2^-20 S) + m N 2^-149
 *   F8             |error| <= ((1 + e)^m - 1) S + m 2^-135, e = 2^-4 (E4M3), 2^-3 (E5M2)
 * Rounding to the data type adds its own error (f64 is sent as f32). For AVG the bound is divided
 * by nranks. The bounds also hold for negative and denormal numbers. If a block contains an
 * infinity, a NaN or an f32 sum that overflows, all elements of the block become NaN; other blocks
 * are unaffected. Results outside the range of f16 or bf16 become the largest finite number of the
 * type. */
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
/* Return the name of a value, as used by the tools, or "?" for an unknown value. Any thread. */
TUTTI_API const char *tutti_dtype_name(tutti_dtype type);       /* "f32" */
TUTTI_API const char *tutti_redop_name(tutti_redop op);         /* "sum" */
TUTTI_API const char *tutti_quant_name(tutti_quant quant);      /* "none", "minmax8", "e4m3" */

/* ---- communicators --------------------------------------------------------------------------- */

/* Opaque handles: a communicator, created by tutti_comm_create, and a request, created by a
 * non-blocking call. */
typedef struct tutti_comm tutti_comm;
typedef struct tutti_request tutti_request;

/* Options of a new communicator. Set `size` to sizeof(tutti_conf). A field that is zero (or NULL)
 * takes its default value. */
typedef struct tutti_conf {
    size_t size;
    const char *rendezvous; /* "tcp://host:port", "tcp://[v6]:port", "file:///path" or
                               "etcd://host:port/prefix"; NULL: read from the environment */
    int32_t nranks;         /* number of ranks; 0: nranks and rank are read from the environment */
    int32_t rank;           /* read only if nranks > 0 */
    const char *token;      /* shared secret of the job; NULL: TUTTI_TOKEN, else no token */
    int64_t timeout_ms;     /* timeout of start-up, and default timeout of all calls; 0:
                               TUTTI_TIMEOUT_MS (default 300000); negative: none */
    const char *wires;      /* allowed transports, e.g. "shm,verbs,tcp";
                               NULL: TUTTI_WIRES, else all usable transports except verbs and ofi */
    const char *interfaces; /* network interfaces: "eth" (name prefix), "=eth0" (exact name) or
                               "^docker,lo" (all except these prefixes); NULL: TUTTI_INTERFACES,
                               else the routing table selects the interfaces */
    int32_t lanes;          /* number of lanes per peer, 1 to 16: TCP connections, RDMA queue pairs
                               or endpoints; 0: TUTTI_LANES, else automatic */
    int32_t restore;        /* 1: Tutti copies the input of each in-place call, and restores the
                               input if the call fails. 0: after a failed in-place call, the
                               contents of the buffer are undefined */
    const char *security;   /* security of connections between hosts: "plain" (unencrypted), "token"
                               (TLS 1.3 with the token) or "certificate" (TLS 1.3 with
                               TUTTI_CERTIFICATE, TUTTI_KEY and TUTTI_AUTHORITY); NULL:
                               TUTTI_SECURITY, else plain. Must be the same on all ranks */
    const char *tune_files; /* files written by `tutti tune`, e.g. "a.json,b.json", which rank 0
                               reads for all ranks; NULL: TUTTI_TUNE_FILE, else none */
    const char *name;       /* name of the communicator in traces (tutti/trace.h), e.g. "data
                               parallel"; copied, at most 63 bytes; NULL: none */
} tutti_conf;

/* Identifies a new communicator. tutti_id_create creates the id, and the application distributes it
 * to all ranks. Modelled on ncclUniqueId. */
typedef struct tutti_id {
    char bytes[128];
} tutti_id;

/* Creates the communicator of all ranks of the job. Collective: blocks until all ranks have
 * connected, or until the deadline.
 * conf   options. Rank, number of ranks and rendezvous default to the environment: TUTTI_RANK,
 *        TUTTI_SIZE and TUTTI_RENDEZVOUS, or the variables of a supported launcher (`tutti run`,
 *        mpirun of Open MPI or MPICH, srun, torchrun)
 * *out   is owned by the caller and freed with tutti_comm_destroy
 * TIMEOUT: some ranks did not connect. The message names these ranks. Rank 0 serves a tcp://,
 * file:// or etcd:// rendezvous; if rank 0 is missing, the message names only rank 0.
 * MISMATCH: settings that must be equal differ between ranks. The message shows both. */
TUTTI_API tutti_status tutti_comm_create(tutti_comm **out, const tutti_conf *conf);

/* Creates an id. Exactly one process makes this call; the process may have any rank. A background
 * thread of this process serves the rendezvous until all ranks have connected or the timeout has
 * expired. conf may be NULL. Modelled on ncclGetUniqueId. */
TUTTI_API tutti_status tutti_id_create(tutti_id *out, const tutti_conf *conf);
/* Like tutti_comm_create, but uses the id instead of conf->rendezvous and conf->token. */
TUTTI_API tutti_status tutti_comm_create_id(tutti_comm **out, const tutti_id *id, int nranks,
                                            int rank, const tutti_conf *conf);

/* Splits `parent` by colour; within a colour, ranks are ordered by key, then by parent rank. A rank
 * with a negative colour must also make this call, and gets *out = NULL. Collective over parent.
 * The new communicator shares the parent's connections. Modelled on MPI_Comm_split. */
TUTTI_API tutti_status tutti_comm_split(tutti_comm *parent, int colour, int key, tutti_comm **out);
/* Creates a communicator with the same ranks and separate message matching. Collective over parent.
 * Modelled on MPI_Comm_dup. */
TUTTI_API tutti_status tutti_comm_dup(tutti_comm *parent, tutti_comm **out);

/* Creates a communicator of the ranks ranks[n] of `parent`, in this order. Collective over the
 * listed ranks only; other ranks do not make this call. All listed ranks pass the same list and
 * tag. The call sends point-to-point messages on `parent` with this tag. Two groups that share a
 * rank need different tags, unless all shared ranks create the two groups in the same order.
 * Several threads may make this call on the same parent at once, in any order, if the tags differ.
 * The new communicator shares the parent's connections. Modelled on MPI_Comm_create_group.
 * INVALID: a rank is out of range or listed twice, this rank is not listed, or n is not positive.
 * MISMATCH or TIMEOUT: ranks passed different lists. TIMEOUT: a listed rank did not make the
 * call. */
TUTTI_API tutti_status tutti_comm_create_group(tutti_comm *parent, const int *ranks, int n,
                                               uint32_t tag, tutti_comm **out);

/* Return the rank of this process in `comm`, and the number of ranks; -1 if comm is NULL. Any
 * thread. */
TUTTI_API int tutti_comm_rank(const tutti_comm *comm);
TUTTI_API int tutti_comm_size(const tutti_comm *comm);

/* Returns TUTTI_OK if the communicator is usable, else the error that made it unusable. Does not
 * block. Any thread. */
TUTTI_API tutti_status tutti_comm_status(const tutti_comm *comm);

/* Aborts the communicator: current and later calls on any of its ranks return TUTTI_ERR_ABORTED.
 * Returns without waiting for the other ranks. Afterwards the communicator can only be destroyed.
 * Any thread.
 * Modelled on ncclCommAbort. */
TUTTI_API tutti_status tutti_comm_abort(tutti_comm *comm);

/* Frees the communicator. Not collective. Aborts pending requests first; the caller must still free
 * each request with a wait. comm may be NULL. */
TUTTI_API void tutti_comm_destroy(tutti_comm *comm);

/* ---- call options ---------------------------------------------------------------------------- */

/* Options of one call. Set `size` to sizeof(tutti_call). A field that is zero (or NULL) takes its
 * default value. */
typedef struct tutti_call {
    size_t size;
    tutti_request **request;    /* non-NULL: the call is non-blocking and sets *request, which the
                                   caller owns and must free with one of the waits below */
    int64_t timeout_ms;         /* 0: the communicator's timeout; negative: none. On an idle machine
                                   a call returns within 5 ms of its deadline. Before that, the call
                                   completes any copy of its buffer that is in progress (about 0.2
                                   ms per MiB). For the error message, the call also queries the
                                   missing ranks (one round trip). If a queried rank does not
                                   respond, the call returns up to 500 ms after its deadline (on a
                                   busy machine, up to 5 s) */
    const char *algo;           /* name of an algorithm (`tutti info --algos`), e.g.
                                   "allreduce_ring" or "ring" for short; must be the same on all
                                   ranks. NULL: automatic selection */
    uint32_t tag;               /* send and recv only: calls with the same peer and tag match in
                                   order. Each tag in use costs up to 48 bytes per direction until
                                   the communicator is destroyed */
    double scale;               /* TUTTI_PREMUL_SUM only: factor applied to this rank's input.
                                   May differ between ranks; must not be 0 */
    tutti_quant quant;          /* encoding of a quantized transfer. Supported for allreduce,
                                   reduce, reduce_scatter, allgather and broadcast of f16, bf16, f32
                                   and f64, with SUM or AVG only. Other calls return
                                   TUTTI_ERR_UNSUPPORTED. Must be the same on all ranks */
    float *error_feedback;      /* with quant only; NULL: none. Array with one entry per element of
                                   src. Each call adds the array to src, and then stores this rank's
                                   new quantization error in the array, so that errors do not
                                   accumulate. Zero the array before the first call, and pass the
                                   same array to each later call. Either all ranks or no ranks must
                                   pass an array. A failed call does not change the array */
    uint64_t divisor;           /* TUTTI_AVG only: divisor of the sum, at most 2^32 - 1; 0: nranks.
                                   Set a divisor if some ranks contribute nothing to the average.
                                   Must be the same on all ranks, else MISMATCH */
    int *source;                /* recv only: set to the rank of the sender when the receive
                                   completes with TUTTI_OK. Must stay valid until the receive has
                                   completed. NULL: not reported */
} tutti_call;

/* Makes progress and returns the status of the request, which is TUTTI_PENDING until the request
 * has completed. Does not block, and does not free the request. */
TUTTI_API tutti_status tutti_test(tutti_request *request);
/* Like tutti_test, but blocks until the request completes or timeout_ms has passed. It may return
 * late, as described for tutti_call.timeout_ms. Negative timeout_ms: no limit. Use this call to
 * check for other events, such as signals, in between. */
TUTTI_API tutti_status tutti_test_for(tutti_request *request, int64_t timeout_ms);
/* Blocks until the request completes, then frees the request and returns its status.
 * INVALID: request is NULL. */
TUTTI_API tutti_status tutti_wait(tutti_request *request);
/* Waits for requests[n] and frees all of them; skips NULL entries. Returns TUTTI_OK, or the error
 * of the failed request with the lowest index. */
TUTTI_API tutti_status tutti_wait_all(tutti_request **requests, size_t n);
/* Waits until one of requests[n] completes, then frees that request and returns its status. Sets
 * *index to the index of that request, and requests[*index] to NULL. Skips NULL entries. INVALID:
 * all entries are NULL. */
TUTTI_API tutti_status tutti_wait_any(tutti_request **requests, size_t n, size_t *index);

/* Sets a completion callback: notify(arg) is called once, when the request completes with any
 * status, or at once if it has already completed. The callback runs in the thread that completes
 * the request, which may be an internal thread of Tutti. The callback must return quickly and must
 * not call Tutti. For example, it may set a flag or wake a thread. The caller must still free the
 * request with a wait. Any thread, but not during a wait for the same request. INVALID: request or
 * notify is NULL, or the request already has a callback. */
TUTTI_API tutti_status tutti_request_notify(tutti_request *request, void (*notify)(void *arg),
                                            void *arg);

/* ---- collectives ----------------------------------------------------------------------------- */

/* dst[i] = src[i], reduced by `op` over all ranks. Shapes: src[count], dst[count], on every
 * rank. */
TUTTI_API tutti_status tutti_allreduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_redop op, tutti_comm *comm, const tutti_call *call);
/* Like allreduce, but only `root` receives the result; dst is ignored on other ranks. */
TUTTI_API tutti_status tutti_reduce(const void *src, void *dst, size_t count, tutti_dtype type,
                                    tutti_redop op, int root, tutti_comm *comm,
                                    const tutti_call *call);
/* Reduces src[nranks][count] over all ranks; dst[count] of rank r is row r of the result. */
TUTTI_API tutti_status tutti_reduce_scatter(const void *src, void *dst, size_t count,
                                            tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                            const tutti_call *call);
/* Like reduce_scatter, with blocks of different sizes: src contains counts[r] elements for each
 * rank r, packed in rank order, and dst has counts[rank] elements. counts[nranks] must be the same
 * on all ranks. */
TUTTI_API tutti_status tutti_reduce_scatterv(const void *src, void *dst, const size_t *counts,
                                             tutti_dtype type, tutti_redop op, tutti_comm *comm,
                                             const tutti_call *call);
/* dst[r] = src of rank r. Shapes: src[count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_allgather(const void *src, void *dst, size_t count, tutti_dtype type,
                                       tutti_comm *comm, const tutti_call *call);
/* Like allgather, with blocks of different sizes: the counts[r] elements of rank r are stored at
 * displacement displs[r] of dst. The arrays counts and displs (nranks elements each) must be the
 * same on all ranks. If displs is NULL, blocks are packed in rank order. */
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
/* Like scatter, with blocks of different sizes: rank r gets the counts[r] elements at displacement
 * displs[r] of src. counts and displs are as in tutti_allgatherv. */
TUTTI_API tutti_status tutti_scatterv(const void *src, void *dst, const size_t *counts,
                                      const size_t *displs, tutti_dtype type, int root,
                                      tutti_comm *comm, const tutti_call *call);
/* dst[r] on this rank = src[rank] of rank r. Shapes: src[nranks][count], dst[nranks][count]. */
TUTTI_API tutti_status tutti_alltoall(const void *src, void *dst, size_t count, tutti_dtype type,
                                      tutti_comm *comm, const tutti_call *call);
/* Like alltoall, with blocks of different sizes. The send_counts[r] elements at displacement
 * send_displs[r] of src are sent to rank r. The recv_counts[r] elements from rank r are stored at
 * displacement recv_displs[r] of dst. Each array has nranks entries. If displacements are NULL,
 * blocks are packed in rank order. recv_counts[r] on this rank must equal send_counts[rank] on rank
 * r.
 * In place: src == dst, with equal counts and equal displacements; the block from rank r replaces
 * the block to rank r. Blocks must not overlap. */
TUTTI_API tutti_status tutti_alltoallv(const void *src, const size_t *send_counts,
                                       const size_t *send_displs, void *dst,
                                       const size_t *recv_counts, const size_t *recv_displs,
                                       tutti_dtype type, tutti_comm *comm, const tutti_call *call);
/* Returns TUTTI_OK on a rank only after all ranks have made this call. */
TUTTI_API tutti_status tutti_barrier(tutti_comm *comm, const tutti_call *call);

/* ---- point to point -------------------------------------------------------------------------- */

/* Send and receive buf[count]. Sends from one rank to another match receives with the same tag in
 * order. Type and count must be equal on both ranks; otherwise both return MISMATCH, and the
 * message shows both calls. If one of the types is I8 or U8, only the sizes in bytes must be equal.
 * A rank may send to itself: the first of its two calls must be non-blocking, or both must be in a
 * group. INVALID: the peer is this rank, the call blocks, and the matching call has not been made.
 *
 * A receive with peer TUTTI_ANY_RANK receives the next message with its tag from any rank,
 * including this one. tutti_call.source returns the sender's rank. Messages of one sender are
 * received in order; messages of several senders are received round-robin. A message matches the
 * earliest posted receive that accepts it. Therefore, while a receive from any rank is unmatched,
 * later receives with the same tag cannot match. After a rank's first receive of this kind, each
 * long send to that rank on this communicator costs one more short message. Exception: the receive
 * was posted before the send.
 * TIMEOUT: no rank sent a matching message. PEER_LOST: a possible sender was lost, or all other
 * ranks have destroyed the communicator.
 * Modelled on MPI_ANY_SOURCE; MPI 4.0, section 3.5. */
#define TUTTI_ANY_RANK (-1)

TUTTI_API tutti_status tutti_send(const void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);
TUTTI_API tutti_status tutti_recv(void *buf, size_t count, tutti_dtype type, int peer,
                                  tutti_comm *comm, const tutti_call *call);

/* A send or receive of tutti_group. */
typedef struct tutti_p2p {
    int is_recv;        /* 0: send from buf; 1: receive into buf */
    int peer;           /* rank; for a receive also TUTTI_ANY_RANK */
    void *buf;
    size_t count;
    tutti_dtype type;
    uint32_t tag;
} tutti_p2p;

/* Runs the sends and receives ops[n] concurrently, so that no order of ops[] causes a deadlock.
 * Operations with the same peer, direction and tag match in list order. All operations are checked
 * before the first one is started. call->request is one request for the whole group, and completes
 * when the last operation completes. call->timeout_ms applies to each operation; call->tag,
 * call->algo and call->source are ignored. The caller may free ops when the call returns. Returns
 * the error of the failed operation with the lowest index.
 * Modelled on ncclGroupStart and ncclGroupEnd; MPI_Isend, MPI_Irecv and MPI_Waitall. */
TUTTI_API tutti_status tutti_group(const tutti_p2p *ops, size_t n, tutti_comm *comm,
                                   const tutti_call *call);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates zeroed, page-aligned memory that other ranks of this host can map: a transfer to this
 * memory needs only one copy. Local. The caller frees *out with tutti_mem_free, after the last call
 * that uses the memory and before the communicator is destroyed.
 * NOMEM: out of memory, or 256 allocations already exist. A communicator shares this limit with all
 * communicators that were split or duplicated from it. */
TUTTI_API tutti_status tutti_mem_alloc(tutti_comm *comm, size_t bytes, void **out);
TUTTI_API tutti_status tutti_mem_free(tutti_comm *comm, void *mem);
/* Registers mem[bytes] for frequent use. The memory remains owned by the caller. Local; valid for
 * all communicators. RDMA transports register the memory with their devices in this call, in the
 * background or at first use, as set by TUTTI_REGISTER (docs/rdma.md). The same applies to memory
 * from tutti_mem_alloc. Other transports ignore registrations. A buffer may span several adjacent
 * registrations.
 * NOMEM: a device could not register the memory in this call. Modelled on ncclCommRegister.
 *
 * tutti_mem_deregister ends the registration that starts at `mem`; call it before the memory is
 * unmapped. INVALID, without any effect: no registration starts at `mem`, or part of the memory is
 * in use by an operation, window, put or get. */
TUTTI_API tutti_status tutti_mem_register(tutti_comm *comm, void *mem, size_t bytes);
TUTTI_API tutti_status tutti_mem_deregister(tutti_comm *comm, void *mem);

/* Kind of device memory. Used by the ofi transport; ignored by the verbs transport. */
typedef enum tutti_mem_kind {
    TUTTI_MEM_MAPPED = 0,       /* device memory that the CPU can access in this process */
    TUTTI_MEM_CUDA,
    TUTTI_MEM_ROCM,
    TUTTI_MEM_LEVEL_ZERO
} tutti_mem_kind;

/* Describes device memory. Set `size` to sizeof(tutti_mem_device). A field that is zero takes its
 * default value. */
typedef struct tutti_mem_device {
    size_t size;
    tutti_mem_kind kind;
    int device;                 /* device number in the runtime of `kind` (CUDA: its ordinal) */
    int has_dmabuf;             /* 1: register by dmabuf and dmabuf_offset; 0: register by address,
                                   which requires a kernel module such as nvidia-peermem */
    int dmabuf;                 /* file descriptor, e.g. from cuMemGetHandleForAddressRange or
                                   hsa_amd_portable_export_dmabuf; owned by the caller, and may be
                                   closed after the call */
    size_t dmabuf_offset;       /* offset of mem in the dma-buf, in bytes */
} tutti_mem_device;

/* Registers mem[bytes] as device (GPU) memory. Tutti accesses this memory only by RDMA, never with
 * the CPU. Device memory can be the memory of a window (tutti_window_create) and the source of a
 * put to another rank. All other uses return UNSUPPORTED: signals (tutti_rma.signal_window), gets,
 * atomics, puts to the calling rank, collectives, sends and receives. Both ends of a put need a
 * transport that supports device memory: verbs, or ofi with a suitable provider (docs/rdma.md).
 * mem, bytes and dmabuf_offset must be multiples of the page size. End the registration with
 * tutti_mem_deregister before the memory is freed. Local; valid for all communicators.
 * UNSUPPORTED: no transport of this job supports device memory, or no network device can register
 * this memory.
 * Sources: dma-buf (kernel.org, driver-api/dma-buf), ibv_reg_dmabuf_mr(3), fi_mr(3). */
TUTTI_API tutti_status tutti_mem_register_device(tutti_comm *comm, void *mem, size_t bytes,
                                                 const tutti_mem_device *what);

/* Statistics of the RDMA registrations of this process, for all communicators (docs/rdma.md). Set
 * `size` to sizeof(tutti_registered). */
typedef struct tutti_registered {
    size_t size;
    uint64_t hits;              /* operations whose memory was already registered */
    uint64_t misses;            /* new registrations, made by tutti_mem_register or when an
                                   operation used the memory */
    uint64_t dynamic;           /* misses for memory that the program did not register */
    uint64_t evicted;           /* registrations ended because of TUTTI_REGISTER_BYTES,
                                   TUTTI_REGISTER_COUNT or a limit of the device */
    uint64_t invalidated;       /* registrations ended because the memory was unmapped, remapped or
                                   released */
    uint64_t count, bytes;      /* number of current registrations, and their total size */
    uint64_t bytes_most;        /* peak value of `bytes` */
    uint64_t explicit_bytes;    /* bytes of the current registrations by tutti_mem_register */
    uint64_t registering_ns, undoing_ns;    /* time spent in libibverbs or libfabric to register
                                               and to deregister memory */
} tutti_registered;

/* Writes the registration statistics to *out. Any thread. INVALID: out is NULL, or out->size is
 * wrong. */
TUTTI_API tutti_status tutti_mem_registered(tutti_registered *out);

/* Memory use of one part of Tutti. */
typedef struct tutti_memory_part {
    const char *purpose;        /* e.g. "engine: peers"; static storage */
    int shared;                 /* 1: shared by all communicators derived from one
                                   tutti_comm_create; 0: used by this communicator only */
    uint64_t fixed_bytes;       /* independent of the number of ranks */
    uint64_t rank_bytes;        /* tables with an entry for each rank, connected or not */
    uint64_t peer_bytes;        /* state of the peers that this rank has communicated with */
} tutti_memory_part;

/* Memory use of a communicator in this process, without the overhead of allocators and the kernel.
 * Set `size` to sizeof(tutti_memory). A rank is idle if the calling rank has not communicated with
 * it. idle_bytes is the memory per idle rank: the sum of rank_bytes / nranks over all parts (shared
 * parts: rank_bytes / job_ranks). Memory that the ranks of a host share is divided equally among
 * them. */
typedef struct tutti_memory {
    size_t size;
    uint32_t nranks;            /* number of ranks in the communicator */
    uint32_t job_ranks;         /* number of ranks in the job, and of entries in shared tables */
    uint32_t connected;         /* number of ranks with a connection to this rank */
    uint32_t nparts;
    double idle_bytes;          /* bytes per idle rank */
    uint64_t bytes;             /* total */
    tutti_memory_part parts[40];
} tutti_memory;

/* Writes the memory use of `comm` to *out. Local. Any thread, but not while the communicator is
 * being destroyed. INVALID: out is NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_memory(tutti_comm *comm, tutti_memory *out);

/* Time spent in operations by this process, by phase, for all communicators derived from one
 * tutti_comm_create. The part of call_ns outside all phases was spent waiting. In an elastic run,
 * the times of tutti_run_comm include the run's own operations since the members last reconnected
 * (see tutti_run_stats_t.worlds). Set `size` to sizeof(tutti_times).
 * Source of the phases: "Collective Communication for 100k+ GPUs", 2025, section 5.3. */
typedef struct tutti_times {
    size_t size;
    uint64_t calls;             /* completed operations; very short operations are not timed */
    uint64_t call_ns;           /* from start to completion */
    uint64_t send_ns;           /* copies from the caller's memory to a peer or a transport */
    uint64_t forward_ns;        /* reductions whose result is sent on without being stored
                                   locally */
    uint64_t reduce_ns;         /* reductions that store their result */
    uint64_t copy_ns;           /* copies from receive buffers to the destination, including
                                   forwarding to the next peer in the same pass */
    uint64_t wire_ns;           /* data transfers over the tcp transport, made by the CPU of this
                                   process */
    uint64_t most_in_flight;    /* peak number of bytes in flight to any one peer; recorded only for
                                   algorithms that limit this number (e.g. "ftar") */
} tutti_times;

/* Resets and starts the timers (on != 0), or stops them (on == 0). Timing costs a few clock
 * readings per segment. Operations in progress are timed only partly or not at all. Local; any
 * thread. INVALID: comm is NULL or is being destroyed. */
TUTTI_API tutti_status tutti_comm_time(tutti_comm *comm, int on);
/* Writes the times to *out, or zeros if the timers are stopped. Local; any thread. INVALID: an
 * argument is NULL, or out->size is wrong. */
TUTTI_API tutti_status tutti_comm_times(tutti_comm *comm, tutti_times *out);

#ifdef __cplusplus
}
#endif
#endif
