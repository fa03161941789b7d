/* Copies of rows and boxes of pitched memory; arrays do not exist. */
#include "drv.h"

#include "copy.h"
#include "handles.h"

/* One side of a two- or three-dimensional copy. */
static CUresult side_of(CUmemorytype type, CUdeviceptr device, const void *host,
                        enum tt_emu_side *side, uintptr_t *at)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        *side = TT_EMU_SIDE_HOST;
        *at = (uintptr_t)host;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        *side = TT_EMU_SIDE_DEVICE;
        *at = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        *side = TT_EMU_SIDE_ANY;
        *at = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Whether the rows of a box lie in its pitch, and its planes in their height. */
static bool box_fits(size_t x, size_t y, size_t pitch, size_t height, const CUDA_MEMCPY3D *p)
{
    if ((p->Height > 1 || p->Depth > 1) && pitch < x + p->WidthInBytes)
        return false;
    return p->Depth <= 1 || height >= y + p->Height;
}

static CUresult copy_box(const CUDA_MEMCPY3D *p, CUstream handle, bool async)
{
    struct tt_emu_copy c = { .width = p->WidthInBytes, .height = p->Height, .depth = p->Depth };
    enum tt_emu_side to, from;
    CUstream s;
    CUresult st = tt_emu_drv_stream(handle, &s);

    if (!st)
        st = side_of(p->srcMemoryType, p->srcDevice, p->srcHost, &from, &c.from);
    if (!st)
        st = side_of(p->dstMemoryType, p->dstDevice, p->dstHost, &to, &c.to);
    if (st)
        return st;
    if (p->srcLOD || p->dstLOD ||
        !box_fits(p->srcXInBytes, p->srcY, p->srcPitch, p->srcHeight, p) ||
        !box_fits(p->dstXInBytes, p->dstY, p->dstPitch, p->dstHeight, p))
        return CUDA_ERROR_INVALID_VALUE;
    c.from_pitch = p->srcPitch;
    c.to_pitch = p->dstPitch;
    c.from_plane = p->srcPitch * p->srcHeight;
    c.to_plane = p->dstPitch * p->dstHeight;
    c.from += p->srcZ * c.from_plane + p->srcY * p->srcPitch + p->srcXInBytes;
    c.to += p->dstZ * c.to_plane + p->dstY * p->dstPitch + p->dstXInBytes;
    return tt_emu_copy(c, to, from, s, async);
}

static CUresult copy_rows(const CUDA_MEMCPY2D *p, CUstream handle, bool async)
{
    CUDA_MEMCPY3D box;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    box = (CUDA_MEMCPY3D){ .srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcMemoryType = p->srcMemoryType,
                           .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice,
                           .srcPitch = p->srcPitch,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost,
                           .dstDevice = p->dstDevice,
                           .dstPitch = p->dstPitch,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height,
                           .Depth = 1 };
    return copy_box(&box, handle, async);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *p)
{
    return copy_rows(p, NULL, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *p)
{
    return copy_rows(p, NULL, false);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return copy_rows(p, stream, true);
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *p)
{
    return p ? copy_box(p, NULL, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream stream)
{
    return p ? copy_box(p, stream, true) : CUDA_ERROR_INVALID_VALUE;
}

/* The devices are found from the addresses; the contexts must exist. */
static CUresult copy_peer_box(const CUDA_MEMCPY3D_PEER *p, CUstream handle, bool async)
{
    CUDA_MEMCPY3D box;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!tt_emu_handle_is(p->srcContext, TT_EMU_CONTEXT) ||
        !tt_emu_handle_is(p->dstContext, TT_EMU_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    box = (CUDA_MEMCPY3D){ .srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcZ = p->srcZ,
                           .srcLOD = p->srcLOD,
                           .srcMemoryType = p->srcMemoryType,
                           .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice,
                           .srcPitch = p->srcPitch,
                           .srcHeight = p->srcHeight,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstZ = p->dstZ,
                           .dstLOD = p->dstLOD,
                           .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost,
                           .dstDevice = p->dstDevice,
                           .dstPitch = p->dstPitch,
                           .dstHeight = p->dstHeight,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height,
                           .Depth = p->Depth };
    return copy_box(&box, handle, async);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    return copy_peer_box(p, NULL, false);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    return copy_peer_box(p, stream, true);
}
