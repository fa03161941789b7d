#include "trace/tick.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/log.h"

#define FIRST_SPACING_NS TT_SECOND
#define STEP_BACK_NS TT_MS      /* shorter backward steps of the counter are ignored */
#define READINGS 5          /* of the clock for one point: the fastest one is used */

bool tt_tick_is_counter;

static struct {
    pthread_mutex_t lock;
    struct tt_tick_table table;
    _Atomic uint64_t due_ns;
} ticks = { .lock = PTHREAD_MUTEX_INITIALIZER, .table.spacing_ns = FIRST_SPACING_NS };

/* ---- conversion ---- */

static void points_thin_out(struct tt_tick_table *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n; i += 2)
        t->point[n++] = t->point[i];
    t->n = n;
    t->spacing_ns *= 2;
}

/* Returns whether the counter was set back by so few ticks that it soon reaches its old value. With
 * one point its rate is unknown: a tick is then taken as a nanosecond. */
static bool is_short_step(const struct tt_tick_table *t, uint64_t back)
{
    const struct tt_tick_point *first = &t->point[0], *last = &t->point[t->n - 1];
    const double rate =
        t->n > 1 ? (double)(last->tick - first->tick) / (double)(last->ns - first->ns) : 1;

    return (double)back < rate * (double)STEP_BACK_NS;
}

void tt_tick_table_add(struct tt_tick_table *t, const struct tt_tick_point *p, bool extra,
                       uint64_t *jumped_back)
{
    const struct tt_tick_point *last = &t->point[t->n > 0 ? t->n - 1 : 0];

    *jumped_back = 0;
    if (t->n > 0 && p->ns <= last->ns)
        return;
    if (t->n > 0 && p->tick <= last->tick) {
        if (is_short_step(t, last->tick - p->tick))
            return;
        *jumped_back = last->tick - p->tick;
        t->n = 0;
        t->spacing_ns = FIRST_SPACING_NS;
    }
    if (t->n > 1 && t->last_is_extra)
        t->n--;
    if (t->n == TT_TICK_POINTS)
        points_thin_out(t);
    t->point[t->n++] = *p;
    t->last_is_extra = extra;
}

/* Returns the index of the first point after the tick, or of the last point. */
static uint32_t point_after(const struct tt_tick_table *t, uint64_t tick)
{
    uint32_t low = 1, high = t->n - 1;

    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (t->point[mid].tick < tick)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Returns the time of a tick by interpolation between a and b, limited to 0 ... max_ns. */
static uint64_t interpolate(const struct tt_tick_point *a, const struct tt_tick_point *b,
                            uint64_t tick, uint64_t max_ns)
{
    const double rate = (double)(b->ns - a->ns) / (double)(b->tick - a->tick);
    const double away = rate * (double)(tick >= a->tick ? tick - a->tick : a->tick - tick);

    if (tick >= a->tick)
        return away < (double)(max_ns - a->ns) ? a->ns + (uint64_t)away : max_ns;
    return away < (double)a->ns ? a->ns - (uint64_t)away : 0;
}

uint64_t tt_tick_table_ns(const struct tt_tick_table *t, uint64_t tick, uint64_t now_ns)
{
    const uint64_t last_ns = t->n > 0 ? t->point[t->n - 1].ns : 0;
    uint32_t i;

    if (t->n < 2)
        return t->n > 0 ? t->point[0].ns : 0;
    i = point_after(t, tick);
    return interpolate(&t->point[i - 1], &t->point[i], tick, now_ns > last_ns ? now_ns : last_ns);
}

/* ---- the counter ---- */

#if defined(__x86_64__)
/* Returns whether the kernel uses the counter or could use it. It rejects a counter that differs
 * between processors. If the file cannot be read, the processor's CPUID flag decides. */
static bool kernel_accepts_counter(void)
{
    char text[256];
    const int fd = open("/sys/devices/system/clocksource/clocksource0/available_clocksource",
                        O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return true;
    text[n] = 0;
    return strstr(text, "tsc") != NULL;
}

static bool has_counter(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
        return false;
    return kernel_accepts_counter();
}
#else
static bool has_counter(void) { return false; }
#endif

/* Reads both clocks several times. The reading with the shortest time between two ticks is used,
 * since the thread may be interrupted between them. */
static struct tt_tick_point point_take(void)
{
    struct tt_tick_point best = { 0 };
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < READINGS; i++) {
        const uint64_t before = tt_tick_now(), ns = tt_now_ns(), after = tt_tick_now();

        if (after - before >= shortest)
            continue;
        shortest = after - before;
        best = (struct tt_tick_point){ .tick = before + shortest / 2, .ns = ns };
    }
    return best;
}

/* The caller holds the lock. extra: as tt_tick_table_add. */
static void add_point(bool extra)
{
    const struct tt_tick_point p = point_take();
    uint64_t jumped_back;

    tt_tick_table_add(&ticks.table, &p, extra, &jumped_back);
    if (!extra || jumped_back)
        atomic_store_explicit(&ticks.due_ns, p.ns + ticks.table.spacing_ns, memory_order_relaxed);
    if (jumped_back)
        tt_log(TT_LOG_WARN,
               "the processor's counter was set back by %" PRIu64 " ticks: times of earlier "
               "operations are not known",
               jumped_back);
}

void tt_tick_start(void)
{
    pthread_mutex_lock(&ticks.lock);
    if (ticks.table.n == 0) {
        tt_tick_is_counter = has_counter();
        add_point(false);
    }
    pthread_mutex_unlock(&ticks.lock);
}

void tt_tick_calibrate(uint64_t now_ns)
{
    if (!tt_tick_is_counter || now_ns < atomic_load_explicit(&ticks.due_ns, memory_order_relaxed) ||
        pthread_mutex_trylock(&ticks.lock) != 0)
        return;
    add_point(false);
    pthread_mutex_unlock(&ticks.lock);
}

void tt_tick_refresh(void)
{
    if (!tt_tick_is_counter)
        return;
    pthread_mutex_lock(&ticks.lock);
    add_point(true);
    pthread_mutex_unlock(&ticks.lock);
}

uint64_t tt_tick_to_ns(uint64_t tick)
{
    uint64_t ns;

    if (!tt_tick_is_counter)
        return tick;
    pthread_mutex_lock(&ticks.lock);
    ns = tt_tick_table_ns(&ticks.table, tick, tt_now_ns());
    pthread_mutex_unlock(&ticks.lock);
    return ns;
}
