#include "boot/serve.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/tree_node.h"
#include "reduce/float_env.h"

#define SAY_FIRST_NS (5 * TT_SECOND)    /* a longer start-up logs the missing ranks */
#define SAY_AGAIN_NS (30 * TT_SECOND)

struct tt_serve {
    struct tt_tree_node *node;          /* the root of the tree */
    struct tt_serve_conf conf;
    char token[128];
    uint64_t waits_ns, say_ns;      /* waits_ns: begin of a member's wait (0: none waits); say_ns:
                                       time of the next log line */
};

static struct tt_tree *tree_of(const struct tt_serve *s)
{
    return tt_tree_node_tree(s->node);
}

/* Logs the missing ranks during a long wait, once and then every half minute. */
static void log_missing_ranks(struct tt_serve *s, uint64_t now_ns)
{
    const struct tt_tree *t = tree_of(s);
    char missing[160];

    if (t->state != TT_TREE_GATHERING || tt_tree_njoined(t) == 0) {
        s->waits_ns = 0;
        return;
    }
    if (s->waits_ns == 0) {
        s->waits_ns = now_ns;
        s->say_ns = now_ns + SAY_FIRST_NS;
    }
    if (now_ns < s->say_ns)
        return;
    s->say_ns = now_ns + SAY_AGAIN_NS;
    tt_tree_name_missing(t, missing, sizeof missing);
    tt_log(TT_LOG_WARN, "start-up: %u of %u ranks joined within %.0f s; missing: %s",
           tt_tree_njoined(t), t->conf.nranks, (double)(now_ns - s->waits_ns) / 1e9, missing);
}

/* Returns the configuration of another start-up, with a new secret. */
static struct tt_tree_conf serve_round(const struct tt_serve *s)
{
    struct tt_tree_conf tree = { .token = s->token,
                                 .children_max = TT_TREE_CHILDREN_TABLE,
                                 .root = true,
                                 .nranks = s->conf.nranks,
                                 .began_ns = s->conf.began_ns,
                                 .deadline_ns = s->conf.deadline_ns };

    tt_random_bytes(tree.secret, sizeof tree.secret);
    tt_random_bytes(tree.gathering, sizeof tree.gathering);
    return tree;
}

void tt_serve_step(struct tt_serve *s, uint64_t now_ns)
{
    tt_tree_node_step(s->node, now_ns);
    log_missing_ranks(s, now_ns);
    if (s->conf.again && tt_tree_node_is_done(s->node)) {
        const struct tt_tree_conf tree = serve_round(s);

        tt_tree_node_restart(s->node, &tree);
    }
}

uint64_t tt_serve_wake_ns(const struct tt_serve *s)
{
    const uint64_t at_ns = tt_tree_node_wake_ns(s->node);

    return s->waits_ns && s->say_ns < at_ns ? s->say_ns : at_ns;
}

int tt_serve_fd(const struct tt_serve *s)
{
    return tt_tree_node_fd(s->node);
}

int tt_serve_connect(struct tt_serve *s)
{
    return tt_tree_node_connect(s->node, tt_now_ns());
}

uint32_t tt_serve_ncame(const struct tt_serve *s)
{
    return tt_tree_njoined(tree_of(s));
}

bool tt_serve_waits_for(const struct tt_serve *s, uint32_t nranks, uint32_t rank)
{
    return tt_tree_waits_for(tree_of(s), nranks, rank);
}

void tt_serve_give_up(struct tt_serve *s, const char *sentence, uint64_t now_ns)
{
    tt_tree_give_up(tree_of(s), sentence);
    tt_serve_step(s, now_ns);
}

bool tt_serve_is_done(const struct tt_serve *s)
{
    return tt_tree_node_is_done(s->node);
}

/* A server holds one descriptor per rank at first: raises the soft limit if it is below the hard
 * one. */
static void raise_descriptors(uint32_t nranks)
{
    struct rlimit limit;
    const rlim_t wanted = nranks + 256u;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

tutti_status tt_serve_open(struct tt_serve **out, const struct tt_serve_conf *conf)
{
    struct tt_serve *s = calloc(1, sizeof *s);
    struct tt_tree_node_conf node = { .listener = conf->listener, .local = -1, .up = -1 };
    tutti_status st;

    if (!s)
        return tt_fail(TUTTI_ERR_NOMEM, "out of memory for the rendezvous server");
    s->conf = *conf;
    snprintf(s->token, sizeof s->token, "%s", conf->token);
    node.tree = serve_round(s);
    st = tt_tree_node_open(&s->node, &node);
    if (st) {
        free(s);
        return st;
    }
    raise_descriptors(conf->nranks);
    *out = s;
    return TUTTI_OK;
}

void tt_serve_close(struct tt_serve *s)
{
    if (!s)
        return;
    tt_tree_node_close(s->node);
    free(s);
}

static void *serve_thread(void *arg)
{
    struct tt_serve *s = arg;

    (void)tt_float_env_enter();     /* not inherited from the creating thread */
    while (!tt_serve_is_done(s)) {
        struct pollfd p = { .fd = tt_serve_fd(s), .events = POLLIN };
        const uint64_t now_ns = tt_now_ns(), wake_ns = tt_serve_wake_ns(s);
        const uint64_t left_ms = wake_ns > now_ns ? (wake_ns - now_ns + TT_MS - 1) / TT_MS : 0;

        poll(&p, 1, left_ms < 60000 ? (int)left_ms : 60000);
        tt_serve_step(s, tt_now_ns());
    }
    tt_serve_close(s);
    return NULL;
}

/* The thread blocks all signals, which are for the application. */
tutti_status tt_serve_in_background(struct tt_serve *s)
{
    sigset_t all, before;
    pthread_t thread;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(&thread, NULL, serve_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return tt_fail_errno(err, "rendezvous: cannot start the server's thread");
    pthread_detach(thread);
    return TUTTI_OK;
}
