#include "perf_rooms.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

static tutti_status room_init(void **out, tutti_comm *comm, size_t bytes, bool mem_alloc)
{
    if (mem_alloc)
        return tutti_mem_alloc(comm, bytes, out);
    *out = malloc(bytes);
    return *out ? TUTTI_OK : tt_fail(TUTTI_ERR_NOMEM, "no memory for a buffer of %zu bytes", bytes);
}

static void room_fini(const struct perf_rooms *r, void *room)
{
    if (!r->mem_alloc)
        free(room);
    else if (room)
        tutti_mem_free(r->comm, room);
}

tutti_status perf_rooms_init(struct perf_rooms *r, tutti_comm *comm, size_t bytes, bool mem_alloc)
{
    struct perf_rooms new = { .comm = comm, .bytes = bytes ? bytes : 1, .mem_alloc = mem_alloc };
    tutti_status st = room_init(&new.one, comm, new.bytes, mem_alloc);

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
