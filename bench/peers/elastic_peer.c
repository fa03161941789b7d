/* Tutti's elastic operations as a contestant.
 *
 *   elastic_peer DIR RANK RANKS COORDINATOR
 *
 * allreduce   plain: tutti_allreduce on the view's communicator; tentative: tutti_run_collective, which has its verdict with the next; else (elastic)
 *             tutti_run_collective, to its verdict
 * barrier     plain: tutti_barrier; epoch: tutti_run_epoch, with nothing pending; else an elastic barrier; optimize: the same, after
 *             tutti_run_optimize, which is no part of its time
 *
 * Members join one after the other, so that the ring goes through them in the order of their RANK. The token is TUTTI_TOKEN's. The benchmark's
 * own barriers go through memory that the members share, as those of PCCL do. */
#include "meeting.h"
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/elastic.h>

struct peer {
    struct meeting meeting;     /* first: what meets gets this */
    tutti_run *run;
    tutti_elastic ops[2];       /* of tentative ones, in turn */
    unsigned turn;
    int open;                   /* the last of them has no verdict yet */
};

static void check(tutti_status status, const char *call)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "elastic_peer: %s: %s\n", call, tutti_last_error());
    exit(1);
}

static const char *prepare(void *ctx, const struct peer_job *job, int fresh)
{
    const int is_plain = !strcmp(job->algo, "plain"), is_epoch = !strcmp(job->algo, "epoch"),
              is_tentative = !strcmp(job->algo, "tentative"), optimizes = job->coll == PEER_BARRIER && !strcmp(job->algo, "optimize");
    tutti_view view = { .size = sizeof(view) };
    tutti_ring ring = { .size = sizeof(ring) };
    struct peer *p = ctx;
    int verdict = 0;

    (void)fresh;
    if (job->coll != PEER_ALLREDUCE && job->coll != PEER_BARRIER)
        return "this contestant has no such collective";
    if (job->algo[0] && strcmp(job->algo, "elastic") && !is_plain && !is_tentative && !optimizes &&
        !(is_epoch && job->coll == PEER_BARRIER))
        return "this contestant has no algorithm of that name";
    if (p->open)
        check(tutti_run_commit(p->run, 1, 0, &verdict), "tutti_run_commit");
    if (p->open && !verdict)
        return "the last operation of the last job was taken back";
    p->open = 0;
    if (optimizes)      /* ranks may be others then, which all-reduces and barriers do not show */
        check(tutti_run_optimize(p->run, &ring, 0, &view), "tutti_run_optimize");
    return NULL;
}

static void run(void *ctx, const struct peer_job *job)
{
    struct peer *p = ctx;
    const int is_barrier = job->coll == PEER_BARRIER;
    const int is_tentative = !strcmp(job->algo, "tentative");
    tutti_elastic *op = &p->ops[p->turn++ % 2];
    tutti_view view = { .size = sizeof(view) };

    if (!strcmp(job->algo, "epoch")) {
        check(tutti_run_epoch(p->run, TUTTI_ADMIT, 0, 0, 0, &view), "tutti_run_epoch");
    } else if (!strcmp(job->algo, "plain")) {
        check(is_barrier
                  ? tutti_barrier(tutti_run_comm(p->run), NULL)
                  : tutti_allreduce(job->src, job->dst, job->count, TUTTI_F32, TUTTI_SUM, tutti_run_comm(p->run), NULL),
              "plain");
    } else {
        *op = (tutti_elastic){ .size = sizeof(*op),
                               .coll = is_barrier ? TUTTI_BARRIER : TUTTI_ALLREDUCE,
                               .src = is_barrier ? NULL : job->src,
                               .dst = is_barrier ? NULL : job->dst,
                               .count = is_barrier ? 0 : job->count,
                               .type = TUTTI_F32,
                               .op = TUTTI_SUM,
                               .tentative = is_tentative };
        check(tutti_run_collective(p->run, op), "tutti_run_collective");
        p->open = is_tentative;
    }
}

int main(int argc, char **argv)
{
    struct peer p = { 0 };
    const struct peer_ops ops = { .name = "Tutti, elastic",
                                  .version = tutti_version(),
                                  .rank = argc > 2 ? atoi(argv[2]) : 0,
                                  .nranks = argc > 3 ? atoi(argv[3]) : 0,
                                  .prepare = prepare,
                                  .run = run,
                                  .barrier = meeting_barrier,
                                  .max = meeting_max };
    const tutti_run_conf conf = { .size = sizeof(conf), .coordinators = argc > 4 ? argv[4] : NULL, .wires = "tcp" };
    tutti_view view = { .size = sizeof(view) };
    struct peer_ops mine = ops;
    int status;

    if (argc != 5 || ops.nranks < 1 || ops.nranks > MEETING_RANKS_MAX) {
        fprintf(stderr, "usage: elastic_peer DIR RANK RANKS COORDINATOR\n");
        return 2;
    }
    meeting_open(&p.meeting, argv[1], ops.rank, ops.nranks);
    for (int turn = 0; turn < ops.nranks; turn++) {
        if (turn == ops.rank)
            check(tutti_run_join(&p.run, &conf), "tutti_run_join");
        meeting_barrier(&p.meeting);
    }
    check(tutti_run_epoch(p.run, TUTTI_ADMIT, (uint32_t)ops.nranks, 0, 0, &view), "tutti_run_epoch");
    mine.rank = view.rank;      /* the pipes go by place, the values by rank: any order does */
    p.meeting.rank = view.rank;
    status = peer_serve(argv[1], &mine, &p);
    tutti_run_destroy(p.run);
    return status;
}
