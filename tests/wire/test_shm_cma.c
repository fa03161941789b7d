/* Single copies of the shm transport: sources that are revoked while they are read; peers that are
 * stopped, die, or cannot be read; and urgent signals. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/clock.h"
#include "nodes.h"
#include "support/unit.h"
#include "wire/copy_policy.h"
#include "wire/shm/shm.h"

#define MIB (1ull << 20)
#define BYTES (16 * MIB)        /* requires several polls */
#define NOBODY 65534

/* ---- both sides of one large put from rank 0 to rank 1, with signal 0 ---- */

static struct tt_region *target(struct node *n)
{
    struct tt_region *r;

    CHECK(n, n->ops->reg(n->w, node_memory(n, BYTES), BYTES, &r) == TUTTI_OK);
    node_share(n, 0, r);
    return r;
}

static uint8_t *map(struct node *n)
{
    uint8_t *mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(n, mem != MAP_FAILED);
    return mem;
}

static void put_all(struct node *n, const struct tt_rkey *key, uint8_t *mem, uint64_t value)
{
    struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, value);

    d.flags = TT_DESC_REMOTE;
    d.local = mem;
    d.bytes = BYTES;
    d.key = key;
    d.cookie = value;
    node_post(n, &d);
}

/* Opens and connects both ranks. Returns the target's key on rank 0. */
static struct tt_rkey begin(struct node *n, struct tt_region **mine)
{
    struct tt_rkey key = { 0 };

    node_open(n);
    node_connect_all(n);
    *mine = target(n);
    node_barrier(n);
    if (n->rank == 0)
        key = node_import(n, 1, 0);
    node_barrier(n);
    return key;
}

#define BEGUN 7                 /* flag set by rank 1 */

/* Polls rank 1 until the put has started to arrive, and notifies rank 0, which waits in
 * await_begun. */
static void until_begun(struct node *n, const struct tt_region *mine)
{
    UNTIL(n, *(volatile uint8_t *)mine->mem != 0);
    CHECK(n, node_word(n, 0, 0) == 0);      /* and the put is incomplete, otherwise the test is
                                               meaningless */
    n->board->flag[BEGUN] = 1;
}

/* Waits without polling. */
#define UNTIL_IDLE(n, cond) \
    do { \
        const uint64_t idle_until_ns = node_deadline(); \
        while (!(cond)) { \
            CHECK(n, tt_now_ns() < idle_until_ns); \
            usleep(100); \
        } \
    } while (0)

/* For rank 0, after a put. It does not poll until rank 1 has fetched a part: rank 1 does this in
 * one poll, during which a polling sender could write all the rest. Then rank 0 writes a few
 * pieces, and most of the data remains. */
static void await_begun(struct node *n)
{
    UNTIL_IDLE(n, n->board->flag[BEGUN]);
    for (int polls = 0; polls < 3; polls++)
        node_poll(n);
}

/* Returns whether the process runs that program. */
static bool process_is(pid_t pid, const char *program)
{
    char path[64], name[64] = "";
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(name, sizeof name, f))
        name[0] = 0;
    fclose(f);
    name[strcspn(name, "\n")] = 0;
    return strcmp(name, program) == 0;
}

static bool process_is_stopped(pid_t pid)
{
    char path[64], line[256] = "";
    const char *at;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return false;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    fclose(f);
    at = strrchr(line, ')');
    return at && at[1] == ' ' && at[2] == 'T';
}

/* An interrupted put leaves the data at both ends of the target, because the sender may also have
 * written; `from` and `to` limit the gap. */
static void find_gap(const uint8_t *mem, uint64_t *from, uint64_t *to)
{
    *from = 0;
    *to = BYTES;
    while (*from < BYTES && mem[*from] == 7)
        ++*from;
    while (*to > *from && mem[*to - 1] == 7)
        --*to;
}

/* ---- revoking ---- */

/* The source is unmapped between two slices; only the data that was read before arrives. */
static void revoke_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = map(n);

    if (n->rank == 0) {
        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        await_begun(n);
        n->ops->dereg(from);
        munmap(mem, BYTES);
        n->board->flag[1] = 1;
        UNTIL(n, n->local[1] == 1 && n->remote[1] == 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
    } else {
        uint64_t gap, end;

        until_begun(n, mine);
        UNTIL_IDLE(n, n->board->flag[1]);
        find_gap(mine->mem, &gap, &end);
        UNTIL(n, node_word(n, 0, 1) == 1);
        CHECK(n, node_word(n, 0, 0) == 0 && gap < end);
        for (uint64_t i = gap; i < end; i++)
            CHECK(n, ((uint8_t *)mine->mem)[i] == 0);
        munmap(mem, BYTES);
    }
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void revoked_source_ends_its_put(void **state)
{
    nodes_run(*state, 2, revoke_role);
}

/* The source is revoked at any time, also during a slice, and overwritten at once. If the signal is
 * visible, the original bytes are, too. */
#define RACES 300
#define RACE_BYTES (1 * MIB)

static void race(struct node *n, bool by_cookie)
{
    struct tt_region *mine, *from, *other = NULL;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, RACE_BYTES);
    uint32_t whole = 0;

    if (by_cookie && n->rank == 0)      /* so that dereg alone would stop nothing */
        CHECK(n, n->ops->reg(n->w, mem, RACE_BYTES, &other) == TUTTI_OK);
    for (uint32_t i = 1; i <= RACES; i++) {
        if (n->rank == 0) {
            struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, i);
            /* up to 4 ms */
            const uint64_t patience_ns = tt_prng_below(&n->prng, 1ull << (10 + i % 13));
            uint64_t posted_ns;

            pattern_fill(mem, RACE_BYTES, i);
            CHECK(n, n->ops->reg(n->w, mem, RACE_BYTES, &from) == TUTTI_OK);
            d.flags = 0;
            d.local = mem;
            d.bytes = RACE_BYTES;
            d.key = &key;
            d.cookie = i;
            node_post(n, &d);
            posted_ns = tt_now_ns();
            while (tt_now_ns() < posted_ns + patience_ns)
                ;
            if (i % 10 == 0)
                UNTIL(n, n->local[i] == 1);
            if (by_cookie)
                n->ops->take_back(n->w, i, UINT64_MAX);
            n->ops->dereg(from);
            memset(mem, 0xee, RACE_BYTES);
            node_post_signal(n, 1, 1, TT_SIGNAL_SET, i);
            UNTIL(n, n->local[i] == 1);
        } else {
            UNTIL(n, node_word(n, 0, 1) == i);
            if (node_word(n, 0, 0) == i) {
                CHECK(n, pattern_differs(mine->mem, RACE_BYTES, i) == RACE_BYTES);
                whole++;
            }
        }
        node_barrier(n);
    }
    CHECK(n, n->rank == 0 || whole >= RACES / 10);
    if (n->rank == 1)
        print_message("%u of %u came whole\n", whole, RACES);
}

static void race_role(struct node *n) { race(n, false); }

static void cookie_role(struct node *n) { race(n, true); }

static void revoked_cookie_is_not_read(void **state)
{
    nodes_run(*state, 2, cookie_role);
}

static void signal_implies_the_original_bytes(void **state)
{
    nodes_run(*state, 2, race_role);
}

/* The reader is stopped during the put; revoking the source does not wait for it. */
static void stopped_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);

    if (n->rank == 0) {
        uint8_t *mem = map(n);

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        await_begun(n);
        UNTIL_IDLE(n, process_is_stopped(n->board->pid[1]));
        n->ops->dereg(from);    /* rank 1 continues only after this */
        munmap(mem, BYTES);
        kill(n->board->pid[1], SIGCONT);
        UNTIL(n, n->local[1] == 1);
    } else {
        until_begun(n, mine);
        raise(SIGSTOP);
    }
    node_barrier(n);
    CHECK(n, node_word(n, !n->rank, 0) == 0 && n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void revoke_ignores_a_stopped_reader(void **state)
{
    nodes_run(*state, 2, stopped_role);
}

/* Memory that is registered twice stays readable until both registrations end. */
static void twice_role(struct node *n)
{
    struct tt_region *mine, *from[2];
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, BYTES);

    if (n->rank == 0) {
        memset(mem, 7, BYTES);
        for (int i = 0; i < 2; i++)
            CHECK(n, n->ops->reg(n->w, mem, BYTES, &from[i]) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        n->ops->dereg(from[0]);
        UNTIL(n, n->local[1] == 1);
        n->ops->dereg(from[1]);
    } else {
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, ((uint8_t *)mine->mem)[BYTES - 1] == 7);
    }
    node_barrier(n);
}

static void source_stays_until_last_deregistration(void **state)
{
    nodes_run(*state, 2, twice_role);
}

/* ---- order ---- */

/* Rank 1 does not poll. An urgent signal still arrives; other signals arrive only after the put. */
static void urgent_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, BYTES);

    CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
    if (n->rank == 0) {
        struct tt_desc urgent = node_signal(n, 1, 2, TT_SIGNAL_SET, 1);

        put_all(n, &key, mem, 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
        urgent.flags |= TT_DESC_URGENT;
        node_post(n, &urgent);
    } else {
        UNTIL_IDLE(n, node_word(n, 0, 2) == 1);
        CHECK(n, node_word(n, 0, 0) == 0 && node_word(n, 0, 1) == 0);
        UNTIL(n, node_word(n, 0, 1) == 1);
        CHECK(n, node_word(n, 0, 0) == 1);
    }
    node_barrier(n);
}

static void only_urgent_signals_overtake(void **state)
{
    nodes_run(*state, 2, urgent_role);
}

/* ---- death ---- */

static void death_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key;
    uint8_t *mem;

    n->board->dies[0] = 1;
    key = begin(n, &mine);
    if (n->rank == 0) {
        mem = node_memory(n, BYTES);
        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        await_begun(n);
        raise(SIGKILL);
    }
    until_begun(n, mine);
    UNTIL(n, n->losses[0] == 1);
    CHECK(n, n->why[0] == TUTTI_ERR_PEER_LOST && node_word(n, 0, 0) == 0);
}

static void dead_sender_never_signals(void **state)
{
    nodes_run(*state, 2, death_role);
}

/* Rank 0 executes another program during a put: the new contents of those addresses are not
 * read. */
static void exec_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key;
    uint64_t gap, end;

    n->board->dies[0] = 1;
    key = begin(n, &mine);
    if (n->rank == 0) {
        uint8_t *mem = map(n);

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        await_begun(n);
        execlp("sleep", "sleep", "60", (char *)NULL);
        CHECK(n, false);
    }
    until_begun(n, mine);
    UNTIL_IDLE(n, process_is(n->board->pid[0], "sleep"));
    find_gap(mine->mem, &gap, &end);
    UNTIL(n, n->losses[0] == 1);
    CHECK(n, n->why[0] == TUTTI_ERR_PEER_LOST && node_word(n, 0, 0) == 0 && gap < end);
    for (uint64_t i = gap; i < end; i++)
        CHECK(n, ((uint8_t *)mine->mem)[i] == 0);
    kill(n->board->pid[0], SIGKILL);
}

static void replaced_sender_is_not_read(void **state)
{
    nodes_run(*state, 2, exec_role);
}

/* ---- transfers shared by sender and receiver ---- */

static bool stops_before_writing;

/* Replaces the libc function, so that a writer can stop at the worst time: just before the
 * write. */
ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long nhere,
                          const struct iovec *there, unsigned long nthere, unsigned long flags)
{
    if (stops_before_writing) {
        stops_before_writing = false;
        raise(SIGSTOP);
    }
    return syscall(SYS_process_vm_writev, pid, here, nhere, there, nthere, flags);
}

/* Rank 0 puts from its source, and rank 1 polls until the put has started to arrive. */
static struct tt_rkey begin_to_send(struct node *n, struct tt_region **mine)
{
    struct tt_rkey key = begin(n, mine);

    if (n->rank == 0) {
        uint8_t *mem = node_memory(n, BYTES);
        struct tt_region *from;

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        UNTIL_IDLE(n, n->board->flag[BEGUN]);       /* not earlier, as in await_begun */
    } else {
        until_begun(n, *mine);
    }
    return key;
}

/* The sender writes what the receiver has not read, up to the last piece; the receiver raises the
 * signal. */
static void shared_role(struct node *n)
{
    struct tt_region *mine;

    begin_to_send(n, &mine);
    if (n->rank == 0) {
        UNTIL(n, n->local[1] == 1);
    } else {
        const volatile uint8_t *mem = mine->mem;
        uint64_t gap, end;

        UNTIL_IDLE(n, mem[BYTES - 1] == 7);
        find_gap(mine->mem, &gap, &end);
        CHECK(n, node_word(n, 0, 0) == 0);
        UNTIL(n, node_word(n, 0, 0) == 1);
        find_gap(mine->mem, &gap, &end);
        CHECK(n, gap == BYTES);
    }
    node_barrier(n);
}

static void waiting_sender_copies_its_part(void **state)
{
    nodes_run(*state, 2, shared_role);
}

static void crowded_role(struct node *n)
{
    struct tt_region *mine;

    begin_to_send(n, &mine);
    if (n->rank == 0) {
        n->w->crowded = true;
        for (int polls = 0; polls < 1000; polls++)
            node_poll(n);
        n->board->flag[0] = 1;
        UNTIL(n, n->board->flag[1]);
        n->w->crowded = false;
        UNTIL(n, n->local[1] == 1);
    } else {
        uint64_t gap, end;

        UNTIL_IDLE(n, n->board->flag[0]);
        find_gap(mine->mem, &gap, &end);
        CHECK(n, end == BYTES);
        n->board->flag[1] = 1;
        UNTIL(n, node_word(n, 0, 0) == 1);
    }
    node_barrier(n);
}

static void oversubscribed_sender_leaves_the_copy(void **state)
{
    nodes_run(*state, 2, crowded_role);
}

/* Rank 0 is stopped just before a write. Rank 1 revokes its memory, which does not wait for rank 0;
 * the late write has no effect. */
static void late_writer_role(struct node *n)
{
    struct tt_region *mine;

    stops_before_writing = n->rank == 0;
    begin_to_send(n, &mine);
    if (n->rank == 0) {
        UNTIL(n, n->local[1] == 1);
        CHECK(n, !stops_before_writing);
    } else {
        uint8_t *mem = mine->mem;
        uint64_t gap, end;

        UNTIL_IDLE(n, process_is_stopped(n->board->pid[0]));
        n->ops->dereg(mine);
        find_gap(mem, &gap, &end);
        CHECK(n, gap < BYTES && end == BYTES);  /* rank 0 has not written anything */
        memset(mem, 3, BYTES);
        kill(n->board->pid[0], SIGCONT);
        node_barrier(n);
        for (uint64_t i = 0; i < BYTES; i++)
            CHECK(n, mem[i] == 3);
        CHECK(n, node_word(n, 0, 0) == 0);
    }
    if (n->rank == 0)
        node_barrier(n);
    node_barrier(n);
}

static void late_writer_writes_nothing(void **state)
{
    nodes_run(*state, 2, late_writer_role);
}

/* Writes for an older request with the same tag, 65,535 requests earlier, do not count for this
 * one. */
static void old_tag_role(struct node *n)
{
    struct tt_region *mine;

    stops_before_writing = n->rank == 0;
    if (n->rank == 1) {
        struct tt_shm *w;
        struct tt_shm_share *s;
        struct tt_rkey key = begin(n, &mine);

        (void)key;
        w = tt_shm_of(n->w);
        s = &tt_shm_pulls_in(w, &tt_shm_peer_of(w, 0)->mine)->share;
        /* marked as failed and complete */
        atomic_store(&s->written, tt_shm_tag_of(0) << 48 | 1ull << 47);
        until_begun(n, mine);
        UNTIL_IDLE(n, process_is_stopped(n->board->pid[0]));
        for (int polls = 0; polls < 1000; polls++)
            node_poll(n);
        CHECK(n, node_word(n, 0, 0) == 0);
        kill(n->board->pid[0], SIGCONT);
        UNTIL(n, node_word(n, 0, 0) == 1);
    } else {
        begin_to_send(n, &mine);
        UNTIL(n, n->local[1] == 1);
    }
    node_barrier(n);
}

static void writes_for_old_request_are_ignored(void **state)
{
    nodes_run(*state, 2, old_tag_role);
}

/* As if rank 1's pid now belonged to another process: the page that identifies rank 1 is not at its
 * address. Rank 0 writes nothing, and rank 1 reads everything. */
static void stranger_role(struct node *n)
{
    struct tt_region *mine;

    if (n->rank == 0) {
        struct tt_rkey key = begin(n, &mine);
        uint8_t *mem = node_memory(n, BYTES);
        struct tt_shm_peer *peer = tt_shm_peer_of(tt_shm_of(n->w), 1);
        struct tt_region *from;

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        peer->nonce_at = 4096;  /* an address that is never mapped */
        put_all(n, &key, mem, 1);
        UNTIL_IDLE(n, n->board->flag[BEGUN]);
        UNTIL(n, peer->unwritable);
        n->board->flag[0] = 1;
        UNTIL(n, n->local[1] == 1);
    } else {
        uint64_t gap, end;

        begin_to_send(n, &mine);
        UNTIL_IDLE(n, n->board->flag[0]);
        find_gap(mine->mem, &gap, &end);
        CHECK(n, end == BYTES);
        UNTIL(n, node_word(n, 0, 0) == 1);
        find_gap(mine->mem, &gap, &end);
        CHECK(n, gap == BYTES);
    }
    node_barrier(n);
}

static void reused_pid_is_not_written(void **state)
{
    nodes_run(*state, 2, stranger_role);
}

/* Pieces of all sizes, at all offsets, arrive unchanged. */
static void sizes_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, BYTES);
    struct tt_prng both;        /* equal on both ranks */

    tt_prng_init(&both, n->setting->seed);
    CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
    for (uint64_t turn = 1; turn <= 64; turn++) {
        const uint64_t bytes = 1 + tt_prng_below(&both, turn % 4 ? 600000 : BYTES);
        const uint64_t at = tt_prng_below(&both, BYTES - bytes + 1);

        if (n->rank == 0) {
            struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, turn);

            pattern_fill(mem, bytes, turn);
            d.flags = 0;
            d.local = mem;
            d.bytes = bytes;
            d.key = &key;
            d.offset = at;
            d.cookie = turn;
            node_post(n, &d);
            UNTIL(n, n->local[turn] == 1);
        } else {
            UNTIL(n, node_word(n, 0, 0) == turn);
            CHECK(n, pattern_differs((uint8_t *)mine->mem + at, bytes, turn) == bytes);
        }
    }
    node_barrier(n);
}

static void shared_copy_is_complete(void **state)
{
    nodes_run(*state, 2, sizes_role);
}

/* ---- pushed data that is in the sender's cache ---- */

#define PUSHED (64u << 10)

static void put_hot(struct node *n, const struct tt_rkey *key, uint64_t at, uint8_t *mem,
                    uint64_t value)
{
    struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, value);

    d.flags = 0;
    d.copy = TT_COPY_PUSH;
    d.local = mem;
    d.bytes = PUSHED;
    d.key = key;
    d.offset = at;
    d.cookie = value;
    node_post(n, &d);
}

static uint8_t *source(struct node *n)
{
    uint8_t *mem = node_memory(n, BYTES);
    struct tt_region *from;

    memset(mem, 7, BYTES);
    CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
    return mem;
}

/* Pushed data arrives before its receiver does anything, and the signal when the receiver polls;
 * without permission, both arrive when it polls. */
static void hot_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = source(n);

    if (n->rank == 0) {
        put_hot(n, &key, 5, mem, 1);
        n->board->flag[0] = 1;
        UNTIL(n, n->local[1] == 1);
        UNTIL_IDLE(n, n->board->flag[1]);
        put_hot(n, &key, MIB + 5, mem, 2);
        n->board->flag[2] = 1;
        UNTIL(n, n->local[2] == 1);
    } else {
        const struct tt_shm *w = tt_shm_of(n->w);
        const struct tt_shm_permit *permit =
            tt_shm_pulls_in(w, &tt_shm_peer_of(w, 0)->mine)->permit;
        const uint8_t *to = mine->mem;

        UNTIL_IDLE(n, n->board->flag[0]);
        CHECK(n, to[5] == 0 && to[PUSHED + 4] == 0);
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, to[4] == 0 && to[5] == 7 && to[PUSHED + 4] == 7 && to[PUSHED + 5] == 0);
        CHECK(n, n->ops->admit(mine, 0) && n->ops->admit(mine, 0));
        n->board->flag[1] = 1;
        UNTIL_IDLE(n, n->board->flag[2]);
        CHECK(n, to[MIB + 4] == 0 && to[MIB + 5] == 7 && to[MIB + PUSHED + 4] == 7 &&
                     to[MIB + PUSHED + 5] == 0);
        CHECK(n, node_word(n, 0, 0) == 1);
        CHECK(n, permit->writer.tid == (uint32_t)n->board->pid[0]);
        UNTIL(n, node_word(n, 0, 0) == 2);
    }
    node_barrier(n);
}

static void hot_put_is_pushed_if_permitted(void **state)
{
    struct tt_shm_writer here;
    struct tt_shm_peer nobody = { 0 };

    tt_shm_writer_aim(&here, &nobody, 0, 0);    /* the ranks are forks of a process that has
                                                   written before: they still register their own
                                                   threads */
    nodes_run(*state, 2, hot_role);
}

/* Rank 1 permits pushes by rank 0. Returns a source. */
static uint8_t *begin_admitted(struct node *n, struct tt_region **mine, struct tt_rkey *key)
{
    uint8_t *mem;

    *key = begin(n, mine);
    mem = source(n);
    if (n->rank == 1)
        CHECK(n, n->ops->admit(*mine, 0));
    node_barrier(n);
    return mem;
}

/* As late_writer_role, for a pushed put. */
static void late_push_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = begin_admitted(n, &mine, &key);

    if (n->rank == 0) {
        stops_before_writing = true;
        put_hot(n, &key, 0, mem, 1);
        CHECK(n, !stops_before_writing);
        UNTIL(n, n->local[1] == 1);
        CHECK(n, !tt_shm_peer_of(tt_shm_of(n->w), 1)->unwritable);
    } else {
        uint8_t *to = mine->mem;

        UNTIL_IDLE(n, process_is_stopped(n->board->pid[0]));
        n->ops->dereg(mine);
        CHECK(n, to[0] == 0 && to[PUSHED - 1] == 0);
        kill(n->board->pid[0], SIGCONT);
    }
    node_barrier(n);
    for (uint64_t i = 0; n->rank == 1 && i < PUSHED; i++)
        CHECK(n, ((uint8_t *)n->memory[0])[i] == 0);
    CHECK(n, n->rank == 0 || node_word(n, 0, 0) == 0);
    node_barrier(n);
}

static void late_push_writes_nothing(void **state)
{
    nodes_run(*state, 2, late_push_role);
}

/* Bytes have been pushed; the memory is revoked before the signal is raised, so it is not raised.
 * The pushing rank may have exited. */
static void pushed_and_gone_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = begin_admitted(n, &mine, &key);

    if (n->rank == 0) {
        put_hot(n, &key, 0, mem, 1);
        n->board->flag[0] = 1;
        UNTIL(n, n->local[1] == 1);
        node_post_signal(n, 1, 1, TT_SIGNAL_SET, 1);
        UNTIL_IDLE(n, n->board->flag[1]);
        raise(SIGKILL);
    }
    UNTIL_IDLE(n, n->board->flag[0]);
    CHECK(n, ((uint8_t *)mine->mem)[PUSHED - 1] == 7);
    n->ops->dereg(mine);
    UNTIL(n, node_word(n, 0, 1) == 1);
    CHECK(n, node_word(n, 0, 0) == 0);
    CHECK(n, n->ops->reg(n->w, n->memory[0], BYTES, &mine) == TUTTI_OK && n->ops->admit(mine, 0));
    n->board->dies[0] = 1;
    n->board->flag[1] = 1;
    UNTIL(n, n->losses[0] == 1);
    CHECK(n, !n->ops->admit(mine, 0));
    n->ops->dereg(mine);
}

static void push_to_revoked_memory_never_signals(void **state)
{
    nodes_run(*state, 2, pushed_and_gone_role);
}

/* Memory is revoked during a push, and does not change afterwards. */
static void push_race_role(struct node *n)
{
    uint8_t *mem;
    uint32_t midway = 0;

    node_open(n);
    node_connect_all(n);
    mem = n->rank == 0 ? source(n) : node_memory(n, RACE_BYTES);
    for (uint32_t i = 1; i <= RACES; i++) {
        struct tt_region *mine;

        if (n->rank == 1) {
            memset(mem, 0, RACE_BYTES);
            CHECK(n,
                  n->ops->reg(n->w, mem, RACE_BYTES, &mine) == TUTTI_OK && n->ops->admit(mine, 0));
            node_share(n, 0, mine);
        }
        node_barrier(n);
        if (n->rank == 0) {
            struct tt_rkey key = node_import(n, 1, 0);

            for (uint64_t at = 0; at < RACE_BYTES; at += PUSHED)
                put_hot(n, &key, at, mem, i);
            n->board->flag[0] = i;
        } else {
            const uint64_t enough_ns = tt_now_ns() + tt_prng_below(&n->prng, 1ull << (10 + i % 10));

            while (*(volatile uint8_t *)mem == 0 || tt_now_ns() < enough_ns)
                node_poll(n);
            n->ops->dereg(mine);
            midway += mem[RACE_BYTES - 1] == 0;
            memset(mem, 0xee, RACE_BYTES);
            UNTIL(n, n->board->flag[0] == i);
            for (uint64_t at = 0; at < RACE_BYTES; at++)
                CHECK(n, mem[at] == 0xee);
        }
        node_barrier(n);
    }
    if (n->rank == 1)   /* there are none if both ranks share a processor */
        print_message("%u of %u were taken back midway\n", midway, RACES);
}

static void revoked_memory_is_not_pushed_to(void **state)
{
    nodes_run(*state, 2, push_race_role);
}

/* Puts without a permit use the ordinary method. */
static void permits_role(struct node *n)
{
    struct tt_region *r[TT_SHM_PERMITS + 1];
    struct tt_rkey key = begin(n, &r[0]);
    uint8_t *mem = source(n);

    if (n->rank == 1) {
        for (uint32_t i = 1; i <= TT_SHM_PERMITS; i++) {
            CHECK(n, n->ops->reg(n->w, node_memory(n, MIB), MIB, &r[i]) == TUTTI_OK);
            CHECK(n, n->ops->admit(r[i], 0));
        }
        CHECK(n, !n->ops->admit(r[0], 0));
    }
    node_barrier(n);
    if (n->rank == 0) {
        put_hot(n, &key, 0, mem, 1);
        UNTIL(n, n->local[1] == 1);
    } else {
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, ((uint8_t *)r[0]->mem)[PUSHED - 1] == 7);
        n->ops->dereg(r[2]);
        CHECK(n, n->ops->admit(r[0], 0));
    }
    node_barrier(n);
}

static void push_permits_are_limited_and_returned(void **state)
{
    nodes_run(*state, 2, permits_role);
}

/* As stranger_role, for pushes. */
static void push_stranger_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = begin_admitted(n, &mine, &key);

    if (n->rank == 0) {
        struct tt_shm_peer *peer = tt_shm_peer_of(tt_shm_of(n->w), 1);

        peer->nonce_at = 4096;  /* an address that is never mapped */
        put_hot(n, &key, 0, mem, 1);
        CHECK(n, peer->unwritable);
        n->board->flag[0] = 1;
        UNTIL(n, n->local[1] == 1);
    } else {
        const uint8_t *to = mine->mem;

        UNTIL_IDLE(n, n->board->flag[0]);
        CHECK(n, to[0] == 0 && to[PUSHED - 1] == 0);
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, to[0] == 7 && to[PUSHED - 1] == 7);
    }
    node_barrier(n);
}

static void reused_pid_is_not_pushed_to(void **state)
{
    nodes_run(*state, 2, push_stranger_role);
}

/* ---- unreadable peers ---- */

/* Makes this process readable by other processes of the user (true), or only by root. */
static void become(struct node *n, bool readable)
{
    CHECK(n, geteuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) == 0);
    CHECK(n, prctl(PR_SET_DUMPABLE, readable) == 0);
}

/* Rank 1 is unreadable: rank 0 must not send it keys of its memory, and rank 1 refuses such keys;
 * the other direction works. */
static void unreadable_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key = { .peer = 77 };

    become(n, n->rank == 0);
    node_open(n);
    node_connect_all(n);
    CHECK(n, n->link[!n->rank].anymem == (n->rank == 1));
    mine = target(n);
    node_barrier(n);
    if (n->rank == 1) {
        CHECK(n, n->ops->import(n->w, 0, &n->board->key[0][0], &key) == TUTTI_ERR_UNSUPPORTED &&
                     key.peer == 77);
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, ((uint8_t *)mine->mem)[BYTES - 1] == 7);
    } else {
        uint8_t *mem = node_memory(n, BYTES);
        struct tt_region *from;

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        key = node_import(n, 1, 0);
        put_all(n, &key, mem, 1);
        UNTIL(n, n->local[1] == 1);
    }
    CHECK(n, n->losses[!n->rank] == 0);
    node_barrier(n);
}

static void unreadable_peer_gets_no_keys(void **state)
{
    nodes_run(*state, 2, unreadable_role);
}

/* Rank 0 makes itself unreadable during a put: both ranks get an error, and no data is
 * corrupted. */
static void shut_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key;
    uint8_t *mem = node_memory(n, BYTES);

    become(n, true);
    key = begin(n, &mine);
    if (n->rank == 0) {
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        memset(mem, 7, BYTES);
        put_all(n, &key, mem, 1);
        await_begun(n);
        become(n, false);
        n->board->flag[1] = 1;
    } else {
        until_begun(n, mine);
        UNTIL_IDLE(n, n->board->flag[1]);
    }
    UNTIL(n, n->losses[!n->rank] == 1);
    CHECK(n, node_word(n, !n->rank, 0) == 0 && (n->rank == 0 || n->why[0] == TUTTI_ERR_SYSTEM));
    node_barrier(n);
}

static void peer_turning_unreadable_is_lost(void **state)
{
    nodes_run(*state, 2, shut_role);
}

/* Rank 1 is opened without CMA. */
static void off_role(struct node *n)
{
    uint8_t *mem = node_memory(n, 64);
    struct tt_region *r;
    struct tt_rkey key;

    n->no_cma = n->rank == 1;
    node_open(n);
    node_connect_all(n);
    CHECK(n, !n->link[!n->rank].anymem);
    if (n->rank == 1) {
        CHECK(n, !(n->w->caps & TT_WIRE_CAP_ANYMEM));
        CHECK(n, n->ops->reg(n->w, mem, 64, &r) == TUTTI_ERR_UNSUPPORTED);
    } else {
        CHECK(n, n->ops->reg(n->w, mem, 64, &r) == TUTTI_OK);
        node_share(n, 0, r);
    }
    node_barrier(n);
    if (n->rank == 1)
        CHECK(n, n->ops->import(n->w, 0, &n->board->key[0][0], &key) == TUTTI_ERR_UNSUPPORTED);
    node_barrier(n);
}

static void cma_needs_both_sides(void **state)
{
    nodes_run(*state, 2, off_role);
}

/* ---- a link that is lost at one end first ---- */

#define FEW_BYTES (64u << 10)   /* fetched by one poll */

static void lost_role(struct node *n)
{
    struct tt_region *mine, *source;
    const struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = map(n);

    if (n->rank == 0) {
        struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, 1);

        CHECK(n, n->ops->reg(n->w, mem, FEW_BYTES, &source) == TUTTI_OK);
        d.flags = 0;
        d.local = mem;
        d.bytes = FEW_BYTES;
        d.key = &key;
        CHECK(n, n->ops->post(n->w, &d, 1) == 1);
        tt_shm_link_lost(tt_shm_of(n->w), tt_shm_peer_of(tt_shm_of(n->w), 1), TUTTI_ERR_SYSTEM);
        n->board->flag[0] = 1;  /* the memory belongs to its owner again */
        UNTIL(n, n->losses[1] == 1);
    } else {
        UNTIL_IDLE(n, n->board->flag[0]);
        UNTIL(n, n->losses[0] == 1);
        CHECK(n, node_word(n, 0, 0) == 0);
    }
    node_barrier_idle(n);
}

static void put_of_lost_link_never_signals(void **state)
{
    nodes_run(*state, 2, lost_role);
}

/* ---- */

static _Atomic uint32_t *readable;      /* number of ranks that could read the other's memory */

static void probe_role(struct node *n)
{
    node_open(n);
    node_connect_all(n);
    *readable += n->link[!n->rank].anymem;
    node_barrier(n);
}

int main(void)
{
    static struct setting one = { .ops = &tt_wire_shm, .lanes = 1, .cma = true };
    const char *seed = getenv("TUTTI_TEST_SEED");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(revoked_source_ends_its_put, &one),
        cmocka_unit_test_prestate(signal_implies_the_original_bytes, &one),
        cmocka_unit_test_prestate(revoked_cookie_is_not_read, &one),
        cmocka_unit_test_prestate(revoke_ignores_a_stopped_reader, &one),
        cmocka_unit_test_prestate(source_stays_until_last_deregistration, &one),
        cmocka_unit_test_prestate(only_urgent_signals_overtake, &one),
        cmocka_unit_test_prestate(dead_sender_never_signals, &one),
        cmocka_unit_test_prestate(replaced_sender_is_not_read, &one),
        cmocka_unit_test_prestate(waiting_sender_copies_its_part, &one),
        cmocka_unit_test_prestate(oversubscribed_sender_leaves_the_copy, &one),
        cmocka_unit_test_prestate(late_writer_writes_nothing, &one),
        cmocka_unit_test_prestate(writes_for_old_request_are_ignored, &one),
        cmocka_unit_test_prestate(reused_pid_is_not_written, &one),
        cmocka_unit_test_prestate(shared_copy_is_complete, &one),
        cmocka_unit_test_prestate(hot_put_is_pushed_if_permitted, &one),
        cmocka_unit_test_prestate(late_push_writes_nothing, &one),
        cmocka_unit_test_prestate(push_to_revoked_memory_never_signals, &one),
        cmocka_unit_test_prestate(revoked_memory_is_not_pushed_to, &one),
        cmocka_unit_test_prestate(push_permits_are_limited_and_returned, &one),
        cmocka_unit_test_prestate(reused_pid_is_not_pushed_to, &one),
        cmocka_unit_test_prestate(unreadable_peer_gets_no_keys, &one),
        cmocka_unit_test_prestate(peer_turning_unreadable_is_lost, &one),
        cmocka_unit_test_prestate(put_of_lost_link_never_signals, &one),
        cmocka_unit_test_prestate(cma_needs_both_sides, &one),
    };

    one.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    readable =
        mmap(NULL, sizeof *readable, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(readable, MAP_FAILED);
    nodes_run(&one, 2, probe_role);
    if (*readable < 2) {
        printf("left out: a process may not read another's memory here\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
