#include "trace/tick.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define POINTS 256u
#define FIRST_SPACING_NS TT_SECOND
#define READINGS 5          /* of the clock for one point: the fastest one counts */

struct point {
    uint64_t tick, ns;
};

bool tt_tick_is_counter;

/* Points in order of time. When the table is full, every second point is removed, and the distance
 * of new points doubles. The last point may be replaced by a newer one (refresh). */
static struct {
    pthread_mutex_t lock;
    struct point point[POINTS];
    uint32_t n;
    bool last_is_extra;     /* the last point was taken early */
    uint64_t spacing_ns;
    _Atomic uint64_t due_ns;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER, .spacing_ns = FIRST_SPACING_NS };

#if defined(__x86_64__)
/* Returns whether the kernel uses the counter or could use it. It withdraws a counter that differs
 * between processors. Without the file, the processor's own statement counts. */
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

/* Reads both clocks. The reading with the shortest distance between two ticks is used, since this
 * thread may be interrupted between them. */
static struct point point_take(void)
{
    struct point best = { 0 };
    uint64_t shortest = UINT64_MAX;

    for (int i = 0; i < READINGS; i++) {
        const uint64_t before = tt_tick_now(), ns = tt_now_ns(), after = tt_tick_now();

        if (after - before >= shortest)
            continue;
        shortest = after - before;
        best = (struct point){ .tick = before + shortest / 2, .ns = ns };
    }
    return best;
}

static void points_thin_out(void)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < table.n; i += 2)
        table.point[n++] = table.point[i];
    table.n = n;
    table.spacing_ns *= 2;
}

/* extra: taken before it was due. The next point replaces it. */
static void point_add(const struct point *p, bool extra)
{
    if (table.n > 1 && table.last_is_extra)
        table.n--;
    if (table.n == POINTS)
        points_thin_out();
    if (table.n > 0 &&
        (p->tick <= table.point[table.n - 1].tick || p->ns <= table.point[table.n - 1].ns))
        return;
    table.point[table.n++] = *p;
    table.last_is_extra = extra;
    if (!extra)
        atomic_store_explicit(&table.due_ns, p->ns + table.spacing_ns, memory_order_relaxed);
}

void tt_tick_start(void)
{
    struct point first;

    pthread_mutex_lock(&table.lock);
    if (table.n == 0) {
        tt_tick_is_counter = has_counter();
        first = point_take();
        point_add(&first, false);
    }
    pthread_mutex_unlock(&table.lock);
}

void tt_tick_calibrate(uint64_t now_ns)
{
    struct point p;

    if (!tt_tick_is_counter || now_ns < atomic_load_explicit(&table.due_ns, memory_order_relaxed) ||
        pthread_mutex_trylock(&table.lock) != 0)
        return;
    p = point_take();
    point_add(&p, false);
    pthread_mutex_unlock(&table.lock);
}

void tt_tick_refresh(void)
{
    struct point p;

    if (!tt_tick_is_counter)
        return;
    pthread_mutex_lock(&table.lock);
    p = point_take();
    point_add(&p, true);
    pthread_mutex_unlock(&table.lock);
}

/* Returns the index of the later one of the two points between which the tick lies. */
static uint32_t point_after(uint64_t tick)
{
    uint32_t low = 1, high = table.n - 1;

    while (low < high) {
        const uint32_t mid = (low + high) / 2;

        if (table.point[mid].tick < tick)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static uint64_t interpolate(const struct point *a, const struct point *b, uint64_t tick)
{
    const double rate = (double)(b->ns - a->ns) / (double)(b->tick - a->tick);

    if (tick >= a->tick)
        return a->ns + (uint64_t)((double)(tick - a->tick) * rate);
    return a->ns - (uint64_t)((double)(a->tick - tick) * rate);
}

uint64_t tt_tick_to_ns(uint64_t tick)
{
    uint64_t ns;

    if (!tt_tick_is_counter)
        return tick;
    pthread_mutex_lock(&table.lock);
    if (table.n < 2) {
        ns = table.point[0].ns;
    } else {
        const uint32_t i = point_after(tick);

        ns = interpolate(&table.point[i - 1], &table.point[i], tick);
    }
    pthread_mutex_unlock(&table.lock);
    return ns;
}
