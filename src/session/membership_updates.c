/* Format of each word: the lower 48 bits of the number, then 15 bits of a count, then a flag. The
 * number consists of a counter of 32 bits, and of the coordinator's starts in 16 bits. At the
 * coordinator's 65,536th start the number wraps: until all members have received a new update, all
 * of them read the same outdated one. */
#include "session/membership_updates.h"

#include "base/status.h"

#define COUNT_MAX 0x7fffu

_Static_assert(TT_ELASTIC_MEMBERS_MAX <= COUNT_MAX, "the number of members has 15 bits");

static uint64_t pack_word(uint64_t number, uint32_t count, bool flag)
{
    return number << 16 | (count & COUNT_MAX) << 1 | flag;
}

static uint32_t unpack_count(uint64_t word)
{
    return (uint32_t)(word >> 1) & COUNT_MAX;
}

void tt_membership_write(const struct tt_membership *n, uint64_t out[TT_MEMBERSHIP_WORDS])
{
    out[0] = pack_word(n->number, n->newcomers, n->revoked);
    out[1] = pack_word(n->number, n->lost, n->better);
    out[2] = pack_word(n->number, n->leaving, false);
}

/* Returns the number with these lower 48 bits that is nearest to `near`. */
static uint64_t number_near(uint64_t low, uint64_t near)
{
    return near + (uint64_t)((int64_t)((low - near) << 16) >> 16);
}

struct tt_membership tt_membership_read(const uint64_t in[TT_MEMBERSHIP_WORDS], uint64_t near)
{
    return (struct tt_membership){ .number = number_near(in[0] >> 16, near),
                                   .newcomers = unpack_count(in[0]),
                                   .lost = unpack_count(in[1]),
                                   .leaving = unpack_count(in[2]),
                                   .revoked = in[0] & 1,
                                   .better = in[1] & 1 };
}
