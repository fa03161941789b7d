/* Trace dumps of a simulated job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/job_state.h"
#include "base/status.h"

#define CHUNK 4096u
#define PEERS 24u

static const char *const group_names[GROUPS] = { "world",   "tensor", "gather",
                                                 "scatter", "expert", "pipeline" };
static const char *const kind_names[] = { "allreduce", "allgather", "reduce_scatter",
                                          "alltoallv", "broadcast", "send",
                                          "recv" };

struct dump {
    const struct job *j;
    const struct job_rank *r;
    uint32_t rank, lines;
    FILE *to;
};

/* A transfer between a member of an instance and a peer. */
struct flow {
    uint32_t peer;
    uint64_t sent, received;
};

/* The dump has the last records: a little more than one iteration. */
static uint32_t records_kept(const struct job *j) { return j->nranks > 1024 ? 24 : 64; }

/* ---- values ---- */

static void put_time(const struct dump *d, const char *key, int64_t t)
{
    if (t == JOB_OPEN)
        fprintf(d->to, ",\"%s\":null", key);
    else
        fprintf(d->to, ",\"%s\":%" PRId64, key, t - d->r->offset);
}

static bool is_moving(const struct job *j)
{
    return j->conf.fault == JOB_SLOW_LINK || j->conf.fault == JOB_SLOW_RANK ||
           j->conf.fault == JOB_DEADLINE;
}

static bool stays_open(const struct dump *d, const struct job_record *rec)
{
    return rec->ended == JOB_OPEN || rec->ended > d->r->dumped_at;
}

static struct job_instance *instance_at(const struct dump *d, const struct job_record *rec)
{
    return &d->j->comms[rec->comm].instances[rec->seq];
}

/* Returns the distance to the nearest member on the left that has not called; 0: all have. */
static uint32_t distance_to_missing(const struct job_comm *c, const struct job_instance *o,
                                    uint32_t index)
{
    for (uint32_t k = 1; k < c->n && o->ncalled < c->n; k++)
        if (o->number[(index + c->n - k) % c->n] == JOB_NONE)
            return k;
    return 0;
}

static uint32_t steps_of(const struct dump *d, const struct job_comm *c,
                         const struct job_instance *o, uint32_t index)
{
    const uint32_t missing = distance_to_missing(c, o, index);

    if (missing > 0)
        return missing - 1;
    return o->at_fault ? job_steps_done(d->j, c, o, index) : 0;
}

static void put_waits(const struct dump *d, uint32_t rank, const char *what)
{
    fprintf(d->to, ",\"waits\":{\"rank\":%u,\"for\":\"%s\"}", rank, what);
}

static void put_flow(const struct dump *d, const struct flow *f, bool is_first, int64_t from,
                     int64_t to)
{
    fprintf(d->to, "%s{\"rank\":%u,\"sent\":%" PRIu64 ",\"received\":%" PRIu64, is_first ? "" : ",",
            f->peer, f->sent, f->received);
    put_time(d, "first_out", f->sent ? from : JOB_OPEN);
    put_time(d, "last_out", f->sent ? to : JOB_OPEN);
    put_time(d, "first_in", f->received ? from : JOB_OPEN);
    put_time(d, "last_in", f->received ? to : JOB_OPEN);
    fputc('}', d->to);
}

/* ---- rings ---- */

static bool is_completion_wait(const struct dump *d, const struct job_instance *o,
                               uint32_t distance, uint32_t n, uint32_t done, uint32_t steps)
{
    const enum job_fault f = d->j->conf.fault;

    if (!o->at_fault || o->ncalled < n)
        return false;
    if (f == JOB_SLOW_LINK)
        return distance == 0;
    return (f == JOB_LINK && distance == 0 && done + 1 == steps) ||
           (f == JOB_NIC && distance + 1 == n && done + 1 == steps);
}

/* Bytes that a member has sent to its right neighbour. */
static uint64_t sent_right(const struct dump *d, const struct job_comm *c,
                           const struct job_instance *o, uint32_t index)
{
    const uint32_t right = (index + 1) % c->n, done = steps_of(d, c, o, index);
    const uint32_t distance = (index + c->n - o->stalled_at) % c->n;

    if (o->number[right] == JOB_NONE)
        return 0;
    if (o->at_fault && o->ncalled == c->n && is_moving(d->j))
        return (uint64_t)CHUNK * (steps_of(d, c, o, right) +
                                  (d->j->conf.fault == JOB_SLOW_LINK && distance == 0 ? 2 : 0)) +
               512;
    if (o->at_fault && o->ncalled == c->n && d->j->conf.fault != JOB_LINK &&
        d->j->conf.fault != JOB_NIC)
        return (uint64_t)CHUNK * steps_of(d, c, o, right);
    return (uint64_t)CHUNK * (done + 1);
}

static void put_ring(const struct dump *d, const struct job_record *rec, struct job_comm *c,
                     struct job_instance *o)
{
    const uint32_t index = job_index(c, d->rank), left = (index + c->n - 1) % c->n,
                   right = (index + 1) % c->n;
    const uint32_t steps = job_steps(d->j, c, o), done = steps_of(d, c, o, index);
    const uint32_t distance = (index + c->n - o->stalled_at) % c->n;
    const bool at_fault = o->at_fault && o->ncalled == c->n;
    const int64_t moved =
        at_fault && is_moving(d->j) ? d->j->fault.failed_at - 2000000 : rec->called + 2000 + done;
    struct flow in = { .peer = job_member(c, left),
                       .received = at_fault && is_moving(d->j) ? (uint64_t)CHUNK * done + 512
                                                               : (uint64_t)CHUNK * done };
    struct flow out = { .peer = job_member(c, right), .sent = sent_right(d, c, o, index) };

    fprintf(d->to, ",\"step\":%u,\"steps\":%u", done, steps);
    if (is_completion_wait(d, o, distance, c->n, done, steps))
        put_waits(d, job_member(c, right), "completion");
    else if (at_fault && distance == 0 && d->j->conf.fault == JOB_SLOW_RANK)
        fputs(",\"waits\":null", d->to);
    else
        put_waits(d, job_member(c, left), o->number[left] == JOB_NONE ? "start" : "data");
    fputs(",\"peers\":[", d->to);
    if (left == right) {
        in.sent = out.sent;
        put_flow(d, &in, true, rec->called + 1500, moved);
    } else {
        put_flow(d, &in, true, rec->called + 1500, moved);
        put_flow(d, &out, false, rec->called + 1500, moved);
    }
    fputc(']', d->to);
}

/* ---- other transfers ---- */

static void put_direct(const struct dump *d, const struct job_record *rec, struct job_comm *c,
                       struct job_instance *o)
{
    const uint32_t index = job_index(c, d->rank), missing = distance_to_missing(c, o, index);
    bool is_first = true;

    fprintf(d->to, ",\"step\":%u,\"steps\":%u", missing ? missing - 1 : 0, c->n - 1);
    if (missing)
        put_waits(d, job_member(c, (index + c->n - missing) % c->n), "start");
    fputs(",\"peers\":[", d->to);
    for (uint32_t i = 0; i < c->n; i++) {
        const bool called = o->number[i] != JOB_NONE;

        if (i == index)
            continue;
        put_flow(d,
                 &(struct flow){ .peer = job_member(c, i),
                                 .sent = called ? 512 : 0,
                                 .received = called ? 512 : 0 },
                 is_first, rec->called + 1000, rec->called + 3000);
        is_first = false;
    }
    fputc(']', d->to);
}

static void put_tree(const struct dump *d, struct job_comm *c, struct job_instance *o)
{
    const uint32_t index = job_index(c, d->rank), parent = index & (index - 1);

    fputs(",\"step\":0,\"steps\":1", d->to);
    if (index > 0)
        put_waits(d, job_member(c, parent), o->number[parent] == JOB_NONE ? "start" : "data");
}

static void put_p2p(const struct dump *d, const struct job_record *rec)
{
    put_waits(d, rec->peer, rec->kind == KIND_SEND ? "cts" : "match");
}

static void put_progress(const struct dump *d, const struct job_record *rec)
{
    struct job_comm *c = &d->j->comms[rec->comm];

    if (rec->kind == KIND_SEND || rec->kind == KIND_RECV)
        put_p2p(d, rec);
    else if (instance_at(d, rec)->differs)
        fputs(",\"waits\":null", d->to);
    else if (rec->kind == KIND_ALLTOALLV)
        put_direct(d, rec, c, instance_at(d, rec));
    else if (rec->kind == KIND_BROADCAST)
        put_tree(d, c, instance_at(d, rec));
    else
        put_ring(d, rec, c, instance_at(d, rec));
}

/* ---- operations ---- */

static const char *status_of(const struct dump *d, const struct job_record *rec)
{
    const struct job *j = d->j;

    if (j->conf.by_command)
        return "PENDING";
    if (j->conf.fault == JOB_MISMATCH && j->fault.by_status && rec->kind < KIND_SEND &&
        instance_at(d, rec)->differs)
        return "MISMATCH";
    if (d->rank == j->fault.failed_rank && d->r->blocked && rec->number == d->r->blocked_on)
        return j->conf.fault == JOB_DIED ? "PEER_LOST" : "TIMEOUT";
    return "ABORTED";
}

static int64_t failed_at(const struct dump *d)
{
    if (d->j->conf.by_command)
        return JOB_OPEN;
    if (d->rank == d->j->fault.failed_rank)
        return d->j->fault.failed_at;
    if (d->rank == d->j->fault.rank && d->j->conf.fault == JOB_STOPPED)
        return d->r->dumped_at;
    return d->j->fault.failed_at + 1000 + d->rank % 7 * 1000 < d->r->dumped_at
               ? d->j->fault.failed_at + 1000 + d->rank % 7 * 1000
               : d->r->dumped_at;
}

static void put_op_head(const struct dump *d, const struct job_record *rec)
{
    fprintf(d->to,
            "{\"op\":%u,\"comm\":\"%x\",\"seq\":%" PRIu64
            ",\"kind\":\"%s\",\"algo\":null,\"count\":%" PRIu64
            ",\"type\":\"%s\",\"redop\":%s,\"root\":%s",
            rec->number, 0x1f0000 + rec->comm, rec->seq, kind_names[rec->kind],
            rec->kind == KIND_ALLTOALLV ? rec->count + d->rank : rec->count, rec->type,
            rec->kind == KIND_ALLREDUCE || rec->kind == KIND_REDUCE_SCATTER ? "\"sum\"" : "null",
            rec->kind == KIND_BROADCAST ? "0" : "null");
    if (rec->kind == KIND_SEND || rec->kind == KIND_RECV)
        fprintf(d->to, ",\"peer\":%u,\"tag\":%u", rec->peer, rec->tag);
    fprintf(d->to, ",\"bytes\":%" PRIu64, 4 * rec->count);
}

static void put_op(struct dump *d, const struct job_record *rec)
{
    const bool is_open = stays_open(d, rec);

    put_op_head(d, rec);
    put_time(d, "called", rec->called);
    if (rec->waited > d->r->dumped_at)
        put_time(d, "waited", JOB_OPEN);
    else if (rec->waited != rec->called)
        put_time(d, "waited", rec->waited);
    put_time(d, "started", rec->called + 1000);
    put_time(d, "ended", is_open ? failed_at(d) : rec->ended);
    fprintf(d->to, ",\"status\":\"%s\",\"note\":%u", is_open ? status_of(d, rec) : "OK", rec->note);
    if (is_open)
        put_progress(d, rec);
    fputs("}\n", d->to);
    d->lines++;
}

/* A late rank makes its call after the calls of the others have failed. */
static void put_late_call(struct dump *d)
{
    const struct job_step *s = job_step_at(d->j, d->rank, d->r->pc);
    const uint32_t comm = job_group_of(d->j, d->rank, s->group);
    const struct job_comm *c = &d->j->comms[comm];
    const int64_t at = d->j->fault.failed_at + 500000000;
    const struct job_record rec = { .kind = s->kind,
                                    .comm = comm,
                                    .count = s->count,
                                    .type = "f32",
                                    .number = d->r->nrecords,
                                    .tag = s->tag,
                                    .seq = c->ncalled[job_index(c, d->rank)] };

    put_op_head(d, &rec);
    put_time(d, "called", at);
    put_time(d, "started", at);
    put_time(d, "ended", at + 1000);
    fputs(",\"status\":\"ABORTED\"}\n", d->to);
    d->lines++;
}

static void put_ops(struct dump *d)
{
    const struct job *j = d->j;
    uint32_t from = d->r->nrecords > records_kept(j) ? d->r->nrecords - records_kept(j) : 0;

    for (uint32_t i = from; i < d->r->nrecords; i++)
        if (d->r->records[i].called <= d->r->dumped_at)
            put_op(d, &d->r->records[i]);
    if (d->rank == j->fault.rank && d->r->late && !j->conf.by_command &&
        (j->conf.fault == JOB_NEVER_CALLED || j->conf.fault == JOB_OUTSIDE) &&
        job_step_at(j, d->rank, d->r->pc)->kind < KIND_SEND)
        put_late_call(d);
}

/* ---- peers and lanes ---- */

struct neighbours {
    uint32_t rank[PEERS], n;
};

static void add_neighbour(struct neighbours *p, uint32_t self, uint32_t rank)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->rank[i] == rank)
            return;
    if (rank != self && p->n < PEERS)
        p->rank[p->n++] = rank;
}

static void find_neighbours(const struct dump *d, struct neighbours *p)
{
    p->n = 0;
    for (int g = GROUPS - 1; g >= 0; g--) {
        const struct job_comm *c = &d->j->comms[job_group_of(d->j, d->rank, (enum job_group)g)];
        const uint32_t index = job_index(c, d->rank);

        add_neighbour(p, d->rank, job_member(c, (index + 1) % c->n));
        add_neighbour(p, d->rank, job_member(c, (index + c->n - 1) % c->n));
        for (uint32_t i = 0; i < c->n && c->n <= 8; i++)
            add_neighbour(p, d->rank, job_member(c, i));
    }
}

static const char *state_of(const struct dump *d, uint32_t peer)
{
    const struct job *j = d->j;

    if (peer == j->fault.rank && j->conf.fault == JOB_DIED)
        return "lost";
    if (peer == j->fault.rank && j->conf.fault == JOB_STOPPED)
        return "silent";
    if (j->conf.fault == JOB_NIC && j->fault.silent &&
        (peer == j->fault.rank || d->rank == j->fault.rank))
        return "silent";
    return "alive";
}

static void put_peer(struct dump *d, uint32_t peer)
{
    const char *state = state_of(d, peer);
    const bool is_alive = strcmp(state, "alive") == 0;

    fprintf(d->to, "{\"peer\":%u,\"wire\":\"tcp\",\"state\":\"%s\"", peer, state);
    put_time(d, "last_heard", is_alive ? d->r->dumped_at - 1000000 : d->j->fault.at);
    put_time(d, "last_progress", d->j->fault.at);
    fputs("}\n", d->to);
    d->lines++;
}

/* Returns whether posts from this rank to the peer have no completion. */
static bool is_pending(const struct dump *d, uint32_t peer)
{
    const struct job *j = d->j;
    const struct job_step *s = job_step_at(j, j->fault.rank, j->fault.pc);
    const struct job_comm *c =
        &j->comms[s->kind == KIND_WAIT ? 0 : job_group_of(j, j->fault.rank, s->group)];
    const uint32_t index = job_index(c, j->fault.rank);
    const uint32_t left = job_member(c, (index + c->n - 1) % c->n),
                   right = job_member(c, (index + 1) % c->n);

    if (j->conf.fault == JOB_LINK || j->conf.fault == JOB_SLOW_LINK)
        return d->rank == j->fault.rank && peer == right;
    if (j->conf.fault == JOB_NIC)
        return (d->rank == j->fault.rank && (peer == right || peer == left)) ||
               (d->rank == left && peer == j->fault.rank);
    return j->conf.fault == JOB_DEADLINE && d->rank % 3 == 0 && peer == (d->rank + 1) % j->nranks;
}

static void put_lane(struct dump *d, uint32_t lane, uint32_t peer)
{
    const uint32_t pending = is_pending(d, peer) ? 2 : 0;

    fprintf(d->to,
            "{\"lane\":%u,\"peer\":%u,\"wire\":\"tcp\",\"state\":\"up\",\"posts\":%u,"
            "\"completions\":%u,\"posted_bytes\":%u,\"completed_bytes\":%u",
            lane, peer, 100 + pending, 100, CHUNK * (100 + pending), CHUNK * 100);
    put_time(d, "last_post", d->j->fault.at + 50000);
    put_time(d, "last_completion", pending ? d->j->fault.at : d->j->fault.at + 50000);
    fputs("}\n", d->to);
    d->lines++;
}

/* ---- all ---- */

/* In one of four jobs, the clock of every fifth host has jumped, so that its offset is unknown. */
static bool has_jumped(const struct dump *d)
{
    return d->j->conf.seed % 4 == 0 && (d->rank / 8 + d->j->conf.seed / 4) % 5 == 0;
}

static void put_head(struct dump *d)
{
    const struct job *j = d->j;
    const char *reason = j->conf.by_command ? "command"
                         : d->rank == j->fault.failed_rank
                             ? (j->conf.fault == JOB_DIED ? "peer_lost" : "timeout")
                             : "aborted";

    fprintf(d->to,
            "{\"tutti_trace\":1,\"version\":\"0.2.0\",\"job\":\"9f3c%" PRIx64
            "\",\"rank\":%u,\"ranks\":%u,\"host\":\"node-%u\",\"pid\":%u,\"reason\":\"%s\","
            "\"message\":\"\"",
            j->conf.seed, d->rank, j->nranks, d->rank / 8, 1000 + d->rank, reason);
    put_time(d, "now", d->r->dumped_at);
    fputs(",\"wall_ns\":0,\"clock\":", d->to);
    if (has_jumped(d))
        fputs("{\"offset_ns\":null,\"error_ns\":null}", d->to);
    else
        fprintf(d->to, "{\"offset_ns\":%" PRId64 ",\"error_ns\":300}", d->r->offset);
    fprintf(d->to, ",\"records\":%u,\"lost\":%u}\n", records_kept(j),
            d->r->nrecords > records_kept(j) ? d->r->nrecords - records_kept(j) : 0);
    d->lines++;
}

static void put_comms(struct dump *d)
{
    for (int g = 0; g < GROUPS; g++) {
        const uint32_t id = job_group_of(d->j, d->rank, (enum job_group)g);
        const struct job_comm *c = &d->j->comms[id];
        const uint32_t last = c->first + (c->n - 1) * c->stride;

        fprintf(d->to,
                "{\"comm\":\"%x\",\"name\":\"%s\",\"of\":\"comm\",\"rank\":%u,\"members\":\"",
                0x1f0000 + id, group_names[g], job_index(c, d->rank));
        if (c->n == 1)
            fprintf(d->to, "%u\"}\n", c->first);
        else if (c->stride == 1)
            fprintf(d->to, "%u-%u\"}\n", c->first, last);
        else
            fprintf(d->to, "%u-%u:%u\"}\n", c->first, last, c->stride);
        d->lines++;
    }
}

static void put_notes(struct dump *d)
{
    const bool outside = d->j->conf.fault == JOB_OUTSIDE && d->rank == d->j->fault.rank;

    for (uint32_t i = 1; i <= d->r->note; i++) {
        fprintf(d->to, "{\"note\":%u", i);
        put_time(d, "at", i == d->r->note ? d->r->note_at : d->r->note_at - 1000);
        fprintf(d->to, ",\"text\":\"iteration %u\"}\n", i);
        d->lines++;
    }
    if (!outside)
        return;
    fprintf(d->to, "{\"note\":%u", d->r->note + 1);
    put_time(d, "at", d->j->fault.at);
    fputs(",\"text\":\"reads shard 17 of the data set\"}\n", d->to);
    d->lines++;
}

char *job_dump(const struct job *j, uint32_t rank, size_t *bytes)
{
    struct dump d = { .j = j, .r = &j->ranks[rank], .rank = rank };
    struct neighbours p;
    char *text = NULL;

    if (d.r->lost)
        return NULL;
    d.to = open_memstream(&text, bytes);
    tt_assert(d.to);
    put_head(&d);
    put_comms(&d);
    put_ops(&d);
    put_notes(&d);
    find_neighbours(&d, &p);
    for (uint32_t i = 0; i < p.n; i++)
        put_peer(&d, p.rank[i]);
    for (uint32_t i = 0; i < p.n; i++)
        put_lane(&d, i, p.rank[i]);
    fprintf(d.to, "{\"end\":%u}\n", d.lines + 1);
    fclose(d.to);
    if (d.r->cut)           /* in the middle of a line behind the head */
        *bytes = 400 + (rank * 7919u + (size_t)j->conf.seed) % (*bytes - 400);
    return text;
}
