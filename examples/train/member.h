/* A member of an elastic run that trains by DiLoCo: its state, the agreement on views, and the mean
 * of deltas. train_diloco_elastic.c and train_diloco_async.c differ in whether members wait for an
 * exchange. All calls except member_mean must come from one thread. */
#ifndef MEMBER_H
#define MEMBER_H

#include <tutti/elastic.h>
#include "diloco.h"

struct member {
    struct options o;
    struct text t;
    struct worker w;            /* local state */
    struct outer u;             /* outer state; with `step`, the state shared by all members */
    uint64_t step;              /* number of inner steps taken */
    uint64_t id;
    tutti_run *run;
    tutti_view view;            /* if it has no members, this member has left */
    tutti_array arrays[3];
    tutti_state state;
    int told;                   /* its notice to leave was sent */
};

/* The whole program: joins, trains with `train` (which begins with member_agree), and prints how it
 * ended, with a hash of the outer state. Returns the exit status. */
int member_main(int argc, char **argv, const char *about, tutti_status (*train)(struct member *m));

/* Agrees on a view, sends the state to newcomers, and sets local = global. No operation may be in
 * flight. */
tutti_status member_agree(struct member *m);
/* Makes the outer state equal on all members. */
tutti_status member_sync(struct member *m, tutti_sync_strategy strategy);

/* delta[n + 1], whose last element is the loss, becomes the mean over the members that remain at
 * the end: after a loss, it is retried with these. Any thread; no other call may be made until it
 * returns. */
tutti_status member_mean(struct member *m, real *delta);
/* Gets the contributors of the last mean. Prints "STEP LOSS MEMBER MEMBER ..." if this member is
 * responsible for it. */
tutti_status member_report(struct member *m, uint64_t step, double loss);
/* *meet: a member is leaving, or newcomers are waiting. Equal on all members if no mean is in
 * flight. Notifies the other members if this one was requested to leave. */
tutti_status member_poll(struct member *m, int *meet);

#endif
