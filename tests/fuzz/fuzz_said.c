/* What another member says, and a member's card: taken whole or not at all, and what is taken is written as it was read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "session/card.h"
#include "session/said.h"

static void read_said(const uint8_t *data, size_t bytes)
{
    uint8_t out[TT_SAID_BYTES_MAX];
    struct tt_said s;

    if (!tt_said_read(&s, data, bytes))
        return;
    tt_assert(tt_said_write(&s, out) == bytes && memcmp(out, data, bytes) == 0);
    tt_assert(memchr(s.text, 0, sizeof s.text) && s.card_bytes <= sizeof s.card);
}

static void read_card(const uint8_t *data, size_t bytes)
{
    struct tt_blob in = { .bytes = (uint16_t)bytes }, out;
    struct tt_address at[TT_CARD_ADDRESSES];
    struct tt_member_card card;

    if (bytes > sizeof in.data)
        return;
    memcpy(in.data, data, bytes);
    if (!tt_member_card_read(&card, &in))
        return;
    tt_member_card_write(&card, &out);
    tt_assert(out.bytes == bytes && memcmp(out.data, data, bytes) == 0);
    tt_assert(tt_member_card_candidates(&card, &card, at) <= TT_CARD_ADDRESSES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    read_said(data, bytes);
    read_card(data, bytes);
    return 0;
}
