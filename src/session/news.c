/* Each word: the lower 48 bits of the number (a counter of 32 bits, and 16 of the coordinator's starts), then 15 bits of a count, then a flag. With the
 * 65,536th start of a coordinator the greatest words are, for once, the oldest: all members still read the same, and that is out of date until all have
 * heard what is new. */
#include "session/news.h"

#include "base/status.h"

#define COUNT_MAX 0x7fffu

_Static_assert(TT_ELASTIC_MEMBERS_MAX <= COUNT_MAX, "a number of members is 15 bits");

static uint64_t word(uint64_t number, uint32_t count, bool flag)
{
    return number << 16 | (count & COUNT_MAX) << 1 | flag;
}

static uint32_t count_in(uint64_t word)
{
    return (uint32_t)(word >> 1) & COUNT_MAX;
}

void tt_news_write(const struct tt_news *n, uint64_t out[TT_NEWS_WORDS])
{
    out[0] = word(n->number, n->newcomers, n->revoked);
    out[1] = word(n->number, n->lost, n->better);
    out[2] = word(n->number, n->leaving, false);
}

/* The number with these lower 48 bits that is nearest to `near`. */
static uint64_t number_near(uint64_t low, uint64_t near)
{
    return near + (uint64_t)((int64_t)((low - near) << 16) >> 16);
}

struct tt_news tt_news_read(const uint64_t in[TT_NEWS_WORDS], uint64_t near)
{
    return (struct tt_news){ .number = number_near(in[0] >> 16, near),
                             .newcomers = count_in(in[0]),
                             .lost = count_in(in[1]),
                             .leaving = count_in(in[2]),
                             .revoked = in[0] & 1,
                             .better = in[1] & 1 };
}
