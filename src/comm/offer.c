#include "comm/offer.h"

#include <string.h>

#include "base/status.h"

/* First byte of the record. Earlier formats begin with 0. */
#define VERSION 1u

tutti_status tt_world_offer_write(const struct tt_world_offer *offer, uint8_t out[TT_CARD_BYTES],
                                  size_t *bytes)
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_CARD_BYTES);
    tt_write_u8(&w, VERSION);
    tt_write_string(&w, offer->settings);
    tt_write_u16(&w, (uint16_t)offer->constants_bytes);
    tt_write_bytes(&w, offer->constants, offer->constants_bytes);
    tt_write_bytes(&w, offer->card, offer->card_bytes);
    if (w.bad)
        return tt_fail(TUTTI_ERR_UNSUPPORTED,
                       "the address record of this member is too long: the maximum is %d bytes",
                       TT_CARD_BYTES);
    *bytes = tt_writer_bytes(&w);
    return TUTTI_OK;
}

static const char *settings_or_none(const char *settings)
{
    return *settings ? settings : "none";
}

tutti_status tt_world_add_offer(struct tt_world *w, uint32_t rank, const uint8_t *offer,
                                size_t bytes)
{
    char settings[TT_BOOT_SETTINGS_BYTES];
    const uint8_t *constants;
    uint16_t constants_bytes;
    struct tt_reader r;
    uint8_t version;
    tutti_status st;

    tt_reader_init(&r, offer, bytes);
    version = tt_read_u8(&r);
    tt_read_string(&r, settings, sizeof settings);
    constants_bytes = tt_read_u16(&r);
    constants = tt_reader_take(&r, constants_bytes);
    if (r.bad || version != VERSION)
        return tt_fail(TUTTI_ERR_PROTOCOL,
                       "protocol error: invalid address record of rank %u, %zu bytes (another "
                       "version of Tutti?)",
                       rank, bytes);
    if (strcmp(settings, w->settings) != 0)
        return tt_fail(TUTTI_ERR_MISMATCH,
                       "settings differ between ranks, but must be the same: rank %u has %s; rank "
                       "%u has %s",
                       w->rank, settings_or_none(w->settings), rank, settings_or_none(settings));
    st = rank == 0 ? tt_world_set_constants(w, constants, constants_bytes) : TUTTI_OK;
    return st ? st : tt_world_add_card(w, rank, r.at, (size_t)(r.end - r.at));
}
