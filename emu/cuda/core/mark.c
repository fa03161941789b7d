#include "mark.h"

#include "fail.h"
#include "machine.h"

#include <pthread.h>
#include <stdlib.h>

struct tt_emu_mark {
    _Atomic unsigned refs;
    _Atomic bool     done;
    uint64_t         time_ns;       /* valid when done */
    pthread_mutex_t  lock;
    pthread_cond_t   changed;
};

struct tt_emu_mark *tt_emu_mark_create(void)
{
    struct tt_emu_mark *m = tt_emu_alloc(sizeof(*m));

    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    return m;
}

struct tt_emu_mark *tt_emu_mark_get(struct tt_emu_mark *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void tt_emu_mark_put(struct tt_emu_mark *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->changed);
    free(m);
}

void tt_emu_mark_done(struct tt_emu_mark *m)
{
    pthread_mutex_lock(&m->lock);
    m->time_ns = tt_emu_now_ns();
    atomic_store(&m->done, true);
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

bool tt_emu_mark_is_done(struct tt_emu_mark *m)
{
    return atomic_load(&m->done);
}

void tt_emu_mark_wait(struct tt_emu_mark *m)
{
    uint64_t until_ns = 0;

    while (!atomic_load(&m->done) && tt_emu_spin(&until_ns))
        ;
    if (atomic_load(&m->done))
        return;
    pthread_mutex_lock(&m->lock);
    while (!atomic_load(&m->done))
        pthread_cond_wait(&m->changed, &m->lock);
    pthread_mutex_unlock(&m->lock);
}

uint64_t tt_emu_mark_time_ns(struct tt_emu_mark *m)
{
    return m->time_ns;
}
