/* u48 the lower part of the number (a counter of 32 bits, and 16 of the coordinator's starts), u16 newcomers and whether it is revoked, u16 lost and whether
 * there is a better order, u16 leaving. */
#include "session/news.h"

#include "base/bytes.h"
#include "base/status.h"

#define FLAG 0x8000u

_Static_assert(TT_ELASTIC_MEMBERS_MAX < FLAG, "a number of members and a flag are 16 bits");

static uint16_t count_and_flag(uint32_t count, uint32_t flag)
{
    return (uint16_t)((count & (FLAG - 1)) | (flag ? FLAG : 0));
}

void tt_news_write(const struct tt_news *n, uint8_t out[TT_NEWS_BYTES])
{
    struct tt_writer w;

    tt_writer_init(&w, out, TT_NEWS_BYTES);
    tt_write_u32(&w, (uint32_t)n->number);
    tt_write_u16(&w, (uint16_t)(n->number >> 32));
    tt_write_u16(&w, count_and_flag(n->newcomers, n->revoked));
    tt_write_u16(&w, count_and_flag(n->lost, n->better));
    tt_write_u16(&w, count_and_flag(n->leaving, 0));
    tt_assert(!w.bad && tt_writer_bytes(&w) == TT_NEWS_BYTES);
}

/* The number with these lower 48 bits that is nearest to `near`. */
static uint64_t number_near(uint64_t low, uint64_t near)
{
    return near + (uint64_t)((int64_t)((low - near) << 16) >> 16);
}

struct tt_news tt_news_read(const uint8_t in[TT_NEWS_BYTES], uint64_t near)
{
    struct tt_reader r;
    uint64_t low;
    uint16_t newcomers, lost, leaving;

    tt_reader_init(&r, in, TT_NEWS_BYTES);
    low = tt_read_u32(&r);
    low |= (uint64_t)tt_read_u16(&r) << 32;
    newcomers = tt_read_u16(&r);
    lost = tt_read_u16(&r);
    leaving = tt_read_u16(&r);
    return (struct tt_news){ .number = number_near(low, near),
                             .newcomers = newcomers & (FLAG - 1),
                             .lost = lost & (FLAG - 1),
                             .leaving = leaving & (FLAG - 1),
                             .revoked = (newcomers & FLAG) != 0,
                             .better = (lost & FLAG) != 0 };
}
