/* Each rank reads the same commands from a separate pipe, so that ranks need not distribute
 * commands, and sleeps in read between them. All ranks detect an invalid command alike, and none
 * runs it. */
#include "tools/perf/perf_interactive.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/failed.h"
#include "tools/perf/perf_check.h"
#include "tools/perf/perf_command.h"
#include "tools/perf/perf_measure.h"
#include "tools/perf/perf_rooms.h"

struct server {
    tutti_comm *comm;
    FILE *control, *reply;      /* reply: rank 0 only */
    struct perf_command last;        /* the command for which the buffers were allocated; coll
                                        NULL: none */
    struct perf_rooms rooms;
    struct perf_start start;
};

/* ---- replies ---- */

static void reply(const struct server *s, struct json_object *o)
{
    if (s->reply) {
        fprintf(s->reply, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_SPACED));
        fflush(s->reply);
    }
    json_object_put(o);
}

static void reply_ready(const struct server *s)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "ready", json_object_new_boolean(1));
    json_object_object_add(o, "name", json_object_new_string("Tutti"));
    json_object_object_add(o, "version", json_object_new_string(tutti_version()));
    json_object_object_add(o, "ranks", json_object_new_int(tutti_comm_size(s->comm)));
    reply(s, o);
}

static void reply_error(const struct server *s, const char *why)
{
    struct json_object *o = json_object_new_object();

    json_object_object_add(o, "error", json_object_new_string(why));
    reply(s, o);
}

static struct json_object *number(double us)
{
    char text[32];

    snprintf(text, sizeof text, "%.3f", us);
    return json_object_new_double_s(us, text);
}

/* The result of the first run of a case, on the worst rank. */
struct first_run {
    uint64_t wrong, ns; /* wrong elements; ns 0: there was no first run */
};

static void reply_result(const struct server *s, const struct perf_command *cmd,
                         const struct perf_case *c, const char *algo, const double *us,
                         const struct first_run *first)
{
    struct json_object *o = json_object_new_object(), *samples = json_object_new_array();
    const long iters = cmd->effort.iters;

    json_object_object_add(o, "coll", json_object_new_string(cmd->coll->name));
    json_object_object_add(o, "algo", json_object_new_string(algo));
    json_object_object_add(o, "bytes", json_object_new_int64((int64_t)perf_case_bytes(c)));
    json_object_object_add(o, "ranks", json_object_new_int((int)c->nranks));
    json_object_object_add(o, "memory",
                           json_object_new_string(cmd->mem_alloc  ? "mem_alloc"
                                                  : cmd->in_place ? "in_place"
                                                                  : "malloc"));
    json_object_object_add(o, "wrong", json_object_new_int64((int64_t)first->wrong));
    json_object_object_add(o, "first_us", first->ns ? number((double)first->ns * 1e-3) : NULL);
    for (long i = 0; i < iters; i++)
        json_object_array_add(samples, number(us[i]));
    json_object_object_add(o, "samples_us", samples);
    json_object_object_add(o, "time_us_loop", cmd->effort.loops > 0 ? number(us[iters]) : NULL);
    reply(s, o);
}

/* ---- running ---- */

/* Runs a case once after a barrier, and checks the result. */
static tutti_status check(const struct server *s, const struct perf_case *c, struct first_run *out)
{
    uint64_t worst[2], began_ns;
    tutti_status st;

    perf_check_fill(c);
    st = tutti_barrier(s->comm, NULL);
    began_ns = tt_now_ns();
    if (!st)
        st = perf_case_run(c, s->comm);
    worst[0] = tt_now_ns() - began_ns;
    worst[1] = perf_check_wrong(c);
    if (!st)
        st = tutti_allreduce(worst, worst, 2, TUTTI_U64, TUTTI_MAX, s->comm, NULL);
    *out = (struct first_run){ .ns = worst[0], .wrong = worst[1] };
    return st;
}

/* Reallocates the buffers unless collective, bytes and memory are those of the last command. */
static tutti_status renew_rooms(struct server *s, const struct perf_command *cmd, size_t bytes)
{
    const struct perf_command *last = &s->last;

    if (last->coll == cmd->coll && last->bytes == cmd->bytes && last->mem_alloc == cmd->mem_alloc &&
        last->in_place == cmd->in_place)
        return TUTTI_OK;
    s->last.coll = NULL;
    perf_rooms_fini(&s->rooms);
    return perf_rooms_init(&s->rooms, s->comm, bytes, 0, cmd->mem_alloc);
}

static tutti_status measure(struct server *s, const struct perf_command *cmd, struct perf_case *c,
                            const char *algo, double *us)
{
    struct first_run first = { .ns = 0 };
    tutti_status st;
    bool fresh;

    st = renew_rooms(s, cmd, perf_case_bytes(c));
    if (st)
        return st;
    fresh = s->last.coll == NULL || strcmp(s->last.algo, cmd->algo) != 0;
    perf_case_place(c, s->rooms.one, s->rooms.other);
    if (fresh)
        st = check(s, c, &first);
    s->last = *cmd;
    if (!st)
        st = perf_sample(c, s->comm, &cmd->effort, us);
    if (!st)
        st = tutti_barrier(s->comm, NULL);
    if (!st)
        reply_result(s, cmd, c, algo, us, &first);
    return st;
}

static void reply_failure(const struct perf_case *c, tutti_status st)
{
    char who[32], what[96];

    snprintf(who, sizeof who, "tutti perf: rank %u", c->rank);
    snprintf(what, sizeof what, "%s of %zu bytes", c->coll->name, perf_case_bytes(c));
    tool_failed(who, what, st);
}

/* A failed call is reported and ends this rank, because the other ranks may be in another call. */
static tutti_status serve(struct server *s, const char *line)
{
    struct perf_command cmd;
    const char *why = perf_command_parse(line, tutti_comm_size(s->comm), &cmd), *algo;
    struct perf_case c = { .coll = cmd.coll,
                           .rank = (uint32_t)tutti_comm_rank(s->comm),
                           .nranks = (uint32_t)tutti_comm_size(s->comm),
                           .dtype = TUTTI_F32,
                           .op = TUTTI_SUM,
                           .algo = *cmd.algo ? cmd.algo : NULL,
                           .work = cmd.work };
    tutti_status st = TUTTI_ERR_NOMEM;
    bool refused = false;
    double *us;

    if (why) {
        reply_error(s, why);
        return TUTTI_OK;
    }
    cmd.effort.start = &s->start;
    /* MPI's broadcast has only this form */
    c.in_place = cmd.in_place || c.coll->kind == TT_BROADCAST;
    us = malloc(((size_t)cmd.effort.iters + 1) * sizeof *us);
    if (!us || !perf_case_init(&c, cmd.bytes)) {
        fprintf(stderr, "tutti perf: out of memory for a command\n");
        goto free;
    }
    algo = perf_case_algo(&c, s->comm, &refused);
    st = TUTTI_OK;
    if (algo)
        st = measure(s, &cmd, &c, algo, us);
    else
        reply_error(s, "unknown algorithm for this call");
    if (st)
        reply_failure(&c, st);
    perf_case_fini(&c);
free:
    free(us);
    return st;
}

/* Opens a pipe of the driver without waiting for its other end. If the driver has exited, reads
 * return end of file and writes fail, whereas a blocking open would hang. */
static FILE *open_pipe(const char *dir, const char *name, int flags)
{
    char path[4096];
    FILE *f = NULL;
    int fd;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fcntl(fd, F_SETFL, 0) == 0)
        f = fdopen(fd, flags == O_RDONLY ? "r" : "w");
    if (!f) {
        fprintf(stderr, "tutti perf: cannot open %s: %s\n", path, strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return f;
}

int perf_interactive(const char *dir, tutti_comm *comm)
{
    const int rank = tutti_comm_rank(comm);
    struct server s = { .comm = comm };
    char line[256], name[32];
    int status = 1;

    snprintf(name, sizeof name, "control.%d", rank);
    s.control = open_pipe(dir, name, O_RDONLY);
    if (!s.control)
        return 1;
    if (perf_start_open(&s.start, dir, (uint32_t)tutti_comm_size(comm)) != 0) {
        fprintf(stderr, "tutti perf: cannot map %s/start: %s\n", dir, strerror(errno));
        goto close_control;
    }
    s.reply = rank == 0 ? open_pipe(dir, "reply", O_WRONLY) : NULL;
    if (rank == 0 && !s.reply)
        goto close;
    reply_ready(&s);
    status = 0;
    while (status == 0 && fgets(line, sizeof line, s.control) && strcmp(line, "quit\n") != 0)
        status = serve(&s, line) == TUTTI_OK ? 0 : 1;
    perf_rooms_fini(&s.rooms);
    if (s.reply)
        fclose(s.reply);
close:
    perf_start_close(&s.start);
close_control:
    fclose(s.control);
    return status;
}
