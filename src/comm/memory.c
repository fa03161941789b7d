/* Memory that calls use: allocated by Tutti, declared by the application, and registered with
 * devices. */
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/comm.h"
#include "trace/comms.h"
#include "trace/oplog.h"
#include "wire/registry.h"

tutti_status tutti_mem_alloc(tutti_comm *comm, size_t bytes, void **out)
{
    const tutti_status st = tt_comm_check(comm, "tutti_mem_alloc");

    if (st)
        return st;
    return out ? tt_engine_alloc(comm->world->engine, bytes, out)
               : tt_fail(TUTTI_ERR_INVALID, "tutti_mem_alloc: out is NULL");
}

tutti_status tutti_mem_free(tutti_comm *comm, void *mem)
{
    const tutti_status st = tt_comm_check(comm, "tutti_mem_free");

    return st ? st : tt_engine_free(comm->world->engine, mem);
}

/* Returns whether a range can be declared. This helps only wires that register memory with a
 * device; wires that only copy ignore it. */
static bool can_declare(const void *mem, size_t bytes)
{
    return mem && bytes && tt_memory_can_be(mem, bytes);
}

tutti_status tutti_mem_register(tutti_comm *comm, void *mem, size_t bytes)
{
    const tutti_status st = tt_comm_check(comm, "tutti_mem_register");

    if (st)
        return st;
    if (!can_declare(mem, bytes))
        return tt_fail(TUTTI_ERR_INVALID,
                       "tutti_mem_register: invalid memory: %zu bytes at %p (must be non-NULL, "
                       "not empty, and within the address space)",
                       bytes, mem);
    return tt_engine_declare(comm->world->engine, mem, bytes);
}

tutti_status tutti_mem_register_device(tutti_comm *comm, void *mem, size_t bytes,
                                       const tutti_mem_device *what)
{
    static const char call[] = "tutti_mem_register_device";
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    tutti_mem_device mine = { .size = sizeof mine };
    tutti_status st = tt_comm_check(comm, call);

    if (!st && !can_declare(mem, bytes))
        st = tt_fail(TUTTI_ERR_INVALID,
                     "%s: invalid memory: %zu bytes at %p (must be non-NULL, not empty, and "
                     "within the address space)",
                     call, bytes, mem);
    if (!st && !what)
        st = tt_fail(TUTTI_ERR_INVALID, "%s: what is NULL", call);
    if (!st)
        st = tt_options_take(&mine, sizeof mine, sizeof mine, what, call, "what",
                             "tutti_mem_device");
    if (st)
        return st;
    st = tt_options_enum(call, "what.kind", (int)mine.kind, TUTTI_MEM_LEVEL_ZERO);
    if (!st)
        st = tt_options_flag(call, "what.has_dmabuf", mine.has_dmabuf);
    if (st)
        return st;
    if (mine.has_dmabuf && mine.dmabuf < 0)
        return tt_fail(TUTTI_ERR_INVALID, "%s: what.dmabuf is %d: must be a file descriptor", call,
                       mine.dmabuf);
    if (mine.device < 0)
        return tt_fail(TUTTI_ERR_INVALID, "%s: what.device is %d: must be at least 0", call,
                       mine.device);
    if ((uintptr_t)mem % page || bytes % page || (mine.has_dmabuf && mine.dmabuf_offset % page))
        return tt_fail(TUTTI_ERR_INVALID,
                       "%s: misaligned memory: %zu bytes at %p, offset %zu in the dma-buf (all "
                       "must be multiples of "
                       "the page size, %zu bytes)",
                       call, bytes, mem, mine.has_dmabuf ? mine.dmabuf_offset : 0, page);
    return tt_engine_declare_device(
        comm->world->engine, mem, bytes,
        &(struct tt_device_memory){ .kind = mine.kind,
                                    .device = mine.device,
                                    .dmabuf = mine.has_dmabuf ? mine.dmabuf : -1,
                                    .dmabuf_offset = mine.has_dmabuf ? mine.dmabuf_offset : 0 });
}

tutti_status tutti_mem_deregister(tutti_comm *comm, void *mem)
{
    const tutti_status st = tt_comm_check(comm, "tutti_mem_deregister");

    if (st)
        return st;
    if (!mem)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_mem_deregister: mem is NULL");
    return tt_engine_undeclare(mem);
}

tutti_status tutti_mem_registered(tutti_registered *out)
{
    struct tt_registry_counts c;
    tutti_registered r;

    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_mem_registered: out is NULL");
    if (out->size < sizeof r || out->size > TT_OPTIONS_BYTES_MAX)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_mem_registered: out.size is %zu, not %zu: set it to sizeof(tutti_registered)",
            out->size, sizeof r);
    tt_registry_counts(&c);
    r = (tutti_registered){
        .size = out->size,
        .hits = c.hits,
        .misses = c.misses,
        .dynamic = c.dynamic,
        .evicted = c.evicted,
        .invalidated = c.invalidated,
        .count = c.registrations,
        .bytes = c.registered_bytes,
        .bytes_most = c.registered_bytes_most,
        .explicit_bytes = c.explicit_bytes,
        .registering_ns = c.registering_ns,
        .undoing_ns = c.undoing_ns,
    };
    memset(out, 0, out->size);      /* fields of later releases are unknown here */
    memcpy(out, &r, sizeof r);
    return TUTTI_OK;
}

/* Adds the communicator's own memory. */
static void count_comm(const tutti_comm *c, tutti_memory *m)
{
    const struct tt_world *w = c->world;
    const bool shared = tt_layout_is_shared(&c->layout, &w->layout);
    const tutti_memory_part parts[] = {
        { .purpose = "communicator: plans and choices",
          .fixed_bytes = sizeof *c + tt_plans_bytes(c) },
        { .purpose = "communicator: layout",
          .rank_bytes = shared ? 0 : tt_layout_bytes(&c->layout) },
        { .purpose = "job: start-up", .shared = 1, .fixed_bytes = sizeof *w },
        { .purpose = "job: addresses of ranks",
          .shared = 1,
          .rank_bytes = tt_record_store_bytes(&w->records, w->nlocal) },
        { .purpose = "job: layout",
          .shared = 1,
          .rank_bytes = tt_layout_bytes(&w->layout) + w->nranks / 8 + 1 },
        { .purpose = "trace of operations",
          .shared = 1,
          .fixed_bytes = tt_oplog_bytes() + tt_comms_bytes() },
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        tt_memory_add(m, &parts[i]);
}

tutti_status tutti_comm_memory(tutti_comm *comm, tutti_memory *out)
{
    const tutti_status st = tt_comm_check(comm, "tutti_comm_memory");
    struct tt_world *w;
    tutti_memory m = { .size = sizeof m };

    if (st)
        return st;
    if (!out)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_comm_memory: out is NULL");
    if (out->size != sizeof m)
        return tt_fail(
            TUTTI_ERR_INVALID,
            "tutti_comm_memory: out.size is %zu, not %zu: set it to sizeof(tutti_memory)",
            out->size, sizeof m);
    w = comm->world;
    m.nranks = comm->nranks;
    m.job_ranks = w->nranks;
    count_comm(comm, &m);
    tt_engine_memory(w->engine, comm->context, &m);
    pthread_mutex_lock(&w->overlay_lock);
    if (w->overlay)
        tt_overlay_memory(w->overlay, &m);
    pthread_mutex_unlock(&w->overlay_lock);
    for (uint32_t i = 0; i < m.nparts; i++) {
        const tutti_memory_part *p = &m.parts[i];

        m.idle_bytes += (double)p->rank_bytes / (p->shared ? m.job_ranks : m.nranks);
        m.bytes += p->fixed_bytes + p->rank_bytes + p->peer_bytes;
    }
    *out = m;
    return TUTTI_OK;
}
