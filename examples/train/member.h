/* A member of an elastic run that trains by DiLoCo: what it has, how it meets the others, and how deltas become their mean. What differs between
 * exchanging and then going on, and going on meanwhile, is in train_diloco_elastic.c and train_diloco_async.c. Calls are
 * of one thread, but for member_mean. */
#ifndef MEMBER_H
#define MEMBER_H

#include <tutti/elastic.h>
#include "diloco.h"

struct member {
    struct options o;
    struct text t;
    struct worker w;            /* its own */
    struct outer u;             /* with `step` the state that all members have alike */
    uint64_t step;              /* inner steps that were taken */
    uint64_t id;
    tutti_run *run;
    tutti_view view;            /* of nobody: this one has left */
    tutti_array arrays[3];
    tutti_state state;
    int told;                   /* that it leaves */
};

/* The whole program: joins, trains (which begins with member_meet), and says how it ended, with a hash of the outer state. Returns its exit status. */
int member_main(int argc, char **argv, const char *about, tutti_status (*train)(struct member *m));

/* Agrees on who is there, gives newcomers what the others have, and sets local = global. No operation may run. */
tutti_status member_meet(struct member *m);
/* The outer state becomes alike. */
tutti_status member_sync(struct member *m, tutti_sync_strategy strategy);

/* delta[n + 1], the loss behind it, becomes the mean of all members' that are left when it is done: after a loss it is tried again with these. Any
 * thread; until it returns none of the other calls may be made. */
tutti_status member_mean(struct member *m, real *delta);
/* Learns who took part in the mean that came last, and prints "STEP LOSS MEMBER MEMBER ..." if it is for this member to do. */
tutti_status member_tell(struct member *m, uint64_t step, double loss);
/* *meet: members want to leave or newcomers wait. The same on all members, if no mean is under way. Tells the others if this one was asked to leave. */
tutti_status member_poll(struct member *m, int *meet);

#endif
