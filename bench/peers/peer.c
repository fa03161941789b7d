/* Reads commands from a separate named pipe on every rank, so that an idle rank sleeps in read and
 * never spins inside its library while another contestant is measured. */
#define _GNU_SOURCE
#include "peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "tools/perf/perf_start.h"
#include "tools/perf/perf_work.h"

#define EXTRA_TIMES 3   /* in addition to the samples: see measure() */

static const char *const coll_names[PEER_NCOLLS] = {
    [PEER_ALLREDUCE] = "allreduce",
    [PEER_REDUCE] = "reduce",
    [PEER_REDUCE_SCATTER] = "reduce_scatter",
    [PEER_ALLGATHER] = "allgather",
    [PEER_BROADCAST] = "broadcast",
    [PEER_GATHER] = "gather",
    [PEER_SCATTER] = "scatter",
    [PEER_ALLTOALL] = "alltoall",
    [PEER_BARRIER] = "barrier",
    [PEER_PINGPONG] = "pingpong",
    [PEER_SENDRECV] = "sendrecv",
    [PEER_OVERLAP] = "overlap",
    [PEER_COMPUTE] = "compute",
};

const char *peer_coll_name(enum peer_coll coll)
{
    return coll_names[coll];
}

struct server {
    const struct peer_ops *ops;
    void *ctx;
    FILE *reply; /* rank 0 only */
    struct perf_start start;
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Small integers: sums over ranks are exact in float32 in any order. */
static float pattern(size_t i, int rank)
{
    return (float)(i % 61 + (size_t)rank);
}

/* The number of ranks whose values are in a sum, and the sum of these ranks. */
struct addends {
    int n, sum;
};

/* Returns the expected dst[i] of this rank, or -1 if the operation does not write it. */
static float expected(const struct peer_job *job, size_t i, int rank, int nranks,
                      const struct addends *all)
{
    const float ranks_sum = (float)all->sum, n = (float)all->n;
    const size_t b = job->block, mine = (size_t)rank * b;

    switch (job->coll) {
    case PEER_ALLREDUCE:
    case PEER_OVERLAP:
        return ranks_sum + n * pattern(i, 0);
    case PEER_REDUCE:
        return rank == 0 ? ranks_sum + n * pattern(i, 0) : -1;
    case PEER_REDUCE_SCATTER:
        return i < b ? ranks_sum + n * pattern(mine + i, 0) : -1;
    case PEER_ALLGATHER:
        return pattern(i % b, (int)(i / b));
    case PEER_BROADCAST:
        return pattern(i, 0);
    case PEER_GATHER:
        return rank == 0 ? pattern(i % b, (int)(i / b)) : -1;
    case PEER_SCATTER:      /* in place, the root's block stays in its source */
        return i < b && !(job->in_place && rank == 0) ? pattern(mine + i, 0) : -1;
    case PEER_ALLTOALL:
        return pattern(mine + i % b, (int)(i / b));
    case PEER_PINGPONG:
        return (rank ^ 1) < nranks ? pattern(i, rank ^ 1) : -1;
    case PEER_SENDRECV:
        return pattern(i, (rank + nranks - 1) % nranks);
    case PEER_BARRIER:
    case PEER_COMPUTE:
    case PEER_NCOLLS:
        break;
    }
    return -1;
}

/* Fills the buffers. Broadcast is in place: only dst of its root contains the values. */
static void fill(const struct peer_job *job, int rank)
{
    const int is_source = job->coll == PEER_BROADCAST && rank == 0;
    const int is_whole =
        job->in_place && (job->coll == PEER_ALLREDUCE || job->coll == PEER_REDUCE_SCATTER ||
                          job->coll == PEER_ALLTOALL || (job->coll == PEER_REDUCE && rank == 0));
    const int has_block =
        job->in_place && (job->coll == PEER_ALLGATHER || (job->coll == PEER_GATHER && rank == 0));

    for (size_t i = 0; i < job->count; i++) {
        job->src[i] = pattern(i, rank);
        job->dst[i] = is_source || is_whole ? pattern(i, rank) : -1;
    }
    for (size_t i = 0; has_block && i < job->block; i++)
        job->dst[(size_t)rank * job->block + i] = pattern(i, rank);
}

static size_t count_wrong(const struct server *s, const struct peer_job *job)
{
    const struct peer_ops *ops = s->ops;
    struct addends all = { .n = ops->nranks, .sum = ops->nranks * (ops->nranks - 1) / 2 };
    size_t wrong = 0;

    if (ops->addends && job->coll == PEER_ALLREDUCE)
        ops->addends(s->ctx, job, &all.n, &all.sum);
    for (size_t i = 0; i < job->count; i++) {
        const float want = expected(job, i, ops->rank, ops->nranks, &all);

        wrong += want >= 0 && job->dst[i] != want;
    }
    return wrong;
}

static int is_cut_into_blocks(enum peer_coll c)
{
    return c == PEER_REDUCE_SCATTER || c == PEER_ALLGATHER || c == PEER_GATHER ||
           c == PEER_SCATTER || c == PEER_ALLTOALL;
}

static int has_in_place(enum peer_coll c)
{
    return c != PEER_BARRIER && c < PEER_PINGPONG;
}

/* In "overlap/1000", the amount of work is in place of the algorithm: moves it from `algo` to
 * `work`. Returns NULL or an error message. */
static const char *take_work(struct peer_job *job, const struct peer_ops *ops)
{
    char *end;

    if (job->coll != PEER_OVERLAP && job->coll != PEER_COMPUTE)
        return NULL;
    if (job->coll == PEER_OVERLAP && !ops->start)
        return "this peer has no non-blocking allreduce";
    job->work = strtoul(job->algo, &end, 10);
    if (end == job->algo || *end)
        return "overlap and compute need a number, as in overlap/1000";
    job->algo[0] = '\0';
    return NULL;
}

/* Parses a command line into job, except its buffers. Returns NULL or an error message. */
static const char *parse(const char *line, const struct peer_ops *ops, struct peer_job *job)
{
    const int nranks = ops->nranks;
    char coll[32], memory[16];
    char *slash;

    if (sscanf(line, "%31s %zu %ld %ld %ld %15s", coll, &job->bytes, &job->iters, &job->warmup,
               &job->loops, memory) != 6)
        return "a command has six words: coll[/algo] bytes iters warmup loops memory";
    if (job->iters < 1 || job->warmup < 0 || job->loops < 0)
        return "iters must be at least 1, warmup and loops at least 0";

    slash = strchr(coll, '/');
    snprintf(job->algo, sizeof(job->algo), "%s", slash ? slash + 1 : "");
    if (slash)
        *slash = '\0';
    for (job->coll = 0; job->coll < PEER_NCOLLS; job->coll++)
        if (!strcmp(coll, coll_names[job->coll]))
            break;
    if (job->coll == PEER_NCOLLS)
        return "unknown collective";
    if (job->coll == PEER_PINGPONG && nranks < 2)
        return "pingpong needs two ranks";
    job->in_place = !strcmp(memory, "in_place");
    if (!job->in_place && strcmp(memory, "malloc"))
        return "this peer has plain malloc memory only";
    if (job->in_place && (!ops->in_place || !has_in_place(job->coll)))
        return "this operation of this peer has no in-place form";

    job->block = job->bytes / sizeof(float);
    if (is_cut_into_blocks(job->coll))
        job->block /= (size_t)nranks;
    if (!job->block)
        job->block = 1;
    job->count = is_cut_into_blocks(job->coll) ? job->block * (size_t)nranks : job->block;
    job->bytes = job->count * sizeof(float);
    return take_work(job, ops);
}

static void operation_run(const struct server *s, const struct peer_job *job)
{
    const struct peer_ops *ops = s->ops;

    if (job->coll == PEER_OVERLAP)
        ops->start(s->ctx, job);
    if (job->coll == PEER_OVERLAP || job->coll == PEER_COMPUTE)
        perf_work(job->work);
    if (job->coll == PEER_OVERLAP)
        ops->finish(s->ctx);
    else if (job->coll != PEER_COMPUTE)
        ops->run(s->ctx, job);
}

static double start_us(struct server *s)
{
    return (double)perf_start_wait(&s->start) * 1e-3;
}

/* Runs the command. times[0..iters) are the samples, times[iters] the loop, times[iters + 1] the
 * number of wrong elements in the first run after an allocation, and times[iters + 2] its duration
 * (0: there was none). They are in one array, so that one reduction sends them to rank 0. */
static void measure(struct server *s, const struct peer_job *job, int fresh, double *times)
{
    const struct peer_ops *ops = s->ops;
    const double share = job->coll == PEER_PINGPONG ? (ops->rank % 2 == 0 ? 0.5 : 0.0) : 1.0;
    double t0;

    times[job->iters] = times[job->iters + 1] = times[job->iters + 2] = 0;
    if (fresh) {
        ops->barrier(s->ctx);
        t0 = now_us();
        operation_run(s, job);
        times[job->iters + 2] = (now_us() - t0) * share;
        times[job->iters + 1] = (double)count_wrong(s, job);
    }
    for (long i = 0; i < job->warmup; i++)
        operation_run(s, job);
    for (long i = 0; i < job->iters; i++) {
        ops->barrier(s->ctx);
        t0 = start_us(s);
        operation_run(s, job);
        times[i] = (now_us() - t0) * share;
    }
    if (job->loops) {
        ops->barrier(s->ctx);
        t0 = start_us(s);
        for (long i = 0; i < job->loops; i++)
            operation_run(s, job);
        times[job->iters] = (now_us() - t0) * share / (double)job->loops;
    }
    ops->max(s->ctx, times, (size_t)job->iters + EXTRA_TIMES);
    ops->barrier(s->ctx);
}

static void reply_result(const struct server *s, const struct peer_job *job, const double *times)
{
    fprintf(s->reply,
            "{\"coll\": \"%s\", \"algo\": \"%s\", \"bytes\": %zu, \"ranks\": %d, "
            "\"memory\": \"%s\", \"wrong\": %.0f, ",
            coll_names[job->coll], job->algo, job->bytes, s->ops->nranks,
            job->in_place ? "in_place" : "malloc", times[job->iters + 1]);
    fprintf(s->reply, times[job->iters + 2] > 0 ? "\"first_us\": %.3f, " : "\"first_us\": null, ",
            times[job->iters + 2]);
    fprintf(s->reply, "\"samples_us\": [");
    for (long i = 0; i < job->iters; i++)
        fprintf(s->reply, "%s%.3f", i ? ", " : "", times[i]);
    fprintf(s->reply, "], \"time_us_loop\": ");
    fprintf(s->reply, job->loops ? "%.3f}\n" : "null}\n", times[job->iters]);
    fflush(s->reply);
}

static void reply_error(const struct server *s, const char *why)
{
    if (!s->reply)
        return;
    fprintf(s->reply, "{\"error\": \"%s\"}\n", why);
    fflush(s->reply);
}

/* Reallocates and touches the buffers of job. */
static int buffers_renew(struct peer_job *job)
{
    free(job->src);
    free(job->dst);
    job->src = malloc(job->bytes);
    job->dst = malloc(job->bytes);
    return job->src && job->dst ? 0 : -1;
}

static void serve_line(struct server *s, const char *line, struct peer_job *job)
{
    struct peer_job next = *job;
    double *times;
    const char *why;
    int buffers_fit, fresh;

    why = parse(line, s->ops, &next);
    if (why) {
        reply_error(s, why);
        return;
    }
    buffers_fit = job->src && next.coll == job->coll && next.bytes == job->bytes &&
                  next.in_place == job->in_place;
    fresh = !buffers_fit || strcmp(next.algo, job->algo);
    times = malloc(((size_t)next.iters + EXTRA_TIMES) * sizeof(*times));
    if (!times || (!buffers_fit && buffers_renew(&next))) {
        fprintf(stderr, "out of memory for %zu bytes\n", next.bytes);
        exit(1);
    }
    if (fresh)
        fill(&next, s->ops->rank);
    *job = next;
    why = s->ops->prepare(s->ctx, job, fresh);
    if (why) {
        reply_error(s, why);
        job->coll = PEER_NCOLLS; /* the next command reallocates */
    } else {
        measure(s, job, fresh, times);
        if (s->reply)
            reply_result(s, job, times);
    }
    free(times);
}

/* Opens a pipe of the driver without waiting for its other end. If the driver has exited, reads
 * return end of file and writes fail, whereas a blocking open would hang. */
static FILE *open_pipe(const char *dir, const char *name, int flags)
{
    char path[4096];
    FILE *f;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
    f = fd < 0 || fcntl(fd, F_SETFL, 0) ? NULL : fdopen(fd, flags == O_RDONLY ? "r" : "w");
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

int peer_parts(const char *algo, int *at_once)
{
    char *end;
    const long n = strtol(algo, &end, 10);

    *at_once = strcmp(end, "_at_once") == 0;
    return n >= 1 && n <= PEER_PARTS_MAX && (*at_once || strcmp(end, "_in_row") == 0) ? (int)n : 0;
}

size_t peer_part(const struct peer_job *job, int i, int n, size_t *at)
{
    const size_t each = (job->count + (size_t)n - 1) / (size_t)n;

    *at = (size_t)i * each < job->count ? (size_t)i * each : job->count;
    return each < job->count - *at ? each : job->count - *at;
}

int peer_serve(const char *dir, const struct peer_ops *ops, void *ctx)
{
    struct server s = { .ops = ops, .ctx = ctx };
    struct peer_job job = { .coll = PEER_NCOLLS };
    char line[256], name[32];
    FILE *control;

    snprintf(name, sizeof(name), "control.%d", ops->rank);
    control = open_pipe(dir, name, O_RDONLY);
    if (perf_start_open(&s.start, dir, (uint32_t)ops->nranks) != 0) {
        perror("start");
        exit(1);
    }
    if (ops->rank == 0) {
        s.reply = open_pipe(dir, "reply", O_WRONLY);
        fprintf(s.reply,
                "{\"ready\": true, \"name\": \"%s\", \"version\": \"%s\", \"ranks\": %d}\n",
                ops->name, ops->version, ops->nranks);
        fflush(s.reply);
    }
    while (fgets(line, sizeof(line), control) && strcmp(line, "quit\n"))
        serve_line(&s, line, &job);

    free(job.src);
    free(job.dst);
    perf_start_close(&s.start);
    fclose(control);
    if (s.reply)
        fclose(s.reply);
    return 0;
}
