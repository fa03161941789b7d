/* Deliberate bugs that the searches through DQPLB must find: base/planted.h. */
#ifndef TT_WIRE_PLANTED_H
#define TT_WIRE_PLANTED_H

#include "base/planted.h"

enum tt_dqplb_bug {
    TT_DQPLB_BUG_NONE,
    TT_DQPLB_BUG_TOLD_EARLY,        /* a message is reported when its last segment arrives */
    TT_DQPLB_BUG_FAST_OVERTAKES,    /* a fast message is reported at once */
    TT_DQPLB_BUG_SENT_TWICE,        /* segments in doubt are retransmitted without a report */
    TT_DQPLB_BUG_NOT_SENT_ANEW,     /* segments in doubt are assumed to have arrived */
    TT_DQPLB_BUG_LANE_OVERFULL,     /* a lane with too many segments is not skipped */
    TT_DQPLB_BUG_LANE_OVERWEIGHT,   /* a lane with too many bytes is not skipped */
    TT_DQPLB_BUG_NOT_EMPTIEST,      /* a lane with space is selected although another one has
                                       fewer bytes */
    TT_DQPLB_BUG_WINDOW_OVERRUN,    /* messages are segmented beyond the window */
    TT_DQPLB_BUG_NO_WRAP,           /* numbers are compared without wrap-around */
    TT_DQPLB_BUG_FAST_ANYWHERE,     /* the retransmit of a fast message over another lane keeps
                                       its fast bit */
    TT_DQPLB_BUG_END
};

/* Bugs that searches through the registration cache must find. */
enum tt_regcache_bug {
    TT_REGCACHE_BUG_NONE = TT_DQPLB_BUG_END,
    TT_REGCACHE_BUG_NOT_WHOLE,      /* a registration of the start of a buffer matches the whole
                                       buffer */
    TT_REGCACHE_BUG_ANY_DOMAIN,     /* registrations of other devices match */
    TT_REGCACHE_BUG_EXPOSED_TWICE,  /* two users export the key of one registration */
    TT_REGCACHE_BUG_FIRST_ONLY,     /* only one of several registrations with changed pages
                                       becomes stale */
    TT_REGCACHE_BUG_LOST_WHILE_MADE,    /* a registration whose pages change while it is made can
                                           be found afterwards */
    TT_REGCACHE_BUG_UNBOUNDED,      /* limits are not enforced when users leave */
    TT_REGCACHE_BUG_NOT_RECENT,     /* eviction is not in LRU order */
    TT_REGCACHE_BUG_END
};

/* A bug that a test with changing memory must find. */
enum tt_registry_bug {
    TT_REGISTRY_BUG_NOT_WATCHED = TT_REGCACHE_BUG_END   /* changes of memory are not noticed */
};

#endif
