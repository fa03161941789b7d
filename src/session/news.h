/* News as members tell them each other with an operation. The news of two members fit into one message of the engine's (TT_CELL_INLINE), which is
 * what makes a verdict short. */
#ifndef TT_SESSION_NEWS_H
#define TT_SESSION_NEWS_H

#include "elastic/message.h"

#define TT_NEWS_BYTES 12

void tt_news_write(const struct tt_news *n, uint8_t out[TT_NEWS_BYTES]);
/* near: a number that this member knows. What others know in the same epoch is less than 2^15 starts of the coordinator away from it. Any bytes make news. */
struct tt_news tt_news_read(const uint8_t in[TT_NEWS_BYTES], uint64_t near);

#endif
