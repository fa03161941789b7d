#include "trace/stages.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define UNIT_SHIFT 6            /* times are kept in units of 64 ticks */

struct slot {
    _Atomic uint64_t number;    /* of its record; 0: none; BUSY: it is being written */
    _Atomic uint32_t of[TT_STAGES], first_data, first_message;
};
_Static_assert(sizeof(struct slot) == 32, "half of a cache line");

#define BUSY UINT64_MAX

static struct slot *slots;
static uint64_t mask;           /* slots - 1 */

void tt_stages_start(uint32_t depth)
{
    void *m = mmap(NULL, depth * sizeof(struct slot), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    slots = m == MAP_FAILED ? NULL : m;
    mask = depth - 1;
}

void tt_stages_stop(void)
{
    if (slots)
        munmap(slots, (mask + 1) * sizeof *slots);
    slots = NULL;
}

static uint32_t pack(uint64_t ticks)
{
    const uint64_t n = (ticks + (1u << UNIT_SHIFT) - 1) >> UNIT_SHIFT;

    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void tt_stages_set(uint64_t number, const struct tt_stage_times *t)
{
    struct slot *s;
    uint64_t before;

    if (!slots || !number)
        return;
    s = &slots[number & mask];
    before = atomic_load_explicit(&s->number, memory_order_relaxed);
    /* a newer record, or BUSY: another thread writes to this slot. Acquire: the earlier writer's
     * times precede these */
    if (before > number ||
        !atomic_compare_exchange_strong_explicit(&s->number, &before, BUSY, memory_order_acquire,
                                                 memory_order_relaxed))
        return;
    /* a reader that sees a new time also sees BUSY, which was stored before */
    for (int i = 0; i < TT_STAGES; i++)
        atomic_store_explicit(&s->of[i], pack(t->of[i]), memory_order_release);
    atomic_store_explicit(&s->first_data, pack(t->first_data), memory_order_release);
    atomic_store_explicit(&s->first_message, pack(t->first_message), memory_order_release);
    atomic_store_explicit(&s->number, number, memory_order_release);
}

bool tt_stages_get(uint64_t number, struct tt_stage_times *out)
{
    struct tt_stage_times t = { .nested = 0 };
    const struct slot *s;

    if (!slots || !number)
        return false;
    s = &slots[number & mask];
    if (atomic_load_explicit(&s->number, memory_order_acquire) != number)
        return false;
    for (int i = 0; i < TT_STAGES; i++)
        t.of[i] = (uint64_t)atomic_load_explicit(&s->of[i], memory_order_acquire) << UNIT_SHIFT;
    t.first_data = (uint64_t)atomic_load_explicit(&s->first_data, memory_order_acquire)
                   << UNIT_SHIFT;
    t.first_message = (uint64_t)atomic_load_explicit(&s->first_message, memory_order_acquire)
                      << UNIT_SHIFT;
    if (atomic_load_explicit(&s->number, memory_order_relaxed) != number)
        return false;
    *out = t;
    return true;
}
