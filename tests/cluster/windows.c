#include "windows.h"

#include <stdlib.h>
#include <string.h>
#include "support/pattern.h"
#include "support/unit.h"

#define ALLOCATED_OFFSET 4160   /* of a window in its allocation */

const struct window_way window_ways[WINDOW_WAYS] = {
    { "mapped", "shm", "1", "1", false, false },
    { "single copies", "shm", "1", "1", true, false },
    { "messages", "shm", "0", "1", true, false },
    { "tcp", "tcp", "0", "1", false, false },
    { "tcp, 4 lanes", "tcp", "0", "4", true, false },
    { "verbs", "verbs", "0", "1", false, false },
    { "verbs, 4 lanes", "verbs", "0", "4", true, false },
    { "allocated", "shm", "1", "1", false, true },
};

bool window_way_is_wanted(const struct window_way *m)
{
    const char *wires = getenv("TUTTI_WIRES"), *lanes = getenv("TUTTI_LANES");

    if (lanes && strcmp(m->lanes, lanes) != 0)
        return false;
    if (getenv("TUTTI_TEST_IN_PLACE_OF_TCP"))
        return strcmp(m->wires, "tcp") == 0;
    return wires ? strcmp(m->wires, wires) == 0 : strcmp(m->wires, "verbs") != 0;
}

bool window_is_mapped(const struct rank *r)
{
    const struct window_way *m = r->job->arg;

    return strcmp(m->wires, "shm") == 0 && !m->own;
}

void window_job_open(struct rank *r)
{
    const struct window_way *m = r->job->arg;

    setenv("TUTTI_CMA", m->cma, 1);
    setenv("TUTTI_LANES", m->lanes, 1);
    job_open(r);
}

void window_side_init(struct rank *r, struct window_side *s, size_t bytes)
{
    const struct window_way *m = r->job->arg;
    void *mem, *given;

    *s = (struct window_side){ .bytes = bytes };
    if (m->own)
        s->owned = job_have(r, aligned_alloc(64, (bytes / 64 + 1) * 64));
    if (s->owned)
        memset(s->owned, 0, bytes);
    if (m->allocated)
        CHECK_OK(r, tutti_mem_alloc(r->comm, ALLOCATED_OFFSET + bytes, &s->allocated));
    given = s->allocated ? (uint8_t *)s->allocated + ALLOCATED_OFFSET : s->owned;
    CHECK_OK(r, tutti_window_create(r->comm, given, bytes, &s->window));
    CHECK_OK(r, tutti_window_memory(s->window, &mem, &s->bytes));
    CHECK(r, s->bytes == bytes && (!given || mem == given));
    s->mem = mem;
}

void window_side_fini(struct rank *r, struct window_side *s)
{
    CHECK_OK(r, tutti_window_free(s->window));
    if (s->allocated)
        CHECK_OK(r, tutti_mem_free(r->comm, s->allocated));
    free(s->owned);
}

void over_all_ways(void (*role)(struct rank *), uint32_t nranks,
                   void (*direct)(const struct job *, struct job_board *))
{
    uint32_t wanted = 0;

    for (uint32_t i = 0; i < WINDOW_WAYS; i++) {
        const struct job job = {
            .wires = window_ways[i].wires,
            .nranks = nranks,
            .seed = job_seed(WINDOW_SEED) + i,
            .arg = &window_ways[i],
            .direct = direct,
        };

        if (!window_way_is_wanted(&window_ways[i]))
            continue;
        wanted++;
        print_message("%s\n", window_ways[i].name);
        if (unit_has_turn(i, 2))
            job_run(&job, role);
    }
    assert_true(wanted > 0);    /* TUTTI_WIRES names none of these methods */
}

void window_check_pattern(struct rank *r, const uint8_t *mem, size_t bytes, uint64_t salt,
                          const char *what)
{
    const uint64_t wrong = pattern_differs(mem, bytes, salt);

    if (wrong != bytes)
        job_fail(r, __FILE__, __LINE__, "%s: byte %llu of %zu is wrong", what,
                 (unsigned long long)wrong, bytes);
}
