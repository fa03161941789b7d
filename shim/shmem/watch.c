#include "watch.h"

#include "move.h"

/* ---- comparison ---- */

static bool is_ignored(const struct sh_watch *w, size_t i) { return w->status && w->status[i]; }

static bool holds(const struct sh_watch *w, size_t i)
{
    return w->compares((const volatile char *)w->ivars + i * w->bytes, w->cmp,
                       (const char *)w->values + (w->vector ? i * w->bytes : 0));
}

static bool all_hold(const struct sh_watch *w)
{
    for (size_t i = 0; i < w->nelems; i++)
        if (!is_ignored(w, i) && !holds(w, i))
            return false;
    return true;
}

/* Searches from index `from` (less than nelems), with wrap-around. Returns the first match, or
 * SIZE_MAX. */
static size_t find_match(const struct sh_watch *w, size_t from)
{
    for (size_t k = 0, i = from; k < w->nelems; k++, i = i + 1 < w->nelems ? i + 1 : 0)
        if (!is_ignored(w, i) && holds(w, i))
            return i;
    return SIZE_MAX;
}

/* ---- fair selection ---- */

/* OpenSHMEM 1.5 requires that repeated calls eventually return each matching word. Therefore each
 * search starts at a pseudo-random index: no pattern of calls can always miss a word. All threads
 * of a process share the counter; a lost update only repeats an index. */
static uint64_t nmatches;

static uint64_t mix(uint64_t x)     /* the finalizer of SplitMix64 */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* Returns the index of a matching word, with fair selection; SIZE_MAX: no match. */
static size_t next_match(const struct sh_watch *w)
{
    const uint64_t n = __atomic_load_n(&nmatches, __ATOMIC_RELAXED);
    size_t i;

    if (w->nelems == 0)
        return SIZE_MAX;
    i = find_match(w, mix((n + 1) * 0x9e3779b97f4a7c15ull) % w->nelems);
    if (i != SIZE_MAX)
        __atomic_store_n(&nmatches, n + 1, __ATOMIC_RELAXED);
    return i;
}

static size_t find_matches(const struct sh_watch *w, size_t *indices)
{
    size_t n = 0;

    for (size_t i = 0; i < w->nelems; i++)
        if (!is_ignored(w, i) && holds(w, i))
            indices[n++] = i;
    return n;
}

static bool has_words(const struct sh_watch *w)
{
    for (size_t i = 0; i < w->nelems; i++)
        if (!is_ignored(w, i))
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
    sh_place_of(w->call, "ivar", (const void *)(uintptr_t)w->ivars,
                sh_bytes(w->call, w->nelems, w->bytes));
    if ((uintptr_t)w->ivars % w->bytes)
        sh_die(w->call, "ivar = %p is misaligned: must be a multiple of %zu",
               (const void *)(uintptr_t)w->ivars, w->bytes);
}

/* ---- waiting ---- */

static int has_exited(void)
{
    const struct sh_head *head = (const void *)sh_job.heap.base;

    return __atomic_load_n(&head->exit, __ATOMIC_ACQUIRE) != 0;
}

static int all_match_or_exit(const void *arg)
{
    return all_hold(arg) || has_exited();
}
static int one_matches_or_exit(const void *arg)
{
    return find_match(arg, 0) != SIZE_MAX || has_exited();
}

/* Reports the first word that does not match, its value and the expected value. */
SHMEM_NORETURN static void die_of_timeout(const struct sh_watch *w)
{
    static const char *const signs[] = {
        [SHMEM_CMP_EQ] = "==", [SHMEM_CMP_NE] = "!=", [SHMEM_CMP_GT] = ">",
        [SHMEM_CMP_GE] = ">=", [SHMEM_CMP_LT] = "<", [SHMEM_CMP_LE] = "<=",
    };
    char is[24], wanted[24];
    size_t i = 0;

    while (i + 1 < w->nelems && (is_ignored(w, i) || holds(w, i)))
        i++;
    w->print((const volatile char *)w->ivars + i * w->bytes, is, sizeof is);
    w->print((const char *)w->values + (w->vector ? i * w->bytes : 0), wanted, sizeof wanted);
    sh_die(w->call,
           "TIMEOUT: word %zu of %zu, at %p, had the value %s at the deadline, expected %s %s", i,
           w->nelems, (const char *)(uintptr_t)w->ivars + i * w->bytes, is, signs[w->cmp], wanted);
}

static void wait_until(const struct sh_watch *w, int (*is_there)(const void *arg))
{
    const tutti_status st = tutti_window_wait_until(sh_job.heap.window, is_there, w, 0);

    sh_check_exit();
    if (st == TUTTI_ERR_TIMEOUT && !is_there(w))
        die_of_timeout(w);
    if (st != TUTTI_ERR_TIMEOUT)
        sh_check(w->call, st);
}

void sh_wait_all(const struct sh_watch *w)
{
    check(w);
    wait_until(w, all_match_or_exit);
}

size_t sh_wait_any(const struct sh_watch *w)
{
    check(w);
    if (!has_words(w))
        return SIZE_MAX;
    for (;;) {                  /* a word that matched may have changed again */
        const size_t index = next_match(w);

        if (index != SIZE_MAX)
            return index;
        wait_until(w, one_matches_or_exit);
    }
}

size_t sh_wait_some(const struct sh_watch *w, size_t *indices)
{
    check(w);
    if (!has_words(w))
        return 0;
    for (;;) {
        const size_t n = find_matches(w, indices);

        if (n)
            return n;
        wait_until(w, one_matches_or_exit);
    }
}

/* ---- testing ---- */

static void progress(const char *call)
{
    sh_check(call, tutti_window_test(sh_job.heap.window, offsetof(struct sh_head, exit),
                                     TUTTI_NOT_EQUAL, 0, NULL));
    sh_check_exit();
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
    index = next_match(w);
    if (index != SIZE_MAX)
        return index;
    progress(w->call);
    return next_match(w);
}

size_t sh_test_some(const struct sh_watch *w, size_t *indices)
{
    size_t n;

    check(w);
    n = find_matches(w, indices);
    if (n)
        return n;
    progress(w->call);
    return find_matches(w, indices);
}
