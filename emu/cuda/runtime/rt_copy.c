#include "rt.h"

#include "context.h"
#include "copy.h"
#include "machine.h"

/* The sides of a copy direction. */
struct sides {
    enum tt_emu_side to, from;
};

static bool sides_of(enum cudaMemcpyKind kind, struct sides *out)
{
    static const struct sides table[] = {
        [cudaMemcpyHostToHost] = { TT_EMU_SIDE_HOST, TT_EMU_SIDE_HOST },
        [cudaMemcpyHostToDevice] = { TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_HOST },
        [cudaMemcpyDeviceToHost] = { TT_EMU_SIDE_HOST, TT_EMU_SIDE_DEVICE },
        [cudaMemcpyDeviceToDevice] = { TT_EMU_SIDE_DEVICE, TT_EMU_SIDE_DEVICE },
        [cudaMemcpyDefault] = { TT_EMU_SIDE_ANY, TT_EMU_SIDE_ANY },
    };

    if ((unsigned)kind >= sizeof(table) / sizeof(table[0]))
        return false;
    *out = table[kind];
    return true;
}

static cudaError_t copy(struct tt_emu_copy c, enum cudaMemcpyKind kind, cudaStream_t handle,
                        bool async)
{
    struct sides sides;
    CUstream s;
    CUresult st = tt_emu_rt_stream(handle, &s);

    if (st)
        return tt_emu_rt_done(st);
    if (!sides_of(kind, &sides))
        return tt_emu_rt_error(cudaErrorInvalidMemcpyDirection);
    return tt_emu_rt_done(tt_emu_copy(c, sides.to, sides.from, s, async));
}

static struct tt_emu_copy flat(void *to, const void *from, size_t bytes)
{
    return (struct tt_emu_copy){
        .to = (uintptr_t)to, .from = (uintptr_t)from, .width = bytes, .height = 1, .depth = 1
    };
}

static struct tt_emu_copy rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                               size_t width, size_t height)
{
    return (struct tt_emu_copy){ .to = (uintptr_t)to, .from = (uintptr_t)from, .to_pitch = to_pitch,
                                 .from_pitch = from_pitch, .width = width, .height = height,
                                 .depth = 1 };
}

cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    return copy(flat(dst, src, count), kind, NULL, false);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(flat(dst, src, count), kind, stream, true);
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                   size_t width, size_t height, enum cudaMemcpyKind kind)
{
    if (dpitch < width || spitch < width)
        return tt_emu_rt_error(cudaErrorInvalidPitchValue);
    return copy(rows(dst, dpitch, src, spitch, width, height), kind, NULL, false);
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                        size_t width, size_t height, enum cudaMemcpyKind kind,
                                        cudaStream_t stream)
{
    if (dpitch < width || spitch < width)
        return tt_emu_rt_error(cudaErrorInvalidPitchValue);
    return copy(rows(dst, dpitch, src, spitch, width, height), kind, stream, true);
}

/* Boxes of pitched memory; arrays do not exist. */
static cudaError_t copy_box(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool async)
{
    const struct cudaPitchedPtr *s, *d;
    struct tt_emu_copy c;

    if (!p)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    if (p->srcArray || p->dstArray)
        return tt_emu_rt_error(cudaErrorNotSupported);
    s = &p->srcPtr;
    d = &p->dstPtr;
    c = (struct tt_emu_copy){
        .to = (uintptr_t)d->ptr + p->dstPos.z * d->ysize * d->pitch + p->dstPos.y * d->pitch +
              p->dstPos.x,
        .from = (uintptr_t)s->ptr + p->srcPos.z * s->ysize * s->pitch + p->srcPos.y * s->pitch +
                p->srcPos.x,
        .to_pitch = d->pitch,
        .from_pitch = s->pitch,
        .to_plane = d->pitch * d->ysize,
        .from_plane = s->pitch * s->ysize,
        .width = p->extent.width,
        .height = p->extent.height,
        .depth = p->extent.depth,
    };
    return copy(c, p->kind, stream, async);
}

cudaError_t CUDARTAPI cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return copy_box(p, NULL, false);
}

cudaError_t CUDARTAPI cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return copy_box(p, stream, true);
}

/* The addresses determine both devices, but the ordinals must be valid. */
static CUresult devices_exist(int a, int b)
{
    const CUresult st = tt_emu_device_ready(a);

    return st ? st : tt_emu_device_ready(b);
}

cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
                                     size_t count)
{
    const CUresult st = devices_exist(dstDevice, srcDevice);

    return st ? tt_emu_rt_done(st)
              : copy(flat(dst, src, count), cudaMemcpyDeviceToDevice, NULL, false);
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                          size_t count, cudaStream_t stream)
{
    const CUresult st = devices_exist(dstDevice, srcDevice);

    return st ? tt_emu_rt_done(st)
              : copy(flat(dst, src, count), cudaMemcpyDeviceToDevice, stream, true);
}

static cudaError_t copy_peer_box(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream,
                                 bool async)
{
    struct cudaMemcpy3DParms box;
    CUresult st;

    if (!p)
        return tt_emu_rt_error(cudaErrorInvalidValue);
    st = devices_exist(p->dstDevice, p->srcDevice);
    if (st)
        return tt_emu_rt_done(st);
    box = (struct cudaMemcpy3DParms){ .srcArray = p->srcArray,
                                      .srcPos = p->srcPos,
                                      .srcPtr = p->srcPtr,
                                      .dstArray = p->dstArray,
                                      .dstPos = p->dstPos,
                                      .dstPtr = p->dstPtr,
                                      .extent = p->extent,
                                      .kind = cudaMemcpyDeviceToDevice };
    return copy_box(&box, stream, async);
}

cudaError_t CUDARTAPI cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return copy_peer_box(p, NULL, false);
}

cudaError_t CUDARTAPI cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p,
                                            cudaStream_t stream)
{
    return copy_peer_box(p, stream, true);
}

/* ---- fills ---- */

static cudaError_t fill(void *p, size_t pitch, int value, size_t width, size_t height,
                        cudaStream_t handle, bool async)
{
    const struct tt_emu_fill f = { (uintptr_t)p, pitch, width, height, (uint8_t)value, 1 };
    CUstream s;
    CUresult st = tt_emu_rt_stream(handle, &s);

    if (!st)
        st = tt_emu_fill(f, s, async);
    return tt_emu_rt_done(st);
}

cudaError_t CUDARTAPI cudaMemset(void *p, int value, size_t count)
{
    return fill(p, count, value, count, 1, NULL, false);
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *p, int value, size_t count, cudaStream_t stream)
{
    return fill(p, count, value, count, 1, stream, true);
}

cudaError_t CUDARTAPI cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return fill(p, pitch, value, width, height, NULL, false);
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width,
                                        size_t height, cudaStream_t stream)
{
    return fill(p, pitch, value, width, height, stream, true);
}
