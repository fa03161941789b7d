/* cmocka, with the headers that it wants before itself, and what unit tests share. */
#ifndef TESTS_SUPPORT_UNIT_H
#define TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

/* Tests without threads that range over thousands of cases run one in UNIT_SHARE of them: under the thread sanitizer, which
 * makes them ten times slower and has nothing to find in them, few; under the address sanitizer some; else all. Which ones, TUTTI_TEST_TURN
 * says, a number: as many turns are all cases. .ci/run takes another with each commit, and says which. To see what a share does
 * without a sanitizer, compile with -DUNIT_SHARE=24. */
#ifdef UNIT_SHARE
#elif defined(__SANITIZE_THREAD__)
#define UNIT_SHARE 24
#elif defined(__SANITIZE_ADDRESS__)
#define UNIT_SHARE 16
#else
#define UNIT_SHARE 1
#endif
/* Whether case n is in the part of a long test that this run is for: TUTTI_TEST_PART=3/20 is the third of twenty, each as good as drawn;
 * without it all are. */
bool unit_part(uint64_t n);
/* TUTTI_TEST_TURN, or 0: for tests that draw their cases from seeds of their own. */
uint64_t unit_turn(void);
/* Whether this case is one of them: one of each UNIT_SHARE calls, which one is drawn afresh; the same in each run of a turn. Ask only where
 * the case would be tried: then n calls try n / UNIT_SHARE, whatever the turn. */
bool unit_draw(void);
/* Whether case i of a test that has few and slow ones is tried: always, or under a sanitizer in one of `in` turns. A pure function of its
 * arguments, so that the ranks of a job agree. Where cases vary in several ways at once, i is their sum, so that each way is tried in each turn. */
bool unit_has_turn(uint64_t i, uint32_t in);

/* Descriptor 2 caught in a file; unit tests of what is printed. */
struct unit_stderr {
    int saved, file;
};

/* Begins catching what this process prints on stderr. */
void unit_stderr_catch(struct unit_stderr *c);
/* Ends it; text[bytes] gets what was printed, NUL-terminated. */
void unit_stderr_release(struct unit_stderr *c, char *text, size_t bytes);

/* A port of 127.0.0.1 that nobody listens on, outside the range that connections are given theirs from: it stays free till somebody listens. */
uint16_t unit_free_port(void);

/* From now on this process gets no more descriptors (EMFILE), until it may have `before` again. */
struct rlimit unit_descriptors_end(void);
void unit_descriptors_again(const struct rlimit *before);

#endif
