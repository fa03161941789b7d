/* Planted bugs that the simulation must detect: base/planted.h. */
#ifndef TT_ELASTIC_PLANTED_H
#define TT_ELASTIC_PLANTED_H

#include "base/planted.h"

enum tt_planted_bug {
    TT_BUG_NONE,
    TT_BUG_RESTORE_FORGOTTEN,       /* a member that had completed its part keeps its result,
                                       whatever the outcome */
    TT_BUG_DEAD_VOTER_COUNTED,      /* the answer of a lost member replaces a missing answer */
    TT_BUG_OUTCOME_NOT_UNIFORM,     /* members get different outcomes */
    TT_BUG_STALE_EPOCH_ACCEPTED,    /* a message of the previous view counts in this one */
    TT_BUG_JOURNAL_AFTER_REPLY,     /* a decision is sent before it is on disk */
    TT_BUG_TAG_REUSED,              /* an operation may begin while the previous one of its tag
                                       is open */
    TT_BUG_HALF_ADMITTED,           /* a newcomer is in the view of half of the members */
    TT_BUG_COUNTED_TWICE,           /* a completed operation completes again with the next
                                       outcome */
    TT_BUG_REVISION_OFF_BY_ONE,     /* a restarted coordinator uses the previous revision of the
                                       shared state */
    TT_BUG_SENDER_DEATH_IGNORED,    /* data that a lost member did not send is considered
                                       received */
    TT_BUG_ROUND_FORGOTTEN,         /* a restarted coordinator uses the journal's round as the
                                       current one */
    TT_BUG_TENTATIVE_FINAL_TOO_SOON,    /* a tentative operation is final when this member begins
                                           the next one */
    TT_BUG_TENTATIVE_NOT_REPORTED,      /* an answer omits that the operation before the last one is
                                           also open */
    TT_BUG_RESULT_AFTER_QUESTION,   /* a reconnecting member gets the question before the results
                                       that it missed */
    TT_BUG_WORDS_IGNORED,           /* reports of members that left are ignored */
    TT_BUG_WORDS_NOT_LOGGED,        /* reports of members that left are lost when the coordinator
                                       restarts */
    TT_BUG_SCOPES_CHAINED,          /* a tentative operation of a role or group follows another one,
                                       which the caller (here the simulated program) must prevent */
    TT_BUG_SCOPES_NOT_KEPT_APART,   /* a tentative operation of a role or group is treated as one
                                       that requires all members */
    TT_BUG_ENDED_IS_NOT_BEGUN,      /* a member that has completed an operation in which another
                                       one waits reports it as not begun */
    TT_BUG_SETTLED_IGNORED,         /* a small operation that one member has settled is restored
                                       where it is open */
    TT_BUG_SETTLED_ONCE,            /* a member that got the result by an outcome does not report
                                       it the next time */
    TT_BUG_BACK_FORGOTTEN,          /* a call that was taken back, and repeated because the
                                       notification was lost, is treated as a new one */
    TT_BUG_END
};

#endif
