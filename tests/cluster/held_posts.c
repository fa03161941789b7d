#include "held_posts.h"

#if TUTTI_HAVE_VERBS

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/status.h"
#include "held_lanes.h"
#include "wire/verbs/verbs_frame.h"

#define HELD_QUEUES 256
/* maximum number of rounds during which a queue pair receives nothing */
#define HELD_ROUNDS 64
#define ROUND_NS 100000
#define INLINE_BYTES TT_VERBS_SLOT_BYTES        /* maximum inline data of a request */

/* A request, with a copy of memory that the caller owns only during the post. */
struct held {
    struct held *next;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint8_t data[INLINE_BYTES];
};

/* Delayed requests of a queue pair. Protected by the lock, which is held during posts, so that the
 * requests of a queue pair keep their order. */
struct queue {
    struct ibv_qp *qp;          /* NULL: unused */
    uint32_t rounds;            /* remaining rounds of the delay */
    struct held *first, **last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue queues[HELD_QUEUES];
static bool holds_up;
static int (*true_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);

/* Returns the queue of a queue pair; for NULL, an unused one. */
static struct queue *queue_of(const struct ibv_qp *qp)
{
    for (uint32_t i = 0; i < HELD_QUEUES; i++)
        if (queues[i].qp == qp)
            return &queues[i];
    tt_assert(qp);              /* tests have fewer queue pairs */
    return NULL;
}

static void hold(struct queue *q, const struct ibv_send_wr *wr)
{
    struct held *h = malloc(sizeof *h);

    tt_assert(h && wr->num_sge <= 1);
    h->next = NULL;
    h->wr = *wr;
    h->wr.next = NULL;
    h->wr.sg_list = &h->sge;
    if (wr->num_sge == 1)
        h->sge = wr->sg_list[0];
    if (wr->num_sge == 1 && wr->send_flags & IBV_SEND_INLINE) {
        tt_assert(h->sge.length <= sizeof h->data);
        memcpy(h->data, (const void *)(uintptr_t)h->sge.addr, h->sge.length);
        h->sge.addr = (uintptr_t)h->data;
    }
    *q->last = h;
    q->last = &h->next;
}

/* Posts the delayed requests to the queue pair, or discards them. */
static void let_go(struct queue *q, bool post)
{
    while (q->first) {
        struct held *h = q->first;
        struct ibv_send_wr *bad;

        q->first = h->next;
        /* there is space: the transport counts requests */
        tt_assert(!post || true_post(q->qp, &h->wr, &bad) == 0);
        free(h);
    }
    q->qp = NULL;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct queue *q;
    uint32_t rounds;
    int err = 0;

    pthread_mutex_lock(&lock);
    q = queue_of(qp);
    rounds = !q && holds_up && held_lanes_draw(8) == 0 ? (uint32_t)held_lanes_draw(HELD_ROUNDS) : 0;
    if (rounds > 0) {
        q = queue_of(NULL);
        *q = (struct queue){ .qp = qp, .rounds = rounds, .last = &q->first };
    }
    if (!q)
        err = true_post(qp, wr, bad);
    for (; q && wr; wr = wr->next)
        hold(q, wr);
    pthread_mutex_unlock(&lock);
    return err;
}

static void *pass_rounds(void *arg)
{
    for (;;) {
        nanosleep(&(struct timespec){ .tv_nsec = ROUND_NS }, NULL);
        pthread_mutex_lock(&lock);
        for (uint32_t i = 0; i < HELD_QUEUES; i++)
            if (queues[i].qp && --queues[i].rounds == 0)
                let_go(&queues[i], true);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

void held_posts_begin(void)
{
    pthread_t thread;

    pthread_mutex_lock(&lock);
    holds_up = true;
    pthread_mutex_unlock(&lock);
    tt_assert(pthread_create(&thread, NULL, pass_rounds, NULL) == 0 && pthread_detach(thread) == 0);
}

/* ---- the library is linked statically; these functions replace those of libibverbs ---- */

static void *true_function(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    tt_assert(found);
    return found;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*open)(struct ibv_device *) = true_function("ibv_open_device");
    struct ibv_context *context = open(device);

    if (context) {
        true_post = context->ops.post_send;
        context->ops.post_send = post;
    }
    return context;
}

/* Delayed requests are posted before the change. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int) = true_function("ibv_modify_qp");
    struct queue *q;

    pthread_mutex_lock(&lock);
    q = queue_of(qp);
    if (q)
        let_go(q, true);
    pthread_mutex_unlock(&lock);
    return modify(qp, attr, mask);
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*destroy)(struct ibv_qp *) = true_function("ibv_destroy_qp");
    struct queue *q;

    pthread_mutex_lock(&lock);
    q = queue_of(qp);
    if (q)
        let_go(q, false);
    pthread_mutex_unlock(&lock);
    return destroy(qp);
}

#else

void held_posts_begin(void)
{
}

#endif
