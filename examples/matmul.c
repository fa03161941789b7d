/* C = A B, with the rows of A, B and C distributed over the ranks: an all-gather of B, the product
 * of this rank's rows, and an all-gather of C, so that all ranks have all of C. Prints the time of
 * each part. Elements are small integers, so every sum is exact and the result can be checked.
 *
 *     tutti run -n 4 -- ./matmul [N [ALGORITHM]]
 *
 * N          size of the matrices, N x N floats (default: 1024)
 * ALGORITHM  of the all-gathers (default: selected by Tutti) */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#define N_DEFAULT 1024
#define N_MAX 16384
#define TILE 64         /* rows of B that stay in the cache while all rows of A are processed */

struct matrices {
    size_t n, rows;     /* n x n, of which this rank has `rows` rows, from row `first` */
    size_t first;
    float *a, *b, *c;   /* a[rows][n]; b[n][n] and c[n][n], initially only this rank's rows */
};

enum { GATHER_B, PRODUCT, GATHER_C, PARTS };

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* The element of A (which 0) or B (which 1) at row i, column j: -1, 0 or 1. */
static float element(unsigned which, size_t i, size_t j)
{
    uint64_t x = ((uint64_t)i << 32 | (uint64_t)j) * 2 + which;

    x = (x ^ x >> 29) * 0x9e3779b97f4a7c15u;
    return (float)((x ^ x >> 32) % 3) - 1.0f;
}

static int matrices_init(struct matrices *m, size_t n, size_t rank, size_t nranks)
{
    *m = (struct matrices){ .n = n, .rows = n / nranks, .first = rank * (n / nranks) };
    m->a = malloc(m->rows * n * sizeof *m->a);
    m->b = malloc(n * n * sizeof *m->b);
    m->c = malloc(n * n * sizeof *m->c);
    if (!m->a || !m->b || !m->c)
        return -1;
    memset(m->b, 0, n * n * sizeof *m->b);      /* maps the pages before the measurement */
    memset(m->c, 0, n * n * sizeof *m->c);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < n; j++) {
            m->a[i * n + j] = element(0, m->first + i, j);
            m->b[(m->first + i) * n + j] = element(1, m->first + i, j);
        }
    return 0;
}

static void matrices_fini(struct matrices *m)
{
    free(m->a);
    free(m->b);
    free(m->c);
}

/* Computes this rank's rows of C. */
static void multiply(const struct matrices *m)
{
    const size_t n = m->n;

    for (size_t from = 0; from < n; from += TILE) {
        const size_t to = from + TILE < n ? from + TILE : n;

        for (size_t i = 0; i < m->rows; i++) {
            float *restrict sum = m->c + (m->first + i) * n;

            for (size_t k = from; k < to; k++) {
                const float a = m->a[i * n + k];
                const float *restrict b = m->b + k * n;

                for (size_t j = 0; j < n; j++)
                    sum[j] += a * b[j];
            }
        }
    }
}

/* In-place all-gather: this rank's rows are already in place. */
static tutti_status gather(const struct matrices *m, float *matrix, tutti_comm *comm,
                           const tutti_call *how)
{
    return tutti_allgather(matrix + m->first * m->n, matrix, m->rows * m->n, TUTTI_F32, comm, how);
}

/* ms[PARTS]: times on this rank. A barrier before each part separates it from imbalance in other
 * parts. */
static tutti_status compute(const struct matrices *m, tutti_comm *comm, const tutti_call *how,
                            double ms[PARTS])
{
    double began;
    tutti_status st = TUTTI_OK;

    for (int part = 0; part < PARTS && !st; part++) {
        st = tutti_barrier(comm, NULL);
        if (st)
            break;
        began = now_ms();
        if (part == PRODUCT)
            multiply(m);
        else
            st = gather(m, part == GATHER_B ? m->b : m->c, comm, how);
        ms[part] = now_ms() - began;
    }
    return st;
}

/* Whether C x = A (B x) for a vector x of small integers, which detects a wrong element with high
 * probability. */
static int is_right(const struct matrices *m)
{
    const size_t n = m->n;
    double *x = calloc(n, sizeof *x), *bx = calloc(n, sizeof *bx);
    int right = x && bx;

    for (size_t j = 0; right && j < n; j++)
        x[j] = (double)((j * 7919 + 13) % 1009);
    for (size_t i = 0; right && i < n; i++)
        for (size_t j = 0; j < n; j++)
            bx[i] += (double)element(1, i, j) * x[j];
    for (size_t i = 0; i < n && right; i++) {
        double cx = 0, abx = 0;

        for (size_t j = 0; j < n; j++) {
            cx += (double)m->c[i * n + j] * x[j];
            abx += (double)element(0, i, j) * bx[j];
        }
        right = cx == abx;
    }
    free(x);
    free(bx);
    return right;
}

/* Checks the result on all ranks. Times are those of the slowest rank. */
static int run(tutti_comm *comm, size_t n, const char *algo)
{
    const tutti_call how = { .size = sizeof how, .algo = algo };
    const int rank = tutti_comm_rank(comm);
    double ms[PARTS], slowest[PARTS];
    struct matrices m;
    int32_t wrong, any_wrong = 0, status = 1;
    tutti_status st;

    if (matrices_init(&m, n, (size_t)rank, (size_t)tutti_comm_size(comm))) {
        fprintf(stderr, "matmul: out of memory for matrices of %zu x %zu\n", n, n);
        goto free;
    }
    st = compute(&m, comm, &how, ms);
    wrong = st == TUTTI_OK && !is_right(&m);
    if (!st)
        st = tutti_allreduce(ms, slowest, PARTS, TUTTI_F64, TUTTI_MAX, comm, NULL);
    if (!st)
        st = tutti_allreduce(&wrong, &any_wrong, 1, TUTTI_I32, TUTTI_SUM, comm, NULL);
    if (st)             /* Tutti has logged the error */
        goto free;
    status = any_wrong > 0;
    if (status && rank == 0)
        fprintf(stderr, "matmul: the product is wrong on %d ranks\n", any_wrong);
    if (!status && rank == 0)
        printf("{\"n\": %zu, \"ranks\": %d, \"gather_b_ms\": %.3f, \"product_ms\": %.3f, "
               "\"gather_c_ms\": %.3f}\n",
               n, tutti_comm_size(comm), slowest[GATHER_B], slowest[PRODUCT], slowest[GATHER_C]);
free:
    matrices_fini(&m);
    return status;
}

int main(int argc, char **argv)
{
    char none[] = "", *end = none;
    const long n = argc > 1 ? strtol(argv[1], &end, 10) : N_DEFAULT;
    tutti_comm *comm;
    int status;

    if (argc > 3 || n < 1 || n > N_MAX || *end) {
        fprintf(stderr, "usage: matmul [N [ALGORITHM]]: matrices of N x N floats, N from 1 to %d\n",
                N_MAX);
        return 2;
    }
    if (tutti_comm_create(&comm, NULL))
        return 1;       /* Tutti has logged the error */
    if (n % tutti_comm_size(comm) == 0) {
        status = run(comm, (size_t)n, argc > 2 ? argv[2] : NULL);
    } else {
        if (tutti_comm_rank(comm) == 0)
            fprintf(stderr,
                    "matmul: invalid N: %ld (must be a multiple of the number of ranks, %d)\n", n,
                    tutti_comm_size(comm));
        status = 2;
    }
    tutti_comm_destroy(comm);
    return status;
}
