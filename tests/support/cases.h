/* Calls of a collective on all ranks, for tests that range over algorithms. */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "algo/algos.h"

#define CASE_RANKS_MAX 64

/* Which ranks call in place. Mixed: the odd ones; an algorithm must not mind. */
enum case_place { OUT_OF_PLACE, IN_PLACE, MIXED, CASE_PLACES };

/* Where the ranks are. Only algorithms that look at it are tried with more than the first. */
enum case_layout {
    LAYOUT_UNKNOWN,         /* no layout at all */
    LAYOUT_ONE_HOST,        /* of two sockets, the second one longer where ranks are odd */
    LAYOUT_HOSTS_OF_4,      /* regular, two sockets, four rails; the last host may be short */
    LAYOUT_HOSTS_OF_3,      /* regular, one socket, one rail */
    LAYOUT_HOSTS_OF_1,
    LAYOUT_SPREAD,          /* hosts of 4 whose ranks are dealt to two sockets; the last host may be short */
    LAYOUT_GROWING,         /* hosts of 1, 2, 3, ... consecutive ranks */
    LAYOUT_DEALT,           /* consecutive ranks on different hosts, sockets and racks */
    LAYOUT_DRAWN,           /* each rank anywhere: hosts of any size, in two buildings */
    CASE_LAYOUTS
};

/* What is asked for. */
struct case_spec {
    const struct tt_algo *algo;
    enum case_layout layout;
    uint32_t nranks, root, elem_bytes;
    uint64_t count;         /* elements; v kinds draw theirs from 0 .. 2 * count, some of them 0 */
    enum case_place place;
    bool packed;            /* v kinds: without gaps between blocks, in order */
    uint64_t seed;
};

#define CASE_STRETCHES 256      /* that a rank sends */

/* The call of each rank, and the arrays that it points to. */
struct case_calls {
    struct tt_coll coll[CASE_RANKS_MAX];
    uint64_t send_bytes[CASE_RANKS_MAX][CASE_RANKS_MAX], send_displs[CASE_RANKS_MAX][CASE_RANKS_MAX];
    uint64_t recv_bytes[CASE_RANKS_MAX][CASE_RANKS_MAX], recv_displs[CASE_RANKS_MAX][CASE_RANKS_MAX];
    struct tt_stretches stretches[CASE_RANKS_MAX];      /* of algorithms by stretches only */
    struct tt_stretch sent[CASE_RANKS_MAX][CASE_STRETCHES], received[CASE_RANKS_MAX][CASE_STRETCHES];
    uint64_t send_first[CASE_RANKS_MAX][CASE_RANKS_MAX + 1], recv_first[CASE_RANKS_MAX][CASE_RANKS_MAX + 1];
};

/* Whether such a call exists: alltoallv and point to point are never in place, v kinds alone care whether they are
 * packed, root matters only where there is one, point to point needs a peer. */
bool case_exists(const struct case_spec *spec);
void case_make(struct case_calls *out, const struct case_spec *spec);

/* Whether the collective has a root, and whether it takes arrays. */
bool case_is_rooted(enum tt_coll_kind kind);
bool case_is_v(enum tt_coll_kind kind);

/* NULL for LAYOUT_UNKNOWN. The same on each call; nranks at most CASE_RANKS_MAX. */
const struct tt_layout *case_layout(enum case_layout which, uint32_t nranks);

/* Whether an algorithm does anything differently where it knows the layout. */
bool case_sees_layout(const struct tt_algo *algo);

/* "allreduce_ring n=5 root=0 count=7 elem=4 in place, seed=3". Static storage. */
const char *case_text(const struct case_spec *spec);

/* Fails the test, naming the case. */
#define case_fail(spec, ...) case_fail_at(__FILE__, __LINE__, spec, __VA_ARGS__)
void case_fail_at(const char *file, int line, const struct case_spec *spec, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether everything is to be tried that otherwise takes turns: TUTTI_TEST_LONG is set. Minutes. */
bool case_all(void);

/* Every case of every registered algorithm with up to nranks_max ranks: sizes, places, roots; layouts take turns. Returns
 * how many there were, those of other parts (unit_part) included. Where TUTTI_TEST_ALGO is set, here and below only cases of algorithms whose
 * name begins like it are tried, and the others counted. */
typedef void case_fn(const struct case_spec *spec, const struct case_calls *calls);
uint64_t case_for_each(uint32_t nranks_max, const uint64_t *counts, uint32_t ncounts, uint64_t seed, case_fn *fn);

/* Of every registered algorithm and each number of ranks from nranks_min to nranks_max one case without layout and, if the
 * algorithm looks at it, one with (of nranks_max with each): what else there is takes turns. Returns how many there were. */
uint64_t case_for_some(uint32_t nranks_min, uint32_t nranks_max, const uint64_t *counts, uint32_t ncounts,
                       uint64_t seed, case_fn *fn);

#endif
