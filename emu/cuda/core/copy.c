#include "copy.h"

#include "capture.h"

#include "context.h"
#include "fail.h"
#include "machine.h"
#include "memory.h"
#include "space.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

/* ---- addresses ---- */

static size_t extent(size_t plane, size_t pitch, size_t width, size_t height, size_t depth)
{
    return (depth - 1) * plane + (height - 1) * pitch + width;
}

/* Whether [at, at + bytes) lies within allocations of one space or host range; device memory by
 * cuMemMap may consist of adjacent ranges. */
static bool covered(uintptr_t at, size_t bytes)
{
    const uintptr_t end = at + bytes;
    struct tt_emu_range r;

    while (at < end) {
        if (!tt_emu_memory_find(at, &r))
            return false;
        at = r.base + r.bytes;
        if (r.kind != TT_EMU_MAPPED_MEMORY)
            break;
    }
    return at >= end;
}

/* Determines the kind of memory at an address, and checks it against the stated side. */
static CUresult classify(uintptr_t at, size_t bytes, enum tt_emu_side stated, bool *pageable,
                         bool *on_device)
{
    struct tt_emu_range r = { .bytes = 0 };
    const bool found = tt_emu_memory_find(at, &r);

    *pageable = !found;
    *on_device = found && tt_emu_memory_on_device(r.kind);
    if (!at || at + bytes < at)
        return CUDA_ERROR_INVALID_VALUE;
    if (tt_emu_space_alias(at) && !*on_device)
        return CUDA_ERROR_INVALID_VALUE;        /* freed, or never allocated */
    if (stated == TT_EMU_SIDE_DEVICE && !found)
        return CUDA_ERROR_INVALID_VALUE;
    if (stated == TT_EMU_SIDE_HOST && *on_device)
        return CUDA_ERROR_INVALID_VALUE;
    if (*on_device && !covered(at, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* An accessible pointer to `bytes` at an address, or NULL if some of them are unallocated device
 * memory. */
static void *accessible(uintptr_t at, size_t bytes)
{
    void *alias = tt_emu_space_alias(at);

    if (!alias)
        return (void *)at;
    return covered(at, bytes) ? alias : NULL;
}

/* ---- copies ---- */

static bool copy_shape_valid(const struct tt_emu_copy *c)
{
    if (c->height > 1 && (c->to_pitch < c->width || c->from_pitch < c->width))
        return false;
    if (c->depth > 1 &&
        (c->to_plane < c->height * c->to_pitch || c->from_plane < c->height * c->from_pitch))
        return false;
    return true;
}

CUresult tt_emu_copy(struct tt_emu_copy c, enum tt_emu_side to, enum tt_emu_side from,
                     CUstream stream, bool async)
{
    struct tt_emu_work work = { .kind = TT_EMU_COPY, .copy = c };
    bool to_pageable, from_pageable, to_device, from_device;
    CUresult st;

    if (!c.width || !c.height || !c.depth)
        return tt_emu_device_ready(stream->device);
    if (!copy_shape_valid(&c))
        return CUDA_ERROR_INVALID_VALUE;
    st = classify(c.to, extent(c.to_plane, c.to_pitch, c.width, c.height, c.depth), to,
                  &to_pageable, &to_device);
    if (!st)
        st = classify(c.from, extent(c.from_plane, c.from_pitch, c.width, c.height, c.depth), from,
                      &from_pageable, &from_device);
    if (st)
        return st;
    st = tt_emu_stream_push(stream, &work);
    if (st || (to_device && from_device))
        return st;
    if (async && (!(to_pageable || from_pageable) || tt_emu_stream_captures(stream)))
        return CUDA_SUCCESS;
    return tt_emu_stream_synchronize(stream);
}

CUresult tt_emu_copy_bytes(uintptr_t to, uintptr_t from, size_t bytes, enum tt_emu_side to_side,
                           enum tt_emu_side from_side, CUstream stream, bool async)
{
    const struct tt_emu_copy c = {
        .to = to, .from = from, .width = bytes, .height = 1, .depth = 1
    };

    return tt_emu_copy(c, to_side, from_side, stream, async);
}

CUresult tt_emu_copy_run(const struct tt_emu_copy *c)
{
    const char *from =
        accessible(c->from, extent(c->from_plane, c->from_pitch, c->width, c->height, c->depth));
    char *to = accessible(c->to, extent(c->to_plane, c->to_pitch, c->width, c->height, c->depth));

    if (!from || !to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++)
            memmove(to + z * c->to_plane + y * c->to_pitch,
                    from + z * c->from_plane + y * c->from_pitch, c->width);
    return CUDA_SUCCESS;
}

static uint64_t transfer_ns(uint64_t bytes, uint64_t mbps)
{
    return mbps ? bytes * 1000 / mbps : 0;
}

/* The device of an address, or -1 for memory of the host. */
static int device_at(uintptr_t at)
{
    struct tt_emu_range r;

    return tt_emu_memory_find(at, &r) && tt_emu_memory_on_device(r.kind) ? r.device : -1;
}

uint64_t tt_emu_copy_ns(const struct tt_emu_copy *c)
{
    const struct tt_emu_machine *m = tt_emu_machine();
    const uint64_t bytes = (uint64_t)c->width * c->height * c->depth;
    int to, from;

    if (!m->copy_mbps && !m->device_mbps && !m->peer_mbps)
        return 0;
    to = device_at(c->to);
    from = device_at(c->from);
    if (to < 0 || from < 0)
        return transfer_ns(bytes, m->copy_mbps);
    return transfer_ns(bytes, to == from ? m->device_mbps : m->peer_mbps);
}

/* ---- fills ---- */

CUresult tt_emu_fill(struct tt_emu_fill f, CUstream stream, bool async)
{
    const size_t row = f.width * f.element;
    struct tt_emu_work work = { .kind = TT_EMU_FILL, .fill = f };
    bool pageable, on_device;
    CUresult st;

    if (!f.width || !f.height)
        return tt_emu_device_ready(stream->device);
    if (row / f.element != f.width || (f.height > 1 && f.pitch < row) || f.to % f.element)
        return CUDA_ERROR_INVALID_VALUE;
    st = classify(f.to, (f.height - 1) * f.pitch + row, TT_EMU_SIDE_DEVICE, &pageable, &on_device);
    if (!st)
        st = tt_emu_stream_push(stream, &work);
    /* On device memory the call is asynchronous in any case. */
    if (st || async || on_device)
        return st;
    return tt_emu_stream_synchronize(stream);
}

static void fill_row(char *to, const struct tt_emu_fill *f)
{
    if (f->element == 1) {
        memset(to, (int)f->value, f->width);
    } else if (f->element == 2) {
        for (size_t i = 0; i < f->width; i++)
            ((uint16_t *)(void *)to)[i] = (uint16_t)f->value;
    } else {
        for (size_t i = 0; i < f->width; i++)
            ((uint32_t *)(void *)to)[i] = f->value;
    }
}

CUresult tt_emu_fill_run(const struct tt_emu_fill *f)
{
    char *to = accessible(f->to, (f->height - 1) * f->pitch + f->width * f->element);

    if (!to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t y = 0; y < f->height; y++)
        fill_row(to + y * f->pitch, f);
    return CUDA_SUCCESS;
}

uint64_t tt_emu_fill_ns(const struct tt_emu_fill *f)
{
    return transfer_ns((uint64_t)f->width * f->height * f->element, tt_emu_machine()->device_mbps);
}
