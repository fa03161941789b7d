/* Deliberate bugs that tests enable in the library's state machines, one at a time, to prove that
 * their searches find them. Each room lists its bugs in its own planted.h. In the library
 * TT_PLANTED is always false. */
#ifndef TT_BASE_PLANTED_H
#define TT_BASE_PLANTED_H

#ifdef TT_PLANTED_BUGS
extern int tt_planted_bug;
#define TT_PLANTED(bug) (tt_planted_bug == (bug))
#else
#define TT_PLANTED(bug) ((void)(bug), 0)
#endif

#endif
