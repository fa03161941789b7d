#include "tools/perf/perf_rooms.h"

#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/room.h"
#include "base/status.h"
#include "comm/comm.h"
#include "tools/perf/perf_own.h"

tutti_status perf_rooms_check(tutti_comm *comm, uint64_t buffer_bytes, uint64_t call_bytes)
{
    const struct tt_layout *l = &comm->layout;
    const uint32_t here = tt_layout_host_ranks(l, tt_layout_host(l, comm->rank));
    const uint64_t free_bytes = tt_available_memory("");
    uint64_t own, needed, lacking;
    tutti_status st;

    /* the root of a reduction may need less than other ranks */
    st = tutti_allreduce(&call_bytes, &call_bytes, 1, TUTTI_U64, TUTTI_MAX, comm, NULL);
    if (st)
        return st;
    if (__builtin_add_overflow(perf_own_base(comm->nranks), call_bytes, &own))
        own = UINT64_MAX;
    if (__builtin_add_overflow(buffer_bytes, own, &needed) ||
        __builtin_mul_overflow(needed, (uint64_t)here, &needed))
        needed = UINT64_MAX;
    tt_log(TT_LOG_INFO,
           "perf: memory of a rank: %llu bytes of buffers, at most %llu of the library",
           (unsigned long long)buffer_bytes, (unsigned long long)own);
    lacking = needed > free_bytes;
    st = tutti_allreduce(&lacking, &lacking, 1, TUTTI_U64, TUTTI_MAX, comm, NULL);
    if (st || !lacking)
        return st;
    if (needed > free_bytes)
        return tt_fail(TUTTI_ERR_NOMEM,
                       "out of memory: %u rank%s on this host need%s %llu bytes (each rank %llu "
                       "for buffers and %llu for the library), and %llu are available (use "
                       "smaller buffers or fewer ranks)",
                       here, TT_PLURAL(here), here == 1 ? "s" : "", (unsigned long long)needed,
                       (unsigned long long)buffer_bytes, (unsigned long long)own,
                       (unsigned long long)free_bytes);
    return tt_fail(
        TUTTI_ERR_NOMEM,
        "out of memory on another host: this host has enough (%llu bytes needed, %llu available)",
        (unsigned long long)needed, (unsigned long long)free_bytes);
}

static tutti_status room_init(void **out, tutti_comm *comm, size_t bytes, bool mem_alloc)
{
    if (mem_alloc)
        return tutti_mem_alloc(comm, bytes, out);
    *out = malloc(bytes);
    return *out ? TUTTI_OK
                : tt_fail(TUTTI_ERR_NOMEM, "out of memory for a buffer of %zu bytes", bytes);
}

static void room_fini(const struct perf_rooms *r, void *room)
{
    if (!r->mem_alloc)
        free(room);
    else if (room)
        tutti_mem_free(r->comm, room);
}

tutti_status perf_rooms_init(struct perf_rooms *r, tutti_comm *comm, size_t bytes,
                             uint64_t call_bytes, bool mem_alloc)
{
    struct perf_rooms new = { .comm = comm, .bytes = bytes ? bytes : 1, .mem_alloc = mem_alloc };
    tutti_status st = perf_rooms_check(
        comm, new.bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * (uint64_t) new.bytes, call_bytes);

    if (!st)
        st = room_init(&new.one, comm, new.bytes, mem_alloc);
    if (st)
        return st;
    st = room_init(&new.other, comm, new.bytes, mem_alloc);
    if (st) {
        room_fini(&new, new.one);
        return st;
    }
    memset(new.one, 1, new.bytes);
    memset(new.other, 1, new.bytes);
    *r = new;
    return TUTTI_OK;
}

void perf_rooms_fini(struct perf_rooms *r)
{
    room_fini(r, r->one);
    room_fini(r, r->other);
    *r = (struct perf_rooms){ .bytes = 0 };
}
