/* News as members tell them each other with an operation: three words, each of the news' number and a part of what they say. So the greatest of all
 * members' words, one by one, are the words of the newest news: a verdict is an all-reduce, which carries no more where there are more members. They
 * fit into one message of the engine's (TT_CELL_INLINE), which is what makes a verdict short. */
#ifndef TT_SESSION_NEWS_H
#define TT_SESSION_NEWS_H

#include "elastic/message.h"

#define TT_NEWS_WORDS 3

void tt_news_write(const struct tt_news *n, uint64_t out[TT_NEWS_WORDS]);
/* near: a number that this member knows. What others know in the same epoch is less than 2^15 starts of the coordinator away from it. Any words make news. */
struct tt_news tt_news_read(const uint64_t in[TT_NEWS_WORDS], uint64_t near);

#endif
