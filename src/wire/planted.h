/* Mistakes that the walks through DQPLB must find: base/planted.h. */
#ifndef TT_WIRE_PLANTED_H
#define TT_WIRE_PLANTED_H

#include "base/planted.h"

enum tt_dqplb_bug {
    TT_DQPLB_BUG_NONE,
    TT_DQPLB_BUG_TOLD_EARLY,        /* a message counts as whole when its last segment comes */
    TT_DQPLB_BUG_FAST_OVERTAKES,    /* so does a fast one */
    TT_DQPLB_BUG_SENT_TWICE,        /* what is in doubt is sent anew without asking */
    TT_DQPLB_BUG_NOT_SENT_ANEW,     /* what is in doubt is taken for arrived */
    TT_DQPLB_BUG_LANE_OVERFULL,     /* a lane that has its fill is not skipped */
    TT_DQPLB_BUG_LANE_OVERWEIGHT,   /* nor one that has its fill in bytes */
    TT_DQPLB_BUG_NOT_EMPTIEST,      /* a lane that has room is taken, though another is emptier */
    TT_DQPLB_BUG_WINDOW_OVERRUN,    /* the window does not bound what is cut */
    TT_DQPLB_BUG_NO_WRAP,           /* numbers are compared as if they did not wrap */
    TT_DQPLB_BUG_FAST_ANYWHERE,     /* a fast message that is sent anew over another lane is still called fast */
    TT_DQPLB_BUG_END
};

/* And those that walks through the cache of registrations must find. */
enum tt_regcache_bug {
    TT_REGCACHE_BUG_NONE = TT_DQPLB_BUG_END,
    TT_REGCACHE_BUG_NOT_WHOLE,      /* what has the beginning of a buffer serves for all of it */
    TT_REGCACHE_BUG_ANY_DOMAIN,     /* what another device knows serves */
    TT_REGCACHE_BUG_EXPOSED_TWICE,  /* two users give the key of one registration to peers */
    TT_REGCACHE_BUG_FIRST_ONLY,     /* of several registrations that lose their pages one becomes stale */
    TT_REGCACHE_BUG_LOST_WHILE_MADE,    /* what loses its pages while it is being made is found afterwards */
    TT_REGCACHE_BUG_UNBOUNDED,      /* bounds do not hold when users leave */
    TT_REGCACHE_BUG_NOT_RECENT,     /* what was used last is not the last to end */
    TT_REGCACHE_BUG_END
};

/* And what a test with memory that changes must find. */
enum tt_registry_bug {
    TT_REGISTRY_BUG_NOT_WATCHED = TT_REGCACHE_BUG_END   /* nobody hears that memory has changed */
};

#endif
