/* A training loop with tensor, data and world groups, of which one rank has a fault. It shows how
 * `tutti status`, `tutti analyze` and `tutti profile` find the fault; triage.sh runs it.
 *
 *     tutti run -n 8 -x TUTTI_TRACE_DIR=/tmp/traces -- ./triage --fault never --rank 2
 *
 * Each iteration calls four allreduces: two of the tensor group, one of the data group, and one of
 * the world group for the loss. Before each of the first three, the rank computes (a sleep). */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/trace.h>
#include <tutti/tutti.h>
#include <unistd.h>

#define COMPUTE_US 2000
#define LATE_US 6000

enum fault { FAULT_NONE, FAULT_NEVER, FAULT_STOP, FAULT_ORDER, FAULT_LATE, FAULTS };

static const char *const fault_names[FAULTS] = {
    [FAULT_NONE] = "none", [FAULT_NEVER] = "never", [FAULT_STOP] = "stop",
    [FAULT_ORDER] = "order", [FAULT_LATE] = "late",
};

static const char help[] =
    "usage: tutti run -n N -- triage [OPTION...]\n\n"
    "Ranks r with the same r / T form a tensor group, those with the same r % T a data group.\n\n"
    "  --tensor T        ranks of a tensor group, a divisor of N (default: 4)\n"
    "  --count COUNT     floats of each allreduce (default: 1024)\n"
    "  --iterations I    the last iteration (default: 0, no end)\n"
    "  --timeout SECONDS timeout of each call (default: 300)\n"
    "  --fault FAULT     none (default), or one of\n"
    "                      never   from iteration 20 on, the rank makes no call\n"
    "                      stop    the process stops itself there (SIGSTOP)\n"
    "                      order   it calls the allreduce of the world there too early\n"
    "                      late    it computes four times as long as the other ranks\n"
    "  --rank R          rank with the fault (default: 1)\n\n"
    "After a failed call, a rank waits until the job is ended, as a program that is inspected.\n"
    "After the last iteration, each rank writes its trace to TUTTI_TRACE_DIR, if it is set.\n";

struct triage {
    int rank, n, tensor_size, culprit;
    unsigned long iterations;
    size_t count;
    int64_t timeout_ms;
    enum fault fault;
    tutti_comm *world, *tensor, *data;
    float *in, *out;            /* [count] */
    unsigned long at;           /* current iteration */
};

static void fail(const char *what, const char *value)
{
    fprintf(stderr, "triage: invalid %s: %s (see --help)\n", what, value);
    exit(2);
}

static unsigned long number(const char *what, const char *text, unsigned long max)
{
    char *end;
    const unsigned long v = strtoul(text, &end, 10);

    if (end == text || *end || *text == '-' || v > max)
        fail(what, text);
    return v;
}

static enum fault fault_of(const char *text)
{
    for (int i = 0; i < FAULTS; i++)
        if (strcmp(text, fault_names[i]) == 0)
            return (enum fault)i;
    fail("--fault", text);
    return FAULT_NONE;
}

static void read_options(struct triage *t, int argc, char **argv)
{
    static const struct option options[] = {
        { "tensor", required_argument, NULL, 't' },  { "count", required_argument, NULL, 'c' },
        { "iterations", required_argument, NULL, 'i' },
        { "timeout", required_argument, NULL, 's' }, { "fault", required_argument, NULL, 'f' },
        { "rank", required_argument, NULL, 'r' },    { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (option) {
        case 't':
            t->tensor_size = (int)number("--tensor", optarg, 1 << 20);
            break;
        case 'c':
            t->count = number("--count", optarg, 1ul << 30);
            break;
        case 'i':
            t->iterations = number("--iterations", optarg, 1ul << 40);
            break;
        case 's':
            t->timeout_ms = 1000 * (int64_t)number("--timeout", optarg, 1 << 20);
            break;
        case 'f':
            t->fault = fault_of(optarg);
            break;
        case 'r':
            t->culprit = (int)number("--rank", optarg, 1 << 20);
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            exit(2);
        }
    if (optind < argc)
        fail("argument", argv[optind]);
    if (t->count == 0 || t->tensor_size == 0)
        fail("option", "0 is not possible for --count and --tensor");
}

static void wait_for_the_end(void)
{
    for (;;)
        pause();
}

static void must(const struct triage *t, tutti_status st)
{
    if (!st)
        return;
    fprintf(stderr, "iteration %lu failed: %s\n", t->at, tutti_last_error());
    wait_for_the_end();
}

static void reduce(struct triage *t, tutti_comm *comm, size_t count)
{
    const tutti_call how = { .size = sizeof how, .timeout_ms = t->timeout_ms };

    must(t, tutti_allreduce(t->in, t->out, count, TUTTI_F32, TUTTI_SUM, comm, &how));
}

static bool is_faulty(const struct triage *t, enum fault fault)
{
    return t->fault == fault && t->rank == t->culprit;
}

static void compute(const struct triage *t)
{
    usleep(is_faulty(t, FAULT_LATE) ? COMPUTE_US + LATE_US : COMPUTE_US);
}

static void iterate(struct triage *t)
{
    const bool begins = t->at == 20;
    char note[64];

    snprintf(note, sizeof note, "iteration %lu", t->at);
    must(t, tutti_trace_annotate(note));
    compute(t);
    reduce(t, t->tensor, t->count);             /* forward: activations */
    if (begins && is_faulty(t, FAULT_NEVER))
        wait_for_the_end();
    if (begins && is_faulty(t, FAULT_STOP))
        raise(SIGSTOP);
    if (begins && is_faulty(t, FAULT_ORDER))
        reduce(t, t->world, 1);
    compute(t);
    reduce(t, t->tensor, t->count);             /* backward: their gradients */
    compute(t);
    reduce(t, t->data, t->count);               /* gradients of the weights */
    reduce(t, t->world, 1);                     /* the loss */
    if (t->rank == 0 && t->at % 10 == 0) {
        printf("iteration %lu\n", t->at);
        fflush(stdout);
    }
}

static void begin(struct triage *t)
{
    const tutti_conf conf = { .size = sizeof conf, .name = "world" };

    t->in = calloc(t->count, sizeof *t->in);
    t->out = calloc(t->count, sizeof *t->out);
    if (!t->in || !t->out || tutti_comm_create(&t->world, &conf))
        exit(1);                                /* Tutti has logged the cause */
    t->rank = tutti_comm_rank(t->world);
    t->n = tutti_comm_size(t->world);
    if (t->n % t->tensor_size != 0)
        fail("--tensor", "not a divisor of the number of ranks");
    must(t, tutti_comm_split(t->world, t->rank / t->tensor_size, t->rank, &t->tensor));
    must(t, tutti_comm_split(t->world, t->rank % t->tensor_size, t->rank, &t->data));
    must(t, tutti_comm_set_name(t->tensor, "tensor"));
    must(t, tutti_comm_set_name(t->data, "data"));
}

int main(int argc, char **argv)
{
    struct triage t = { .tensor_size = 4, .culprit = 1, .count = 1024, .timeout_ms = 300000 };

    read_options(&t, argc, argv);
    begin(&t);
    do {
        t.at++;
        iterate(&t);
    } while (t.at != t.iterations);
    must(&t, tutti_barrier(t.world, NULL));
    if (getenv("TUTTI_TRACE_DIR"))
        must(&t, tutti_trace_dump(NULL, "end of the job"));
    must(&t, tutti_barrier(t.world, NULL));
    tutti_comm_destroy(t.data);
    tutti_comm_destroy(t.tensor);
    tutti_comm_destroy(t.world);
    free(t.in);
    free(t.out);
    return 0;
}
