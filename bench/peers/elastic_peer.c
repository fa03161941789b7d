/* Tutti's elastic operations as a contestant.
 *
 *   elastic_peer DIR RANK RANKS COORDINATOR [ROLES]
 *
 * allreduce   plain: tutti_allreduce on the view's communicator; twice: two of these in sequence;
 *             plain_row: 16 in sequence; tentative: tutti_run_collective, whose outcome is decided
 *             with the next one; partial: in mode TUTTI_PARTIAL, with contributions of all members;
 *             otherwise (elastic) tutti_run_collective and its outcome; elastic_row: 16 of these in
 *             sequence; N_at_once, N_in_row (peer.h): plain
 * barrier     plain: tutti_barrier; epoch: tutti_run_epoch, without pending changes; otherwise an
 *             elastic barrier; optimize: the same, after tutti_run_optimize, which is not timed
 *
 * With ROLES, members are in replica groups of that size, and allreduce has more algorithms: role
 * and group, elastic in that scope; role_ring and role_ftar, the same with that algorithm;
 * plain_role and plain_group, tutti_allreduce on a communicator of the same members.
 *
 * Members join one after the other, so that the ring is in the order of their RANK. The token is
 * read from TUTTI_TOKEN. The barriers of the benchmark itself use memory that the members share,
 * as for PCCL. */
#include "meeting.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/elastic.h>

enum { ON_ALLREDUCE = 1, ON_BARRIER = 2, ON_GROUPS = 4 };

enum how { ELASTIC, PLAIN, TENTATIVE, PARTIAL, EPOCH, OPTIMIZE };

static const struct algo {
    const char *name;
    enum how how;
    tutti_scope scope;
    int on;
    const char *asked;          /* the library's algorithm; NULL: it selects */
    int more;                   /* number of repetitions after the first */
} algos[] = {
    { "", ELASTIC, TUTTI_SCOPE_ALL, ON_ALLREDUCE | ON_BARRIER, NULL },
    { "elastic", ELASTIC, TUTTI_SCOPE_ALL, ON_ALLREDUCE | ON_BARRIER, NULL },
    { "plain", PLAIN, TUTTI_SCOPE_ALL, ON_ALLREDUCE | ON_BARRIER, NULL },
    { "twice", PLAIN, TUTTI_SCOPE_ALL, ON_ALLREDUCE, NULL, 1 },
    { "elastic_row", ELASTIC, TUTTI_SCOPE_ALL, ON_ALLREDUCE, NULL, 15 },
    { "plain_row", PLAIN, TUTTI_SCOPE_ALL, ON_ALLREDUCE, NULL, 15 },
    { "tentative", TENTATIVE, TUTTI_SCOPE_ALL, ON_ALLREDUCE | ON_BARRIER, NULL },
    { "partial", PARTIAL, TUTTI_SCOPE_ALL, ON_ALLREDUCE, NULL },
    { "epoch", EPOCH, TUTTI_SCOPE_ALL, ON_BARRIER, NULL },
    { "optimize", OPTIMIZE, TUTTI_SCOPE_ALL, ON_BARRIER, NULL },
    { "role", ELASTIC, TUTTI_SCOPE_ROLE, ON_ALLREDUCE | ON_GROUPS, NULL },
    { "role_ring", ELASTIC, TUTTI_SCOPE_ROLE, ON_ALLREDUCE | ON_GROUPS, "ring" },
    { "role_ftar", ELASTIC, TUTTI_SCOPE_ROLE, ON_ALLREDUCE | ON_GROUPS, "ftar" },
    { "group", ELASTIC, TUTTI_SCOPE_GROUP, ON_ALLREDUCE | ON_GROUPS, NULL },
    { "plain_role", PLAIN, TUTTI_SCOPE_ROLE, ON_ALLREDUCE | ON_GROUPS, NULL },
    { "plain_group", PLAIN, TUTTI_SCOPE_GROUP, ON_ALLREDUCE | ON_GROUPS, NULL },
};

struct peer {
    struct meeting meeting;     /* must be first: functions of meeting.h get this pointer */
    tutti_run *run;
    int roles;                  /* 0: no groups */
    tutti_comm *role, *group;   /* for plain operations; NULL: no groups */
    const struct algo *algo;    /* of the current command */
    int parts, at_once;         /* parts 0: the buffer is reduced as a whole */
    tutti_elastic ops[2];       /* tentative operations, used alternately */
    unsigned turn;
    int open;                   /* the last tentative operation has no outcome yet */
};

static void check(tutti_status status, const char *call)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "elastic_peer: %s: %s\n", call, tutti_last_error());
    exit(1);
}

static const struct algo in_parts = { "", PLAIN, TUTTI_SCOPE_ALL, ON_ALLREDUCE, NULL, 0 };

static const struct algo *algo_of(struct peer *p, const struct peer_job *job)
{
    const int on = job->coll == PEER_ALLREDUCE ? ON_ALLREDUCE
                   : job->coll == PEER_BARRIER ? ON_BARRIER
                                               : 0;

    p->parts = peer_parts(job->algo, &p->at_once);
    if (p->parts)
        return on == ON_ALLREDUCE ? &in_parts : NULL;
    for (size_t i = 0; i < sizeof(algos) / sizeof(*algos); i++)
        if (!strcmp(job->algo, algos[i].name))
            return algos[i].on & on ? &algos[i] : NULL;
    return NULL;
}

static const char *prepare(void *ctx, const struct peer_job *job, int fresh)
{
    tutti_view view = { .size = sizeof(view) };
    tutti_ring ring = { .size = sizeof(ring) };
    struct peer *p = ctx;
    int outcome = 0;

    (void)fresh;
    p->algo = algo_of(p, job);
    if (!p->algo)
        return "this contestant has no such collective, or no algorithm of that name for it";
    if (p->algo->on & ON_GROUPS && !p->roles)
        return "there are no replica groups here";
    if (p->open)
        check(tutti_run_commit(p->run, 1, 0, &outcome), "tutti_run_commit");
    if (p->open && !outcome)
        return "the last operation of the last job was taken back";
    p->open = 0;
    if (p->algo->how == OPTIMIZE)       /* ranks may change, but results of all-reduces and
                                           barriers do not depend on them */
        check(tutti_run_optimize(p->run, &ring, 0, &view), "tutti_run_optimize");
    return NULL;
}

static tutti_comm *comm_of(const struct peer *p)
{
    return p->algo->scope == TUTTI_SCOPE_ROLE    ? p->role
           : p->algo->scope == TUTTI_SCOPE_GROUP ? p->group
                                                 : tutti_run_comm(p->run);
}

static void run_once(struct peer *p, const struct peer_job *job)
{
    const struct algo *algo = p->algo;
    const int is_barrier = job->coll == PEER_BARRIER;
    tutti_elastic *op = &p->ops[p->turn++ % 2];
    tutti_view view = { .size = sizeof(view) };

    if (algo->how == EPOCH) {
        check(tutti_run_epoch(p->run, TUTTI_ADMIT, 0, 0, 0, &view), "tutti_run_epoch");
    } else if (algo->how == PLAIN) {
        check(is_barrier ? tutti_barrier(comm_of(p), NULL)
                         : tutti_allreduce(job->src, job->dst, job->count, TUTTI_F32, TUTTI_SUM,
                                           comm_of(p), NULL),
              "plain");
    } else {
        *op = (tutti_elastic){ .size = sizeof(*op),
                               .coll = is_barrier ? TUTTI_BARRIER : TUTTI_ALLREDUCE,
                               .src = is_barrier ? NULL : job->src,
                               .dst = is_barrier ? NULL : job->dst,
                               .count = is_barrier ? 0 : job->count,
                               .type = TUTTI_F32,
                               .op = TUTTI_SUM,
                               .scope = algo->scope,
                               .algo = algo->asked,
                               .mode = algo->how == PARTIAL ? TUTTI_PARTIAL : TUTTI_ABORT,
                               .tentative = algo->how == TENTATIVE };
        check(tutti_run_collective(p->run, op), "tutti_run_collective");
        p->open = algo->how == TENTATIVE;
    }
}

static void run_parts(struct peer *p, const struct peer_job *job)
{
    tutti_request *requests[PEER_PARTS_MAX];
    size_t at;

    for (int i = 0; i < p->parts; i++) {
        const tutti_call call = { .size = sizeof(call), .request = &requests[i] };
        const size_t count = peer_part(job, i, p->parts, &at);

        check(tutti_allreduce(job->src + at, job->dst + at, count, TUTTI_F32, TUTTI_SUM,
                              comm_of(p), p->at_once ? &call : NULL),
              "tutti_allreduce");
    }
    if (p->at_once)
        check(tutti_wait_all(requests, (size_t)p->parts), "tutti_wait_all");
}

static void run(void *ctx, const struct peer_job *job)
{
    struct peer *p = ctx;

    if (p->parts) {
        run_parts(p, job);
        return;
    }
    for (int i = 0; i <= p->algo->more; i++)
        run_once(p, job);
}

static void addends(void *ctx, const struct peer_job *job, int *n, int *sum)
{
    const struct peer *p = ctx;
    const int rank = p->meeting.rank, step = p->algo->scope == TUTTI_SCOPE_ROLE ? p->roles : 1;
    const int first = p->algo->scope == TUTTI_SCOPE_ROLE    ? rank % p->roles
                      : p->algo->scope == TUTTI_SCOPE_GROUP ? rank - rank % p->roles
                                                            : 0;

    (void)job;
    *n = tutti_comm_size(comm_of(p));
    *sum = *n * first + step * (*n * (*n - 1) / 2);
}

/* Creates the communicators of plain operations. The ranks of a view are in the order of groups and
 * roles. */
static void open_comms(struct peer *p, const tutti_view *view)
{
    if (!p->roles)
        return;
    check(tutti_comm_split(tutti_run_comm(p->run), view->rank % p->roles, 0, &p->role),
          "tutti_comm_split");
    check(tutti_comm_split(tutti_run_comm(p->run), view->rank / p->roles, 0, &p->group),
          "tutti_comm_split");
}

int main(int argc, char **argv)
{
    struct peer p = { .roles = argc > 5 ? atoi(argv[5]) : 0 };
    const struct peer_ops ops = { .name = "Tutti, elastic",
                                  .version = tutti_version(),
                                  .rank = argc > 2 ? atoi(argv[2]) : 0,
                                  .nranks = argc > 3 ? atoi(argv[3]) : 0,
                                  .prepare = prepare,
                                  .run = run,
                                  .barrier = meeting_barrier,
                                  .max = meeting_max,
                                  .addends = addends };
    const unsigned roles = p.roles > 1 ? (unsigned)p.roles : 1;
    const tutti_run_conf conf = { .size = sizeof(conf),
                                  .coordinators = argc > 4 ? argv[4] : NULL,
                                  .wires = "tcp",
                                  .group = (unsigned)ops.rank / roles,
                                  .role = (unsigned)ops.rank % roles,
                                  .nroles = roles };
    tutti_view view = { .size = sizeof(view) };
    struct peer_ops mine = ops;
    int status;

    if (argc < 5 || argc > 6 || ops.nranks < 1 || ops.nranks > MEETING_RANKS_MAX ||
        (argc == 6 && (p.roles < 2 || ops.nranks % p.roles != 0))) {
        fprintf(stderr, "usage: elastic_peer DIR RANK RANKS COORDINATOR [ROLES]\n");
        return 2;
    }
    meeting_open(&p.meeting, argv[1], ops.rank, ops.nranks);
    for (int turn = 0; turn < ops.nranks; turn++) {
        if (turn == ops.rank)
            check(tutti_run_join(&p.run, &conf), "tutti_run_join");
        meeting_barrier(&p.meeting);
    }
    check(tutti_run_epoch(p.run, TUTTI_ADMIT, (uint32_t)ops.nranks, 0, 0, &view),
          "tutti_run_epoch");
    mine.rank = view.rank;      /* may differ from the index of the pipes: values are indexed by
                                   rank */
    p.meeting.rank = view.rank;
    open_comms(&p, &view);
    status = peer_serve(argv[1], &mine, &p);
    tutti_comm_destroy(p.role);
    tutti_comm_destroy(p.group);
    tutti_run_destroy(p.run);
    return status;
}
