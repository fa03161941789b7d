#include "base/descriptors.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include "base/log.h"

/* default maximum of kernels (fs.nr_open); programs that close all descriptors would be slow beyond
 * it */
#define LIMIT_MAX (1u << 20)
#define AT_ONCE 256u

void tt_descriptors_raise(void)
{
    static atomic_flag raised = ATOMIC_FLAG_INIT;
    struct rlimit limit;
    rlim_t most;

    if (atomic_flag_test_and_set(&raised) || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    most = limit.rlim_max < LIMIT_MAX ? limit.rlim_max : LIMIT_MAX;
    if (limit.rlim_cur >= most)
        return;
    tt_log(TT_LOG_INFO, "RLIMIT_NOFILE raised from %llu to %llu",
           (unsigned long long)limit.rlim_cur, (unsigned long long)most);
    limit.rlim_cur = most;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* poll reports closed descriptors as invalid. The kernel assigns the lowest free number, so the
 * search starts at the highest. */
static uint32_t count_free(uint32_t begin, uint32_t n)
{
    struct pollfd p[AT_ONCE];
    uint32_t free = 0;

    for (uint32_t i = 0; i < n; i++)
        p[i] = (struct pollfd){ .fd = (int)(begin + i) };
    if (poll(p, n, 0) < 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        free += (p[i].revents & POLLNVAL) != 0;
    return free;
}

uint32_t tt_descriptors_free(uint32_t enough)
{
    uint32_t end, free = 0;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return enough;
    end = limit.rlim_cur < LIMIT_MAX ? (uint32_t)limit.rlim_cur : LIMIT_MAX;
    while (end > 0 && free < enough) {
        const uint32_t n = end < AT_ONCE ? end : AT_ONCE;

        end -= n;
        free += count_free(end, n);
    }
    return free < enough ? free : enough;
}
