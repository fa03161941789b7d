/* A user's program: creates the communicator from its environment, calls every collective, short
 * and long, and checks every byte. Prints "rank R of N is right". Variants:
 *   prog_calls            all kinds, with selected algorithms
 *   prog_calls hashes     sums of random floats by every supported algorithm: prints hashes of
 *                         the results
 *   prog_calls quantized  the same for quantized sums */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "algo/algos.h"
#include "calls.h"
#include "support/unit.h"

static const size_t counts[] = { 0, 3, 1000, 100003 };

static _Noreturn void die(const char *what, const char *why)
{
    printf("failed: %s: %s\n", what, why);
    exit(1);
}

static tutti_comm *join(void)
{
    tutti_comm *comm;

    if (tutti_comm_create(&comm, NULL))
        die("tutti_comm_create", tutti_last_error());
    if (tutti_comm_size(comm) > CALL_RANKS_MAX)
        die("the number of ranks", "there are too many for this program");
    return comm;
}

/* Makes and checks one call. Returns the hash of its result. */
static uint64_t make(const struct call *c, tutti_comm *comm, bool with_request)
{
    char text[CALL_TEXT_BYTES], why[CALL_TEXT_BYTES];
    struct call_side s;
    tutti_status st;
    uint64_t hash;

    call_print(c, text);
    call_init(&s, c, (uint32_t)tutti_comm_rank(comm));
    st = call_go(&s, comm, with_request);
    if (!st && with_request)
        st = tutti_wait(s.request);
    if (st)
        die(text, tutti_last_error());
    if (!call_is_right(&s, why))
        die(text, why);
    hash = call_result_hash(&s);
    call_fini(&s);
    return hash;
}

static void sweep(tutti_comm *comm)
{
    const uint32_t nranks = (uint32_t)tutti_comm_size(comm);
    struct tt_prng p;
    uint32_t n = 0;

    tt_prng_init(&p, 20261121);
    for (uint32_t kind = 0; kind < CALL_KINDS; kind++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            const struct call c = call_draw(&p, (enum tt_coll_kind)kind, counts[i], nranks);

            if (UNIT_SHARE == 1 || i % 2)
                make(&c, comm, n++ % 2);
        }
    printf("rank %d of %u is right\n", tutti_comm_rank(comm), nranks);
}

static bool fits(const struct tt_algo *algo, const struct call *c, uint32_t rank)
{
    const uint32_t elem = (uint32_t)tutti_dtype_bytes(c->type);
    const struct tt_coll coll = {
        .kind = c->kind,
        .rank = rank,
        .nranks = c->nranks,
        .elem_bytes = elem,
        .bytes = c->count * elem,
    };

    return algo->kind == c->kind && algo->fits(&coll);
}

static void hash_sums(tutti_comm *comm)
{
    static const tutti_dtype types[] = { TUTTI_F16, TUTTI_BF16, TUTTI_F32, TUTTI_F64 };
    const uint32_t nranks = (uint32_t)tutti_comm_size(comm), rank = (uint32_t)tutti_comm_rank(comm);

    for (size_t a = 0; a < tt_nalgos; a++)
        for (size_t i = 0; i < 8; i++) {
            const struct call c = {
                .kind = TT_ALLREDUCE,
                .type = types[i / 2],
                .op = TUTTI_SUM,
                .count = i % 2 ? 1000 : 60013,
                .nranks = nranks,
                .rough = true,
                .algo = tt_algos[a]->name,
                .salt = 20261121 + i,
            };

            if (fits(tt_algos[a], &c, rank))
                printf("rank %u: %s of %zu %s: %016llx\n", rank, c.algo, c.count,
                       tutti_dtype_name(c.type), (unsigned long long)make(&c, comm, false));
        }
}

/* Returns the hash of one quantized sum, or false if the algorithm does not support the call. */
static bool hash_quantized_sum(tutti_comm *comm, const struct tt_algo *algo, tutti_quant quant,
                               size_t count, uint64_t *hash)
{
    const tutti_call how = { .size = sizeof how, .algo = algo->name, .quant = quant };
    float *x = calloc(count, sizeof *x), *sum = calloc(count, sizeof *sum);
    struct tt_prng p;
    tutti_status st;

    if (!x || !sum)
        die(algo->name, "out of memory");
    tt_prng_init(&p, 20261129 + (uint64_t)tutti_comm_rank(comm));
    for (size_t i = 0; i < count; i++)
        x[i] = (float)tt_prng_below(&p, 2000001) / 1e6f - 1;
    st = tutti_allreduce(x, sum, count, TUTTI_F32, TUTTI_SUM, comm, &how);
    if (st && st != TUTTI_ERR_UNSUPPORTED)
        die(algo->name, tutti_last_error());
    *hash = 14695981039346656037ull;    /* FNV-1a */
    for (size_t i = 0; i < count * sizeof *sum; i++)
        *hash = (*hash ^ ((const uint8_t *)sum)[i]) * 1099511628211ull;
    free(x);
    free(sum);
    return !st;
}

static void hash_quantized_sums(tutti_comm *comm)
{
    static const size_t lengths[] = { 1000, 60013 };
    uint64_t hash;

    for (size_t a = 0; a < tt_nalgos; a++)
        for (int q = TUTTI_QUANT_NONE + 1; q < TUTTI_QUANT_COUNT; q++)
            for (size_t i = 0; i < 2; i++)
                if (tt_algos[a]->kind == TT_ALLREDUCE && tt_algos[a]->quantizes &&
                    hash_quantized_sum(comm, tt_algos[a], (tutti_quant)q, lengths[i], &hash))
                    printf("rank %d: %s of %zu %s: %016llx\n", tutti_comm_rank(comm),
                           tt_algos[a]->name, lengths[i], tutti_quant_name((tutti_quant)q),
                           (unsigned long long)hash);
}

int main(int argc, char **argv)
{
    tutti_comm *comm = join();

    if (argc > 1 && strcmp(argv[1], "hashes") == 0)
        hash_sums(comm);
    else if (argc > 1 && strcmp(argv[1], "quantized") == 0)
        hash_quantized_sums(comm);
    else
        sweep(comm);
    tutti_comm_destroy(comm);
    return 0;
}
