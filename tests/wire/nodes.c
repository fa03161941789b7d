#include "nodes.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "support/unit.h"

#define WAIT_NS (60 * TT_SECOND)        /* time limit of one UNTIL */
#define RUN_NS (200 * TT_SECOND)

const uint8_t node_secret[16] = "test of wires";

void setting_name(const struct setting *s, char out[SETTING_NAME_BYTES])
{
    snprintf(out, SETTING_NAME_BYTES, "%s%s%s%s%s", s->ops->name, s->cma ? " cma" : "",
             s->secure ? " tls" : "", s->provider ? " " : "", s->provider ? s->provider : "");
}

_Noreturn void node_fail(const struct node *n, const char *file, int line, const char *what)
{
    char setting[SETTING_NAME_BYTES];

    setting_name(n->setting, setting);
    fprintf(stderr, "rank %u of %u, %s, %u lanes, seed %llu: %s does not hold (%s:%d)\n", n->rank,
            n->nranks, setting, n->setting->lanes, (unsigned long long)n->setting->seed, what, file,
            line);
    _exit(1);
}

uint64_t node_deadline(void)
{
    return tt_now_ns() + WAIT_NS;
}

void node_wait(struct node *n, uint64_t deadline_ns, const char *file, int line, const char *what)
{
    if (n->w)
        node_poll(n);
    sched_yield();  /* there are more ranks than cores */
    if (tt_now_ns() > deadline_ns)
        node_fail(n, file, line, what);
}

/* ---- processes ---- */

void __lsan_do_leak_check(void) __attribute__((weak));

static _Noreturn void child(struct node *n, void (*role)(struct node *))
{
    static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        signal(crashes[i], SIG_DFL);    /* cmocka would continue with the next test in this
                                           process */
    tt_log_rank((int)n->rank);
    tt_log_set(TT_LOG_NONE);    /* refusals are intended */
    role(n);
    node_close(n);
    if (__lsan_do_leak_check)
        __lsan_do_leak_check();
    _exit(0);
}

/* Waits for one child, which is killed after the deadline. Returns whether it ended as expected. */
static bool reap(const struct board *board, uint32_t rank, uint64_t deadline_ns)
{
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(board->pid[rank], &status, WNOHANG)) == 0) {
        if (tt_now_ns() > deadline_ns) {
            fprintf(stderr, "rank %u does not end\n", rank);
            kill(board->pid[rank], SIGKILL);
            waitpid(board->pid[rank], &status, 0);
            return false;
        }
        usleep(500);
    }
    if (ended < 0) {        /* ECHILD: with an ignored SIGCHLD, the status is lost */
        fprintf(stderr, "rank %u ended, and its exit status is lost\n", rank);
        return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && board->dies[rank])
        return true;
    fprintf(stderr, "rank %u ended with status 0x%x\n", rank, (unsigned)status);
    return false;
}

void nodes_run(const struct setting *s, uint32_t nranks, void (*role)(struct node *))
{
    const uint64_t deadline_ns = tt_now_ns() + RUN_NS;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct node *n = calloc(1, sizeof *n);
    bool good = true;
    pid_t pid;

    assert_ptr_not_equal(board, MAP_FAILED);
    assert_non_null(n);
    *n = (struct node){ .nranks = nranks, .setting = s, .ops = s->ops, .board = board };
    fflush(NULL);
    for (uint32_t rank = 0; rank < nranks; rank++) {
        n->rank = rank;
        tt_prng_init(&n->prng, s->seed + rank);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child(n, role);
        board->pid[rank] = pid;
    }
    for (uint32_t rank = 0; rank < nranks; rank++) {
        good &= reap(board, rank, deadline_ns);
        if (!good)  /* the other ranks would wait forever */
            for (uint32_t other = rank + 1; other < nranks; other++)
                kill(board->pid[other], SIGKILL);
    }
    free(n);
    munmap(board, sizeof *board);
    assert_true(good);
}

/* ---- functions of ranks ---- */

void node_open(struct node *n)
{
    const struct tt_secure_conf token = { .mode = TT_SECURE_TOKEN,
                                          .token = n->token ? n->token : NODE_TOKEN };
    struct tt_wire_conf conf = {
        .rank = n->rank,
        .nranks = n->nranks,
        .secret = node_secret,
        .link_bytes = NODE_LINK_BYTES,
        .interfaces = n->interfaces,
        .lanes = n->setting->lanes,
        .cma = n->setting->cma && !n->no_cma,
        .ofi_provider = n->setting->provider,
    };

    memset(n->ups, 0, sizeof n->ups);
    memset(n->losses, 0, sizeof n->losses);
    if (n->setting->secure)
        CHECK(n, tt_secure_create(&n->secure, &token) == TUTTI_OK);
    conf.secure = n->secure;
    CHECK(n, n->ops->open(&n->w, &conf) == TUTTI_OK);
    CHECK(n, n->ops->address(n->w, &n->board->address[n->rank]) == TUTTI_OK);
    node_barrier(n);
}

void node_close(struct node *n)
{
    if (n->w)
        n->ops->close(n->w);
    tt_secure_destroy(n->secure);
    n->w = NULL;
    n->secure = NULL;
}

void node_connect(struct node *n, uint32_t peer)
{
    CHECK(n, n->ops->connect(n->w, peer, &n->board->address[peer]) == TUTTI_OK);
}

void node_connect_all(struct node *n)
{
    for (uint32_t peer = n->rank + 1; peer < n->nranks; peer++)
        node_connect(n, peer);
    for (uint32_t peer = 0; peer < n->nranks; peer++)
        if (peer != n->rank)
            UNTIL(n, n->ups[peer]);
    node_barrier(n);
}

static void note(struct node *n, const struct tt_done *d)
{
    CHECK(n,
          d->kind == TT_DONE_LINK_UP || d->kind == TT_DONE_LINK_LOST || d->cookie < NODE_COOKIES);
    switch (d->kind) {
    case TT_DONE_LINK_UP:
        CHECK(n,
              d->link.mine && d->link.theirs.bytes == NODE_LINK_BYTES && n->losses[d->peer] == 0);
        n->link[d->peer] = d->link;
        n->ups[d->peer]++;
        break;
    case TT_DONE_LINK_LOST:
        n->why[d->peer] = d->status;
        n->losses[d->peer]++;
        break;
    case TT_DONE_LOCAL:
        CHECK(n, n->losses[d->peer] == 0);
        n->local[d->cookie]++;
        n->nlocal++;
        break;
    default:
        CHECK(n, d->kind == TT_DONE_REMOTE && n->losses[d->peer] == 0);
        n->remote[d->cookie]++;
        n->nremote++;
        break;
    }
}

void node_poll(struct node *n)
{
    struct tt_done done[16];
    const int got = n->ops->poll(n->w, done, 16);

    for (int i = 0; i < got; i++)
        note(n, &done[i]);
}

void node_post(struct node *n, const struct tt_desc *d)
{
    UNTIL(n, n->ops->post(n->w, d, 1) == 1);
}

void node_barrier(struct node *n)
{
    const uint32_t all = ++n->barriers * n->nranks;

    n->board->arrived++;
    UNTIL(n, n->board->arrived >= all);
}

void node_barrier_idle(struct node *n)
{
    struct tt_wire *w = n->w;

    n->w = NULL;
    node_barrier(n);
    n->w = w;
}

void *node_memory(struct node *n, uint64_t bytes)
{
    void *mem = calloc(1, bytes ? bytes : 1);

    CHECK(n, mem && n->nmemories < NODE_MEMORIES);
    n->memory[n->nmemories++] = mem;
    return mem;
}

void node_share(struct node *n, uint32_t slot, const struct tt_region *r)
{
    CHECK(n, r->key.bytes <= TT_KEY_BYTES);
    n->board->key[n->rank][slot] = r->key;
}

struct tt_rkey node_import(struct node *n, uint32_t peer, uint32_t slot)
{
    struct tt_rkey key;
    tutti_status st;

    UNTIL(n, (st = n->ops->import(n->w, peer, &n->board->key[peer][slot], &key)) != TUTTI_PENDING);
    CHECK(n, st == TUTTI_OK && !(n->setting->cma && key.mapped));
    return key;
}

uint64_t node_word(struct node *n, uint32_t peer, uint32_t i)
{
    return __atomic_load_n((uint64_t *)n->link[peer].mine + i, __ATOMIC_ACQUIRE);
}

struct tt_desc node_signal(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op,
                           uint64_t value)
{
    return (struct tt_desc){ .kind = TT_DESC_PUT,
                             .flags = TT_DESC_INLINE,
                             .key = &n->link[peer].theirs,
                             .signal_op = (uint8_t)op,
                             .signal_key = &n->link[peer].theirs,
                             .signal_offset = 8ull * word,
                             .signal_value = value };
}

void node_post_signal(struct node *n, uint32_t peer, uint32_t word, enum tt_signal_op op,
                      uint64_t value)
{
    const struct tt_desc d = node_signal(n, peer, word, op, value);

    node_post(n, &d);
}

struct tt_desc node_put(const struct tt_rkey *key, uint64_t offset, void *local, uint64_t bytes)
{
    return (struct tt_desc){
        .kind = TT_DESC_PUT, .key = key, .offset = offset, .local = local, .bytes = bytes
    };
}

void node_fence(struct node *n, uint32_t peer)
{
    const struct tt_desc d = { .kind = TT_DESC_FENCE, .peer = peer };

    node_post(n, &d);
}

void node_connect_beside_intruder(struct node *n)
{
    node_open(n);
    UNTIL(n, n->board->flag[0]);
    if (n->rank == 0)
        node_connect(n, 1);
    UNTIL(n, n->ups[!n->rank]);
    for (uint64_t i = 1; i <= 100; i++) {
        node_post_signal(n, !n->rank, 0, TT_SIGNAL_ADD, 1);
        UNTIL(n, node_word(n, !n->rank, 0) >= i);
    }
    UNTIL(n, n->board->flag[1]);
    CHECK(n,
          n->ups[!n->rank] == 1 && n->losses[!n->rank] == 0 && n->ups[2] == 0 && n->losses[2] == 0);
    node_barrier(n);
}
