/* Messages of another member, also with an operation, and a member's card: accepted completely or
 * not at all, and written as they were read. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "session/card.h"
#include "session/membership_updates.h"
#include "session/messages.h"

static void read_said(const uint8_t *data, size_t bytes)
{
    uint8_t out[TT_MESSAGE_BYTES_MAX];
    struct tt_message s;

    if (!tt_message_read(&s, data, bytes))
        return;
    tt_assert(tt_message_write(&s, out) == bytes && memcmp(out, data, bytes) == 0);
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
    for (enum tt_mark_place place = TT_MARK_HERE; place <= TT_MARK_UNKNOWN; place++)
        tt_assert(tt_member_card_candidates(&card, &card, place, at) <= TT_CARD_ADDRESSES);
}

/* A number of this member, and words of another one: any words are read as bounded numbers, which
 * are written as they were read. */
static void read_news(const uint8_t *data, size_t bytes)
{
    uint64_t in[TT_MEMBERSHIP_WORDS], out[TT_MEMBERSHIP_WORDS], near;
    struct tt_membership n, again;

    if (bytes != sizeof near + sizeof in)
        return;
    memcpy(&near, data, sizeof near);
    memcpy(in, data + sizeof near, sizeof in);
    n = tt_membership_read(in, near);
    tt_assert(n.newcomers < 1u << 15 && n.lost < 1u << 15 && n.leaving < 1u << 15);
    tt_assert(n.number - near + (1ull << 47) < 1ull << 48);
    tt_membership_write(&n, out);
    tt_assert(out[0] == in[0] && (uint16_t)out[1] == (uint16_t)in[1]);
    again = tt_membership_read(out, near);
    tt_assert(tt_membership_are_same(&n, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    read_said(data, bytes);
    read_card(data, bytes);
    read_news(data, bytes);
    return 0;
}
