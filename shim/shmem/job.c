#include "job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "globals.h"
#include "heap.h"
#include "move.h"
#include "order.h"
#include "size.h"
#include "team.h"

#define HEAP_BYTES ((size_t)64 << 20)   /* default of SHMEM_SYMMETRIC_SIZE */
#define EXIT_BIT 256u

struct sh_job sh_job;

/* ---- exit ---- */

SHMEM_NORETURN void sh_die(const char *call, const char *format, ...)
{
    char sentence[512];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (sh_job.up)
        fprintf(stderr, "shmem: PE %d: %s: %s\n", sh_job.me, call, sentence);
    else
        fprintf(stderr, "shmem: %s: %s\n", call, sentence);
    exit(EXIT_FAILURE);
}

void sh_check_exit(void)
{
    const struct sh_head *head = (const void *)sh_job.heap.base;
    const uint64_t said = head ? __atomic_load_n(&head->exit, __ATOMIC_ACQUIRE) : 0;

    if (!said)
        return;
    sh_job.up = false;          /* no finalization after an error */
    exit((int)(said % EXIT_BIT));
}

void sh_check(const char *call, tutti_status status)
{
    const char *log = getenv("TUTTI_LOG");

    if (status <= TUTTI_PENDING)
        return;
    sh_check_exit();
    if (log && strcmp(log, "none") == 0)
        sh_die(call, "%s: %s", tutti_status_name(status), tutti_last_error());
    sh_die(call, "%s", tutti_status_name(status));
}

void sh_need(const char *call)
{
    if (!sh_job.up)
        sh_die(call, "the library is not initialized (call shmem_init first, and nothing after "
                     "shmem_finalize)");
}

void *sh_alloc(const char *call, size_t bytes)
{
    void *mem = calloc(1, bytes ? bytes : 1);

    if (!mem)
        sh_die(call, "out of memory: cannot allocate %zu bytes", bytes);
    return mem;
}

/* Finalizes after exit(0). After another status the launcher terminates the other PEs, so waiting
 * for them is useless. */
static void at_exit(int status, void *arg)
{
    (void)arg;
    if (sh_job.up && status == 0)
        shmem_finalize();
}

SHMEM_NORETURN void shmem_global_exit(int status)
{
    sh_need(__func__);
    for (int pe = 0; pe < sh_job.n; pe++)   /* a PE that the signal does not reach gets the abort */
        if (pe != sh_job.me &&
            tutti_window_signal(sh_job.heap.window, pe, offsetof(struct sh_head, exit),
                                TUTTI_SIGNAL_SET, EXIT_BIT | (uint8_t)status) != TUTTI_OK)
            break;
    tutti_window_quiet(sh_job.heap.window, TUTTI_ALL_RANKS, 1000);
    tutti_comm_abort(sh_job.comm);
    sh_job.up = false;
    exit(status);
}

/* ---- start-up ---- */

/* Information that each PE sends to all others. */
struct pe_info {
    uint64_t heap_bytes, globals_bytes, program, host;
};

static size_t heap_bytes(void)
{
    const char *text = getenv("SHMEM_SYMMETRIC_SIZE");
    size_t bytes = HEAP_BYTES;

    if (!text)
        text = getenv("SMA_SYMMETRIC_SIZE");
    if (text && !sh_size_parse(text, &bytes))
        sh_die("shmem_init",
               "invalid SHMEM_SYMMETRIC_SIZE \"%s\" (use bytes, or a number with K, M, G or T, "
               "such as 512M)",
               text);
    if (bytes > SIZE_MAX / 4)
        sh_die("shmem_init", "invalid SHMEM_SYMMETRIC_SIZE \"%s\": exceeds the address space",
               text);
    return bytes;
}

static uint64_t host_hash(void)
{
    char name[256] = "";
    uint64_t hash = 14695981039346656037ull;    /* FNV-1a */

    gethostname(name, sizeof name - 1);
    for (const char *p = name; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 1099511628211ull;
    return hash;
}

static void expose(struct sh_segment *s, void *mem, size_t bytes)
{
    void *at;

    sh_check("shmem_init", tutti_window_create(sh_job.comm, mem, bytes, &s->window));
    sh_check("shmem_init", tutti_window_memory(s->window, &at, NULL));
    s->base = at;
    s->bytes = bytes;
}

static void unexpose(struct sh_segment *s)
{
    tutti_window *window = s->window;

    *s = (struct sh_segment){ .window = NULL };     /* stop lookups in this segment */
    sh_check("shmem_finalize", tutti_window_free(window));
}

/* Exposes the global variables if all PEs run the same program. */
static void expose_globals(const struct sh_globals *g, const struct pe_info *infos)
{
    for (int pe = 0; pe < sh_job.n; pe++)
        if (infos[pe].globals_bytes != g->bytes || infos[pe].program != g->program)
            return;
    if (g->bytes)
        expose(&sh_job.globals, g->base, g->bytes);
}

static void find_heaps(const struct pe_info *infos)
{
    sh_job.heap_at = sh_alloc("shmem_init", (size_t)sh_job.n * sizeof *sh_job.heap_at);
    for (int pe = 0; pe < sh_job.n; pe++) {
        void *at = NULL;

        if (infos[pe].host == infos[sh_job.me].host)
            sh_check("shmem_init", tutti_window_pointer(sh_job.heap.window, pe, &at));
        sh_job.heap_at[pe] = at;
    }
}

/* Returns the largest power of two that divides the heap address of every PE. */
static size_t heap_alignment(void)
{
    const uint64_t base = (uintptr_t)sh_job.heap.base;
    uint64_t alignment = base & -base;

    sh_check("shmem_init",
             tutti_allreduce(&alignment, &alignment, 1, TUTTI_U64, TUTTI_MIN, sh_job.comm, NULL));
    return alignment;
}

static void init(int level)
{
    struct sh_globals globals;
    struct pe_info *infos, mine;

    sh_globals_find(&globals);
    mine = (struct pe_info){ SH_HEAD_BYTES + heap_bytes(), globals.bytes, globals.program,
                             host_hash() };
    sh_check("shmem_init", tutti_comm_create(&sh_job.comm, NULL));
    sh_job.me = tutti_comm_rank(sh_job.comm);
    sh_job.n = tutti_comm_size(sh_job.comm);
    sh_job.thread_level = level;
    infos = sh_alloc("shmem_init", (size_t)sh_job.n * sizeof *infos);
    sh_check("shmem_init", tutti_allgather(&mine, infos, sizeof mine, TUTTI_U8, sh_job.comm, NULL));
    for (int pe = 0; pe < sh_job.n; pe++)
        if (infos[pe].heap_bytes != mine.heap_bytes)
            sh_die("shmem_init",
                   "SHMEM_SYMMETRIC_SIZE differs: %llu bytes on PE %d, %llu bytes on PE %d (set "
                   "the same size on all PEs)",
                   (unsigned long long)(mine.heap_bytes - SH_HEAD_BYTES), sh_job.me,
                   (unsigned long long)(infos[pe].heap_bytes - SH_HEAD_BYTES), pe);
    expose(&sh_job.heap, NULL, mine.heap_bytes);
    expose_globals(&globals, infos);
    find_heaps(infos);
    free(infos);
    sh_heap_init(sh_job.heap.bytes, heap_alignment());
    sh_order_init(sh_job.n);
    sh_job.up = true;
    sh_teams_init();
    sh_check("shmem_init", tutti_barrier(sh_job.comm, NULL));
}

int shmem_init_thread(int requested, int *provided)
{
    static bool listed;

    if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE)
        return 1;
    if (!sh_job.up)
        init(requested);
    if (!listed)
        on_exit(at_exit, NULL);
    listed = true;
    if (provided)
        *provided = sh_job.thread_level;
    return 0;
}

void shmem_init(void)
{
    shmem_init_thread(SHMEM_THREAD_SINGLE, NULL);
}

void shmem_finalize(void)
{
    sh_need(__func__);
    shmem_barrier_all();
    sh_job.up = false;
    sh_teams_fini();
    unexpose(&sh_job.globals);
    unexpose(&sh_job.heap);
    tutti_comm_destroy(sh_job.comm);
    sh_heap_fini();
    sh_order_fini();
    free(sh_job.heap_at);
    sh_job = (struct sh_job){ .up = false };
}

/* ---- queries ---- */

int shmem_my_pe(void)
{
    sh_need(__func__);
    return sh_job.me;
}

int shmem_n_pes(void)
{
    sh_need(__func__);
    return sh_job.n;
}

void shmem_query_thread(int *provided)
{
    sh_need(__func__);
    if (provided)
        *provided = sh_job.thread_level;
}

int shmem_pe_accessible(int pe)
{
    sh_need(__func__);
    return pe >= 0 && pe < sh_job.n;
}

int shmem_addr_accessible(const void *addr, int pe)
{
    struct sh_place place;

    return shmem_pe_accessible(pe) && sh_find(addr, 1, &place);
}

void *shmem_ptr(const void *dest, int pe)
{
    struct sh_place place;

    if (!shmem_pe_accessible(pe) || !sh_find(dest, 1, &place))
        return NULL;
    if (pe == sh_job.me)
        return (void *)(uintptr_t)dest;
    if (place.segment != &sh_job.heap || !sh_job.heap_at[pe])
        return NULL;
    return sh_job.heap_at[pe] + place.offset;
}

void shmem_info_get_version(int *major, int *minor)
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name)
{
    snprintf(name, SHMEM_MAX_NAME_LEN, "%s", SHMEM_VENDOR_STRING);
}

void shmem_pcontrol(int level, ...)
{
    (void)level;
}
