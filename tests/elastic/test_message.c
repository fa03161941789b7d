#include "support/unit.h"

#include <string.h>
#include "elastic/message.h"
#include "elastic/mismatch.h"
#include "tutti/elastic.h"

static void message_is_read_as_written(void **state)
{
    uint8_t data[512];
    struct tt_elmsg in = { .kind = TT_ELMSG_JOIN,
                           .group = 3,
                           .role = 1,
                           .nroles = 2,
                           .card = { 5, "cards" } },
                    out;
    size_t bytes;

    (void)state;
    memset(in.cookie, 7, sizeof in.cookie);
    strcpy(in.text, "the run");
    bytes = tt_elmsg_write(data, sizeof data, &in);
    assert_true(bytes > 0);
    assert_true(tt_elmsg_read(&out, data, bytes));
    assert_int_equal(out.kind, TT_ELMSG_JOIN);
    assert_int_equal(out.group, 3);
    assert_int_equal(out.role, 1);
    assert_int_equal(out.nroles, 2);
    assert_int_equal(out.card.bytes, 5);
    assert_memory_equal(out.card.data, "cards", 5);
    assert_memory_equal(out.cookie, in.cookie, sizeof in.cookie);
    assert_string_equal(out.text, "the run");
}

static void offer_is_read_as_written(void **state)
{
    uint8_t data[512];
    const struct tt_elmsg in = { .kind = TT_ELMSG_OFFER,
                                 .what = TT_SYNC_SEND,
                                 .flags = TT_OFFER_INSTEAD,
                                 .number = 3,
                                 .value = 1ull << 50,
                                 .scope = TT_SYNC_SCOPES - 1,
                                 .keys = { { 1, 2, 3, 0xffffffff } },
                                 .hash = { { 4, 5, 6, 7 } } };
    struct tt_elmsg out;

    (void)state;
    assert_true(tt_elmsg_read(&out, data, tt_elmsg_write(data, sizeof data, &in)));
    assert_int_equal(out.value, in.value);
    assert_int_equal(out.scope, in.scope);
    assert_true(tt_hash_equal(&out.keys, &in.keys));
    assert_true(tt_hash_equal(&out.hash, &in.hash));
}

static void differences_are_read_and_described(void **state)
{
    static const struct {
        uint8_t differs;
        uint64_t value, also;
        const char *text;
    } cases[] = {
        { TT_DIFFERS_CALL, TT_CALL_EPOCH, TT_CALL_SYNC,
          "member 3 called epoch where member 5 called sync" },
        { TT_DIFFERS_FLAGS, 1, 0,
          "member 3 called epoch with flags 0x1 where member 5 called it with flags 0" },
        { TT_DIFFERS_LEAST, 2, 3,
          "member 3 called epoch with least 2 where member 5 called it with least 3" },
        { TT_DIFFERS_MOST, 0, 1ull << 40,
          "member 3 called epoch with most 0 where member 5 called it with most 1099511627776" },
        { TT_DIFFERS_BYTES, 1, 2,
          "member 3 called optimize with bytes 1 where member 5 called it with bytes 2" },
        { TT_DIFFERS_GAIN, 1, 2,
          "member 3 called optimize with gain_percent 1 where member 5 called it with gain_percent "
          "2" },
        { TT_DIFFERS_OPERATIONS, 0, 0, "members 3 and 5 called commit after different operations" },
        { TT_DIFFERS_STRATEGY, TT_SYNC_SEND, 77,
          "member 3 called sync with strategy send where member 5 called it with strategy ?" },
        { TT_DIFFERS_SCOPE, 0, 2,
          "member 3 called sync with the scope of all where member 5 called it with the scope of "
          "role 1" },
        { TT_DIFFERS_INSIDE, TT_CALL_AGREE, 0,
          "member 3 called agree where member 5 is in operation 17 of tag 2, allreduce(count 7, "
          "type f32)" },
        { TT_DIFFERENCES, 0, 0, "members 3 and 5 called different operations" },
    };
    static const uint8_t kinds[] = { TT_ELMSG_RESULT, TT_ELMSG_SYNCED, TT_ELMSG_LOG_RESULT,
                                     TT_ELMSG_LOG_BACK };
    char text[TT_MISMATCH_BYTES];
    uint8_t data[512];
    struct tt_elmsg out;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof kinds; k++) {
            const struct tt_elmsg in = {
                .kind = kinds[k],
                .what = TT_ROUND_MISMATCH,
                .flags = cases[i].differs,
                .id = 3,
                .value = cases[i].value,
                .other = 5,
                .also = cases[i].also,
                .op = { .n = 17, .tag = 2, .count = 7, .coll = TUTTI_ALLREDUCE, .type = TUTTI_F32 }
            };

            if (cases[i].differs == TT_DIFFERS_INSIDE && kinds[k] == TT_ELMSG_LOG_RESULT)
                continue; /* this message ends no round */
            assert_true(tt_elmsg_read(&out, data, tt_elmsg_write(data, sizeof data, &in)));
            assert_string_equal(
                tt_mismatch_text(text, &(struct tt_mismatch){ out.flags, out.id, out.value,
                                                              out.other, out.also, out.op }),
                cases[i].text);
        }
}

static void lists_keep_their_order(void **state)
{
    uint8_t data[1024];
    const struct tt_elmsg view = {
        .kind = TT_ELMSG_VIEW, .epoch = 9, .number = 4, .news = { .number = 2, .lost = 1 }
    };
    const struct tt_elmsg answer = { .kind = TT_ELMSG_ANSWER, .epoch = 9, .number = 1 };
    const struct tt_elmsg back = { .kind = TT_ELMSG_LOG_BACK };
    const struct tt_elmsg lost = { .kind = TT_ELMSG_LOST, .epoch = 9 };
    struct tt_elmsg_writer w;
    struct tt_elmsg out;
    struct tt_surroundings_seat seat;
    struct tt_op_entry op;
    struct tt_call_name call;
    struct tt_loss_name loss;

    (void)state;
    tt_elmsg_begin(&w, data, sizeof data, &view);
    for (uint64_t id = 1; id <= 3; id++)
        tt_elmsg_add_seat(&w, &(struct tt_surroundings_seat){ .id = id,
                                                              .group = (uint32_t)id,
                                                              .card = { 1, { (uint8_t)id } } });
    assert_true(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    assert_int_equal(out.nlist, 3);
    assert_int_equal(out.news.lost, 1);
    for (uint64_t id = 1; id <= 3; id++) {
        tt_elmsg_next_seat(&out, &seat);
        assert_int_equal(seat.id, id);
        assert_int_equal(seat.card.data[0], id);
    }
    tt_elmsg_begin(&w, data, sizeof data, &back);
    for (uint64_t id = 1; id <= 3; id++)
        tt_elmsg_add_call(&w, &(struct tt_call_name){ .id = id, .attempt = id << 40 });
    assert_true(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    assert_int_equal(out.nlist, 3);
    for (uint64_t id = 1; id <= 3; id++) {
        tt_elmsg_next_call(&out, &call);
        assert_int_equal(call.id, id);
        assert_int_equal(call.attempt, id << 40);
    }
    tt_elmsg_begin(&w, data, sizeof data, &lost);
    for (uint8_t why = 0; why < TT_LOSSES; why++)
        tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = 1ull << 40 | why, .why = why });
    assert_true(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    assert_int_equal(out.nlist, TT_LOSSES);
    for (uint8_t why = 0; why < TT_LOSSES; why++) {
        tt_elmsg_next_loss(&out, &loss);
        assert_true(loss.id == (1ull << 40 | why) && loss.why == why);
    }
    tt_elmsg_begin(&w, data, sizeof data, &lost);
    tt_elmsg_add_loss(&w, &(struct tt_loss_name){ .id = 1, .why = TT_LOSSES });
    assert_false(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    tt_elmsg_begin(&w, data, sizeof data, &answer);
    tt_elmsg_add_op(
        &w, &(struct tt_op_entry){
                .state = TT_OP_FINAL, .tag = 255, .n = 1ull << 40, .news = { .number = 5 } });
    tt_elmsg_add_op(&w,
                    &(struct tt_op_entry){
                        .state = TT_OP_PENDING, .before = TT_BEFORE_TENTATIVE, .tag = 1, .n = 2 });
    assert_true(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    tt_elmsg_next_op(&out, &op);
    assert_int_equal(op.tag, 255);
    assert_int_equal(op.n, 1ull << 40);
    assert_int_equal(op.news.number, 5);
    assert_int_equal(op.before, TT_BEFORE_FINAL);
    tt_elmsg_next_op(&out, &op);
    assert_int_equal(op.state, TT_OP_PENDING);
    assert_int_equal(op.before, TT_BEFORE_TENTATIVE);
}

/* Writes a list: an operation with its result, or the one after it, followed by others. */
static size_t write_settled(uint8_t data[4096], uint8_t state, uint8_t before,
                            const uint8_t *result, uint16_t bytes)
{
    const struct tt_elmsg answer = { .kind = TT_ELMSG_ANSWER, .epoch = 9, .number = 1 };
    struct tt_elmsg_writer w;

    tt_elmsg_begin(&w, data, 4096, &answer);
    tt_elmsg_add_op(&w, &(struct tt_op_entry){ .state = state,
                                               .before = before,
                                               .tag = 3,
                                               .n = 7,
                                               .nresult = bytes,
                                               .result = result });
    tt_elmsg_add_op(&w, &(struct tt_op_entry){ .state = TT_OP_COMPLETE, .tag = 4, .n = 1 });
    return tt_elmsg_end(&w);
}

static void settled_operations_carry_results(void **state)
{
    static const struct {
        uint8_t state, before;
        uint64_t settled, known;
    } cases[] = {
        { TT_OP_SETTLED, TT_BEFORE_FINAL, 7, 6 },
        { TT_OP_PENDING, TT_BEFORE_SETTLED, 6, 5 },
        { TT_OP_COMPLETE, TT_BEFORE_SETTLED, 6, 5 },
        { TT_OP_RESTORED, TT_BEFORE_SETTLED, 6, 5 },
    };
    static const uint16_t lengths[] = { 1, 8, TT_SETTLED_BYTES };
    uint8_t data[4096], result[TT_SETTLED_BYTES + 1];
    struct tt_op_entry op;
    struct tt_elmsg out;

    (void)state;
    memset(result, 0xa5, sizeof result);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            const uint16_t n = lengths[k];
            const size_t bytes = write_settled(data, cases[i].state, cases[i].before, result, n);

            assert_true(tt_elmsg_read(&out, data, bytes));
            tt_elmsg_next_op(&out, &op);
            assert_int_equal(op.state, cases[i].state);
            assert_int_equal(op.before, cases[i].before);
            assert_int_equal(tt_op_settled(&op), cases[i].settled);
            assert_int_equal(tt_op_last_complete(&op), cases[i].known);
            assert_int_equal(op.nresult, n);
            assert_memory_equal(op.result, result, n);
            tt_elmsg_next_op(&out, &op);
            assert_int_equal(op.tag, 4);
            assert_int_equal(op.nresult, 0);
            for (size_t cut = 0; cut < bytes; cut++)
                assert_false(tt_elmsg_read(&out, data, cut));
        }
        assert_false(tt_elmsg_read(
            &out, data, write_settled(data, cases[i].state, cases[i].before, result, 0)));
        assert_false(tt_elmsg_read(
            &out, data,
            write_settled(data, cases[i].state, cases[i].before, result, TT_SETTLED_BYTES + 1)));
    }
}

/* A message of any kind is invalid if truncated, or with an additional byte. */
static void partial_message_is_refused(void **state)
{
    uint8_t data[1024];
    struct tt_elmsg out;

    (void)state;
    for (uint8_t kind = 1; kind < TT_ELMSG_KINDS; kind++) {
        const struct tt_elmsg in = { .kind = kind, .what = 1, .nroles = 1 };
        const size_t bytes = tt_elmsg_write(data, sizeof data, &in);

        data[bytes] = 0;
        assert_true(bytes >= 2);
        assert_true(tt_elmsg_read(&out, data, bytes));
        assert_false(tt_elmsg_read(&out, data, bytes + 1));
        for (size_t cut = 0; cut < bytes; cut++)
            assert_false(tt_elmsg_read(&out, data, cut));
    }
}

static void values_out_of_range_are_refused(void **state)
{
    uint8_t data[256];
    struct tt_elmsg out;
    const struct tt_elmsg bad[] = {
        { .kind = TT_ELMSG_JOIN, .nroles = 0 },
        { .kind = TT_ELMSG_JOIN, .nroles = 2, .role = 2 },
        { .kind = TT_ELMSG_JOIN, .nroles = TT_ELASTIC_MEMBERS_MAX + 1 },
        { .kind = TT_ELMSG_LEAVE, .what = TT_LEAVE_NOW + 1 },
        { .kind = TT_ELMSG_CALL, .what = TT_CALL_KINDS },
        { .kind = TT_ELMSG_CALL, .what = 0 },
        { .kind = TT_ELMSG_CALL, .what = TT_CALL_SYNC },       /* which is sent as OFFER */
        { .kind = TT_ELMSG_OFFER, .what = 0 },
        { .kind = TT_ELMSG_OFFER, .what = TT_SYNC_STRATEGIES },
        { .kind = TT_ELMSG_OFFER, .what = TT_SYNC_SEND, .scope = TT_SYNC_SCOPES },
        { .kind = TT_ELMSG_VOTE, .what = TT_SYNC_NOT_YET },
        { .kind = TT_ELMSG_VOTE, .what = TT_SYNC_VOTES },
        { .kind = TT_ELMSG_PLAN, .what = TT_SYNC_PARTS },
        { .kind = TT_ELMSG_SYNCED, .what = TT_ROUND_STATUSES },
        { .kind = TT_ELMSG_RESULT, .what = TT_ROUND_STATUSES },
    };
    static const uint8_t result[8];
    const struct tt_op_entry bad_ops[] = {
        /* nothing precedes the first operation, and none is open before one that is final or
         * settled */
        { .state = TT_OP_PENDING, .before = TT_BEFORE_TENTATIVE, .tag = 1, .n = 1 },
        { .state = TT_OP_PENDING,
          .before = TT_BEFORE_SETTLED,
          .tag = 1,
          .n = 1,
          .nresult = 8,
          .result = result },
        { .state = TT_OP_PENDING, .before = TT_BEFORES, .tag = 1, .n = 2 },
        { .state = TT_OP_FINAL, .before = TT_BEFORE_TENTATIVE, .tag = 1, .n = 2 },
        { .state = TT_OP_FINAL,
          .before = TT_BEFORE_SETTLED,
          .tag = 1,
          .n = 2,
          .nresult = 8,
          .result = result },
        { .state = TT_OP_SETTLED,
          .before = TT_BEFORE_TENTATIVE,
          .tag = 1,
          .n = 2,
          .nresult = 8,
          .result = result },
        { .state = TT_OP_SETTLED,
          .before = TT_BEFORE_SETTLED,
          .tag = 1,
          .n = 2,
          .nresult = 8,
          .result = result },
        { .state = TT_OP_STATES, .tag = 1, .n = 1 },
    };
    struct tt_elmsg_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tt_elmsg_read(&out, data, tt_elmsg_write(data, sizeof data, &bad[i])));
    tt_elmsg_begin(&w, data, sizeof data, &(struct tt_elmsg){ .kind = TT_ELMSG_ANSWER });
    tt_elmsg_add_op(&w,
                    &(struct tt_op_entry){ .state = TT_OP_FINAL, .tag = TT_ELASTIC_TAGS, .n = 1 });
    assert_false(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    tt_elmsg_begin(&w, data, sizeof data, &(struct tt_elmsg){ .kind = TT_ELMSG_ANSWER });
    tt_elmsg_add_op(&w, &(struct tt_op_entry){ .state = TT_OP_NONE, .tag = 1, .n = 1 });
    assert_false(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    for (size_t i = 0; i < sizeof bad_ops / sizeof *bad_ops; i++) {
        tt_elmsg_begin(&w, data, sizeof data, &(struct tt_elmsg){ .kind = TT_ELMSG_ANSWER });
        tt_elmsg_add_op(&w, &bad_ops[i]);
        assert_false(tt_elmsg_read(&out, data, tt_elmsg_end(&w)));
    }
    memset(data, 0xff, sizeof data);        /* a list with a count beyond its bytes */
    tt_elmsg_write(data, sizeof data, &(struct tt_elmsg){ .kind = TT_ELMSG_READY });
    memset(data + 10, 0xff, 4);
    assert_false(tt_elmsg_read(&out, data, 14));
}

static void refusals_are_readable_in_all_versions(void **state)
{
    const struct tt_elmsg other = { .kind = TT_ELMSG_RESULT };
    struct tt_elmsg out;
    uint8_t data[512];
    size_t bytes;

    (void)state;
    for (int version = 0; version < 256; version++) {
        bytes = tt_elmsg_write_refusal(data, sizeof data, (uint8_t)version, TUTTI_ERR_ABORTED,
                                       "for this");
        assert_int_equal(tt_elmsg_version(data, bytes), version);
        assert_true(tt_elmsg_read_refusal(&out, data, bytes));
        assert_int_equal(out.what, TUTTI_ERR_ABORTED);
        assert_string_equal(out.text, "for this");
        assert_int_equal(tt_elmsg_read(&out, data, bytes), version == TT_ELASTIC_VERSION);
        for (size_t cut = 0; cut < bytes; cut++)
            assert_false(tt_elmsg_read_refusal(&out, data, cut));
    }
    assert_false(tt_elmsg_read_refusal(&out, data, tt_elmsg_write(data, sizeof data, &other)));
    assert_int_equal(tt_elmsg_version(data, 0), 0);
    assert_int_equal(
        tt_elmsg_write_refusal(data, 20, 1, TUTTI_OK, "what is longer than there is room for"), 0);
}

static void oversized_message_is_not_written(void **state)
{
    uint8_t data[64];
    const struct tt_elmsg in = { .kind = TT_ELMSG_RESULT };

    (void)state;
    for (size_t cap = 0; cap < sizeof data; cap++) {
        const size_t bytes = tt_elmsg_write(data, cap, &in);

        assert_true(bytes == 0 || bytes <= cap);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_is_read_as_written),
        cmocka_unit_test(offer_is_read_as_written),
        cmocka_unit_test(differences_are_read_and_described),
        cmocka_unit_test(lists_keep_their_order),
        cmocka_unit_test(settled_operations_carry_results),
        cmocka_unit_test(partial_message_is_refused),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(refusals_are_readable_in_all_versions),
        cmocka_unit_test(oversized_message_is_not_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
