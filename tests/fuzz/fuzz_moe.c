/* Tiles of a layer of experts, from a peer that sends anything: reads stay within the tile, and
 * experts are local. The input: four bytes for the layer, then the announced number of tiles, then
 * the tile. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"
#include "moe/route.h"
#include "tutti/moe_device.h"

#define EXPERTS 8u

static void read_rows(const tutti_moe_view *v, const uint8_t *tile)
{
    const uint32_t rows = ((const tutti_moe_head *)(const void *)tile)->rows;
    float *x = malloc(v->hidden * sizeof *x);

    tt_assert(x);
    for (uint32_t r = 0; r < rows; r++) {
        tt_assert(v->held_at[tutti_moe_tile_experts(tile)[r]] < v->nheld);
        tutti_moe_row_read(&v->there, tutti_moe_row_at(v, tile, r), x);
    }
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const uint32_t types[] = { TUTTI_F32, TUTTI_BF16, TUTTI_F8E4M3 };
    uint32_t held_at[EXPERTS], nheld = 0, ntiles;
    tutti_moe_view v = { 0 };
    tutti_status st;
    uint8_t *tile;

    if (bytes < 8)
        return 0;
    tt_log_set(TT_LOG_NONE);
    for (uint32_t e = 0; e < EXPERTS; e++)
        held_at[e] = data[0] >> e & 1 ? nheld++ : TUTTI_MOE_NONE;
    v.hidden = 1 + data[1];
    v.experts = EXPERTS;
    v.nheld = nheld;
    v.tile_tokens = 1 + data[2] % 32;
    v.tiles_max = 5;
    v.there = tutti_moe_row_of(types[data[3] % 3], v.hidden, data[3] / 3);
    v.head_bytes = (sizeof(tutti_moe_head) + 4ull * v.tile_tokens + 63) / 64 * 64;
    v.tile_bytes = v.head_bytes + v.tile_tokens * v.there.bytes;
    v.held_at = held_at;
    memcpy(&ntiles, data + 4, sizeof ntiles);
    data += 8;
    bytes -= 8;
    tile = calloc(1, v.tile_bytes);         /* on the heap, where sanitizers detect overruns */
    tt_assert(tile);
    memcpy(tile, data, bytes < v.tile_bytes ? bytes : v.tile_bytes);
    st = tutti_moe_check(&v, tile, ntiles);
    if (st == TUTTI_OK) {
        tt_assert(ntiles <= v.tiles_max);
        read_rows(&v, tile);
    }
    if (st == TUTTI_ERR_INVALID) {
        const tutti_moe_head *h = (const tutti_moe_head *)(const void *)tile;
        const struct tt_route_flaw f = { h->flaw, h->token, h->choice, h->value };

        st = tt_route_flaw_status(&f, 1, 1, 0, "fuzz");
        tt_assert(st == (tt_route_flaw_sound(&f) ? TUTTI_ERR_INVALID : TUTTI_ERR_PROTOCOL));
    }
    free(tile);
    return 0;
}
