/* Mistakes that the simulated histories must find: base/planted.h. */
#ifndef TT_ELASTIC_PLANTED_H
#define TT_ELASTIC_PLANTED_H

#include "base/planted.h"

enum tt_planted_bug {
    TT_BUG_NONE,
    TT_BUG_RESTORE_FORGOTTEN,       /* a member that had completed its part keeps its result, whatever the verdict */
    TT_BUG_DEAD_VOTER_COUNTED,      /* the answer of a member that was lost since stands for one that has not answered */
    TT_BUG_VERDICT_NOT_UNIFORM,     /* not everybody is told the same */
    TT_BUG_STALE_EPOCH_ACCEPTED,    /* what a member said in the view before counts in this one */
    TT_BUG_JOURNAL_AFTER_REPLY,     /* a decision is told before it is on disk */
    TT_BUG_TAG_REUSED,              /* an operation may begin while the one before it of its tag is open */
    TT_BUG_HALF_ADMITTED,           /* a newcomer is in the view of half of the members */
    TT_BUG_COUNTED_TWICE,           /* an operation that ended ends again with the next verdict */
    TT_BUG_REVISION_OFF_BY_ONE,     /* a coordinator that restarts takes the shared state for one revision older */
    TT_BUG_SENDER_DEATH_IGNORED,    /* what one that is lost did not send counts as received */
    TT_BUG_ROUND_FORGOTTEN,         /* a coordinator that restarts takes the round that its journal knows of for the one that is under way */
    TT_BUG_TENTATIVE_FINAL_TOO_SOON,    /* a tentative operation is final when this member begins the next one */
    TT_BUG_TENTATIVE_NOT_SAID,      /* an answer does not say that the one before the last is open, too */
    TT_BUG_RESULT_AFTER_QUESTION,   /* who comes back is asked where it stands before it hears what it missed */
    TT_BUG_WORDS_IGNORED,           /* what who left knew to be final does not count */
    TT_BUG_WORDS_NOT_LOGGED,        /* and is forgotten by a coordinator that restarts */
    TT_BUG_SCOPES_CHAINED,          /* one tentative operation among a role or a group follows another: the sessions' rule, and that of the played program */
    TT_BUG_SCOPES_NOT_KEPT_APART,   /* an operation that is tentative among a role or a group is taken for one that needs all */
    TT_BUG_ENDED_IS_NOT_BEGUN,      /* who has ended an operation that another one is still in says that it has not begun it */
    TT_BUG_SETTLED_IGNORED,         /* a small operation that one has settled is restored where it is open */
    TT_BUG_SETTLED_ONCE,            /* who got its result by a verdict does not say so when it is asked again */
    TT_BUG_BACK_FORGOTTEN,          /* a call that was taken back, and comes again as the word of it was lost, counts as a new one */
    TT_BUG_END
};

#endif
