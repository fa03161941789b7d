/* OpenSHMEM 1.5 on Tutti: its names and types, by its specification, on windows and collectives. docs/shmem.md tells how programs are compiled and started, what is symmetric, and
 * where this differs.
 *
 * Symmetric are the symmetric heap (shmem_malloc) and the global and static variables of the executable: not those of shared libraries. Counts are
 * elements, sizes bytes. Memory belongs to the caller, but between the call and shmem_quiet of an nbi form.
 *
 * A mistake (an address that is not symmetric, a PE that is not there, a call before shmem_init) and a failure (a PE is lost, the deadline TUTTI_TIMEOUT_MS
 * passes) are told in a sentence on stderr, which names the call and its values; then the process exits with status 1, and the launcher ends the others.
 *
 * Threads: all levels up to SHMEM_THREAD_MULTIPLE. As the specification has it, the PEs of a team call collectives in one order.
 *
 * Source: the OpenSHMEM application programming interface, version 1.5 (2020), chapter 9 and its annexes on deprecated interfaces. */
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

/* ---- set-up, exit and query --------------------------------------------------------------------- */

#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/* Collective. Who and where comes from the launcher's environment, as in tutti_comm_create. A second call does nothing. A process that ends by
 * exit(0), or returns 0 from main, finalizes by itself. */
SHMEM_API void shmem_init(void);
/* The same; *provided (or NULL) is the level that was asked for. Returns 0; something else, and nothing else happens, for a level that is none. */
SHMEM_API int shmem_init_thread(int requested, int *provided);
SHMEM_API void shmem_query_thread(int *provided);
/* Collective: as shmem_barrier_all; then all that SHMEM has is gone, teams, contexts and symmetric memory with it. */
SHMEM_API void shmem_finalize(void);
/* Ends all PEs with that status; not collective. Those that compute end at their next call, or by the launcher, which ends all when one ends
 * with another status than 0. */
SHMEM_API SHMEM_NORETURN void shmem_global_exit(int status);

SHMEM_API int shmem_my_pe(void);
SHMEM_API int shmem_n_pes(void);
/* 1: there is such a PE (each PE runs the same program, and is reached). */
SHMEM_API int shmem_pe_accessible(int pe);
/* 1: the address is symmetric, and there is such a PE. */
SHMEM_API int shmem_addr_accessible(const void *addr, int pe);
/* Where this process itself can load and store what `dest` is at `pe`: the heap of PEs on the same host, and whatever is its own. Else NULL. A PE that
 * sleeps in a wait sees a store there after 50 ms at the latest, as it wakes nobody. */
SHMEM_API void *shmem_ptr(const void *dest, int pe);
SHMEM_API void shmem_info_get_version(int *major, int *minor);
/* name[SHMEM_MAX_NAME_LEN]: SHMEM_VENDOR_STRING. */
SHMEM_API void shmem_info_get_name(char *name);
/* For profilers: does nothing. */
SHMEM_API void shmem_pcontrol(int level, ...);

/* ---- the symmetric heap ---------------------------------------------------------------------------- */

#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/* All of these are collective over all PEs, with the same sizes and the same memory on all (that is checked), and end with a barrier; free and
 * realloc begin with one. NULL, on all PEs: size is 0 or the heap (SHMEM_SYMMETRIC_SIZE bytes, "512M"; 64M if it is not set) has no such piece left.
 * Memory is aligned to 64 bytes, or as asked: a power of two from sizeof(void *) to 4096. calloc clears it. Hints change nothing. */
SHMEM_API void *shmem_malloc(size_t size);
SHMEM_API void *shmem_malloc_with_hints(size_t size, long hints);
SHMEM_API void *shmem_calloc(size_t count, size_t size);
SHMEM_API void *shmem_align(size_t alignment, size_t size);
SHMEM_API void *shmem_realloc(void *ptr, size_t size);
SHMEM_API void shmem_free(void *ptr);

/* ---- teams -------------------------------------------------------------------------------------------- */

#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)     /* PEs whose heaps shmem_ptr reaches */

/* num_contexts is a wish: contexts take no room here. */
typedef struct shmem_team_config_t {
    int num_contexts;
} shmem_team_config_t;
#define SHMEM_TEAM_NUM_CONTEXTS 1L

/* This PE's number in the team, how many there are; -1: the team is SHMEM_TEAM_INVALID. */
SHMEM_API int shmem_team_my_pe(shmem_team_t team);
SHMEM_API int shmem_team_n_pes(shmem_team_t team);
/* What it was made with, for the fields of the mask. 0; something else for SHMEM_TEAM_INVALID. */
SHMEM_API int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config);
/* The number in dest_team of PE src_pe of src_team; -1: it has none, or a team is invalid. */
SHMEM_API int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);
/* Collective over the parent. The team of its PEs start, start + stride, ... (size of them); who is not one of them gets SHMEM_TEAM_INVALID. 0; something else,
 * and SHMEM_TEAM_INVALID on all PEs, if there are no such PEs. config may be NULL if the mask is 0. */
SHMEM_API int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                                       const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team);
/* Collective over the parent. PE p is at x = p % xrange, y = p / xrange; its x-axis team has those of the same y, its y-axis team those of the same x. */
SHMEM_API int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t *xaxis_config,
                                  long xaxis_mask, shmem_team_t *xaxis_team, const shmem_team_config_t *yaxis_config,
                                  long yaxis_mask, shmem_team_t *yaxis_team);
/* Collective over the team, and ends its contexts. Not for the predefined ones. */
SHMEM_API void shmem_team_destroy(shmem_team_t team);
/* Returns, with 0, on no PE of the team before all have called it. Waits for no puts. */
SHMEM_API int shmem_team_sync(shmem_team_t team);

/* ---- contexts --------------------------------------------------------------------------------------------- */

#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_CTX_SERIALIZED 1L
#define SHMEM_CTX_PRIVATE 2L
#define SHMEM_CTX_NOSTORE 4L

/* A context numbers PEs as its team does; order and completion are those of all contexts together. Local. 0; something else for SHMEM_TEAM_INVALID and options
 * that are none. */
SHMEM_API int shmem_ctx_create(long options, shmem_ctx_t *ctx);
SHMEM_API int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);
/* 0 and its team; something else for SHMEM_CTX_INVALID. */
SHMEM_API int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);
/* What went through it is complete then. */
SHMEM_API void shmem_ctx_destroy(shmem_ctx_t ctx);

/* ---- order and barriers -------------------------------------------------------------------------------------- */

/* What goes to a PE from here on, it sees after what went to it before: puts, signals, atomics. Waits for nobody; but the next plain put or atomic to a PE
 * waits until what went to it before has landed. Signals, 8-byte sets and adds carry the order with them. */
SHMEM_API void shmem_fence(void);
SHMEM_API void shmem_ctx_fence(shmem_ctx_t ctx);
/* Waits until all that this PE has begun is complete, everywhere. */
SHMEM_API void shmem_quiet(void);
SHMEM_API void shmem_ctx_quiet(shmem_ctx_t ctx);
/* Collective over all PEs: quiet, then sync; sync waits for no puts. */
SHMEM_API void shmem_barrier_all(void);
SHMEM_API void shmem_sync_all(void);

/* ---- locks ---------------------------------------------------------------------------------------------------- */

/* A symmetric long, 0 at first, that one PE at a time holds; who waits gets it in the order of asking. Releasing completes all that went before. */
SHMEM_API void shmem_set_lock(long *lock);
SHMEM_API void shmem_clear_lock(long *lock);
/* 0: it has the lock now; 1: another PE has it. Does not wait. */
SHMEM_API int shmem_test_lock(long *lock);

#ifdef __cplusplus
}
#endif

#include "tutti_shmem/old.h"

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#include "tutti_shmem/generic.h"
#endif

#endif
