#include "trace/departures.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"

static struct {
    pthread_mutex_t lock;
    struct tt_departure list[TT_DEPARTURES_MAX];    /* by number modulo TT_DEPARTURES_MAX */
    uint64_t n;                                     /* added so far */
} departures = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t first_kept(void)
{
    return departures.n > TT_DEPARTURES_MAX ? departures.n - TT_DEPARTURES_MAX : 0;
}

static bool is_kept(uint64_t run, uint64_t member)
{
    for (uint64_t i = first_kept(); i < departures.n; i++) {
        const struct tt_departure *d = &departures.list[i % TT_DEPARTURES_MAX];

        if (d->member == member && d->run == run)
            return true;
    }
    return false;
}

void tt_departure_add(uint64_t run, uint64_t member, uint64_t epoch, enum tt_departure_why why)
{
    const uint64_t now_ns = tt_now_ns();

    pthread_mutex_lock(&departures.lock);
    if (!is_kept(run, member))
        departures.list[departures.n++ % TT_DEPARTURES_MAX] = (struct tt_departure){
            .run = run, .member = member, .epoch = epoch, .at_ns = now_ns, .why = why
        };
    pthread_mutex_unlock(&departures.lock);
}

void tt_departures_replace(uint64_t run)
{
    const uint64_t now_ns = tt_now_ns();

    pthread_mutex_lock(&departures.lock);
    for (uint64_t i = first_kept(); i < departures.n; i++) {
        struct tt_departure *d = &departures.list[i % TT_DEPARTURES_MAX];

        if (d->run == run && !d->replaced_ns)
            d->replaced_ns = now_ns;
    }
    pthread_mutex_unlock(&departures.lock);
}

uint32_t tt_departures_read(struct tt_departure out[TT_DEPARTURES_MAX])
{
    uint32_t n = 0;

    pthread_mutex_lock(&departures.lock);
    for (uint64_t i = first_kept(); i < departures.n; i++)
        out[n++] = departures.list[i % TT_DEPARTURES_MAX];
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
