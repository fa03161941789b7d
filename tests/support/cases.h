/* Calls of a collective on all ranks, for tests that run all algorithms. */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "algo/algos.h"

#define CASE_RANKS_MAX 64

/* Which ranks call in place. MIXED: ranks 1, 3, 5 and so on; the algorithm must support it. */
enum case_place { OUT_OF_PLACE, IN_PLACE, MIXED, CASE_PLACES };

/* Layouts of the ranks. Algorithms that ignore the layout are tried only with the first one. */
enum case_layout {
    LAYOUT_UNKNOWN,         /* no layout */
    LAYOUT_ONE_HOST,        /* two sockets; the second one has up to one rank more */
    LAYOUT_HOSTS_OF_4,      /* regular, two sockets, four rails; the last host may have fewer
                               ranks */
    LAYOUT_HOSTS_OF_3,      /* regular, one socket, one rail */
    LAYOUT_HOSTS_OF_1,
    LAYOUT_SPREAD,          /* hosts of 4 whose ranks alternate between two sockets; the last
                               host may have fewer ranks */
    LAYOUT_GROWING,         /* hosts of 1, 2, 3, ... consecutive ranks */
    LAYOUT_DEALT,           /* consecutive ranks on different hosts, sockets and racks */
    LAYOUT_DRAWN,           /* random hosts of any size, in two buildings */
    CASE_LAYOUTS
};

/* Parameters of a case. */
struct case_spec {
    const struct tt_algo *algo;
    enum case_layout layout;
    uint32_t nranks, root, elem_bytes;
    uint64_t count;         /* elements; variable kinds: blocks of 0 to 2 * count, some of them 0 */
    enum case_place place;
    bool packed;            /* variable kinds: blocks in order, without gaps */
    uint64_t seed;
};

#define CASE_STRETCHES 256      /* maximum number that a rank sends */

/* The calls of all ranks, and the arrays that they point to. */
struct case_calls {
    struct tt_coll coll[CASE_RANKS_MAX];
    uint64_t send_bytes[CASE_RANKS_MAX][CASE_RANKS_MAX],
        send_displs[CASE_RANKS_MAX][CASE_RANKS_MAX];
    uint64_t recv_bytes[CASE_RANKS_MAX][CASE_RANKS_MAX],
        recv_displs[CASE_RANKS_MAX][CASE_RANKS_MAX];
    struct tt_stretches stretches[CASE_RANKS_MAX];      /* only for algorithms with stretches */
    struct tt_stretch sent[CASE_RANKS_MAX][CASE_STRETCHES],
        received[CASE_RANKS_MAX][CASE_STRETCHES];
    uint64_t send_first[CASE_RANKS_MAX][CASE_RANKS_MAX + 1],
        recv_first[CASE_RANKS_MAX][CASE_RANKS_MAX + 1];
};

/* Returns whether such a call exists. alltoallv and point-to-point calls are never in place.
 * `packed` is only for variable kinds, a root only for rooted kinds, and point-to-point calls need
 * a peer. */
bool case_exists(const struct case_spec *spec);
void case_make(struct case_calls *out, const struct case_spec *spec);

/* Return whether the collective has a root, and whether it is a variable collective. */
bool case_is_rooted(enum tt_coll_kind kind);
bool case_is_v(enum tt_coll_kind kind);

/* Returns NULL for LAYOUT_UNKNOWN. Equal arguments give equal layouts; nranks is at most
 * CASE_RANKS_MAX. */
const struct tt_layout *case_layout(enum case_layout which, uint32_t nranks);

/* Returns whether the algorithm's programs depend on the layout. */
bool case_sees_layout(const struct tt_algo *algo);

/* Returns e.g. "allreduce_ring n=5 root=0 count=7 elem=4 in place, seed=3". Static storage. */
const char *case_text(const struct case_spec *spec);

/* Fails the test with the text of the case. */
#define case_fail(spec, ...) case_fail_at(__FILE__, __LINE__, spec, __VA_ARGS__)
void case_fail_at(const char *file, int line, const struct case_spec *spec, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns whether TUTTI_TEST_LONG is set. Then tests run all cases, which takes minutes. */
bool case_all(void);

/* Calls fn for each case of each registered algorithm with up to nranks_max ranks: all sizes,
 * places and roots; layouts in turn. Returns the number of cases, including those of other parts
 * (unit_part). If TUTTI_TEST_ALGO is set, this function and the next one run only algorithms whose
 * names start with it; other cases are still counted. */
typedef void case_fn(const struct case_spec *spec, const struct case_calls *calls);
uint64_t case_for_each(uint32_t nranks_max, const uint64_t *counts, uint32_t ncounts, uint64_t seed,
                       case_fn *fn);

/* Calls fn for one case of every registered algorithm and each number of ranks from nranks_min to
 * nranks_max: without a layout and, if the algorithm uses it, with a layout (with nranks_max ranks:
 * with each layout). Other parameters vary in turn. Returns the number of cases. */
uint64_t case_for_some(uint32_t nranks_min, uint32_t nranks_max, const uint64_t *counts,
                       uint32_t ncounts, uint64_t seed, case_fn *fn);

#endif
