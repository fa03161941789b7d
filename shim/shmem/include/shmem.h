/* OpenSHMEM 1.5 on Tutti: the names and types of the specification, implemented with windows and
 * collectives. docs/shmem.md explains how to compile and start programs, which memory is symmetric,
 * and how this implementation differs from others.
 *
 * Symmetric memory: the symmetric heap (shmem_malloc), and the global and static variables of the
 * executable, but not those of shared libraries. Counts are in elements, sizes in bytes. The caller
 * may reuse its buffers after a call returns, or for an nbi form, after shmem_quiet returns.
 *
 * Errors: invalid arguments (e.g. an address that is not symmetric, a PE that is out of range, a
 * call before shmem_init) and failures (a PE is lost, or the timeout TUTTI_TIMEOUT_MS expires) are
 * logged to stderr with the call and its values. The process then exits with status 1, and the
 * launcher terminates the other PEs.
 *
 * Threads: all levels up to SHMEM_THREAD_MULTIPLE. The PEs of a team must call its collectives in
 * the same order, as the specification requires.
 *
 * Source: OpenSHMEM application programming interface, version 1.5 (2020): chapter 9, and the
 * annexes on deprecated interfaces. */
#ifndef TUTTI_SHMEM_H
#define TUTTI_SHMEM_H

#include "tutti_shmem/atomics.h"
#include "tutti_shmem/collectives.h"
#include "tutti_shmem/rma.h"
#include "tutti_shmem/types.h"
#include "tutti_shmem/wait.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 64
#define SHMEM_VENDOR_STRING "Tutti"

/* ---- initialization, exit and queries -------------------------------------------------------- */

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/* Initializes the library. Collective. The PE's number, the number of PEs and the rendezvous are
 * read from the launcher's environment, as in tutti_comm_create. Later calls have no effect. If the
 * process calls exit(0), or returns 0 from main, the library is finalized automatically. */
SHMEM_API void shmem_init(void);
/* Like shmem_init, for a thread level. *provided receives the provided level: the one requested by
 * the first call. provided may be NULL. Returns nonzero, without any effect, if `requested` is
 * invalid. */
SHMEM_API int shmem_init_thread(int requested, int *provided);
SHMEM_API void shmem_query_thread(int *provided);
/* Finalizes the library after a shmem_barrier_all: frees all teams, contexts and symmetric memory.
 * Collective. */
SHMEM_API void shmem_finalize(void);
/* Terminates all PEs with exit status `status`. Not collective. Other PEs exit in their current or
 * next communication call; if the status is nonzero, the launcher terminates them. */
SHMEM_API SHMEM_NORETURN void shmem_global_exit(int status);

SHMEM_API int shmem_my_pe(void);
SHMEM_API int shmem_n_pes(void);
/* Returns 1 if `pe` is in the range of PEs, else 0. */
SHMEM_API int shmem_pe_accessible(int pe);
/* Returns 1 if `addr` is a symmetric address and `pe` is in the range of PEs, else 0. */
SHMEM_API int shmem_addr_accessible(const void *addr, int pe);
/* Returns an address for loads and stores to the object `dest` of PE `pe`: `dest` itself for the
 * calling PE, or an address in the mapped heap of a PE on the same host. Returns NULL for all other
 * objects. A store does not wake a PE that sleeps in a wait: it sees the store within 50 ms. */
SHMEM_API void *shmem_ptr(const void *dest, int pe);
SHMEM_API void shmem_info_get_version(int *major, int *minor);
/* Copies SHMEM_VENDOR_STRING to name[SHMEM_MAX_NAME_LEN]. */
SHMEM_API void shmem_info_get_name(char *name);
/* Has no effect; reserved for profilers. */
SHMEM_API void shmem_pcontrol(int level, ...);

/* ---- symmetric heap -------------------------------------------------------------------------- */

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/* Collective over all PEs. All PEs must pass the same sizes and the same blocks, which is checked.
 * Allocations end with a barrier; shmem_realloc and shmem_free begin with one.
 * The functions return NULL on all PEs if the size is 0, or if the heap has no free block of this
 * size. SHMEM_SYMMETRIC_SIZE sets the size of the heap, e.g. "512M" (default: 64M).
 * Blocks are aligned to 64 bytes, those of shmem_align to `alignment`: a power of two, at least
 * sizeof(void *) and at most the size of the heap. shmem_calloc clears the memory. Hints are
 * ignored. */
SHMEM_API void *shmem_malloc(size_t size);
SHMEM_API void *shmem_malloc_with_hints(size_t size, long hints);
SHMEM_API void *shmem_calloc(size_t count, size_t size);
SHMEM_API void *shmem_align(size_t alignment, size_t size);
SHMEM_API void *shmem_realloc(void *ptr, size_t size);
SHMEM_API void shmem_free(void *ptr);

/* ---- teams ----------------------------------------------------------------------------------- */

#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2) /* PEs whose heaps are mapped (shmem_ptr) */

/* num_contexts is only stored: the number of contexts is not limited. */
typedef struct shmem_team_config_t {
    int num_contexts;
} shmem_team_config_t;
#define SHMEM_TEAM_NUM_CONTEXTS 1L

/* Return this PE's number in the team, and the number of PEs; -1 for SHMEM_TEAM_INVALID. */
SHMEM_API int shmem_team_my_pe(shmem_team_t team);
SHMEM_API int shmem_team_n_pes(shmem_team_t team);
/* Writes the fields of the team's configuration that config_mask selects. Returns 0, or nonzero for
 * SHMEM_TEAM_INVALID. */
SHMEM_API int shmem_team_get_config(shmem_team_t team, long config_mask,
                                    shmem_team_config_t *config);
/* Returns the number in dest_team of PE src_pe of src_team; -1 if dest_team does not contain that
 * PE, or if an argument is invalid. */
SHMEM_API int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
/* Creates a team of `size` PEs of the parent: start, start + stride, ... Collective over the
 * parent; its other PEs get SHMEM_TEAM_INVALID. Returns 0, or nonzero and SHMEM_TEAM_INVALID on all
 * PEs if the parent is invalid or a PE is out of range. config may be NULL if config_mask is 0. */
SHMEM_API int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                                       const shmem_team_config_t *config, long config_mask,
                                       shmem_team_t *new_team);
/* Splits the parent into rows and columns: PE p is at x = p % xrange, y = p / xrange. *xaxis_team
 * receives the team of the PEs with this PE's y, *yaxis_team the team of those with its x.
 * Collective over the parent. */
SHMEM_API int shmem_team_split_2d(shmem_team_t parent_team, int xrange,
                                  const shmem_team_config_t *xaxis_config, long xaxis_mask,
                                  shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
                                  long yaxis_mask, shmem_team_t *yaxis_team);
/* Destroys the team and its contexts. Collective over the team. It is an error for the predefined
 * teams. */
SHMEM_API void shmem_team_destroy(shmem_team_t team);
/* Returns 0 after all PEs of the team have called it. Does not wait for puts. */
SHMEM_API int shmem_team_sync(shmem_team_t team);

/* ---- contexts -------------------------------------------------------------------------------- */

#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

/* Create a context. PE numbers passed with it are those of its team. Fence and quiet apply to all
 * contexts together. Local. Return 0, or nonzero if the team or the options are invalid, or if out
 * of memory. */
SHMEM_API int shmem_ctx_create(long options, shmem_ctx_t *ctx);
SHMEM_API int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
/* Writes the team of the context to *team. Returns 0, or nonzero for SHMEM_CTX_INVALID. */
SHMEM_API int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);
/* Completes all operations of the context (shmem_quiet) and frees it. */
SHMEM_API void shmem_ctx_destroy(shmem_ctx_t ctx);

/* ---- order and barriers ---------------------------------------------------------------------- */

/* Orders all earlier puts, signals and atomics to each PE before all later operations to that PE.
 * The fence itself does not wait. Signals, atomics and puts of one aligned 8-byte word are ordered
 * without waiting. The next other put to a PE first waits for remote completion of the operations
 * before the fence; so does the next get from a mapped heap. */
SHMEM_API void shmem_fence(void);
SHMEM_API void shmem_ctx_fence(shmem_ctx_t ctx);
/* Waits for remote completion of all operations of this PE, to all PEs. */
SHMEM_API void shmem_quiet(void);
SHMEM_API void shmem_ctx_quiet(shmem_ctx_t ctx);
/* Collective over all PEs. shmem_barrier_all is a shmem_quiet followed by a shmem_sync_all;
 * shmem_sync_all does not wait for puts. */
SHMEM_API void shmem_barrier_all(void);
SHMEM_API void shmem_sync_all(void);

/* ---- locks ----------------------------------------------------------------------------------- */

/* A lock is a symmetric long, initially 0, held by at most one PE. Waiting PEs acquire it in FIFO
 * order. shmem_clear_lock completes all earlier operations (shmem_quiet) and releases the lock. */
SHMEM_API void shmem_set_lock(long *lock);
SHMEM_API void shmem_clear_lock(long *lock);
/* Returns 0 if it acquired the lock, or 1 if the lock is held. Does not wait. */
SHMEM_API int shmem_test_lock(long *lock);

#ifdef __cplusplus
}
#endif

#include "tutti_shmem/old.h"

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "tutti_shmem/generic.h"
#endif

#endif
