/* The socket of a process: a service in this process, and clients that connect to it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "status/place.h"
#include "status/seal.h"
#include "status/service.h"
#include "status/talk.h"
#include "support/unit.h"
#include "trace/comms.h"
#include "trace/oplog.h"

#define PATIENCE_NS (60 * TT_SECOND)
#define JOB 0x1234

struct talker {
    int fd;
    struct tt_framer in;
};

static char folder[] = "/tmp/tt-service-XXXXXX";

static struct tt_service *open_service(uint32_t rank)
{
    const struct tt_service_conf conf = {
        .job = JOB, .rank = rank, .nranks = 1, .nhosts = 1, .tidies = true, .listens = true
    };
    struct tt_service *s;

    assert_int_equal(tt_service_open(&s, &conf), TUTTI_OK);
    return s;
}

static bool has_socket(uint32_t rank)
{
    char path[TT_PLACE_BYTES];
    struct stat st;

    assert_true(tt_place_path(folder, JOB, rank, path));
    return stat(path, &st) == 0;
}

static void talk_open(struct talker *t)
{
    char path[TT_PLACE_BYTES];

    assert_true(tt_place_path(folder, JOB, 0, path));
    t->fd = tt_place_connect(path);
    assert_true(t->fd >= 0);
    tt_framer_init(&t->in, TT_TALK_BODY_MAX);
}

static void talk_close(struct talker *t)
{
    close(t->fd);
    tt_framer_fini(&t->in);
}

static void talk_send(struct talker *t, const void *data, size_t bytes)
{
    assert_int_equal(send(t->fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* Serves until the next frame arrives. Returns false at the end of the connection. */
static bool talk_next(struct talker *t, struct tt_service *s, struct tt_frame *f)
{
    const uint64_t due_ns = tt_now_ns() + PATIENCE_NS;

    while (!tt_framer_next(&t->in, f)) {
        size_t room;
        uint8_t *at = tt_framer_space(&t->in, &room);
        ssize_t n;

        assert_false(t->in.bad);
        tt_service_serve(s);
        n = recv(t->fd, at, room, 0);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return false;
        if (n > 0)
            tt_framer_added(&t->in, (size_t)n);
        else
            poll(&(struct pollfd){ .fd = tt_service_fd(s), .events = POLLIN }, 1, 10);
        assert_true(tt_now_ns() < due_ns);
    }
    return true;
}

/* Sends a request and merges the whole answer. */
static void talk_query(struct talker *t, struct tt_service *s, struct tt_status_report *r)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 1000 };
    uint8_t request[TT_TALK_FRAME_MAX];
    struct tt_frame f;

    tt_status_report_init(r);
    talk_send(t, request, tt_talk_request_write(&q, request));
    for (;;) {
        assert_true(talk_next(t, s, &f));
        if (f.type == TT_TALK_END)
            return;
        assert_int_equal(f.type, TT_TALK_ROWS);
        assert_true(tt_status_merge(r, f.body, f.bytes));
    }
}

static void a_request_is_answered(void **state)
{
    struct tt_service *s = open_service(0);
    struct tt_status_report r;
    struct tt_talk_hello hello;
    struct talker t;
    struct tt_frame f;

    (void)state;
    talk_open(&t);
    assert_true(talk_next(&t, s, &f));
    assert_true(tt_talk_hello_read(&f, &hello));
    assert_int_equal(hello.job, JOB);
    assert_int_equal(hello.pid, getpid());
    for (int i = 0; i < 3; i++) {
        talk_query(&t, s, &r);
        assert_int_equal(r.nreported, 1);
        tt_status_report_fini(&r);
    }
    talk_close(&t);
    tt_service_close(s);
    assert_false(has_socket(0));
}

static void unknown_ranks_are_refused(void **state)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_RANK, .target = 1, .timeout_ms = 1000 };
    struct tt_service *s = open_service(0);
    uint8_t request[TT_TALK_FRAME_MAX];
    char why[TT_TALK_BODY_MAX];
    struct talker t;
    struct tt_frame f;

    (void)state;
    talk_open(&t);
    assert_true(talk_next(&t, s, &f));
    talk_send(&t, request, tt_talk_request_write(&q, request));
    assert_true(talk_next(&t, s, &f));
    assert_true(tt_talk_refused_read(&f, why));
    assert_string_equal(why, "the job has no such rank");
    talk_close(&t);
    tt_service_close(s);
}

/* A frame that is too long, an invalid request, and bytes that are no frame. */
static void clients_that_break_the_protocol_are_dropped(void **state)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 0 };
    struct tt_service *s = open_service(0);
    uint8_t data[TT_TALK_FRAME_MAX] = { 0 };
    struct tt_frame f;

    (void)state;
    for (int i = 0; i < 3; i++) {
        size_t bytes = 16;
        struct talker t;

        talk_open(&t);
        assert_true(talk_next(&t, s, &f));
        if (i == 0)
            bytes = tt_talk_request_write(&q, data);
        else if (i == 1)
            tt_frame_header(data, TT_TALK_REQUEST, 1 << 30);
        else
            memcpy(data, "GET / HTTP/1.1\r\n", 16);
        talk_send(&t, data, bytes);
        while (talk_next(&t, s, &f))
            ;
        talk_close(&t);
    }
    tt_service_close(s);
}

/* More clients than there are entries: the oldest idle one is dropped. */
static void idle_clients_make_room(void **state)
{
    struct talker t[TT_SERVICE_CLIENTS_MAX + 1];
    struct tt_service *s = open_service(0);
    struct tt_frame f;

    (void)state;
    for (uint32_t i = 0; i <= TT_SERVICE_CLIENTS_MAX; i++) {
        talk_open(&t[i]);
        assert_true(talk_next(&t[i], s, &f));
    }
    assert_false(talk_next(&t[0], s, &f));
    for (uint32_t i = 0; i <= TT_SERVICE_CLIENTS_MAX; i++)
        talk_close(&t[i]);
    tt_service_close(s);
}

/* Makes an answer that is longer than what the kernel buffers: communicators with an operation in
 * progress. */
static void fill_trace(uint32_t n)
{
    const uint32_t ranks[] = { 0, 1 };

    assert_int_equal(tt_oplog_start(), TUTTI_OK);
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t comm =
            tt_comms_add(&(struct tt_comms_info){ .hash = i + 1, .nranks = 2, .ranks = ranks });

        tt_oplog_begin(NULL, &(struct tt_oplog_call){ .peer = TT_OPLOG_NONE,
                                                      .tag = TT_OPLOG_NONE,
                                                      .comm = comm,
                                                      .algo = TT_OPLOG_NO_ALGO,
                                                      .flags = TT_OPLOG_STARTED });
    }
}

/* All but one client request an answer and do not read it. The last one is answered at once, and
 * the others are dropped later, with a part of their answers. */
static void clients_that_do_not_read_are_dropped(void **state)
{
    enum { N = 4000, STALLED = TT_SERVICE_CLIENTS_MAX - 1 };
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 1000 };
    struct talker t[STALLED], last;
    struct tt_service *s = open_service(0);
    uint8_t request[TT_TALK_FRAME_MAX];
    const uint64_t began_ns = tt_now_ns();
    struct tt_status_report r;
    struct tt_frame f;

    (void)state;
    fill_trace(N);
    for (uint32_t i = 0; i < STALLED; i++) {
        talk_open(&t[i]);
        assert_true(talk_next(&t[i], s, &f));
        talk_send(&t[i], request, tt_talk_request_write(&q, request));
    }
    talk_open(&last);
    assert_true(talk_next(&last, s, &f));
    for (int i = 0; i < 3; i++) {
        talk_query(&last, s, &r);
        assert_int_equal(r.ncomms, N);
        tt_status_report_fini(&r);
    }
    talk_close(&last);
    for (uint32_t i = 0; i < STALLED; i++) {
        struct pollfd p = { .fd = t[i].fd, .events = POLLRDHUP };

        while (poll(&p, 1, 10) <= 0) {
            tt_service_serve(s);
            assert_true(tt_now_ns() < began_ns + PATIENCE_NS + TT_SERVICE_STALL_NS);
        }
        talk_close(&t[i]);
    }
    assert_true(tt_now_ns() >= began_ns + TT_SERVICE_STALL_NS);
    tt_service_close(s);
}

#define TOKEN "a token of 24 characters"

/* Sets TUTTI_STATUS_LISTEN to a free port of loopback. */
static struct sockaddr_in choose_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = sizeof at;
    char text[32];

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    close(fd);
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(at.sin_port));
    setenv("TUTTI_STATUS_LISTEN", text, 1);
    setenv("TUTTI_STATUS_TOKEN", TOKEN, 1);
    return at;
}

/* Proves the token. */
static void talk_open_remote(struct talker *t, struct tt_service *s, const struct sockaddr_in *at,
                             struct tt_seal *seal)
{
    struct tt_seal_nonces n = { .client = { 7 } };
    uint8_t frame[TT_SEAL_FRAME_MAX];
    struct tt_frame f;

    t->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(t->fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(fcntl(t->fd, F_SETFL, O_NONBLOCK), 0);
    tt_framer_init(&t->in, TT_TALK_BODY_MAX + TT_SEAL_BYTES);
    assert_true(talk_next(t, s, &f));
    assert_true(tt_seal_challenge_read(&f, &n));
    talk_send(t, frame, tt_seal_proof_write(&n, TOKEN, frame));
    assert_true(talk_next(t, s, &f));
    assert_true(tt_seal_accept_read(&f, TOKEN, &n));
    tt_seal_begin(seal, &n, TOKEN, false);
}

/* All client entries are occupied by clients that do not read their answers. */
static void clients_without_a_place_get_the_cause(void **state)
{
    const struct tt_collect_query q = { .what = TT_COLLECT_ALL, .timeout_ms = 1000 };
    const struct sockaddr_in at = choose_port();
    struct talker t[TT_SERVICE_CLIENTS_MAX], remote;
    uint8_t request[TT_TALK_FRAME_MAX];
    char why[TT_TALK_BODY_MAX];
    struct tt_talk_hello hello;
    struct tt_service *s = open_service(0);
    struct tt_seal seal;
    struct tt_frame f;

    (void)state;
    talk_open_remote(&remote, s, &at, &seal);
    assert_true(talk_next(&remote, s, &f));
    assert_true(tt_seal_check(&seal, &f) && tt_talk_hello_read(&f, &hello));
    talk_close(&remote);
    fill_trace(4000);
    for (uint32_t i = 0; i < TT_SERVICE_CLIENTS_MAX; i++) {
        talk_open(&t[i]);
        assert_true(talk_next(&t[i], s, &f));
        talk_send(&t[i], request, tt_talk_request_write(&q, request));
        tt_service_serve(s);
    }
    talk_open_remote(&remote, s, &at, &seal);
    assert_true(talk_next(&remote, s, &f));
    assert_true(tt_seal_check(&seal, &f) && tt_talk_refused_read(&f, why));
    assert_string_equal(why, "it is serving other queries");
    assert_false(talk_next(&remote, s, &f));
    talk_close(&remote);
    for (uint32_t i = 0; i < TT_SERVICE_CLIENTS_MAX; i++)
        talk_close(&t[i]);
    tt_service_close(s);
    unsetenv("TUTTI_STATUS_LISTEN");
    unsetenv("TUTTI_STATUS_TOKEN");
}

/* The program continues without the port, and has no last error of it. */
static void a_port_that_is_taken_is_no_error(void **state)
{
    const struct sockaddr_in at = choose_port();
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char before[1024];
    struct tt_service *s;

    (void)state;
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    snprintf(before, sizeof before, "%s", tutti_last_error());
    s = open_service(0);
    assert_string_equal(tutti_last_error(), before);
    tt_service_close(s);
    close(fd);
    unsetenv("TUTTI_STATUS_LISTEN");
    unsetenv("TUTTI_STATUS_TOKEN");
}

/* A new service with the same rank takes the path; the end of the old one does not remove it. */
static void a_replaced_socket_stays(void **state)
{
    struct tt_service *old = open_service(0), *young = open_service(0);
    struct talker t;
    struct tt_frame f;

    (void)state;
    tt_service_close(old);
    assert_true(has_socket(0));
    talk_open(&t);
    assert_true(talk_next(&t, young, &f));
    talk_close(&t);
    tt_service_close(young);
    assert_false(has_socket(0));
}

static void few_descriptors_are_left_to_the_program(void **state)
{
    struct rlimit before, few;
    struct tt_service *s;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 48;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    s = open_service(0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(tt_service_fd(s), -1);
    assert_false(has_socket(0));
    tt_service_serve(s);
    tt_service_close(s);
}

static void the_setting_is_checked(void **state)
{
    const struct tt_service_conf conf = { .job = JOB, .nranks = 1 };
    char longer[300] = "/";
    struct tt_service *s;

    (void)state;
    memset(longer + 1, 'x', sizeof longer - 2);
    setenv("TUTTI_STATUS", "yes", 1);
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_ERR_INVALID);
    setenv("TUTTI_STATUS", longer, 1);
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_ERR_INVALID);
    setenv("TUTTI_STATUS", "0", 1);
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_OK);
    assert_int_equal(tt_service_fd(s), -1);
    tt_service_close(s);
    setenv("TUTTI_STATUS", "/no/such/directory", 1);
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_OK);
    assert_int_equal(tt_service_fd(s), -1);
    tt_service_close(s);
    setenv("TUTTI_STATUS", folder, 1);
}

/* A member of an elastic run has no token of a job. */
static void elastic_runs_do_not_listen(void **state)
{
    struct tt_service_conf conf = { .job = JOB, .nranks = 1, .listens = true, .token = "" };
    struct tt_service *s;

    (void)state;
    setenv("TUTTI_STATUS", "0", 1);
    setenv("TUTTI_STATUS_LISTEN", "127.0.0.1:0", 1);
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_ERR_INVALID);
    conf.is_elastic = true;
    assert_int_equal(tt_service_open(&s, &conf), TUTTI_OK);
    assert_int_equal(tt_service_fd(s), -1);
    tt_service_close(s);
    unsetenv("TUTTI_STATUS_LISTEN");
    setenv("TUTTI_STATUS", folder, 1);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && setenv("TUTTI_STATUS", folder, 1) == 0 ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered),
        cmocka_unit_test(unknown_ranks_are_refused),
        cmocka_unit_test(clients_that_break_the_protocol_are_dropped),
        cmocka_unit_test(idle_clients_make_room),
        cmocka_unit_test(a_replaced_socket_stays),
        cmocka_unit_test(few_descriptors_are_left_to_the_program),
        cmocka_unit_test(the_setting_is_checked),
        cmocka_unit_test(a_port_that_is_taken_is_no_error),
        cmocka_unit_test(clients_without_a_place_get_the_cause),
        cmocka_unit_test(elastic_runs_do_not_listen),
        cmocka_unit_test(clients_that_do_not_read_are_dropped),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
