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
    TT_DQPLB_BUG_WINDOW_OVERRUN,    /* the window does not bound what is cut */
    TT_DQPLB_BUG_NO_WRAP,           /* numbers are compared as if they did not wrap */
    TT_DQPLB_BUG_FAST_ANYWHERE,     /* a fast message that is sent anew over another lane is still called fast */
    TT_DQPLB_BUG_END
};

#endif
