/* What is particular to single copies of the shm wire: sources that go away while they are read, peers that stop, die, or cannot
 * be read, and signals that need not wait. */
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
#include "wire/shm.h"

#define MIB (1ull << 20)
#define BYTES (16 * MIB)        /* several polls' worth */
#define NOBODY 65534

/* ---- the two sides of one large put from rank 0 to rank 1, with signal 0 ---- */

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

/* Opens both, with the target's key at rank 0. */
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

#define BEGUN 7                 /* flag: rank 1 says so */

/* Polls rank 1 until the put has begun to arrive; tells rank 0, which waits for that in await_begun. */
static void until_begun(struct node *n, const struct tt_region *mine)
{
    UNTIL(n, *(volatile uint8_t *)mine->mem != 0);
    CHECK(n, node_word(n, 0, 0) == 0);      /* and has not ended, or the test shows nothing */
    n->board->flag[BEGUN] = 1;
}

/* Waits without a poll. */
#define UNTIL_IDLE(n, cond) \
    do { \
        const uint64_t idle_until_ns = node_deadline(); \
        while (!(cond)) { \
            CHECK(n, tt_now_ns() < idle_until_ns); \
            usleep(100); \
        } \
    } while (0)

/* Rank 0 has put. It does not poll until rank 1 has fetched some: in one poll that fetches a part, and while it does, a sender that polls could write all the
 * rest. Then it writes a few pieces, which leave most of it. */
static void await_begun(struct node *n)
{
    UNTIL_IDLE(n, n->board->flag[BEGUN]);
    for (int polls = 0; polls < 3; polls++)
        node_poll(n);
}

/* Whether the process runs that program. */
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

/* A put that is cut leaves what came at both ends of the target, as the sender may have written there; `from` and `to` are what is between. */
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

/* The source is unmapped between two slices; what was read by then is all that comes. */
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
        node_tell(n, 1, 1, TT_SIGNAL_SET, 1);
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

static void a_source_that_goes_midway_takes_the_rest_and_the_signal_with_it(void **state)
{
    nodes_run(*state, 2, revoke_role);
}

/* The same at any moment, also in the middle of a slice, and the memory is written anew at once. Who sees the signal has the bytes
 * that were put. */
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
            const uint64_t patience_ns = tt_prng_below(&n->prng, 1ull << (10 + i % 13));     /* up to 4 ms */
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
            node_tell(n, 1, 1, TT_SIGNAL_SET, i);
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

static void what_is_taken_back_by_its_cookie_is_not_read_although_others_send_from_there(void **state)
{
    nodes_run(*state, 2, cookie_role);
}

static void a_signal_never_comes_with_bytes_from_after_its_source_went(void **state)
{
    nodes_run(*state, 2, race_role);
}

/* The reader is stopped with the put half read; taking the source back does not wait for it. */
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
        n->ops->dereg(from);    /* rank 1 goes on only after this */
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

static void taking_a_source_back_does_not_wait_for_a_stopped_reader(void **state)
{
    nodes_run(*state, 2, stopped_role);
}

/* Memory that is registered twice stays readable until both are gone. */
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

static void a_source_is_there_while_one_registration_is(void **state)
{
    nodes_run(*state, 2, twice_role);
}

/* ---- order ---- */

/* Rank 1 does not poll. An urgent signal comes all the same; one that is not stays behind the put. */
static void urgent_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, BYTES);

    CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
    if (n->rank == 0) {
        struct tt_desc urgent = node_signal(n, 1, 2, TT_SIGNAL_SET, 1);

        put_all(n, &key, mem, 1);
        node_tell(n, 1, 1, TT_SIGNAL_SET, 1);
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

static void a_sender_that_dies_midway_is_lost_and_never_signals(void **state)
{
    nodes_run(*state, 2, death_role);
}

/* Rank 0 becomes another program with a put half read: what is at those addresses now is not read. */
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

static void a_sender_that_becomes_another_program_is_not_read(void **state)
{
    nodes_run(*state, 2, exec_role);
}

/* ---- what sender and receiver move together ---- */

static bool stops_before_writing;

/* In the place of the system's, so that a writer can stop at the worst moment: when it is about to write. */
ssize_t process_vm_writev(pid_t pid, const struct iovec *here, unsigned long nhere, const struct iovec *there,
                          unsigned long nthere, unsigned long flags)
{
    if (stops_before_writing) {
        stops_before_writing = false;
        raise(SIGSTOP);
    }
    return syscall(SYS_process_vm_writev, pid, here, nhere, there, nthere, flags);
}

/* Rank 0 sends, with a source of its own; rank 1 has polled until the put has begun to arrive. */
static struct tt_rkey begin_to_send(struct node *n, struct tt_region **mine)
{
    struct tt_rkey key = begin(n, mine);

    if (n->rank == 0) {
        uint8_t *mem = node_memory(n, BYTES);
        struct tt_region *from;

        memset(mem, 7, BYTES);
        CHECK(n, n->ops->reg(n->w, mem, BYTES, &from) == TUTTI_OK);
        put_all(n, &key, mem, 1);
        UNTIL_IDLE(n, n->board->flag[BEGUN]);       /* not sooner, as in await_begun */
    } else {
        until_begun(n, *mine);
    }
    return key;
}

/* What the receiver leaves to do, the sender does, up to the last piece, and then tells nobody: that is the receiver's. */
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

static void a_sender_that_waits_moves_its_part(void **state)
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

static void where_ranks_outnumber_cores_it_leaves_that_to_its_peer(void **state)
{
    nodes_run(*state, 2, crowded_role);
}

/* Rank 0 is stopped when it is about to write. Rank 1 takes its memory back, which does not wait for rank 0; what rank 0 then writes
 * gets nowhere. */
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

static void a_writer_that_comes_late_writes_nothing(void **state)
{
    nodes_run(*state, 2, late_writer_role);
}

/* What was written of an ask whose tag was the same, 65,535 asks ago, says nothing of this one. */
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
        s = &tt_shm_asks_in(w, &tt_shm_peer_of(w, 0)->mine)->share;
        atomic_store(&s->written, tt_shm_tag_of(0) << 48 | 1ull << 47);    /* failed, and all */
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

static void what_was_written_of_an_older_ask_does_not_count(void **state)
{
    nodes_run(*state, 2, old_tag_role);
}

/* As if rank 1's pid were another process's by now: its page is not where it was. Nothing is written, and rank 1 reads all. */
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
        peer->nonce_at = 4096;  /* where nobody has a page */
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

static void a_process_that_only_has_the_peers_pid_is_not_written(void **state)
{
    nodes_run(*state, 2, stranger_role);
}

/* Pieces of all sizes, at all places: what comes is what was sent. */
static void sizes_role(struct node *n)
{
    struct tt_region *mine, *from;
    struct tt_rkey key = begin(n, &mine);
    uint8_t *mem = node_memory(n, BYTES);
    struct tt_prng both;        /* draws alike on both ranks */

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

static void what_two_move_is_whole(void **state)
{
    nodes_run(*state, 2, sizes_role);
}

/* ---- what has just been made, and is pushed ---- */

#define PUSHED (64u << 10)

static void put_hot(struct node *n, const struct tt_rkey *key, uint64_t at, uint8_t *mem, uint64_t value)
{
    struct tt_desc d = node_signal(n, 1, 0, TT_SIGNAL_SET, value);

    d.flags = TT_DESC_HOT;
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

/* It is there before its receiver has done anything, the signal comes when it does; where it was not let, all comes then. */
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
        const struct tt_shm_permit *permit = tt_shm_asks_in(w, &tt_shm_peer_of(w, 0)->mine)->permit;
        const uint8_t *to = mine->mem;

        UNTIL_IDLE(n, n->board->flag[0]);
        CHECK(n, to[5] == 0 && to[PUSHED + 4] == 0);
        UNTIL(n, node_word(n, 0, 0) == 1);
        CHECK(n, to[4] == 0 && to[5] == 7 && to[PUSHED + 4] == 7 && to[PUSHED + 5] == 0);
        CHECK(n, n->ops->admit(mine, 0) && n->ops->admit(mine, 0));
        n->board->flag[1] = 1;
        UNTIL_IDLE(n, n->board->flag[2]);
        CHECK(n, to[MIB + 4] == 0 && to[MIB + 5] == 7 && to[MIB + PUSHED + 4] == 7 && to[MIB + PUSHED + 5] == 0);
        CHECK(n, node_word(n, 0, 0) == 1);
        CHECK(n, permit->writer.tid == (uint32_t)n->board->pid[0]);
        UNTIL(n, node_word(n, 0, 0) == 2);
    }
    node_barrier(n);
}

static void a_hot_put_is_written_by_its_sender_where_it_may(void **state)
{
    struct tt_shm_writer here;
    struct tt_shm_peer nobody = { 0 };

    tt_shm_writer_aim(&here, &nobody, 0, 0);    /* the ranks are forks of a process that has written before: they say their own threads all the same */
    nodes_run(*state, 2, hot_role);
}

/* Rank 1 has let rank 0, which has a source. */
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

/* As late_writer_role, of a put that is pushed. */
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

static void a_push_that_comes_late_writes_nothing(void **state)
{
    nodes_run(*state, 2, late_push_role);
}

/* Bytes have been pushed; the memory goes before the signal is raised: it is not. And who pushed may be gone by then. */
static void pushed_and_gone_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = begin_admitted(n, &mine, &key);

    if (n->rank == 0) {
        put_hot(n, &key, 0, mem, 1);
        n->board->flag[0] = 1;
        UNTIL(n, n->local[1] == 1);
        node_tell(n, 1, 1, TT_SIGNAL_SET, 1);
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

static void what_was_pushed_into_memory_that_is_gone_does_not_signal(void **state)
{
    nodes_run(*state, 2, pushed_and_gone_role);
}

/* Memory is taken back while it is pushed into: nothing changes in it from then on. */
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
            CHECK(n, n->ops->reg(n->w, mem, RACE_BYTES, &mine) == TUTTI_OK && n->ops->admit(mine, 0));
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
    if (n->rank == 1)   /* none, where the two share a processor */
        print_message("%u of %u were taken back midway\n", midway, RACES);
}

static void nothing_is_pushed_into_memory_that_was_taken_back(void **state)
{
    nodes_run(*state, 2, push_race_role);
}

/* What there is no permit for comes as ever. */
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

static void there_are_so_many_permits_and_they_come_back(void **state)
{
    nodes_run(*state, 2, permits_role);
}

/* As stranger_role. */
static void push_stranger_role(struct node *n)
{
    struct tt_region *mine;
    struct tt_rkey key;
    uint8_t *mem = begin_admitted(n, &mine, &key);

    if (n->rank == 0) {
        struct tt_shm_peer *peer = tt_shm_peer_of(tt_shm_of(n->w), 1);

        peer->nonce_at = 4096;  /* where nobody has a page */
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

static void nothing_is_pushed_to_a_process_that_only_has_the_peers_pid(void **state)
{
    nodes_run(*state, 2, push_stranger_role);
}

/* ---- peers that cannot be read ---- */

/* From here on this process can be read by its like (readable), or by nobody but root. */
static void become(struct node *n, bool readable)
{
    CHECK(n, geteuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) == 0);
    CHECK(n, prctl(PR_SET_DUMPABLE, readable) == 0);
}

/* Rank 1 lets nobody read it: so rank 0 may give it no keys of its memory, and it refuses such; the other way it works. */
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
        CHECK(n, n->ops->import(n->w, 0, &n->board->key[0][0], &key) == TUTTI_ERR_UNSUPPORTED && key.peer == 77);
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

static void a_peer_that_cannot_be_read_is_given_no_keys(void **state)
{
    nodes_run(*state, 2, unreadable_role);
}

/* Rank 0 shuts itself off with a put half read: an error, for both, and no wrong bytes. */
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

static void a_peer_that_shuts_itself_off_is_lost_with_a_reason(void **state)
{
    nodes_run(*state, 2, shut_role);
}

/* Rank 1 is opened without. */
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

static void without_it_on_one_side_there_is_none_between_the_two(void **state)
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
        n->board->flag[0] = 1;  /* the memory is its owner's again */
        UNTIL(n, n->losses[1] == 1);
    } else {
        UNTIL_IDLE(n, n->board->flag[0]);
        UNTIL(n, n->losses[0] == 1);
        CHECK(n, node_word(n, 0, 0) == 0);
    }
    node_barrier_idle(n);
}

static void a_put_whose_link_is_lost_does_not_signal_later(void **state)
{
    nodes_run(*state, 2, lost_role);
}

/* ---- */

static _Atomic uint32_t *readable;      /* ranks that could read the other */

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
        cmocka_unit_test_prestate(a_source_that_goes_midway_takes_the_rest_and_the_signal_with_it, &one),
        cmocka_unit_test_prestate(a_signal_never_comes_with_bytes_from_after_its_source_went, &one),
        cmocka_unit_test_prestate(what_is_taken_back_by_its_cookie_is_not_read_although_others_send_from_there, &one),
        cmocka_unit_test_prestate(taking_a_source_back_does_not_wait_for_a_stopped_reader, &one),
        cmocka_unit_test_prestate(a_source_is_there_while_one_registration_is, &one),
        cmocka_unit_test_prestate(only_urgent_signals_overtake, &one),
        cmocka_unit_test_prestate(a_sender_that_dies_midway_is_lost_and_never_signals, &one),
        cmocka_unit_test_prestate(a_sender_that_becomes_another_program_is_not_read, &one),
        cmocka_unit_test_prestate(a_sender_that_waits_moves_its_part, &one),
        cmocka_unit_test_prestate(where_ranks_outnumber_cores_it_leaves_that_to_its_peer, &one),
        cmocka_unit_test_prestate(a_writer_that_comes_late_writes_nothing, &one),
        cmocka_unit_test_prestate(what_was_written_of_an_older_ask_does_not_count, &one),
        cmocka_unit_test_prestate(a_process_that_only_has_the_peers_pid_is_not_written, &one),
        cmocka_unit_test_prestate(what_two_move_is_whole, &one),
        cmocka_unit_test_prestate(a_hot_put_is_written_by_its_sender_where_it_may, &one),
        cmocka_unit_test_prestate(a_push_that_comes_late_writes_nothing, &one),
        cmocka_unit_test_prestate(what_was_pushed_into_memory_that_is_gone_does_not_signal, &one),
        cmocka_unit_test_prestate(nothing_is_pushed_into_memory_that_was_taken_back, &one),
        cmocka_unit_test_prestate(there_are_so_many_permits_and_they_come_back, &one),
        cmocka_unit_test_prestate(nothing_is_pushed_to_a_process_that_only_has_the_peers_pid, &one),
        cmocka_unit_test_prestate(a_peer_that_cannot_be_read_is_given_no_keys, &one),
        cmocka_unit_test_prestate(a_peer_that_shuts_itself_off_is_lost_with_a_reason, &one),
        cmocka_unit_test_prestate(a_put_whose_link_is_lost_does_not_signal_later, &one),
        cmocka_unit_test_prestate(without_it_on_one_side_there_is_none_between_the_two, &one),
    };

    one.seed = seed ? strtoull(seed, NULL, 0) : tt_now_ns();
    readable = mmap(NULL, sizeof *readable, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(readable, MAP_FAILED);
    nodes_run(&one, 2, probe_role);
    if (*readable < 2) {
        printf("left out: a process may not read another's memory here\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
