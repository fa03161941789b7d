#include "watch.h"

#include "move.h"

/* ---- looking ---- */

static bool is_left_out(const struct sh_watch *w, size_t i) { return w->status && w->status[i]; }

static bool holds(const struct sh_watch *w, size_t i)
{
    return w->compares((const volatile char *)w->ivars + i * w->bytes, w->cmp,
                       (const char *)w->values + (w->vector ? i * w->bytes : 0));
}

static bool all_hold(const struct sh_watch *w)
{
    for (size_t i = 0; i < w->nelems; i++)
        if (!is_left_out(w, i) && !holds(w, i))
            return false;
    return true;
}

/* The first that holds, looked for from `from` (less than nelems) on and around; SIZE_MAX: none does. */
static size_t one_that_holds(const struct sh_watch *w, size_t from)
{
    for (size_t k = 0, i = from; k < w->nelems; k++, i = i + 1 < w->nelems ? i + 1 : 0)
        if (!is_left_out(w, i) && holds(w, i))
            return i;
    return SIZE_MAX;
}

/* ---- turns ---- */

/* OpenSHMEM 1.5 requires that repeated calls return each word that holds in the end. So a call begins to look behind the word
 * that the last call for the same array returned. Each slot remembers one array: a hash of its address (upper half) and where
 * to begin (lower half). Where two arrays take a slot from each other, calls begin at pseudo-random places, so that no pattern
 * of calls can leave a word out. All threads of a process share the slots, and a lost update only changes where a call begins. */
#define TURNS 256u
#define TURN_BITS 32

static uint64_t turns[TURNS], nturns;

static uint64_t mix(uint64_t x)     /* the finalizer of SplitMix64 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* The index that is returned, by turns; SIZE_MAX: no word holds. */
static size_t next_that_holds(const struct sh_watch *w)
{
    const uint64_t hash = mix((uintptr_t)w->ivars + 0x9e3779b97f4a7c15ull), tag = hash >> TURN_BITS;
    uint64_t *slot = &turns[hash % TURNS], turn = __atomic_load_n(slot, __ATOMIC_RELAXED);
    size_t i;

    if (w->nelems == 0)
        return SIZE_MAX;
    if (turn >> TURN_BITS != tag)
        turn = turn ? mix(__atomic_add_fetch(&nturns, 1, __ATOMIC_RELAXED)) : 0;
    i = one_that_holds(w, (uint32_t)turn % w->nelems);
    if (i != SIZE_MAX)
        __atomic_store_n(slot, tag << TURN_BITS | (uint32_t)(i + 1), __ATOMIC_RELAXED);
    return i;
}

static size_t those_that_hold(const struct sh_watch *w, size_t *indices)
{
    size_t n = 0;

    for (size_t i = 0; i < w->nelems; i++)
        if (!is_left_out(w, i) && holds(w, i))
            indices[n++] = i;
    return n;
}

static bool has_words(const struct sh_watch *w)
{
    for (size_t i = 0; i < w->nelems; i++)
        if (!is_left_out(w, i))
            return true;
    return false;
}

static void check(const struct sh_watch *w)
{
    sh_need(w->call);
    if (w->cmp < SHMEM_CMP_EQ || w->cmp > SHMEM_CMP_LE)
        sh_die(w->call, "cmp = %d is invalid: must be one of SHMEM_CMP_*", w->cmp);
    if (!w->nelems)
        return;
    sh_place_of(w->call, "ivar", (const void *)(uintptr_t)w->ivars, sh_bytes(w->call, w->nelems, w->bytes));
    if ((uintptr_t)w->ivars % w->bytes)
        sh_die(w->call, "ivar = %p is misaligned: must be a multiple of %zu", (const void *)(uintptr_t)w->ivars, w->bytes);
}

/* ---- waiting ---- */

static int is_ended(void)
{
    const struct sh_head *head = (const void *)sh_job.heap.base;

    return __atomic_load_n(&head->exit, __ATOMIC_ACQUIRE) != 0;
}

static int is_all_there(const void *arg) { return all_hold(arg) || is_ended(); }
static int is_one_there(const void *arg) { return one_that_holds(arg, 0) != SIZE_MAX || is_ended(); }

/* The first word that does not compare so, what it is, and what it should be. */
SHMEM_NORETURN static void die_late(const struct sh_watch *w)
{
    static const char *const signs[] = {
        [SHMEM_CMP_EQ] = "==", [SHMEM_CMP_NE] = "!=", [SHMEM_CMP_GT] = ">",
        [SHMEM_CMP_GE] = ">=", [SHMEM_CMP_LT] = "<", [SHMEM_CMP_LE] = "<=",
    };
    char is[24], wanted[24];
    size_t i = 0;

    while (i + 1 < w->nelems && (is_left_out(w, i) || holds(w, i)))
        i++;
    w->print((const volatile char *)w->ivars + i * w->bytes, is, sizeof is);
    w->print((const char *)w->values + (w->vector ? i * w->bytes : 0), wanted, sizeof wanted);
    sh_die(w->call, "TIMEOUT: word %zu of %zu, at %p, was %s at the deadline, expected %s %s", i, w->nelems,
           (const char *)(uintptr_t)w->ivars + i * w->bytes, is, signs[w->cmp], wanted);
}

static void wait_until(const struct sh_watch *w, int (*is_there)(const void *arg))
{
    const tutti_status st = tutti_window_wait_until(sh_job.heap.window, is_there, w, 0);

    sh_heed_exit();
    if (st == TUTTI_ERR_TIMEOUT && !is_there(w))
        die_late(w);
    if (st != TUTTI_ERR_TIMEOUT)
        sh_check(w->call, st);
}

void sh_wait_all(const struct sh_watch *w)
{
    check(w);
    wait_until(w, is_all_there);
}

size_t sh_wait_any(const struct sh_watch *w)
{
    check(w);
    if (!has_words(w))
        return SIZE_MAX;
    for (;;) {                  /* a word may have changed once more since it was seen */
        const size_t index = next_that_holds(w);

        if (index != SIZE_MAX)
            return index;
        wait_until(w, is_one_there);
    }
}

size_t sh_wait_some(const struct sh_watch *w, size_t *indices)
{
    check(w);
    if (!has_words(w))
        return 0;
    for (;;) {
        const size_t n = those_that_hold(w, indices);

        if (n)
            return n;
        wait_until(w, is_one_there);
    }
}

/* ---- testing ---- */

static void progress(const char *call)
{
    sh_check(call, tutti_window_test(sh_job.heap.window, offsetof(struct sh_head, exit), TUTTI_NOT_EQUAL, 0, NULL));
    sh_heed_exit();
}

int sh_test_all(const struct sh_watch *w)
{
    check(w);
    if (all_hold(w))
        return 1;
    progress(w->call);
    return all_hold(w);
}

size_t sh_test_any(const struct sh_watch *w)
{
    size_t index;

    check(w);
    index = next_that_holds(w);
    if (index != SIZE_MAX)
        return index;
    progress(w->call);
    return next_that_holds(w);
}

size_t sh_test_some(const struct sh_watch *w, size_t *indices)
{
    size_t n;

    check(w);
    n = those_that_hold(w, indices);
    if (n)
        return n;
    progress(w->call);
    return those_that_hold(w, indices);
}
