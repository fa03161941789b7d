/* The trace of operations (tutti/trace.h) in real processes: what is recorded, and what a dump
 * shows of a rank that hangs. Nothing depends on how fast the ranks are. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job.h"
#include "support/unit.h"
#include "tutti/rma.h"
#include "tutti/trace.h"

#define SEED 20261129
#define SEEN_MAX 4096

static const char *const wires[] = { "shm", "tcp" };
#define NWIRES (sizeof wires / sizeof *wires)

/* ---- reading ---- */

struct seen_op {
    tutti_trace_op op;
    char comm_name[64], kind[32], algo[48], note[128], of[16];
};

struct seen {
    struct rank *r;
    uint32_t n;
    uint64_t lost;
    struct seen_op op[SEEN_MAX];
};

static int keep_op(void *arg, const tutti_trace_op *op)
{
    struct seen *s = arg;
    struct seen_op *x = &s->op[s->n];

    CHECK(s->r, s->n < SEEN_MAX);
    x->op = *op;
    snprintf(x->comm_name, sizeof x->comm_name, "%s", op->comm_name);
    snprintf(x->kind, sizeof x->kind, "%s", op->kind);
    snprintf(x->algo, sizeof x->algo, "%s", op->algo ? op->algo : "");
    snprintf(x->note, sizeof x->note, "%s", op->note ? op->note : "");
    snprintf(x->of, sizeof x->of, "%s", op->of);
    s->n++;
    return 0;
}

/* Reads the trace, and checks what holds for all records. */
static struct seen *read_trace(struct rank *r)
{
    static struct seen s;

    s = (struct seen){ .r = r };
    CHECK_OK(r, tutti_trace_read(keep_op, &s, &s.lost));
    for (uint32_t i = 0; i < s.n; i++) {
        const tutti_trace_op *op = &s.op[i].op;

        CHECK(r, op->number > 0 && op->called_ns > 0 && op->called_ns <= tt_now_ns());
        CHECK(r, i == 0 || op->called_ns >= s.op[i - 1].op.called_ns);
        CHECK(r, !op->started_ns || op->started_ns >= op->called_ns);
        CHECK(r, !op->ended_ns || op->ended_ns >= op->called_ns);
        CHECK(r, (op->status == TUTTI_PENDING) == !op->ended_ns);
    }
    return &s;
}

/* Returns the next operation of this kind from *at on, or NULL. */
static const struct seen_op *next_of(const struct seen *s, const char *kind, uint32_t *at)
{
    while (*at < s->n)
        if (strcmp(s->op[(*at)++].kind, kind) == 0)
            return &s->op[*at - 1];
    return NULL;
}

static uint32_t count_of(const struct seen *s, const char *kind)
{
    uint32_t at = 0, n = 0;

    while (next_of(s, kind, &at))
        n++;
    return n;
}

/* ---- records match the calls ---- */

#define REPEATS 20u

/* Makes a fixed sequence of calls of each kind. *half becomes a communicator of this rank's
 * half. */
static void make_calls(struct rank *r, tutti_comm **half)
{
    const int right = (int)((r->rank + 1) % r->nranks),
              left = (int)((r->rank + r->nranks - 1) % r->nranks);
    float in[64] = { 1 }, out[64];
    tutti_request *request;
    const tutti_call tagged = { .size = sizeof tagged, .tag = 9 },
                     start = { .size = sizeof start, .tag = 9, .request = &request };

    CHECK_OK(r, tutti_trace_annotate("iteration 1"));
    for (uint32_t i = 0; i < REPEATS; i++)
        CHECK_OK(r, tutti_allreduce(in, out, 64, TUTTI_F32, TUTTI_MAX, r->comm, NULL));
    CHECK_OK(r, tutti_trace_annotate(""));
    CHECK_OK(r, tutti_broadcast(in, in, 16, TUTTI_F32, 2, r->comm, NULL));
    CHECK_OK(r, tutti_recv(out, 8, TUTTI_F32, left, r->comm, &start));
    CHECK_OK(r, tutti_send(in, 8, TUTTI_F32, right, r->comm, &tagged));
    CHECK_OK(r, tutti_wait(request));
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    CHECK_OK(r, tutti_comm_split(r->comm, (int)(r->rank % 2), 0, half));
    CHECK_OK(r, tutti_comm_set_name(*half, "half"));
    CHECK_OK(r, tutti_allreduce(in, out, 1 << 4, TUTTI_F32, TUTTI_SUM, *half, NULL));
}

static void check_calls(struct rank *r, const struct seen *s)
{
    const struct seen_op *x;
    uint32_t at = 0;
    uint64_t comm = 0;

    x = next_of(s, "comm_create", &at);
    CHECK(r, x && x->op.status == TUTTI_OK && strcmp(x->comm_name, "world") == 0);
    comm = x->op.comm;
    for (uint32_t i = 0, seq = 0; i < REPEATS; i++) {
        x = next_of(s, "allreduce", &at);
        CHECK(r, x && x->op.count == 64 && x->op.bytes == 256 && x->op.type == TUTTI_F32);
        CHECK(r, x->op.redop == TUTTI_MAX && x->op.status == TUTTI_OK && x->op.started_ns);
        CHECK(r, x->op.comm == comm && strcmp(x->comm_name, "world") == 0);
        CHECK(r, i == 0 || x->op.seq == seq + 1);
        CHECK(r, strncmp(x->algo, "allreduce_", 10) == 0 && x->op.root == -1 && x->op.peer == -1);
        CHECK(r, strcmp(x->note, "iteration 1") == 0 && strcmp(x->of, "comm") == 0);
        seq = (uint32_t)x->op.seq;
    }
    x = next_of(s, "broadcast", &at);
    CHECK(r, x && x->op.root == 2 && x->op.count == 16 && x->op.redop == -1 && !*x->note);
    x = next_of(s, "recv", &at);
    CHECK(r, x && x->op.peer == (int64_t)((r->rank + r->nranks - 1) % r->nranks));
    CHECK(r, x->op.tag == 9 && x->op.seq == 0 && x->op.count == 8 && x->op.bytes == 32);
    x = next_of(s, "send", &at);
    CHECK(r, x && x->op.peer == (int64_t)((r->rank + 1) % r->nranks) && x->op.tag == 9);
    x = next_of(s, "barrier", &at);
    CHECK(r, x && x->op.status == TUTTI_OK && x->op.type == -1);
    x = next_of(s, "comm_split", &at);
    CHECK(r, x && x->op.comm == comm && x->op.seq == 0 && x->op.status == TUTTI_OK);
    CHECK(r, next_of(s, "allgather", &at));     /* by which the split exchanges colours */
    do
        x = next_of(s, "allreduce", &at);
    while (x && x->op.comm == comm);
    CHECK(r, x && strcmp(x->comm_name, "half") == 0 && x->op.seq == 0 && x->op.count == 16);
    atomic_store(&r->board->word[r->rank][0], comm);
    atomic_store(&r->board->word[r->rank][1], x->op.comm);
}

static void records_role(struct rank *r)
{
    tutti_comm *half = NULL;

    job_open(r);
    CHECK_OK(r, tutti_comm_set_name(r->comm, "world"));
    make_calls(r, &half);
    check_calls(r, read_trace(r));
    job_meet(r);
    for (uint32_t i = 0; i < r->nranks; i++) {
        /* equal on all ranks of a communicator, and only there */
        CHECK(r, atomic_load(&r->board->word[i][0]) == atomic_load(&r->board->word[r->rank][0]));
        CHECK(r, (atomic_load(&r->board->word[i][1]) == atomic_load(&r->board->word[r->rank][1])) ==
                     (i % 2 == r->rank % 2));
    }
    tutti_comm_destroy(half);
    CHECK(r, count_of(read_trace(r), "comm_destroy") == 1);
}

static void records_match_the_calls(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 4, .seed = job_seed(SEED) },
                records_role);
}

/* ---- windows ---- */

static void windows_role(struct rank *r)
{
    const uint32_t peer = 1 - r->rank;
    const tutti_rma signalled = { .size = sizeof signalled,
                                  .signal_op = TUTTI_SIGNAL_SET,
                                  .signal_offset = 0,
                                  .signal_value = 5 };
    uint64_t seen_value, data[4] = { 1, 2, 3, 4 };
    const struct seen_op *x;
    const struct seen *s;
    tutti_window *window;
    uint32_t at = 0;

    job_open(r);
    CHECK_OK(r, tutti_window_create(r->comm, NULL, 4096, &window));
    CHECK_OK(r, tutti_window_put(window, (int)peer, 64, data, sizeof data, &signalled));
    CHECK_OK(r, tutti_window_wait(window, 0, TUTTI_EQUAL, 5, 0, &seen_value));
    CHECK_OK(r, tutti_window_signal(window, (int)peer, 8, TUTTI_SIGNAL_ADD, 1));
    CHECK_OK(r, tutti_window_get(window, (int)peer, 64, data, 16, NULL));
    CHECK_OK(r, tutti_window_quiet(window, TUTTI_ALL_RANKS, 0));
    CHECK_OK(r, tutti_window_free(window));
    s = read_trace(r);
    x = next_of(s, "window_create", &at);
    CHECK(r, x && x->op.status == TUTTI_OK && strcmp(x->of, "comm") == 0);
    x = next_of(s, "put", &at);
    CHECK(r, x && x->op.peer == (int64_t)peer && x->op.bytes == sizeof data && x->op.seq == 0);
    CHECK(r, x->op.status == TUTTI_OK && strcmp(x->of, "window") == 0 && x->op.type == -1);
    x = next_of(s, "signal", &at);
    CHECK(r, x && x->op.peer == (int64_t)peer && x->op.bytes == 0 && x->op.status == TUTTI_OK);
    x = next_of(s, "get", &at);
    CHECK(r, x && x->op.bytes == 16 && x->op.status == TUTTI_OK);
    x = next_of(s, "quiet", &at);
    CHECK(r, x && x->op.peer == -1 && x->op.status == TUTTI_OK);
    x = next_of(s, "window_free", &at);
    CHECK(r, x && x->op.status == TUTTI_OK);
}

static void one_sided_calls_are_recorded(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 2, .seed = job_seed(SEED) },
                windows_role);
}

/* ---- size, sampling, off ---- */

static void wrap_role(struct rank *r)
{
    const struct seen *s;
    uint64_t last = 0;
    uint32_t at = 0, n = 0, x = 1, sum;

    setenv("TUTTI_TRACE_RECORDS", "64", 1);
    job_open(r);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_OK(r, tutti_allreduce(&x, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    s = read_trace(r);
    CHECK(r, s->n <= 64 && s->n > 16);
    CHECK(r, s->n + s->lost >= 1000);
    for (const struct seen_op *o; (o = next_of(s, "allreduce", &at)); n++) {
        CHECK(r, n == 0 || o->op.seq == last + 1);
        CHECK(r, o->op.status == TUTTI_OK);
        last = o->op.seq;
    }
    CHECK(r, n > 16 && last >= 999);
}

static void a_short_ring_keeps_the_newest(void **state)
{
    (void)state;
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) }, wrap_role);
}

static void sampling_role(struct rank *r)
{
    uint32_t at = 0, n = 0, x = 1, sum;
    const struct seen *s;

    setenv("TUTTI_TRACE", "8", 1);
    job_open(r);
    for (uint32_t i = 0; i < 800; i++)
        CHECK_OK(r, tutti_allreduce(&x, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    s = read_trace(r);
    for (const struct seen_op *o; (o = next_of(s, "allreduce", &at)); n++)
        CHECK(r, o->op.seq % 8 == 0 && o->op.status == TUTTI_OK);
    CHECK(r, n == 100 || n == 101);
}

static void sampling_selects_the_same_operations_on_all_ranks(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 3, .seed = job_seed(SEED) },
                sampling_role);
}

static void off_role(struct rank *r)
{
    const tutti_trace_subscriber s = { .size = sizeof s };
    uint32_t x = 1, sum;
    int id;

    setenv("TUTTI_TRACE", "0", 1);
    job_open(r);
    for (uint32_t i = 0; i < 100; i++)
        CHECK_OK(r, tutti_allreduce(&x, &sum, 1, TUTTI_U32, TUTTI_SUM, r->comm, NULL));
    CHECK_SAYS(r, tutti_trace_read(keep_op, NULL, NULL), TUTTI_ERR_UNSUPPORTED, "TUTTI_TRACE");
    CHECK_SAYS(r, tutti_trace_subscribe(&s, &id), TUTTI_ERR_UNSUPPORTED, "TUTTI_TRACE");
}

static void nothing_is_recorded_when_off(void **state)
{
    (void)state;
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) }, off_role);
}

static void bad_parameter_role(struct rank *r)
{
    setenv("TUTTI_TRACE", "maybe", r->rank == 1);
    CHECK_SAYS(r, tutti_comm_create(&r->comm, NULL), TUTTI_ERR_INVALID, "TUTTI_TRACE is \"maybe\"");
    r->comm = NULL;
}

static void a_bad_parameter_ends_the_start_on_all_ranks(void **state)
{
    (void)state;
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) },
            bad_parameter_role);
}

/* ---- many communicators ---- */

static void many_role(struct rank *r)
{
    const uint32_t n = job_tries_few() ? 300 : 10000;
    uint64_t before = 0;

    job_open(r);
    for (uint32_t i = 0; i < n; i++) {
        tutti_comm *more;

        CHECK_OK(r, tutti_comm_dup(r->comm, &more));
        tutti_comm_destroy(more);
        if (i == n / 2)
            before = job_resident_bytes();
    }
    /* the ring is full by then (8 records of each round), and the table of communicators too */
    CHECK(r, job_resident_bytes() < before + (4u << 20));
    CHECK(r, read_trace(r)->n > 0);
}

static void ten_thousand_communicators_use_bounded_memory(void **state)
{
    (void)state;
    setenv("TUTTI_TRACE_RECORDS", "2048", 1);
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) }, many_role);
    unsetenv("TUTTI_TRACE_RECORDS");
}

/* ---- subscribers ---- */

struct counts {
    _Atomic uint32_t began, ended, failed;
};

static void count_begin(void *arg, const tutti_trace_op *op)
{
    struct counts *h = arg;

    if (strcmp(op->kind, "allreduce") == 0)
        h->began++;
}

static void count_end(void *arg, const tutti_trace_op *op)
{
    struct counts *h = arg;

    if (strcmp(op->kind, "allreduce") == 0)
        h->ended++;
    h->failed += op->status != TUTTI_OK;
}

static void subscriber_role(struct rank *r)
{
    struct counts h = { 0 };
    const tutti_trace_subscriber s = {
        .size = sizeof s, .arg = &h, .began = count_begin, .ended = count_end
    };
    float in[256] = { 0 }, out[256];
    int id;

    job_open(r);
    CHECK_OK(r, tutti_trace_subscribe(&s, &id));
    for (uint32_t i = 0; i < 200; i++)
        CHECK_OK(r, tutti_allreduce(in, out, i % 256, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    CHECK_OK(r, tutti_trace_unsubscribe(id));
    CHECK_OK(r, tutti_allreduce(in, out, 7, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    CHECK(r, h.began == 200 && h.ended == 200 && h.failed == 0);
}

static void subscribers_receive_each_operation(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 2, .seed = job_seed(SEED) },
                subscriber_role);
}

/* ---- dumps ---- */

static char folder[] = "/tmp/tutti-trace-XXXXXX";

/* Finds this rank's dump in the folder. */
static bool find_dump(const struct rank *r, char path[512])
{
    char end[32];
    DIR *dir = opendir(folder);
    bool found = false;

    CHECK(r, dir);
    snprintf(end, sizeof end, ".%u.jsonl", r->rank);
    for (const struct dirent *e; !found && (e = readdir(dir));) {
        const size_t n = strlen(e->d_name), m = strlen(end);

        if (strncmp(e->d_name, "tutti-trace.", 12) != 0 || n < m ||
            strcmp(e->d_name + n - m, end) != 0)
            continue;
        snprintf(path, 512, "%s/%s", folder, e->d_name);
        found = true;
    }
    closedir(dir);
    return found;
}

static void await_dump(const struct rank *r, char path[512])
{
    const uint64_t end_ns = tt_now_ns() + 60 * TT_SECOND;

    while (!find_dump(r, path)) {
        CHECK(r, tt_now_ns() < end_ns);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

/* Returns the last line that contains all of the texts; NULL: none. */
static const char *find_line(const struct rank *r, const char *path, const char *a, const char *b)
{
    static char line[16384], found[16384];
    FILE *f = fopen(path, "r");

    CHECK(r, f);
    *found = 0;
    while (fgets(line, sizeof line, f))
        if (strstr(line, a) && strstr(line, b))
            memcpy(found, line, sizeof found);
    fclose(f);
    return *found ? found : NULL;
}

static void remove_dump(const struct rank *r)
{
    char path[512];

    if (find_dump(r, path))
        unlink(path);
}

/* Rank 1 does not make the call. The others reach their deadline, and their dumps name the
 * operation and rank 1. */
static void hung_role(struct rank *r)
{
    const tutti_call soon = { .size = sizeof soon, .timeout_ms = 300, .algo = "allreduce_onestep" };
    char path[512], waits[64];
    float in[100] = { 0 }, out[100];
    const char *line;

    setenv("TUTTI_TRACE_DIR", folder, 1);
    setenv("TUTTI_TRACE_SIGNAL", "0", 1);
    job_open(r);
    for (uint32_t i = 0; i < 5; i++)
        CHECK_OK(r, tutti_allreduce(in, out, 100, TUTTI_F32, TUTTI_SUM, r->comm, NULL));
    if (r->rank == 1) {         /* rank 1 is notified of the failure, and writes a dump, too */
        await_dump(r, path);
        CHECK(r, !find_line(r, path, "\"status\":\"PENDING\"", "\"op\":"));
        remove_dump(r);
        job_meet(r);
        return;
    }
    CHECK(r, tutti_allreduce(in, out, 100, TUTTI_F32, TUTTI_SUM, r->comm, &soon) != TUTTI_OK);
    await_dump(r, path);
    line = find_line(r, path, "\"tutti_trace\":1", "\"ranks\":3");
    CHECK(r, line && (strstr(line, "\"reason\":\"timeout\"") || strstr(line, "\"peer_lost\"")));
    line = find_line(r, path, "\"kind\":\"allreduce\"", "\"waits\":{");
    snprintf(waits, sizeof waits, "\"waits\":{\"rank\":1,\"for\":\"start\"}");
    CHECK(r, line && strstr(line, waits) && strstr(line, "\"step\":"));
    CHECK(r, strstr(line, "\"peers\":[{\"rank\":") && !strstr(line, "\"status\":\"OK\""));
    CHECK(r, find_line(r, path, "\"peer\":1", "\"wire\":"));
    CHECK(r, find_line(r, path, "{\"end\":", "}"));
    remove_dump(r);
    job_meet(r);
}

static void a_hung_ranks_dump_shows_whom_it_waits_for(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "none", 1);
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 3, .seed = job_seed(SEED) }, hung_role);
    unsetenv("TUTTI_LOG");
}

/* Rank 1 does not make the call, so rank 2 waits for its start. Rank 2 has started: rank 0 has its
 * first block, and waits for the next one. */
static void ring_role(struct rank *r)
{
    const tutti_call soon = { .size = sizeof soon, .timeout_ms = 300, .algo = "allreduce_ring" };
    const char *const waits[] = { "\"waits\":{\"rank\":2,\"for\":\"data\"}", NULL,
                                  "\"waits\":{\"rank\":1,\"for\":\"start\"}" };
    float in[99] = { 0 }, out[99];
    char path[512];

    setenv("TUTTI_TRACE_DIR", folder, 1);
    setenv("TUTTI_TRACE_SIGNAL", "0", 1);
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank != 1)
        CHECK(r, tutti_allreduce(in, out, 99, TUTTI_F32, TUTTI_SUM, r->comm, &soon) != TUTTI_OK);
    await_dump(r, path);
    if (r->rank != 1) {
        const char *line = find_line(r, path, "\"kind\":\"allreduce\"", "\"waits\":{");

        CHECK(r, line && strstr(line, waits[r->rank]));
    }
    remove_dump(r);
    job_meet(r);
}

static void a_dump_shows_which_peer_has_not_started(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "none", 1);
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 3, .seed = job_seed(SEED) }, ring_role);
    unsetenv("TUTTI_LOG");
}

/* A receive in progress, without a failure. */
static void open_role(struct rank *r)
{
    const int other = (int)(1 - r->rank);
    char path[512];
    float in[8];
    tutti_request *request;
    const tutti_call start = { .size = sizeof start, .tag = 3, .request = &request };
    const char *line;

    job_open(r);
    CHECK_OK(r, tutti_recv(in, 8, TUTTI_F32, other, r->comm, &start));
    snprintf(path, sizeof path, "%s/open.%u", folder, r->rank);
    CHECK_OK(r, tutti_trace_dump(path, "in progress"));
    line = find_line(r, path, "\"kind\":\"recv\"", "\"status\":\"PENDING\"");
    CHECK(r, line && strstr(line, "\"ended\":null") && strstr(line, "\"tag\":3"));
    CHECK(r, strstr(line, other ? "\"waits\":{\"rank\":1,\"for\":\"start\"}"
                                : "\"waits\":{\"rank\":0,\"for\":\"start\"}"));
    CHECK(r, find_line(r, path, "\"reason\":\"call\"", "\"message\":\"in progress\""));
    unlink(path);
    job_meet(r);
    CHECK_OK(r, tutti_send(in, 8, TUTTI_F32, other, r->comm,
                           &(tutti_call){ .size = sizeof(tutti_call), .tag = 3 }));
    CHECK_OK(r, tutti_wait(request));
}

static void a_dump_shows_operations_in_progress(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWIRES; w++)
        job_run(&(struct job){ .wires = wires[w], .nranks = 2, .seed = job_seed(SEED) }, open_role);
}

static volatile sig_atomic_t handled;

static void on_usr1(int sig)
{
    (void)sig;
    handled = 1;
}

static void signal_role(struct rank *r)
{
    char path[512];

    setenv("TUTTI_TRACE_DIR", folder, 1);
    if (r->rank == 1) {
        /* the program's own handler stays */
        setenv("TUTTI_TRACE_SIGNAL", "10", 1);
        signal(SIGUSR1, on_usr1);
    }
    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    if (r->rank == 1) {
        raise(SIGUSR1);
        CHECK(r, handled);
        CHECK(r, !find_dump(r, path));
    } else {
        raise(SIGUSR2);
        await_dump(r, path);
        CHECK(r, find_line(r, path, "\"reason\":\"signal\"", "\"tutti_trace\":1"));
        CHECK(r, find_line(r, path, "\"kind\":\"barrier\"", "\"status\":\"OK\""));
        remove_dump(r);
    }
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
}

static void a_signal_writes_a_dump_if_the_program_does_not_handle_it(void **state)
{
    (void)state;
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) }, signal_role);
}

/* ---- forks ---- */

static void fork_role(struct rank *r)
{
    pid_t child;
    int status;

    job_open(r);
    CHECK_OK(r, tutti_barrier(r->comm, NULL));
    child = fork();
    if (child == 0)
        _exit(tutti_trace_read(keep_op, NULL, NULL) == TUTTI_ERR_UNSUPPORTED ? 0 : 1);
    CHECK(r, child > 0 && waitpid(child, &status, 0) == child);
    CHECK(r, WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(r, read_trace(r)->n > 0);
}

static void the_child_of_a_fork_has_no_trace(void **state)
{
    (void)state;
    setenv("TUTTI_LOG", "none", 1);
    job_run(&(struct job){ .wires = "shm", .nranks = 2, .seed = job_seed(SEED) }, fork_role);
    unsetenv("TUTTI_LOG");
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_match_the_calls),
        cmocka_unit_test(one_sided_calls_are_recorded),
        cmocka_unit_test(a_short_ring_keeps_the_newest),
        cmocka_unit_test(sampling_selects_the_same_operations_on_all_ranks),
        cmocka_unit_test(nothing_is_recorded_when_off),
        cmocka_unit_test(a_bad_parameter_ends_the_start_on_all_ranks),
        cmocka_unit_test(ten_thousand_communicators_use_bounded_memory),
        cmocka_unit_test(subscribers_receive_each_operation),
        cmocka_unit_test(a_hung_ranks_dump_shows_whom_it_waits_for),
        cmocka_unit_test(a_dump_shows_which_peer_has_not_started),
        cmocka_unit_test(a_dump_shows_operations_in_progress),
        cmocka_unit_test(a_signal_writes_a_dump_if_the_program_does_not_handle_it),
        cmocka_unit_test(the_child_of_a_fork_has_no_trace),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
