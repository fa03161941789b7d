/* Headers of dynamic exchanges, from a peer that sends anything: accepted pieces are within the
 * message and the receive buffer. The input: four bytes with the declared sizes, then the
 * message. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/status.h"
#include "moe/pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_pieces_shape s;
    const uint8_t *wanted, *pieces;
    struct tt_stretch *list;
    uint8_t *message, *dst;
    uint64_t *lengths;
    struct tt_head h;

    if (bytes < 4)
        return 0;
    s = (struct tt_pieces_shape){
        .nranks = 1 + data[0] % 4, .nsplits = 1 + data[1] % 32, .elem_bytes = 1u << data[0] / 4 % 4,
        .max_length = data[2] < 200 ? data[2] : 1000u * data[2], .max_total = 16u * data[3],
        .to_all = data[0] / 16 % 2,
    };
    s.rank = data[0] / 32 % s.nranks;
    data += 4;
    bytes -= 4;
    message = malloc(bytes + 1);        /* on the heap, where sanitizers detect overruns */
    dst = calloc(1, s.max_total * s.elem_bytes + 1);
    lengths = malloc(s.nsplits * sizeof *lengths);
    list = calloc((s.nsplits + 1) / 2, sizeof *list);
    tt_assert(message && dst && lengths && list);
    memcpy(message, data, bytes);
    if (tt_head_read(&s, message, bytes, &h, lengths, &wanted, &pieces) &&
        tt_head_status(&s, &h, 0, "fuzz") == TUTTI_OK) {
        const uint64_t n = tt_pieces_stretches(&s, lengths, wanted, list);

        tt_assert(h.packed || n <= h.most);
        for (uint64_t i = 0; i < n; i++)
            tt_assert(list[i].bytes &&
                      list[i].offset + list[i].bytes <= s.max_total * s.elem_bytes);
        if (h.packed)
            tt_pieces_unpack(&s, lengths, wanted, pieces, dst);
    }
    free(list);
    free(lengths);
    free(dst);
    free(message);
    return 0;
}
