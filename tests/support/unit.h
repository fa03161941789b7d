/* cmocka with the headers that it requires, and helpers shared by unit tests. */
#ifndef TESTS_SUPPORT_UNIT_H
#define TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <cmocka.h>

/* Under a sanitizer, tests with thousands of cases run only one in UNIT_SHARE of them: few under
 * the thread sanitizer, which makes them ten times slower and finds nothing in tests without
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
/* Returns whether case n is in the part of a long test that this run executes. TUTTI_TEST_PART=3/20
 * is the third of twenty parts, which are like random samples. Without it, all cases are run. */
bool unit_part(uint64_t n);
/* Returns TUTTI_TEST_TURN, or 0: for tests that draw their cases from their own seeds. */
uint64_t unit_turn(void);
/* Returns N if one in N cases is run: UNIT_SHARE under a sanitizer, else TUTTI_TEST_SHARE, or 1
 * without it. `make test` sets 6; `make test-long` runs all cases of each test that has shares. The
 * turn (TUTTI_TEST_TURN, a number) selects the cases; N turns cover all of them. .ci/run uses
 * another turn for each commit, and prints it. */
uint32_t unit_share(void);
/* Returns whether to run this case: one in unit_share() calls, at random, but the same in each run
 * of a turn. Call it only for cases that would otherwise run: n calls then run n / unit_share()
 * cases, in any turn. */
bool unit_draw(void);
/* Returns whether to run case i of a test with few slow cases: always, or with shares, in one of
 * `in` turns (of unit_share(), if that is less). Pure function of its arguments, so that the ranks
 * of a job agree. If cases vary in several parameters, i is the sum of their indices, so that each
 * value is tried in each turn. */
bool unit_has_turn(uint64_t i, uint32_t in);

/* Standard error redirected to a file, for tests of printed messages. */
struct unit_stderr {
    int saved, file;
};

/* Starts to redirect standard error of this process. */
void unit_stderr_catch(struct unit_stderr *c);
/* Restores standard error; text[bytes] receives the printed text, NUL-terminated. */
void unit_stderr_release(struct unit_stderr *c, char *text, size_t bytes);

/* Returns an unused port of 127.0.0.1 outside the range of ephemeral ports: it stays free until a
 * process listens on it. */
uint16_t unit_free_port(void);

/* Makes all further allocations of descriptors in this process fail (EMFILE). Returns the old
 * limit, with which unit_descriptors_again restores it. */
struct rlimit unit_descriptors_end(void);
void unit_descriptors_again(const struct rlimit *before);

#endif
