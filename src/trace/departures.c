#include "trace/departures.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"

static struct {
    pthread_mutex_t lock;
    struct tt_departure list[TT_DEPARTURES_MAX];    /* oldest first */
    uint32_t n;
} departures = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void drop_entry(uint32_t i)
{
    departures.n--;
    memmove(&departures.list[i], &departures.list[i + 1],
            (departures.n - i) * sizeof departures.list[0]);
}

/* Returns whether a departure of the member from this or a later view is already stored. Removes
 * one from an earlier view, because the member has returned since. */
static bool is_kept(uint64_t run, uint64_t member, uint64_t epoch)
{
    for (uint32_t i = 0; i < departures.n; i++) {
        const struct tt_departure *d = &departures.list[i];

        if (d->member != member || d->run != run)
            continue;
        if (d->epoch >= epoch)
            return true;
        drop_entry(i);
        return false;
    }
    return false;
}

void tt_departure_add(uint64_t run, uint64_t member, uint64_t epoch, enum tt_departure_why why)
{
    const uint64_t now_ns = tt_now_ns();

    pthread_mutex_lock(&departures.lock);
    if (!is_kept(run, member, epoch)) {
        if (departures.n == TT_DEPARTURES_MAX)
            drop_entry(0);
        departures.list[departures.n++] = (struct tt_departure){
            .run = run, .member = member, .epoch = epoch, .at_ns = now_ns, .why = why
        };
    }
    pthread_mutex_unlock(&departures.lock);
}

static bool is_among(uint64_t id, const uint64_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

void tt_departures_replace(uint64_t run, uint64_t epoch, const uint64_t *ids, uint32_t n)
{
    const uint64_t now_ns = tt_now_ns();

    pthread_mutex_lock(&departures.lock);
    for (uint32_t i = departures.n; i > 0; i--) {
        struct tt_departure *d = &departures.list[i - 1];

        if (d->run == run && d->epoch < epoch && is_among(d->member, ids, n))
            drop_entry(i - 1);
        else if (d->run == run && !d->replaced_ns)
            d->replaced_ns = now_ns;
    }
    pthread_mutex_unlock(&departures.lock);
}

uint32_t tt_departures_read(struct tt_departure out[TT_DEPARTURES_MAX])
{
    uint32_t n;

    pthread_mutex_lock(&departures.lock);
    n = departures.n;
    memcpy(out, departures.list, n * sizeof *out);
    pthread_mutex_unlock(&departures.lock);
    return n;
}

const char *tt_departure_why_name(enum tt_departure_why why)
{
    static const char *const names[TT_DEPARTURE_WHYS] = {
        [TT_DEPARTURE_DIED] = "died",
        [TT_DEPARTURE_SILENT] = "silent",
        [TT_DEPARTURE_UNREACHABLE] = "unreachable",
        [TT_DEPARTURE_PROTOCOL] = "protocol",
        [TT_DEPARTURE_STATE] = "state",
        [TT_DEPARTURE_LEFT] = "left",
        [TT_DEPARTURE_VIEW] = "view",
    };

    return names[why];
}
