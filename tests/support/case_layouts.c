/* The layouts of cases. */
#include "base/prng.h"
#include "base/status.h"
#include "support/cases.h"
#include "support/layouts.h"

/* Places a rank on a socket of a host, with two hosts per rack and two racks per building. */
static void sit(struct tt_layout_seat *seat, uint32_t host, uint32_t socket, uint32_t rail)
{
    seat->group[TT_NEAR_SOCKET] = 2 * host + socket;
    seat->group[TT_NEAR_HOST] = host;
    seat->group[TT_NEAR_RACK] = host / 2;
    seat->group[TT_NEAR_ZONE] = seat->group[TT_NEAR_BUILDING] = host / 4;
    seat->group[TT_NEAR_FABRIC] = 0;
    seat->rail = rail;
}

static uint32_t root_of(uint32_t n)
{
    uint32_t root = 1;

    while ((root + 1) * (root + 1) <= n)
        root++;
    return root;
}

static void make_table(struct tt_layout *out, enum case_layout which, uint32_t nranks)
{
    struct tt_layout_seat seat[CASE_RANKS_MAX] = { { .rail = 0 } };
    uint32_t host = 0, left = 1;
    struct tt_prng p;

    tt_prng_init(&p, nranks);
    for (uint32_t r = 0; r < nranks; r++) {
        if (which == LAYOUT_ONE_HOST) {
            sit(&seat[r], 0, r >= nranks / 2, r % 2);
        } else if (which == LAYOUT_SPREAD) {
            sit(&seat[r], r / 4, r % 2, r / 2 % 2);
        } else if (which == LAYOUT_GROWING) {
            sit(&seat[r], host, left % 2, left % 2);
            if (--left == 0)
                left = ++host + 1;
        } else if (which == LAYOUT_DEALT) {
            sit(&seat[r], r % root_of(nranks), r / root_of(nranks) % 2, r % 3);
        } else {
            const uint32_t any = (uint32_t)tt_prng_below(&p, 2 + nranks / 3);

            sit(&seat[r], any, (uint32_t)tt_prng_below(&p, 2), (uint32_t)tt_prng_below(&p, 2));
        }
    }
    layout_number(seat, nranks);
    tt_assert(tt_layout_init(out, seat, nranks,
                             which == LAYOUT_GROWING ? TT_NODE_MESH : TT_NODE_SOCKETS,
                             which == LAYOUT_DEALT ? 3 : 2));
}

const struct tt_layout *case_layout(enum case_layout which, uint32_t nranks)
{
    static struct tt_layout made[CASE_LAYOUTS][CASE_RANKS_MAX + 1];
    struct tt_layout *l = &made[which][nranks];

    if (which == LAYOUT_UNKNOWN || l->nranks > 0)
        return which == LAYOUT_UNKNOWN ? NULL : l;
    if (which == LAYOUT_HOSTS_OF_4)
        tt_layout_regular(l, nranks, 4, 2, 4, TT_NODE_SOCKETS);
    else if (which == LAYOUT_HOSTS_OF_3)
        tt_layout_regular(l, nranks, 3, 1, 1, TT_NODE_MESH);
    else if (which == LAYOUT_HOSTS_OF_1)
        tt_layout_regular(l, nranks, 1, 1, 1, TT_NODE_MESH);
    else
        make_table(l, which, nranks);
    return l;
}

/* ---- dependence on the layout ---- */

/* Returns a hash of the programs of all ranks for a call. */
static uint64_t digest(const struct case_spec *spec)
{
    static struct case_calls calls;
    uint64_t sum = 1;

    case_make(&calls, spec);
    if (!spec->algo->fits(&calls.coll[0]))
        return 0;
    for (uint32_t r = 0; r < spec->nranks; r++) {
        const struct tt_coll *c = &calls.coll[r];

        for (uint64_t k = 0; k < spec->algo->nrounds(c); k++) {
            struct tt_step step[TT_ROUND_STEPS_MAX];
            struct tt_sched s = { .steps = step, .cap = TT_ROUND_STEPS_MAX };

            spec->algo->round(&s, c, k);
            for (uint32_t i = 0; i < s.n; i++) {
                sum = tt_mix64(sum + step[i].opcode + ((uint64_t)step[i].peer << 8) +
                               ((uint64_t)step[i].tag << 32));
                sum = tt_mix64(sum + step[i].bytes);
                sum = tt_mix64(sum + step[i].out.offset + ((uint64_t)step[i].out.buf << 60));
                sum = tt_mix64(sum + step[i].a.offset + ((uint64_t)step[i].a.buf << 60));
            }
            sum = tt_mix64(sum + k);
        }
    }
    return sum;
}

static bool looks(const struct tt_algo *algo)
{
    static const uint32_t nranks[] = { 2, 4, 6, 8, 9, 16, 17 };

    for (int i = 0; i < 2 * (int)(sizeof nranks / sizeof *nranks); i++) {
        struct case_spec spec = {
            .algo = algo,
            .nranks = nranks[i / 2],
            .elem_bytes = 4,
            .count = i % 2 ? 5000 : 4,
            .packed = true,
        };
        uint64_t unknown;

        if (!case_exists(&spec))
            continue;
        unknown = digest(&spec);
        for (int layout = 1; layout < CASE_LAYOUTS; layout++) {
            spec.layout = (enum case_layout)layout;
            if (digest(&spec) != unknown)
                return true;
        }
    }
    return false;
}

bool case_sees_layout(const struct tt_algo *algo)
{
    static struct {
        const struct tt_algo *algo;
        bool sees;
    } known[256];
    size_t i = 0;

    while (i < 256 && known[i].algo && known[i].algo != algo)
        i++;
    tt_assert(i < 256);
    if (!known[i].algo) {
        known[i].sees = looks(algo);
        known[i].algo = algo;
    }
    return known[i].sees;
}
