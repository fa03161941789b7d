#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_uint forks;
static pthread_once_t watching = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }

static void register_count_fork(void) { pthread_atfork(NULL, NULL, count_fork); }

uint32_t tt_forks(void)
{
    pthread_once(&watching, register_count_fork);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
