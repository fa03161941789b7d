/* Start-up of ranks over real sockets, as threads of this process, by tcp://, file:// and an ID,
 * with connections of unauthenticated peers. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/resolve.h"

/* Counts the waits and lookups of meet.c. */
static int counted_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
static struct tt_lookup *counted_lookup_begin(const char *host, const char *port, int flags,
                                              uint64_t now_ns);
#define poll counted_poll
#define tt_lookup_begin counted_lookup_begin
#include "boot/meet.c"
#undef poll
#undef tt_lookup_begin

#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/boot.h"
#include "boot/endpoint.h"
#include "boot/id.h"
#include "support/unit.h"

#define RANKS_MAX 16
#define PATIENCE_MS 60000

static atomic_uint npolls, nlookups;

static int counted_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    atomic_fetch_add(&npolls, 1);
    return poll(fds, n, timeout_ms);
}

static struct tt_lookup *counted_lookup_begin(const char *host, const char *port, int flags,
                                              uint64_t now_ns)
{
    atomic_fetch_add(&nlookups, 1);
    return tt_lookup_begin(host, port, flags, now_ns);
}

struct rank {
    pthread_t thread;
    struct tt_launch launch;
    uint32_t delay_ms;
    const char *settings;
    tutti_status refuses, status;
    char error[TT_ERROR_BYTES];
    struct tt_table table;
    struct tt_overlay *overlay;
    double took_s;
};

static struct tt_launch launch_of(uint32_t rank, uint32_t nranks, const char *rendezvous,
                                  const char *token, int64_t timeout_ms)
{
    struct tt_launch l = {
        .rank = rank, .nranks = nranks, .timeout_ms = timeout_ms, .launcher = "conf"
    };

    snprintf(l.rendezvous, sizeof l.rendezvous, "%s", rendezvous);
    snprintf(l.token, sizeof l.token, "%s", token);
    return l;
}

static void *meet(void *arg)
{
    struct rank *r = arg;
    const uint64_t began_ns = tt_now_ns();
    uint32_t card[2] = { r->launch.rank, 0xc0ffee }, constants = r->launch.rank + 7;
    const struct tt_boot_offer offer = { .overlay_doubling = true,
                                         .card = card,
                                         .card_bytes = sizeof card,
                                         .constants = &constants,
                                         .constants_bytes = sizeof constants,
                                         .settings = r->settings,
                                         .refuses = r->refuses,
                                         .cause = "it has no plan" };

    poll(NULL, 0, (int)r->delay_ms);    /* tests of late ranks */
    r->status =
        tt_boot_rendezvous(&r->launch, &offer, tt_deadline_ns(tt_now_ns(), r->launch.timeout_ms),
                           &r->table, &r->overlay);
    if (r->status)
        snprintf(r->error, sizeof r->error, "%s", tutti_last_error());
    r->took_s = (double)(tt_now_ns() - began_ns) / 1e9;
    return NULL;
}

static void start(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, meet, &ranks[i]), 0);
}

static void join(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
}

/* Closes one rank. All ranks close concurrently, as each waits for the others. */
static void *close_one(void *arg)
{
    struct rank *r = arg;

    tt_overlay_close(r->overlay);
    tt_table_fini(&r->table);
    return NULL;
}

static void check_and_close(struct rank *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i].status)
            fail_msg("rank %u: %s", ranks[i].launch.rank, ranks[i].error);
        assert_int_equal(ranks[i].table.nranks, n);
        assert_int_equal(ranks[i].table.rank, ranks[i].launch.rank);
        assert_memory_equal(ranks[i].table.secret, ranks[0].table.secret, 16);
        assert_int_equal(ranks[i].table.constants_bytes, 4);
        assert_memory_equal(ranks[i].table.constants, (const uint32_t[]){ 7 }, 4);  /* rank 0's */
        for (uint32_t r = 0; r < n; r++) {
            const uint32_t card[2] = { r, 0xc0ffee };
            const uint8_t *found;
            uint32_t holder;

            assert_int_equal(tt_boot_card(&ranks[i].table.records, r, &found, &holder),
                             sizeof card);
            assert_memory_equal(found, card, sizeof card);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, close_one, &ranks[i]), 0);
    join(ranks, n);
}

static void free_rendezvous(char out[64])
{
    snprintf(out, 64, "tcp://127.0.0.1:%u", unit_free_port());
}

static void temporary_path(char out[64])
{
    snprintf(out, 64, "/tmp/tutti-test-XXXXXX");
    assert_non_null(mkdtemp(out));
    strcat(out, "/rendezvous");
}

static void remove_path(char *path)
{
    assert_int_not_equal(access(path, F_OK), 0);    /* start-up has removed it */
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
}

/* Returns the number of seconds in the message after `what`. */
static double seconds_after(const char *sentence, const char *what)
{
    const char *at = strstr(sentence, what);

    if (!at)
        fail_msg("\"%s\" does not say \"%s\"", sentence, what);
    return strtod(at + strlen(what), NULL);
}

/* ---- tests ---- */

static void tcp_start_up_accepts_any_order(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= RANKS_MAX; n += n < 4 ? 1 : 4) {
        struct rank ranks[RANKS_MAX] = { { .delay_ms = 0 } };
        char rendezvous[64];

        free_rendezvous(rendezvous);
        for (uint32_t r = 0; r < n; r++) {
            ranks[r].launch = launch_of(r, n, rendezvous, "t", PATIENCE_MS);
            ranks[r].delay_ms = (n - 1 - r) * 5;    /* rank 0 is last */
        }
        start(ranks, n);
        join(ranks, n);
        check_and_close(ranks, n);
    }
}

static void rendezvous_can_be_reused(void **state)
{
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (int again = 0; again < 5; again++) {
        struct rank ranks[3] = { { .delay_ms = 0 } };

        for (uint32_t r = 0; r < 3; r++)
            ranks[r].launch = launch_of(r, 3, rendezvous, "t", PATIENCE_MS);
        start(ranks, 3);
        join(ranks, 3);
        check_and_close(ranks, 3);
    }
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Files of an earlier run: nothing, garbage, an address without a listener, and the address of
 * another server. */
static void stale_file_has_no_effect(void **state)
{
    (void)state;
    for (int stale = 0; stale < 4; stale++) {
        struct rank ranks[3] = { { .delay_ms = 0 } };
        const struct tt_launch nobody = launch_of(0, 1, "", "", 1000);
        char rendezvous[80], path[64], text[TT_ID_TEXT_BYTES + 1];
        struct tt_endpoint endpoint;
        uint16_t port = 0;
        tutti_id id;

        temporary_path(path);
        if (stale == 1)
            write_text(path, "id:00zz");
        if (stale == 2) {
            close(tt_listen(NULL, 0, &port));
            assert_int_equal(tt_endpoint_init(&endpoint, port, ""), TUTTI_OK);
            tt_id_init(&id, &endpoint);
        }
        if (stale == 3) {   /* a running server, but the file has another token */
            assert_int_equal(tt_id_serve(&id, &nobody, tt_now_ns() + 2 * TT_SECOND), TUTTI_OK);
            id.bytes[4] ^= 1;
        }
        if (stale >= 2) {
            tt_id_text(&id, text);
            write_text(path, strcat(text, "\n"));
        }
        snprintf(rendezvous, sizeof rendezvous, "file://%s", path);
        for (uint32_t r = 0; r < 3; r++) {
            ranks[r].launch = launch_of(r, 3, rendezvous, "t", PATIENCE_MS);
            ranks[r].delay_ms = r == 0 ? 150 : 0;       /* the others read the stale file first */
        }
        start(ranks, 3);
        join(ranks, 3);
        check_and_close(ranks, 3);
        remove_path(path);
    }
}

/* Another file at this path, or a device, is kept. */
static void other_files_are_not_replaced(void **state)
{
    static const char content[] = "a,b\n1,2\n";
    struct rank rank = { .delay_ms = 0 };
    char rendezvous[80], path[64], now[sizeof content] = "";
    FILE *f;

    (void)state;
    temporary_path(path);
    write_text(path, content);
    snprintf(rendezvous, sizeof rendezvous, "file://%s", path);
    rank.launch = launch_of(0, 2, rendezvous, "", 3000);
    start(&rank, 1);
    join(&rank, 1);
    assert_int_equal(rank.status, TUTTI_ERR_INVALID);
    assert_non_null(strstr(rank.error, "it exists, and is not the file of an earlier run"));
    f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fread(now, 1, sizeof now, f), sizeof content - 1);
    fclose(f);
    assert_string_equal(now, content);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    start(&rank, 1);
    join(&rank, 1);
    assert_int_equal(rank.status, TUTTI_ERR_INVALID);
    assert_int_equal(unlink(path), 0);
    remove_path(path);
}

static void file_is_private_to_the_user(void **state)
{
    struct rank rank = { .delay_ms = 0 };
    char rendezvous[80], path[64];
    struct stat info;

    (void)state;
    temporary_path(path);
    snprintf(rendezvous, sizeof rendezvous, "file://%s", path);
    rank.launch = launch_of(0, 2, rendezvous, "", 3000);     /* the file exists for that long */
    start(&rank, 1);
    for (uint64_t end_ns = tt_now_ns() + 60 * TT_SECOND; stat(path, &info) != 0;) {
        assert_true(tt_now_ns() < end_ns);
        sched_yield();
    }
    assert_int_equal(info.st_mode & 0777, 0600);
    join(&rank, 1);
    assert_int_equal(rank.status, TUTTI_ERR_TIMEOUT);
    remove_path(path);
}

static void id_connects_ranks_without_its_creator(void **state)
{
    struct rank ranks[4] = { { .delay_ms = 0 } };
    const struct tt_launch maker = launch_of(0, 1, "", "mine", 1000);
    tutti_id id;

    (void)state;
    assert_int_equal(tt_id_serve(&id, &maker, tt_now_ns() + PATIENCE_MS * TT_MS), TUTTI_OK);
    for (uint32_t r = 0; r < 4; r++) {
        ranks[r].launch = launch_of(r, 4, "", "mine", PATIENCE_MS);
        assert_int_equal(tt_id_read(&id, &ranks[r].launch), TUTTI_OK);
    }
    start(ranks, 4);
    join(ranks, 4);
    check_and_close(ranks, 4);
}

/* In a separate process, because the limit on descriptors is per process. */
static _Noreturn void start_by_id(uint32_t rank, uint32_t nranks, int id_pipe)
{
    struct rank r = { .launch = launch_of(rank, nranks, "", "mine", PATIENCE_MS) };
    tutti_id id;

    tt_log_set(TT_LOG_WARN);
    if (read(id_pipe, &id, sizeof id) != (ssize_t)sizeof id || tt_id_read(&id, &r.launch))
        _exit(2);
    meet(&r);
    if (r.status)
        _exit(3);
    close_one(&r);
    _exit(0);
}

static void missing_descriptors_are_logged_once(void **state)
{
    const struct tt_launch maker = launch_of(0, 1, "", "mine", 1000);
    struct unit_stderr caught;
    struct rlimit before;
    int id_pipe[2], status;
    pid_t pids[2];
    struct stat said = { .st_size = 0 };
    char text[2048];
    tutti_id id;

    (void)state;
    assert_int_equal(pipe(id_pipe), 0);
    for (uint32_t r = 0; r < 2; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0)
            start_by_id(r, 2, id_pipe[0]);
    }
    unit_stderr_catch(&caught);
    tt_log_set(TT_LOG_WARN);
    assert_int_equal(tt_id_serve(&id, &maker, tt_now_ns() + PATIENCE_MS * TT_MS), TUTTI_OK);
    before = unit_descriptors_end();
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(write(id_pipe[1], &id, sizeof id), sizeof id);
    for (uint64_t end_ns = tt_now_ns() + PATIENCE_MS * TT_MS;
         said.st_size == 0 && tt_now_ns() < end_ns; poll(NULL, 0, 1))
        assert_int_equal(fstat(caught.file, &said), 0);
    unit_descriptors_again(&before);
    for (uint32_t r = 0; r < 2; r++)
        assert_true(waitpid(pids[r], &status, 0) == pids[r] && status == 0);
    tt_log_set(TT_LOG_NONE);
    unit_stderr_release(&caught, text, sizeof text);
    assert_non_null(strstr(text, "rendezvous: cannot accept a connection: Too many open files"));
    assert_null(strstr(strchr(text, '\n'), "no descriptor"));
    close(id_pipe[0]);
    close(id_pipe[1]);
}

static void invalid_id_bytes_are_refused(void **state)
{
    struct tt_launch l = { .rank = 0 };
    tutti_id id;

    (void)state;
    memset(&id, 0, sizeof id);
    assert_int_equal(tt_id_read(&id, &l), TUTTI_ERR_INVALID);
    assert_non_null(strstr(tutti_last_error(), "all zeros"));
    memset(&id, 0xff, sizeof id);
    assert_int_equal(tt_id_read(&id, &l), TUTTI_ERR_INVALID);
    assert_int_equal(tt_id_serve(&id, &l, tt_now_ns()), TUTTI_OK);
    id.bytes[127] = 1;
    assert_int_equal(tt_id_read(&id, &l), TUTTI_ERR_INVALID);
}

static void every_rank_reports_missing_ranks(void **state)
{
    struct rank ranks[3] = { { .delay_ms = 0 } };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (uint32_t i = 0; i < 3; i++)
        ranks[i].launch = launch_of(i == 2 ? 3 : i, 4, rendezvous, "t", 3000);
    start(ranks, 3);
    join(ranks, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, TUTTI_ERR_TIMEOUT);
        assert_true(seconds_after(ranks[i].error, "3 of 4 ranks joined within ") >= 2.5);
        assert_non_null(strstr(ranks[i].error, "missing: 2"));
        assert_true(ranks[i].took_s >= 2.5 && ranks[i].took_s < 60);
    }
}

static void refusal_reason_reaches_waiting_ranks(void **state)
{
    struct rank ranks[2] = { { .delay_ms = 0 } };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (uint32_t i = 0; i < 2; i++)
        ranks[i].launch = launch_of(i, 2, rendezvous, i ? "wrong" : "right", 1500);
    start(ranks, 2);
    join(ranks, 2);
    assert_int_equal(ranks[0].status, TUTTI_ERR_TIMEOUT);
    assert_non_null(strstr(ranks[0].error, "missing: 1; last refused process: wrong token"));
    assert_int_equal(ranks[1].status, TUTTI_ERR_INVALID);
}

/* 192.0.2.1 is an address for documentation; names under .invalid do not exist. */
static void rank_0_explains_why_it_fails(void **state)
{
    static const struct {
        const char *rendezvous, *says;
        tutti_status status;
    } cases[] = {
        { "tcp://nosuch.invalid:4711", "cannot resolve the name \"nosuch.invalid\"",
          TUTTI_ERR_TIMEOUT },
        { "tcp://192.0.2.1:4711", "\"192.0.2.1\" is not an address of this host",
          TUTTI_ERR_TIMEOUT },
        { "tcp://127.0.0.1:65536", "the port must be 0 to 65535", TUTTI_ERR_INVALID },
        { "tcp://127.0.0.1:0", "invalid port 0: must be 1 to 65535", TUTTI_ERR_INVALID },
        { "tcp://127.0.0.1:http", "the port must be 0 to 65535", TUTTI_ERR_INVALID },
        { "tcp://127.0.0.1", "must be like host:29401", TUTTI_ERR_INVALID },
        { "tcp://:4711", "no host before the port", TUTTI_ERR_INVALID },
        { "tcp://::1:4711", "an IPv6 address must be in brackets", TUTTI_ERR_INVALID },
        { "tcp://[::1:4711", "an IPv6 address must be in brackets", TUTTI_ERR_INVALID },
        { "file://here", "use file:///path", TUTTI_ERR_INVALID },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rank rank = { .delay_ms = 0 };

        print_message("%s\n", cases[i].rendezvous);
        rank.launch = launch_of(0, 2, cases[i].rendezvous, "", 2000);
        strcpy(rank.launch.rendezvous_from, "TUTTI_RENDEZVOUS");
        start(&rank, 1);
        join(&rank, 1);
        assert_int_equal(rank.status, cases[i].status);
        assert_non_null(strstr(rank.error, cases[i].says));
        assert_non_null(strstr(rank.error, "TUTTI_RENDEZVOUS"));
    }
}

static void missing_rank_0_is_reported(void **state)
{
    struct rank ranks[2] = { { .delay_ms = 0 } };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (uint32_t i = 0; i < 2; i++)
        ranks[i].launch = launch_of(1 + i, 3, rendezvous, "t", 500);
    start(ranks, 2);
    join(ranks, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, TUTTI_ERR_TIMEOUT);
        assert_non_null(strstr(ranks[i].error, rendezvous));
        assert_true(seconds_after(ranks[i].error, " within ") >= 0.5);
        assert_non_null(strstr(ranks[i].error, "rank 0"));
    }
}

/* A round of refused connections needs fewer than ten waits, and 1.5 s contain about twelve rounds,
 * on a machine of any speed. */
static void waiting_for_rank_0_sleeps(void **state)
{
    struct rank rank = { .delay_ms = 0 };
    char rendezvous[64];

    (void)state;
    snprintf(rendezvous, sizeof rendezvous, "tcp://localhost:%u", unit_free_port());
    rank.launch = launch_of(1, 2, rendezvous, "t", 1500);
    atomic_store(&npolls, 0);
    start(&rank, 1);
    join(&rank, 1);
    assert_int_equal(rank.status, TUTTI_ERR_TIMEOUT);
    assert_in_range(atomic_load(&npolls), 1, 500);
}

/* Returns the number of new connections to a listener, and keeps them open. */
static uint32_t nconnections(int listener)
{
    uint32_t n = 0;

    while (accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) >= 0)
        n++;
    return n;
}

/* A process that sends no challenge listens at the rendezvous address. The first rank of the host
 * waits for it longer than another rank waits for a reply of the first one. But the first rank
 * replies every second, so the other rank keeps waiting, and does not look up the server's name
 * again. */
static void ranks_wait_for_a_first_rank_that_waits_for_the_server(void **state)
{
    struct rank ranks[3] = { { .delay_ms = 0 } };
    char rendezvous[64];
    uint64_t began_ns;
    uint16_t port = 0;
    const int listener = tt_listen(NULL, 0, &port);
    struct pollfd p = { .fd = listener, .events = POLLIN };
    uint32_t n, looked_up;

    (void)state;
    assert_true(listener >= 0);
    snprintf(rendezvous, sizeof rendezvous, "tcp://127.0.0.1:%u", port);
    for (uint32_t r = 0; r < 3; r++)
        ranks[r].launch = launch_of(r, 3, rendezvous, "t", PATIENCE_MS);
    began_ns = tt_now_ns();
    atomic_store(&nlookups, 0);
    start(ranks + 1, 1);
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    start(ranks + 2, 1);
    poll(NULL, 0, 7000);            /* rank 2 would wait 5 s for a silent first rank */
    n = nconnections(listener);
    looked_up = atomic_load(&nlookups);
    if (tt_now_ns() - began_ns < CHALLENGE_NS) {    /* else the first rank has started again */
        assert_int_equal(n, 1);
        assert_in_range(looked_up, 1, 2);
    }
    shutdown(listener, SHUT_RDWR);
    close(listener);
    start(ranks, 1);
    join(ranks, 3);
    check_and_close(ranks, 3);
}

static void different_token_is_refused_with_reason(void **state)
{
    struct rank ranks[4] = { { .delay_ms = 0 } };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (uint32_t i = 0; i < 4; i++) {
        ranks[i].launch =
            launch_of(i < 3 ? i : 2, 3, rendezvous, i < 3 ? "right" : "wrong", PATIENCE_MS);
        ranks[i].delay_ms = i == 2 ? 300 : 0;
    }
    start(ranks, 4);
    join(ranks, 4);
    assert_int_equal(ranks[3].status, TUTTI_ERR_INVALID);
    assert_non_null(strstr(ranks[3].error, "token"));
    check_and_close(ranks, 3);
}

/* ---- unauthenticated peers ---- */

struct strangers {
    pthread_t thread;
    struct tt_address at;
    atomic_bool stop;
    unsigned came;
};

static int knock(const struct tt_address *at)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at->storage, at->bytes) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Opens connections until it is stopped. Each sends garbage, a false hello or nothing. Some are
 * closed at once; the others stay open and send single bytes. */
static void *be_strange(void *arg)
{
    struct strangers *s = arg;
    int open_fds[200];
    unsigned nopen = 0;
    struct tt_prng prng;

    tt_prng_init(&prng, 7);
    while (!atomic_load(&s->stop)) {
        const int fd = knock(&s->at);
        uint8_t junk[256];

        if (fd < 0)
            continue;
        s->came++;
        for (size_t i = 0; i < sizeof junk; i++)
            junk[i] = (uint8_t)tt_prng_u64(&prng);
        if (tt_prng_below(&prng, 2))
            memcpy(junk, "Tt\2\0\60\0\0\0", 8);     /* the header of a hello */
        if (tt_prng_below(&prng, 4) &&
            send(fd, junk, 1 + tt_prng_below(&prng, sizeof junk), MSG_NOSIGNAL) < 0)
            errno = 0;
        if (tt_prng_below(&prng, 2) && nopen < 200)
            open_fds[nopen++] = fd;     /* stays half-open */
        else
            close(fd);
        if (nopen > 0)
            /* the server may have dropped it */
            send(open_fds[tt_prng_below(&prng, nopen)], junk, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    while (nopen > 0)
        close(open_fds[--nopen]);
    return NULL;
}

static void strangers_do_not_disturb_start_up(void **state)
{
    struct strangers s = { .came = 0 };
    struct rank ranks[4] = { { .delay_ms = 0 } };
    struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    in.sin_port = htons((uint16_t)atoi(strrchr(rendezvous, ':') + 1));
    memcpy(&s.at.storage, &in, sizeof in);
    s.at.bytes = sizeof in;
    atomic_init(&s.stop, false);
    for (uint32_t i = 0; i < 4; i++) {
        ranks[i].launch = launch_of(i, 4, rendezvous, "t", PATIENCE_MS);
        ranks[i].delay_ms = i == 3 ? 700 : 0;
    }
    assert_int_equal(pthread_create(&s.thread, NULL, be_strange, &s), 0);
    start(ranks, 4);
    join(ranks, 4);
    atomic_store(&s.stop, true);
    pthread_join(s.thread, NULL);
    print_message("%u strangers came\n", s.came);
    assert_true(s.came > 10);
    check_and_close(ranks, 4);
}

/* All ranks report the cause, also if the rank is the server. The rank itself does not report it a
 * second time. */
static void cause_of_a_rank_that_cannot_start_reaches_all(void **state)
{
    (void)state;
    for (uint32_t refusing = 0; refusing < 4; refusing++) {
        struct rank ranks[4] = { { .delay_ms = 0 } };
        char rendezvous[64], cause[80];

        free_rendezvous(rendezvous);
        snprintf(cause, sizeof cause, "rank %u cannot start: it has no plan", refusing);
        for (uint32_t r = 0; r < 4; r++) {
            ranks[r].launch = launch_of(r, 4, rendezvous, "t", PATIENCE_MS);
            ranks[r].settings = r == refusing ? NULL : "equal";
        }
        ranks[refusing].refuses = TUTTI_ERR_NOMEM;
        start(ranks, 4);
        join(ranks, 4);
        for (uint32_t r = 0; r < 4; r++) {
            assert_int_equal(ranks[r].status, TUTTI_ERR_NOMEM);
            if (r == refusing)
                assert_null(strstr(ranks[r].error, "cannot start"));
            else if (!strstr(ranks[r].error, cause))
                fail_msg("rank %u reports \"%s\"", r, ranks[r].error);
        }
    }
}

static void different_settings_are_reported_by_all(void **state)
{
    struct rank ranks[4] = { { .delay_ms = 0 } };
    char rendezvous[64];

    (void)state;
    free_rendezvous(rendezvous);
    for (uint32_t r = 0; r < 4; r++) {
        ranks[r].launch = launch_of(r, 4, rendezvous, "t", PATIENCE_MS);
        ranks[r].settings = r < 2 ? "a=1" : r == 2 ? "a=2" : NULL;
    }
    start(ranks, 4);
    join(ranks, 4);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(ranks[r].status, TUTTI_ERR_MISMATCH);
        assert_non_null(strstr(ranks[r].error, "the settings of rank 2 differ from those of rank 0 "
                                               "(2 of 4 ranks differ): rank 0 has a=1; rank 2 has "
                                               "a=2"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_start_up_accepts_any_order),
        cmocka_unit_test(rendezvous_can_be_reused),
        cmocka_unit_test(stale_file_has_no_effect),
        cmocka_unit_test(other_files_are_not_replaced),
        cmocka_unit_test(file_is_private_to_the_user),
        cmocka_unit_test(id_connects_ranks_without_its_creator),
        cmocka_unit_test(missing_descriptors_are_logged_once),
        cmocka_unit_test(invalid_id_bytes_are_refused),
        cmocka_unit_test(every_rank_reports_missing_ranks),
        cmocka_unit_test(refusal_reason_reaches_waiting_ranks),
        cmocka_unit_test(rank_0_explains_why_it_fails),
        cmocka_unit_test(missing_rank_0_is_reported),
        cmocka_unit_test(waiting_for_rank_0_sleeps),
        cmocka_unit_test(ranks_wait_for_a_first_rank_that_waits_for_the_server),
        cmocka_unit_test(different_token_is_refused_with_reason),
        cmocka_unit_test(cause_of_a_rank_that_cannot_start_reaches_all),
        cmocka_unit_test(different_settings_are_reported_by_all),
        cmocka_unit_test(strangers_do_not_disturb_start_up),
    };

    tt_log_set(TT_LOG_NONE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
