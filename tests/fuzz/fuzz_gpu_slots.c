/* Headers of pieces that another rank puts into its ring, with any contents: a piece that is
 * accepted is inside the window, in its slot, and has a counter. The input: the number of ranks,
 * the rank, the size of the window (4 bytes), whether it exists, then a header. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "gpu/slots.h"
#include "tutti/gpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_gpu_piece p;
    struct tt_gpu_layout l;
    uint32_t nranks, rank, window_bytes, accessed;
    size_t slot;

    tt_log_set(TT_LOG_NONE);
    if (bytes < 7 + sizeof p)
        return 0;
    nranks = 1u + data[0] * 16u;
    rank = data[1] % nranks;
    memcpy(&window_bytes, data + 2, sizeof window_bytes);
    memcpy(&p, data + 7, sizeof p);
    l = tt_gpu_layout_of(nranks);
    if (tt_gpu_piece_check(&l, &p, rank, data[6] & 1, window_bytes))
        return 0;
    tt_assert(p.signal < TUTTI_GPU_SIGNALS && p.is_last <= 1);
    accessed = p.kind == TT_GPU_PIECE_PUT ? p.bytes : p.length;
    tt_assert(p.kind == TT_GPU_PIECE_PUT || !p.bytes);
    if (p.window != TT_GPU_NO_WINDOW || accessed) {
        tt_assert(data[6] & 1);
        tt_assert(p.offset <= window_bytes && accessed <= window_bytes - p.offset);
    }
    if (p.kind != TT_GPU_PIECE_PUT && p.reply)
        tt_assert(tt_gpu_layout_reply(&l, p.reply - 1) + accessed <= l.bytes);
    slot = tt_gpu_layout_slot(&l, rank, p.offset);      /* any number of a piece */
    tt_assert(slot >= l.slots && slot + sizeof p + p.bytes <= l.bytes);
    tt_assert(tt_gpu_layout_count(&l, rank, p.signal) + sizeof(uint64_t) <= l.wake);
    return 0;
}
