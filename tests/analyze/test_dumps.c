/* Reading of trace dumps: broken, incomplete, foreign and hostile files are reported with their
 * line, and do not affect what other dumps contain. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "support/unit.h"

#include "analyze/diagnosis.h"
#include "analyze/line.h"
#include "analyze/p2p.h"

#define HEAD(RANK)                                                                                \
    "{\"tutti_trace\":1,\"version\":\"0.2.0\",\"job\":\"9f3c\",\"rank\":" #RANK                   \
    ",\"ranks\":4,\"host\":\"a\",\"pid\":1,\"reason\":\"timeout\",\"message\":\"\",\"now\":5000," \
    "\"clock\":{\"offset_ns\":100,\"error_ns\":3},\"lost\":0}\n"
#define COMM "{\"comm\":\"1f\",\"name\":\"dp\",\"of\":\"comm\",\"rank\":0,\"members\":\"0-3\"}\n"
#define OP(N, SEQ, REST) "{\"op\":" #N ",\"comm\":\"1f\",\"seq\":" #SEQ ",\"kind\":\"allreduce\",\"count\":4,\"type\":\"f32\",\"redop\":\"sum\",\"root\":null,\"called\":1000,\"started\":1010," REST "}\n"
#define DONE "\"ended\":1200,\"status\":\"OK\""
#define END "{\"end\":5}\n"

static tutti_status give(struct tt_dumps *d, const char *name, const char *text)
{
    return tt_dumps_read_text(d, name, text, strlen(text));
}

/* Returns the kept record of a collective call of a rank, or NULL. */
static const struct tt_dumps_op *op_of(const struct tt_dumps *d, uint32_t rank, uint32_t comm,
                                       uint64_t seq)
{
    const struct tt_dumps_rank *r = &d->ranks[rank];

    for (uint32_t i = r->nops; i > 0; i--) {
        const struct tt_dumps_op *op = &d->ops[r->ops_first + i - 1];

        if (op->comm == comm && op->seq == seq && op->class == TT_OP_COLLECTIVE)
            return op;
    }
    return NULL;
}

static void complete_dump_is_read(void **state)
{
    struct tt_dumps d;
    const struct tt_dumps_op *op;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    assert_int_equal(
        give(&d, "a",
             HEAD(2) COMM OP(0, 0, DONE)
                 OP(1, 1,
                    "\"ended\":null,\"status\":\"PENDING\",\"step\":3,\"steps\":6,\"note\":1,"
                    "\"waits\":{\"rank\":1,\"for\":\"data\"},\"peers\":[{\"rank\":1,\"sent\":7,"
                    "\"received\":5,\"first_out\":null,\"last_out\":null,\"first_in\":1100,\"last_"
                    "in\":1150}]") "{\"note\":1,\"at\":900,\"text\":\"caf\\u00e9 "
                                   "\\ud83d\"}\n{\"colour\":[1,{\"a\":2}],\"x\":-1.5e3}\n"
                                   "{\"peer\":3,\"wire\":\"tcp\",\"state\":\"silent\",\"last_"
                                   "heard\":700,\"last_progress\":null}\n"
                                   "{\"lane\":0,\"peer\":3,\"wire\":\"tcp\",\"state\":\"up\","
                                   "\"posts\":9,\"completions\":7,\"posted_bytes\":90,\"completed_"
                                   "bytes\":70,\"last_post\":1,\"last_completion\":null}\n" END),
        TUTTI_OK);
    assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
    assert_int_equal(d.nproblems, 0);
    assert_true(d.ndumps == 1 && d.ncomplete == 1 && d.nskipped == 1 && d.nranks == 4);
    op = op_of(&d, 2, 0, 1);
    assert_non_null(op);
    assert_true(op->is_open && op->called == 1100 && op->waited == 1100 && op->step == 3);
    assert_true(op->waits_rank == 1 && op->waits_for == TT_WAIT_DATA && op->npeers == 1);
    assert_true(d.peers[op->peers_first].received == 5 && d.peers[op->peers_first].last_in == 1250);
    assert_string_equal(tt_dumps_text(&d, op->note), "caf\xc3\xa9 ?");
    assert_false(op_of(&d, 2, 0, 0)->is_open);
    assert_int_equal(tt_dumps_local_of(&d, 0, 2)->ncalled, 2);
    assert_true(d.nlanes == 1 && d.nreports == 1 && d.ranks[3].gone == 800);
    tt_dumps_fini(&d);
}

/* A name, its text, and the beginning of the reported problem. */
struct bad {
    const char *text, *problem;
    bool rejected;
};

static const struct bad bads[] = {
    { "", "bad:1: not a trace dump: no complete line", true },
    { "hello\n", "bad:1: not a trace dump", true },
    { "{\"version\":1}\n", "bad:1: not a trace dump", true },
    { "{\"tutti_trace\":2}\n", "bad:1: not a trace dump of version 1", true },
    { "{\"tutti_trace\":1,\"rank\":4,\"ranks\":4}\n", "bad:1: \"rank\" must be below \"ranks\"",
      true },
    { "{\"tutti_trace\":1,\"rank\":0,\"ranks\":2000000}\n", "bad:1: \"ranks\" must be", true },
    { "{\"tutti_trace\":1,\"job\":\"other\",\"rank\":0,\"ranks\":4}\n",
      "bad:1: belongs to another job", true },
    { "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":0,\"ranks\":5}\n", "bad:1: \"ranks\" differs",
      true },
    { HEAD(3), "bad:1: duplicate dump of this rank", true },
    { HEAD(0) "{\"op\":x}\n", "bad:2: a whole number is expected", false },
    { HEAD(0) COMM "{\"op\":1,\"comm\":\"1f\",\"seq\":0}\n", "bad:3: an operation needs", false },
    { HEAD(0) "{\"comm\":\"1f\",\"members\":\"0-3\"}\n{\"comm\":\"2f\",\"members\":\"3-9\"}\n",
      "bad:3: a rank is outside the job", false },
    { HEAD(0) "{\"comm\":\"1f\",\"members\":\"0-2\"}\n",
      "bad:2: the members of a communicator differ", false },
    { HEAD(0) "{\"comm\":\"2f\",\"members\":\"0-3,0-3\"}\n", "bad:2: more members than ranks",
      false },
    { HEAD(0) "{\"note\":1,\"at\":3,\"text\":\"a\n\"}\n", "bad:2: a text has no end", false },
    { HEAD(0) "[[[[[[[[[\n", "bad:2: a JSON object is expected", false },
    { HEAD(0) "{\"x\":[[[[[[[[[[[1]]]]]]]]]]]}\n", "bad:2: objects and arrays are nested deeper",
      false },
    { HEAD(0) "{\"op\":99999999999999999999999}\n", "bad:2: a number is too large", false },
    { HEAD(0) "{\"end\":2} x\n", "bad:2: data after the end of the object", false },
    { HEAD(0) END COMM, "bad:3: data after the last line", false },
    { HEAD(0) COMM "{\"op\":1,\"comm\":", "bad:2: the dump has no last line", false },
};

static void bad_dumps_are_reported_with_their_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof *bads; i++) {
        const struct bad *b = &bads[i];
        struct tt_dumps d;

        assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
        assert_int_equal(give(&d, "good", HEAD(3) COMM OP(0, 0, DONE) END), TUTTI_OK);
        assert_int_equal(give(&d, "bad", b->text), b->rejected ? TUTTI_ERR_INVALID : TUTTI_OK);
        assert_int_equal(d.nproblems, 1);
        if (strncmp(d.problems[0], b->problem, strlen(b->problem)) != 0)
            fail_msg("\"%s\": reported as \"%s\"", b->problem, d.problems[0]);
        assert_int_equal(d.nrejected, b->rejected);
        assert_int_equal(d.ncomplete, 1);
        assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
        assert_non_null(op_of(&d, 3, 0, 0));
        tt_dumps_fini(&d);
    }
}

static void oldest_completed_operations_are_dropped(void **state)
{
    struct tt_dumps d;
    char *text = malloc(1 << 20);
    size_t n = 0;

    (void)state;
    assert_non_null(text);
    n += (size_t)sprintf(text + n, "%s%s%s", HEAD(0), COMM,
                         OP(0, 0, "\"ended\":null,\"status\":\"PENDING\""));
    for (unsigned i = 1; i < 1000; i++)
        n += (size_t)sprintf(text + n,
                             "{\"op\":%u,\"comm\":\"1f\",\"seq\":%u,\"kind\":\"barrier\",\"ended\":"
                             "1,\"status\":\"OK\"}\n",
                             i, i);
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    assert_int_equal(tt_dumps_read_text(&d, "a", text, n), TUTTI_OK);
    assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
    assert_int_equal(d.nrecords, 1000);
    assert_true(d.nops <= 2 * TT_DUMPS_KEPT + 1);
    assert_true(op_of(&d, 0, 0, 0)->is_open);
    assert_non_null(op_of(&d, 0, 0, 999));
    assert_null(op_of(&d, 0, 0, 1));
    assert_int_equal(tt_dumps_local_of(&d, 0, 0)->ncalled, 1000);
    tt_dumps_fini(&d);
    free(text);
}

static void missing_and_odd_files_are_reported(void **state)
{
    char path[] = "/tmp/tutti-dump-XXXXXX", long_path[64];
    const int fd = mkstemp(path);
    struct tt_dumps d;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, HEAD(1) COMM, strlen(HEAD(1) COMM)), strlen(HEAD(1) COMM));
    close(fd);
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    assert_int_equal(tt_dumps_read(&d, "/nowhere/at/all"), TUTTI_ERR_SYSTEM);
    assert_int_equal(tt_dumps_read(&d, "/tmp"), TUTTI_ERR_SYSTEM);
    snprintf(long_path, sizeof long_path, "%s.fifo", path);
    assert_int_equal(mkfifo(long_path, 0600), 0);
    assert_int_equal(tt_dumps_read(&d, long_path), TUTTI_ERR_SYSTEM);
    assert_int_equal(tt_dumps_read(&d, path), TUTTI_OK);
    assert_true(d.ndumps == 1 && d.ncomplete == 0 && d.nrejected == 3 && d.nproblems == 4);
    unlink(path);
    unlink(long_path);
    tt_dumps_fini(&d);
}

/* Calls that create or end communicators and windows are numbered separately. Ranks of one host
 * have the same clock. An operation without a status has no known end. */
static void setup_calls_do_not_match_collectives(void **state)
{
    static const char line[] =
        "{\"tutti_trace\":1,\"job\":null,\"rank\":%u,\"ranks\":2,\"host\":\"a\",\"now\":5000,"
        "\"clock\":{\"offset_ns\":null,\"error_ns\":null}}\n"
        "{\"comm\":\"1f\",\"members\":\"0-1\"}\n"
        "{\"op\":1,\"comm\":\"1f\",\"seq\":0,\"kind\":\"%s\",\"called\":10,\"ended\":null,"
        "\"status\":\"PENDING\"}\n"
        "{\"op\":2,\"comm\":\"1f\",\"seq\":7,\"kind\":\"barrier\",\"called\":9,\"ended\":null,"
        "\"status\":null}\n"
        "{\"op\":3,\"comm\":null,\"seq\":0,\"kind\":\"put\",\"called\":9,\"ended\":null,\"status\":"
        "\"PENDING\"}\n{\"end\":5}\n";
    static struct tt_diagnoses found;
    struct tt_dumps d;
    struct tt_waits w;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    for (unsigned rank = 0; rank < 2; rank++) {
        char text[2048];

        snprintf(text, sizeof text, line, rank, rank ? "comm_split" : "allreduce");
        assert_int_equal(give(&d, "a", text), TUTTI_OK);
    }
    assert_true(d.nproblems == 0 && d.ranks[0].has_clock && d.ranks[1].has_clock);
    assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
    assert_int_equal(tt_waits_init(&w, &d), TUTTI_OK);
    assert_int_equal(w.ninstances, 2);
    assert_false(w.instances[0].differs || w.instances[1].differs);
    assert_int_equal(tt_diagnose(&found, &w), TUTTI_OK);
    assert_true(found.n > 0 && found.list[0].kind == TT_DIAGNOSIS_UNKNOWN &&
                found.list[0].nculprits == 0);
    tt_waits_fini(&w);
    tt_dumps_fini(&d);
}

/* The clocks of ranks 0 and 1, on one host, have jumped. Their times are comparable with each
 * other, but not with those of ranks that have the clock of the job, for any order of the files. */
static void times_of_clocks_that_jumped_are_not_compared(void **state)
{
    static const char *const clocks[] = { "{\"offset_ns\":null,\"error_ns\":null}",
                                          "{\"offset_ns\":-70000,\"error_ns\":3}" };
    static const char line[] =
        "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":%u,\"ranks\":4,\"host\":\"%c\","
        "\"now\":%u,\"clock\":%s}\n"
        "{\"peer\":%u,\"state\":\"alive\",\"last_heard\":%u}\n{\"end\":2}\n";
    static const unsigned orders[][4] = { { 0, 1, 2, 3 }, { 3, 1, 0, 2 }, { 1, 2, 0, 3 } };

    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct tt_dumps d;

        assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
        for (unsigned k = 0; k < 4; k++) {
            const unsigned rank = orders[i][k];
            const bool knows = rank >= 2;
            char text[2048];

            snprintf(text, sizeof text, line, rank, knows ? 'b' : 'a', knows ? 80000 : 9000000,
                     clocks[knows], (rank + 1) % 4, knows ? 75000 : 8999999);
            assert_int_equal(give(&d, "a", text), TUTTI_OK);
        }
        assert_int_equal(d.nproblems, 0);
        assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
        for (unsigned rank = 0; rank < 4; rank++)
            assert_int_equal(d.ranks[rank].has_clock, rank >= 2);
        assert_true(d.ranks[0].heard == 5000 && d.ranks[3].heard == 5000);
        assert_true(d.ranks[1].heard == TT_DUMPS_NEVER && d.ranks[2].heard == TT_DUMPS_NEVER);
        tt_dumps_fini(&d);
    }
}

/* Ids of members have gaps. Members that are only in closed communicators have left, and the
 * members of the run may differ between dumps. */
static void elastic_dumps_have_members_with_gaps(void **state)
{
    static const char line[] =
        "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":%u,\"ranks\":0,\"host\":\"a\",\"now\":5000,"
        "\"clock\":{\"offset_ns\":null,\"error_ns\":null}}\n"
        "{\"comm\":\"2e\",\"of\":\"run\",\"open\":true,\"members\":\"%s\"}\n"
        "{\"comm\":\"1e\",\"of\":\"comm\",\"open\":false,\"members\":\"3,7,9\"}\n"
        "{\"comm\":\"1f\",\"of\":\"comm\",\"open\":true,\"members\":\"7,9,800000\"}\n"
        "{\"op\":1,\"comm\":\"1f\",\"seq\":0,\"kind\":\"allreduce\",\"called\":10,\"ended\":90,"
        "\"status\":\"PEER_LOST\",\"waits\":{\"rank\":800000,\"for\":\"start\"}}\n"
        "{\"peer\":800000,\"wire\":\"tcp\",\"state\":\"lost\",\"last_heard\":5}\n{\"end\":6}\n";
    static struct tt_diagnoses found;
    struct tt_dumps d;
    struct tt_waits w;

    (void)state;
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    for (unsigned rank = 7; rank <= 9; rank += 2) {
        char text[2048];

        snprintf(text, sizeof text, line, rank, rank == 7 ? "7,9" : "7,9,800000");
        assert_int_equal(give(&d, "a", text), TUTTI_OK);
    }
    assert_int_equal(give(&d, "b", HEAD(3)), TUTTI_ERR_INVALID);        /* not elastic */
    assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
    assert_true(d.is_elastic && d.nproblems == 1 && d.ncomplete == 2);
    assert_true(d.nranks == 800001 && d.nmembers == 3 && !d.ranks[3].is_member);
    assert_true(d.ranks[3].now == TT_DUMPS_NEVER && d.ranks[800000].is_member);
    assert_int_equal(tt_waits_init(&w, &d), TUTTI_OK);
    assert_int_equal(tt_diagnose(&found, &w), TUTTI_OK);
    assert_true(found.n > 0 && found.list[0].kind == TT_DIAGNOSIS_DIED &&
                found.list[0].nculprits == 1 && found.list[0].culprits[0] == 800000);
    tt_waits_fini(&w);
    tt_dumps_fini(&d);
}

/* ---- departures from an elastic run ---- */

#define RUN_HEAD(REASON, FAILED)                                                                \
    "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":7,\"ranks\":0,\"host\":\"a\",\"reason\":\"" REASON \
    "\",\"now\":9000,\"failed\":" FAILED "}\n"
#define GONE(RUN, WHY, AT, REPLACED) GONE_IN("5", RUN, WHY, AT, REPLACED)
#define GONE_IN(EPOCH, RUN, WHY, AT, REPLACED)                                                   \
    "{\"departed\":3,\"run\":\"" RUN "\",\"epoch\":" EPOCH ",\"why\":\"" WHY "\",\"at\":" AT     \
    ",\"replaced\":" REPLACED "}\n"
#define GONE_END "{\"end\":9}\n"

#define PEER_LOST "{\"peer\":3,\"state\":\"lost\",\"last_heard\":4000}\n"
#define VIEW_OF_3 "{\"comm\":\"2f\",\"of\":\"run\",\"rank\":1,\"members\":\"3,7\"}\n"

struct departure_case {
    const char *text, *second;          /* second: the dump of member 8, or NULL */
    int kind;                           /* -1: nothing is found */
    bool is_named;
    uint32_t nmembers;
};

#define SECOND(LINE) \
    "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":8,\"ranks\":0,\"host\":\"b\",\"now\":1," \
    "\"failed\":null}\n" LINE GONE_END

static const struct departure_case departure_cases[] = {
    /* reported by the time of the failure; the next view, if any, follows the failure */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "4999", "null") GONE_END, NULL,
      TT_DIAGNOSIS_DIED, true, 2 },
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "5000", "6000") GONE_END, NULL,
      TT_DIAGNOSIS_DIED, true, 2 },
    /* the run continued without the member before the failure, or the loss is its consequence */
    { RUN_HEAD("timeout", "5000") GONE("9f3c", "died", "3000", "4000") GONE_END, NULL, -1, false,
      1 },
    { RUN_HEAD("timeout", "5000") GONE("9f3c", "died", "5001", "null") GONE_END, NULL, -1, false,
      1 },
    /* a dump that was requested by a signal shows the current state */
    { RUN_HEAD("signal", "null") GONE("9f3c", "died", "4000", "null") GONE_END, NULL,
      TT_DIAGNOSIS_DIED, true, 2 },
    { RUN_HEAD("signal", "null") GONE("9f3c", "died", "4000", "4500") GONE_END, NULL, -1, false, 1 },
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "silent", "4999", "null") GONE_END, NULL,
      TT_DIAGNOSIS_STOPPED, true, 2 },
    /* these causes do not prove that the member is at fault */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "unreachable", "4999", "null") GONE_END, NULL,
      TT_DIAGNOSIS_UNKNOWN, false, 2 },
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "gone fishing", "4999", "null") GONE_END, NULL,
      TT_DIAGNOSIS_UNKNOWN, false, 2 },
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "4999", "null") GONE_END,
      SECOND(GONE("9f3c", "silent", "1", "null")), TT_DIAGNOSIS_UNKNOWN, false, 3 },
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "4999", "null") GONE_END,
      SECOND(GONE("9f3c", "died", "1", "null")), TT_DIAGNOSIS_DIED, true, 3 },
    /* it left in an orderly way, which also closed its connections */
    { RUN_HEAD("peer_lost", "5000")
          GONE("9f3c", "left", "4999",
               "null") "{\"peer\":3,\"state\":\"lost\",\"last_heard\":4000}\n" GONE_END,
      NULL, -1, false, 1 },
    /* a later view excludes it, which also closed its connections */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "view", "3000", "3000") PEER_LOST GONE_END, NULL,
      -1, false, 1 },
    /* it has returned, as other dumps show, and died */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "4999", "null") PEER_LOST GONE_END,
      SECOND(GONE_IN("4", "9f3c", "view", "1", "2")), TT_DIAGNOSIS_DIED, true, 3 },
    { RUN_HEAD("peer_lost", "5000") VIEW_OF_3 PEER_LOST GONE_END,
      SECOND(GONE_IN("4", "9f3c", "view", "1", "2")), TT_DIAGNOSIS_DIED, true, 3 },
    /* the departure belongs to another run of the process */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3d", "died", "4999", "null") GONE_END, NULL, -1, false,
      1 },
    /* the member wrote a dump */
    { RUN_HEAD("peer_lost", "5000") GONE("9f3c", "died", "4999", "null") GONE_END,
      "{\"tutti_trace\":1,\"job\":\"9f3c\",\"rank\":3,\"ranks\":0,\"host\":\"b\",\"now\":1}\n" GONE_END,
      -1, false, 2 },
};

static void departures_are_causes_only_before_the_failure(void **state)
{
    static struct tt_diagnoses found;

    (void)state;
    for (size_t i = 0; i < sizeof departure_cases / sizeof *departure_cases; i++) {
        const struct departure_case *c = &departure_cases[i];
        struct tt_dumps d;
        struct tt_waits w;
        char words[4096] = "nothing";

        assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
        assert_int_equal(give(&d, "a", c->text), TUTTI_OK);
        if (c->second)
            assert_int_equal(give(&d, "b", c->second), TUTTI_OK);
        assert_int_equal(d.nproblems, 0);
        assert_int_equal(tt_dumps_index(&d), TUTTI_OK);
        assert_int_equal(tt_waits_init(&w, &d), TUTTI_OK);
        assert_int_equal(tt_diagnose(&found, &w), TUTTI_OK);
        if (found.n > 0)
            tt_diagnosis_words(&found.list[0], &d, words, sizeof words);
        if ((found.n == 0) != (c->kind < 0) ||
            (found.n > 0 && (int)found.list[0].kind != c->kind) || d.nmembers != c->nmembers)
            fail_msg("case %zu: of %u members: %s", i, d.nmembers, words);
        if (c->kind >= 0 && c->is_named)
            assert_true(found.n == 1 && found.list[0].nculprits == 1 &&
                        found.list[0].culprits[0] == 3 &&
                        (strstr(words, "in epoch 5") || strstr(c->text, VIEW_OF_3)));
        else if (c->kind >= 0)
            assert_true(found.list[0].nculprits == 0 && found.list[0].at == 3);
        tt_waits_fini(&w);
        tt_dumps_fini(&d);
    }
}

/* ---- dumps of a job that may still make progress ---- */

#define LIVE(SEQ, TYPE, TIMES, REST) \
    "{\"op\":" #SEQ ",\"comm\":\"1f\",\"seq\":" #SEQ ",\"kind\":\"allreduce\",\"count\":4," \
    "\"type\":\"" TYPE "\",\"redop\":\"sum\",\"root\":null," TIMES \
    ",\"started\":null,\"ended\":null,\"status\":\"PENDING\"" REST "}\n"
#define SINCE_1000 "\"called\":1000"
#define FOR_3 ",\"step\":0,\"steps\":6,\"waits\":{\"rank\":3,\"for\":\"data\"}"
#define WAITING COMM OP(0, 0, DONE) LIVE(1, "f32", SINCE_1000, FOR_3) "{\"end\":4}\n"

struct live {
    struct tt_dumps d;
    struct tt_waits w;
    struct tt_diagnoses found;
};

static void live_fini(struct live *l)
{
    tt_waits_fini(&l->w);
    tt_dumps_fini(&l->d);
}

/* Ranks 0 to 2 have waited for rank 3 for 4000 ns. `last`: the dump of rank 3, or NULL. */
static void live_init(struct live *l, int64_t hung_ns, const char *last)
{
    assert_int_equal(tt_dumps_init(&l->d), TUTTI_OK);
    l->d.hung_ns = hung_ns;
    assert_int_equal(give(&l->d, "0", HEAD(0) WAITING), TUTTI_OK);
    assert_int_equal(give(&l->d, "1", HEAD(1) WAITING), TUTTI_OK);
    assert_int_equal(give(&l->d, "2", HEAD(2) WAITING), TUTTI_OK);
    if (last)
        assert_int_equal(give(&l->d, "3", last), TUTTI_OK);
    assert_int_equal(l->d.nproblems, 0);
    assert_int_equal(tt_dumps_index(&l->d), TUTTI_OK);
    assert_int_equal(tt_waits_init(&l->w, &l->d), TUTTI_OK);
    assert_int_equal(tt_diagnose(&l->found, &l->w), TUTTI_OK);
}

/* Checks that the only result is that the evidence ends at rank 3. */
static void ends_at_rank_3(int64_t hung_ns, const char *last, const char *evidence)
{
    struct live l;

    live_init(&l, hung_ns, last);
    assert_int_equal(l.found.nall, 1);
    assert_int_equal(l.found.list[0].kind, TT_DIAGNOSIS_UNKNOWN);
    assert_true(l.found.list[0].at == 3 && l.found.list[0].nculprits == 0);
    assert_non_null(strstr(l.found.list[0].evidence[0], evidence));
    live_fini(&l);
}

static void is_found(int64_t hung_ns, const char *last, enum tt_diagnosis_kind kind)
{
    struct live l;

    live_init(&l, hung_ns, last);
    assert_true(l.found.n > 0);
    assert_int_equal(l.found.list[0].kind, kind);
    assert_true(l.found.list[0].nculprits == 1 && l.found.list[0].culprits[0] == 3);
    live_fini(&l);
}

/* The age of a wait is measured from its call, or from the time at which the application began to
 * wait. */
static void young_operations_are_progress(void **state)
{
    const char *other = HEAD(3) COMM OP(0, 0, DONE)
        LIVE(1, "f32", "\"called\":2500", ",\"step\":0,\"steps\":6") "{\"end\":4}\n";
    const char *late = HEAD(3) COMM OP(0, 0, DONE)
        LIVE(1, "f32", SINCE_1000, ",\"waited\":2500,\"step\":0,\"steps\":6") "{\"end\":4}\n";

    (void)state;
    ends_at_rank_3(3000, other, "rank 3 has been in allreduce 1 of \"dp\" for only ");
    ends_at_rank_3(3000, late, "rank 3 has waited in allreduce 1 of \"dp\" for only ");
    is_found(2000, late, TT_DIAGNOSIS_STOPPED);
}

/* Rank 3 wrote its dump later than the others. */
static void calls_that_have_ended_since_are_no_gap(void **state)
{
    const char *last = HEAD(3) COMM OP(0, 0, DONE) OP(1, 1, DONE) "{\"end\":4}\n";

    (void)state;
    ends_at_rank_3(3000, last, "its call has ended since");
    is_found(0, last, TT_DIAGNOSIS_LINK);
}

static void different_arguments_count_at_any_age(void **state)
{
    const char *last =
        HEAD(3) COMM OP(0, 0, DONE) LIVE(1, "f64", "\"called\":4900", "") "{\"end\":4}\n";

    (void)state;
    is_found(0, last, TT_DIAGNOSIS_MISMATCH);
    is_found(3000, last, TT_DIAGNOSIS_MISMATCH);
    is_found(1000000, last, TT_DIAGNOSIS_MISMATCH);
}

static void missing_dumps_leave_the_cause_open(void **state)
{
    struct live l;

    (void)state;
    live_init(&l, 1000000, NULL);
    assert_int_equal(l.found.n, 0);
    assert_true(tt_diagnoses_lack_dumps(&l.found, &l.d));
    live_fini(&l);
    live_init(&l, 1000000, HEAD(3) COMM OP(0, 0, DONE) "{\"end\":3}\n");
    assert_int_equal(l.found.n, 0);
    assert_false(tt_diagnoses_lack_dumps(&l.found, &l.d));
    live_fini(&l);
}

/* With an open directory, only the last component of a path is used, and links are rejected. */
static void links_in_an_open_directory_are_rejected(void **state)
{
    char folder[] = "/tmp/test_dumps.XXXXXX", path[64], link[64];
    struct tt_dumps d;
    FILE *f;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a", folder);
    snprintf(link, sizeof link, "%s/b", folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(HEAD(3) "{\"end\":2}\n", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(tt_dumps_init(&d), TUTTI_OK);
    d.has_folder = true;
    d.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(d.folder >= 0);
    assert_int_equal(tt_dumps_read(&d, link), TUTTI_ERR_SYSTEM);
    assert_int_equal(tt_dumps_read(&d, "/elsewhere/a"), TUTTI_OK);
    assert_true(d.nrejected == 1 && d.ncomplete == 1);
    close(d.folder);
    tt_dumps_fini(&d);
    unlink(link);
    unlink(path);
    rmdir(folder);
}

static void members_are_ranges(void **state)
{
    static const char *const wrong[] = { "x",     "1-", "3-1",   "1,",  ",1",
                                         "1-3:0", "8",  "0-7,0", "1 2", "99999999999" };
    static const uint32_t expected[] = { 0, 2, 4, 7, 5 };
    struct tt_members m;
    uint32_t range = 0, i = 0, rank, n = 0;

    (void)state;
    assert_null(tt_members_parse(&m, "0-5:2,7,5", 9, 8));
    while (tt_members_next(&m, &range, &i, &rank))
        assert_int_equal(rank, expected[n++]);
    assert_true(n == 5 && m.n == 5);
    tt_members_fini(&m);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
        assert_non_null(tt_members_parse(&m, wrong[k], strlen(wrong[k]), 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete_dump_is_read),
        cmocka_unit_test(bad_dumps_are_reported_with_their_line),
        cmocka_unit_test(oldest_completed_operations_are_dropped),
        cmocka_unit_test(missing_and_odd_files_are_reported),
        cmocka_unit_test(setup_calls_do_not_match_collectives),
        cmocka_unit_test(times_of_clocks_that_jumped_are_not_compared),
        cmocka_unit_test(elastic_dumps_have_members_with_gaps),
        cmocka_unit_test(departures_are_causes_only_before_the_failure),
        cmocka_unit_test(young_operations_are_progress),
        cmocka_unit_test(calls_that_have_ended_since_are_no_gap),
        cmocka_unit_test(different_arguments_count_at_any_age),
        cmocka_unit_test(missing_dumps_leave_the_cause_open),
        cmocka_unit_test(links_in_an_open_directory_are_rejected),
        cmocka_unit_test(members_are_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
