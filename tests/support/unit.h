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

/* Under a sanitizer, tests that range over thousands of cases run one in UNIT_SHARE of them: few
 * under the thread sanitizer, which makes them ten times slower and finds nothing in tests without
 * threads; more under the address sanitizer. In other builds UNIT_SHARE is 1. To try a share
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
/* One in how many cases is run: UNIT_SHARE under a sanitizer, else TUTTI_TEST_SHARE, or 1 without
 * it. `make test` sets 4; `make test-long` runs all cases of each test that has shares. The turn
 * (TUTTI_TEST_TURN, a number) selects the cases; as many turns are all cases. .ci/run takes another
 * turn with each commit, and prints it. */
uint32_t unit_share(void);
/* Whether to run this case: one of each unit_share() calls, drawn afresh; the same in each run of a
 * turn. Call it only where the case would be run: then n calls run n / unit_share(), in any turn. */
bool unit_draw(void);
/* Whether to run case i of a test that has few and slow ones: always, or, where only a share is run,
 * in one of `in` turns (of unit_share(), if that is less). A pure function of its arguments, so that
 * the ranks of a job agree. Where cases vary in several ways at once, i is their sum, so that each
 * way is tried in each turn. */
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
