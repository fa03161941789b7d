/* Two layers of a model distributed over the ranks of two hosts: products that overlap their
 * communication (gather.c, scatter.c), compared with the same puts and with the library's
 * collective without overlap. Every result is compared with a dense reference. Elements are small
 * integers, so every sum is exact. Prints one line of JSON: the times of each round, of the slowest
 * rank, in milliseconds.
 *
 *     tutti run -n 8 --hosts a:4,b:4 -- ./tensor_parallel --rounds 5 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#include "gemm.h"
#include "tensor.h"

#define USAGE                                                                                \
    "usage: tensor_parallel [options], as the program of a job: tutti run -n 8 --hosts a:4,b:4 -- tensor_parallel\n" \
    "  --rows N       rows of X (default 1024)\n"                                            \
    "  --inner N      columns of X and rows of W (default 1024)\n"                           \
    "  --columns N    columns of W (default 1024); rows, inner and columns must be multiples of the number of ranks\n" \
    "  --panels N     parts in which a chunk is sent between hosts, 1 to 64 (default 4)\n"   \
    "  --per-host N   ranks per host, a power of two: half of the ranks (default) or all;\n" \
    "                 ranks are numbered host by host\n"                                     \
    "  --rounds N     measured rounds of each form (default 3)\n"                            \
    "  --layer NAME   only allgather or only reduce_scatter (default both)\n"                \
    "  --gemm NAME    openblas, own (a plain loop), or auto: OpenBLAS if available (default auto)\n" \
    "  --help         print this text\n"

#define SIZE_MAX_ARG 65536
#define ROUNDS_MAX 1000

/* The timed forms, in the order of each round. */
enum form { COMPUTE, COMMUNICATE, PUTS_APART, COLLECTIVE_APART, OVERLAPPED, FORMS };
static const char *const form_names[FORMS] = { "compute_ms", "communicate_ms", "puts_apart_ms",
                                               "collective_apart_ms", "overlapped_ms" };

struct options {
    long rows, inner, columns, panels, per_host, rounds;
    const char *gemm, *layer;   /* layer NULL: both */
};

/* One of the two layers. */
struct kind {
    const char *name, *option;
    tutti_status (*init)(struct work *k, const struct layer *l);
    void (*fini)(struct work *k);
    tutti_status (*run)(struct work *k, struct parts parts);
    bool moves_first;           /* without overlap, communication comes before computation */
    tutti_status (*collective)(struct work *k);     /* the library's collective, with the whole
                                                       product */
    void (*fill)(struct work *k);           /* fills this rank's parts of X and W, and the result
                                               with NaN */
    /* computes this rank's expected result; false: out of memory */
    bool (*make_reference)(const struct layer *l, double **reference);
    const float *(*result)(const struct work *k, size_t *n);
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Returns an element of X (0) or W (1): integers from -2 to 2, so that the largest sums are
 * exact. */
static float element(uint64_t which, size_t row, size_t column)
{
    uint64_t x = (row << 17 | column) * 2 + which + 1;

    x *= 0xff51afd7ed558ccdu;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53u;
    return (float)((x >> 33) % 5) - 2;
}

static void fill(float *to, uint64_t which, size_t row, size_t rows, size_t column, size_t columns)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++)
            to[i * columns + j] = element(which, row + i, column + j);
}

/* Computes c[rows][columns] from X and W by the definition, in double precision. Returns NULL if
 * out of memory. */
static double *dense(size_t row, size_t rows, size_t inner, size_t column, size_t columns)
{
    double *c = calloc(rows * columns, sizeof *c);
    float *w = malloc(inner * columns * sizeof *w);

    if (!c || !w) {
        free(c);
        free(w);
        return NULL;
    }
    fill(w, 1, 0, inner, column, columns);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < inner; k++) {
            const double x = element(0, row + i, k);

            for (size_t j = 0; j < columns; j++)
                c[i * columns + j] += x * w[k * columns + j];
        }
    free(w);
    return c;
}

/* Fills everything but the signals with NaN, so that missing data is detected. */
static void clear_window(struct work *k)
{
    void *mem;
    size_t bytes;

    if (tutti_window_memory(k->window, &mem, &bytes) == TUTTI_OK)
        memset((uint8_t *)mem + SIGNALS_BYTES, 0xff, bytes - SIGNALS_BYTES);
}

/* ---- gather ---- */

static void fill_gather(struct work *g)
{
    const struct layer *l = g->layer;
    const size_t columns = l->columns / l->nranks;

    fill(g->w, 1, 0, l->inner, l->rank * columns, columns);
    fill(g->x + l->rank * l->chunk * l->inner, 0, l->rank * l->chunk, l->chunk, 0, l->inner);
    memset(g->y, 0xff, l->rows * columns * sizeof *g->y);
}

static tutti_status gather_collective(struct work *g)
{
    const struct layer *l = g->layer;
    const size_t columns = l->columns / l->nranks, count = l->chunk * l->inner;
    const tutti_status st =
        tutti_allgather(g->x + l->rank * count, g->x, count, TUTTI_F32, l->comm, NULL);

    if (!st)
        gemm(l->rows, columns, l->inner, g->x, l->inner, g->w, columns, g->y, columns);
    return st;
}

static bool gather_reference(const struct layer *l, double **reference)
{
    const size_t columns = l->columns / l->nranks;

    *reference = dense(0, l->rows, l->inner, l->rank * columns, columns);
    return *reference;
}

static const float *gather_result(const struct work *g, size_t *n)
{
    *n = g->layer->rows * (g->layer->columns / g->layer->nranks);
    return g->y;
}

/* ---- scatter ---- */

static void fill_scatter(struct work *s)
{
    const struct layer *l = s->layer;
    const size_t inner = l->inner / l->nranks, first = l->rank * inner;

    fill(s->x, 0, 0, l->rows, first, inner);
    fill(s->w, 1, first, inner, 0, l->columns);
    memset(s->y, 0xff, l->rows * l->columns * sizeof *s->y);
}

static tutti_status scatter_collective(struct work *s)
{
    const struct layer *l = s->layer;
    const size_t inner = l->inner / l->nranks, count = l->chunk * l->columns;

    gemm(l->rows, l->columns, inner, s->x, inner, s->w, l->columns, s->y, l->columns);
    return tutti_reduce_scatter(s->y, s->y + l->rank * count, count, TUTTI_F32, TUTTI_SUM, l->comm,
                                NULL);
}

static bool scatter_reference(const struct layer *l, double **reference)
{
    *reference = dense(l->rank * l->chunk, l->chunk, l->inner, 0, l->columns);
    return *reference;
}

static const float *scatter_result(const struct work *s, size_t *n)
{
    *n = s->layer->chunk * s->layer->columns;
    return s->y + s->layer->rank * *n;
}

static const struct kind kinds[] = {
    {
        .name = "allgather-GEMM",
        .option = "allgather",
        .init = gather_init,
        .fini = gather_fini,
        .run = gather_run,
        .moves_first = true,
        .collective = gather_collective,
        .fill = fill_gather,
        .make_reference = gather_reference,
        .result = gather_result,
    },
    {
        .name = "GEMM-reduce_scatter",
        .option = "reduce_scatter",
        .init = scatter_init,
        .fini = scatter_fini,
        .run = scatter_run,
        .moves_first = false,
        .collective = scatter_collective,
        .fill = fill_scatter,
        .make_reference = scatter_reference,
        .result = scatter_result,
    },
};
#define NKINDS (sizeof kinds / sizeof *kinds)

/* ---- a round ---- */

static tutti_status run_form(const struct kind *kind, struct work *k, enum form form)
{
    const struct parts moves = { .moves = true }, computes = { .computes = true },
                       both = { true, true };
    tutti_status st;

    switch (form) {
    case COMPUTE:
        return kind->run(k, computes);
    case COMMUNICATE:
        return kind->run(k, moves);
    case PUTS_APART:
        st = kind->run(k, kind->moves_first ? moves : computes);
        return st ? st : kind->run(k, kind->moves_first ? computes : moves);
    case COLLECTIVE_APART:
        return kind->collective(k);
    default:
        return kind->run(k, both);
    }
}

/* Returns the number of elements that differ from the reference. */
static size_t count_wrong(const struct kind *kind, const struct work *k, const double *reference)
{
    size_t n, wrong = 0;
    const float *result = kind->result(k, &n);

    for (size_t i = 0; i < n; i++)
        wrong += !((double)result[i] == reference[i]);      /* a NaN counts as wrong */
    return wrong;
}

/* Runs one form once. *ms: of the slowest rank; *wrong: sum over all ranks. A barrier before it
 * ensures that no rank's time includes the delay of another rank, and that no rank puts into memory
 * that is still read. */
static tutti_status measure(const struct kind *kind, struct work *k, enum form form,
                            const double *reference, double *ms, int64_t *wrong)
{
    const bool has_result = form != COMPUTE && form != COMMUNICATE;
    tutti_comm *comm = k->layer->comm;
    int64_t mine = 0;
    double took;
    tutti_status st;

    clear_window(k);
    kind->fill(k);
    st = tutti_barrier(comm, NULL);
    if (st)
        return st;
    took = now_ms();
    st = run_form(kind, k, form);
    took = now_ms() - took;
    if (!st && has_result)
        mine = (int64_t)count_wrong(kind, k, reference);
    if (!st)
        st = tutti_allreduce(&took, ms, 1, TUTTI_F64, TUTTI_MAX, comm, NULL);
    return st ? st : tutti_allreduce(&mine, wrong, 1, TUTTI_I64, TUTTI_SUM, comm, NULL);
}

/* Prints the failure. Tutti has logged the cause, unless the program itself is out of memory. */
static int fail(const struct layer *l, const char *what, tutti_status st)
{
    fprintf(stderr, "tensor_parallel: rank %zu: %s: %s\n", l->rank, what,
            st == TUTTI_ERR_NOMEM ? "out of memory" : tutti_status_name(st));
    return 1;
}

/* Times all forms of one kind: ms[FORMS][rounds]. Returns the exit status. On a local failure,
 * returns without clean-up: destroying the communicator notifies the other ranks. */
static int time_kind(const struct kind *kind, const struct layer *l, size_t rounds, double *ms)
{
    struct work k = { 0 };
    double *reference = NULL;
    int64_t wrong = 0;
    tutti_status st = kind->init(&k, l);
    int status = 0;

    if (!st && !kind->make_reference(l, &reference))
        st = TUTTI_ERR_NOMEM;
    if (st)
        return fail(l, kind->name, st);
    for (size_t round = 0; round < rounds && !status; round++)
        for (int form = 0; form < FORMS && !status; form++) {
            st = measure(kind, &k, (enum form)form, reference, &ms[(size_t)form * rounds + round],
                         &wrong);
            if (st) {
                status = fail(l, kind->name, st);
            } else if (wrong) {
                status = 1;
                if (l->rank == 0)
                    fprintf(stderr,
                            "tensor_parallel: %s, %s: %lld elements differ from the reference\n",
                            kind->name, form_names[form], (long long)wrong);
            }
        }
    kind->fini(&k);
    free(reference);
    return status;
}

/* ---- the program ---- */

static void print_kind(const struct kind *kind, const struct layer *l, size_t rounds,
                       const double *ms)
{
    const size_t columns = kind->moves_first ? l->inner : l->columns;

    printf("{\"name\": \"%s\", \"link_bytes\": %zu", kind->name,
           l->there == l->here ? 0 : l->per_host * l->chunk * columns * sizeof(float));
    for (int form = 0; form < FORMS; form++) {
        printf(", \"%s\": [", form_names[form]);
        for (size_t i = 0; i < rounds; i++)
            printf("%s%.3f", i ? ", " : "", ms[(size_t)form * rounds + i]);
        printf("]");
    }
    printf("}");
}

static bool is_wanted(const struct options *o, const struct kind *kind)
{
    return !o->layer || strcmp(o->layer, kind->option) == 0;
}

static void print(const struct layer *l, const struct options *o, const char *gemm_name,
                  double *const ms[NKINDS])
{
    const char *between = "";

    printf("{\"ranks\": %zu, \"per_host\": %zu, \"rows\": %zu, \"inner\": %zu, \"columns\": %zu, "
           "\"panels\": %zu, \"gemm\": \"%s\", "
           "\"layers\": [",
           l->nranks, l->per_host, l->rows, l->inner, l->columns, l->panels, gemm_name);
    for (size_t i = 0; i < NKINDS; i++)
        if (ms[i]) {
            printf("%s", between);
            print_kind(&kinds[i], l, (size_t)o->rounds, ms[i]);
            between = ", ";
        }
    printf("]}\n");
}

static int run(const struct layer *l, const struct options *o, const char *gemm_name)
{
    double *ms[NKINDS] = { NULL };      /* [FORMS][rounds] of each selected kind */
    int status = 0;

    for (size_t i = 0; i < NKINDS && !status; i++) {
        if (!is_wanted(o, &kinds[i]))
            continue;
        ms[i] = calloc(FORMS * (size_t)o->rounds, sizeof *ms[i]);
        status = ms[i] ? time_kind(&kinds[i], l, (size_t)o->rounds, ms[i]) : 1;
    }
    if (!status && l->rank == 0)
        print(l, o, gemm_name, ms);
    for (size_t i = 0; i < NKINDS; i++)
        free(ms[i]);
    return status;
}

static bool is_layer(const char *name)
{
    for (size_t i = 0; i < NKINDS; i++)
        if (strcmp(name, kinds[i].option) == 0)
            return true;
    return false;
}

static bool take_number(const char *text, long max, long *out)
{
    char *end;

    *out = strtol(text, &end, 10);
    return *text && !*end && *out >= 1 && *out <= max;
}

/* Returns false after printing the usage; *status is the exit status. */
static bool take_options(int argc, char **argv, struct options *o, int *status)
{
    static const struct option known[] = {
        { "rows", required_argument, NULL, 'r' },     { "inner", required_argument, NULL, 'i' },
        { "columns", required_argument, NULL, 'c' },  { "panels", required_argument, NULL, 'p' },
        { "per-host", required_argument, NULL, 'n' }, { "rounds", required_argument, NULL, 't' },
        { "gemm", required_argument, NULL, 'g' },     { "layer", required_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },           { 0 },
    };
    bool good = true;
    int c;

    while (good && (c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 'r':
            good = take_number(optarg, SIZE_MAX_ARG, &o->rows);
            break;
        case 'i':
            good = take_number(optarg, SIZE_MAX_ARG, &o->inner);
            break;
        case 'c':
            good = take_number(optarg, SIZE_MAX_ARG, &o->columns);
            break;
        case 'p':
            good = take_number(optarg, PANELS_MAX, &o->panels);
            break;
        case 'n':
            good = take_number(optarg, 1 << STEPS_MAX, &o->per_host);
            break;
        case 't':
            good = take_number(optarg, ROUNDS_MAX, &o->rounds);
            break;
        case 'l':
            good = is_layer(optarg);
            o->layer = optarg;
            break;
        case 'g':
            o->gemm = optarg;
            break;
        case 'h':
            fputs(USAGE, stdout);
            *status = 0;
            return false;
        default:
            *status = 2;
            fputs(USAGE, stderr);
            return false;
        }
        if (!good)
            fprintf(stderr, "tensor_parallel: invalid option value %s (see --help)\n", optarg);
    }
    if (good && optind < argc) {
        fprintf(stderr, "tensor_parallel: unexpected argument %s (see --help)\n", argv[optind]);
        good = false;
    }
    *status = 2;
    return good;
}

/* Computes the shape. Returns NULL, or an error message. */
static const char *make_layer(struct layer *l, tutti_comm *comm, const struct options *o)
{
    const size_t n = (size_t)tutti_comm_size(comm), rank = (size_t)tutti_comm_rank(comm);
    const size_t per_host = o->per_host ? (size_t)o->per_host : n > 1 ? n / 2 : 1;
    const size_t host = rank / per_host, nhosts = n / per_host;

    if (per_host & (per_host - 1) || per_host > 1 << STEPS_MAX || n % per_host || nhosts > 2 ||
        !nhosts)
        return "invalid number of ranks: must be one or two hosts with equal numbers of ranks, a "
               "power of two up to 64";
    *l = (struct layer){
        .comm = comm,
        .rank = rank,
        .nranks = n,
        .per_host = per_host,
        .local = rank % per_host,
        .here = host * per_host,
        .there = (nhosts - 1 - host) * per_host,
        .rows = (size_t)o->rows,
        .inner = (size_t)o->inner,
        .columns = (size_t)o->columns,
        .panels = (size_t)o->panels,
        .chunk = (size_t)o->rows / n,
    };
    if (l->rows % n || l->inner % n || l->columns % n)
        return "rows, inner and columns must be multiples of the number of ranks";
    if (l->chunk % l->panels)
        return "the rows of a chunk must be a multiple of the panels";
    return NULL;
}

int main(int argc, char **argv)
{
    struct options o = {
        .rows = 1024, .inner = 1024, .columns = 1024, .panels = 4, .rounds = 3, .gemm = "auto"
    };
    const char *why = NULL, *gemm_name;
    struct layer l;
    tutti_comm *comm;
    int status;

    if (!take_options(argc, argv, &o, &status))
        return status;
    gemm_name = gemm_choose(o.gemm, &why);
    if (!gemm_name) {
        fprintf(stderr, "tensor_parallel: --gemm %s: %s\n", o.gemm, why);
        return 2;
    }
    if (tutti_comm_create(&comm, NULL))
        return 1;       /* Tutti has logged the error */
    why = make_layer(&l, comm, &o);
    if (why && tutti_comm_rank(comm) == 0)
        fprintf(stderr, "tensor_parallel: %s\n", why);
    status = why ? 2 : run(&l, &o, gemm_name);
    tutti_comm_destroy(comm);
    return status;
}
