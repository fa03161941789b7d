/* The mailbox over a transport in memory: two ends, and a transport that uses all freedoms of its
 * contract. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/prng.h"
#include "engine/link.h"
#include "support/unit.h"

/* ---- the transport ---- */

#define HELD_MAX 4096

/* An accepted put that no signal or fence has forced to land. */
struct held {
    uint8_t *to;
    uint64_t bytes;
    uint8_t data[TT_INLINE_BYTES];
};

/* Applies a put's bytes as late as permitted: at its own signal, or for earlier puts, at the first
 * signal after a fence. Two puts to one location land in post order, as inline ones do on all
 * transports: the mailbox relies on this when it sends again. */
static struct fake {
    struct tt_wire wire;        /* must be first, for the ops */
    uint32_t refuse;            /* accepts only this many descriptors of each post; UINT32_MAX:
                                   all */
    uint32_t nheld, nfenced;    /* held puts; those before the last fence */
    struct held held[HELD_MAX];
    uint32_t posted;
    uint8_t flags;              /* of the newest put */
} fake;

static void land(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(fake.held[i].to, fake.held[i].data, fake.held[i].bytes);
    memmove(&fake.held[0], &fake.held[n], (fake.nheld - n) * sizeof fake.held[0]);
    fake.nheld -= n;
    fake.nfenced = 0;
}

static uint8_t *region_of(const struct tt_rkey *key)
{
    return (uint8_t *)(uintptr_t)key->handle[0];
}

static void take(const struct tt_desc *d)
{
    uint8_t *to = d->key ? region_of(d->key) + d->offset : NULL;

    if (d->kind == TT_DESC_FENCE) {
        fake.nfenced = fake.nheld;
        return;
    }
    assert_int_equal(d->kind, TT_DESC_PUT);
    fake.flags = d->flags;
    assert_true(d->flags & TT_DESC_INLINE);
    assert_in_range(d->bytes, 0, TT_INLINE_BYTES);
    assert_true(d->offset <= d->key->bytes && d->bytes <= d->key->bytes - d->offset);
    if (d->signal_op == TT_SIGNAL_NONE) {
        assert_in_range(fake.nheld, 0, HELD_MAX - 1);
        fake.held[fake.nheld] = (struct held){ .to = to, .bytes = d->bytes };
        memcpy(fake.held[fake.nheld++].data, d->local, d->bytes);
        return;
    }
    land(fake.wire.caps & TT_WIRE_CAP_ORDERED ? fake.nheld : fake.nfenced);
    if (d->bytes)
        memcpy(to, d->local, d->bytes);
    assert_int_equal(d->signal_offset % 8, 0);
    assert_in_range(d->signal_offset, 0, d->signal_key->bytes - 8);
    memcpy(region_of(d->signal_key) + d->signal_offset, &d->signal_value, 8);
}

static int post(struct tt_wire *w, const struct tt_desc *d, int n)
{
    int taken = 0;

    (void)w;
    for (; taken < n && (uint32_t)taken < fake.refuse; taken++, fake.posted++)
        take(&d[taken]);
    return taken;
}

/* ---- two ends ---- */

struct end {
    uint8_t *region;            /* exactly TT_LINK_BYTES, so that sanitizers detect overruns */
    struct tt_mailbox box;
};

static struct end a, b;

/* The kinds of transports: without ordering, with ordered signals, and also with mapped link
 * regions. */
static const uint32_t kinds[] = { 0, TT_WIRE_CAP_ORDERED,
                                  TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_MAPPED };
enum { KINDS = sizeof kinds / sizeof *kinds };

static void ends_init(uint32_t caps)
{
    static const struct tt_wire_ops ops = { .name = "fake", .post = post };
    struct end *const ends[] = { &a, &b };

    fake.wire = (struct tt_wire){ .ops = &ops, .caps = caps };
    fake.refuse = UINT32_MAX;
    fake.nheld = fake.nfenced = fake.posted = 0;
    for (int i = 0; i < 2; i++) {
        ends[i]->region = aligned_alloc(TT_UNIT, TT_LINK_BYTES);
        assert_non_null(ends[i]->region);
        memset(ends[i]->region, 0, TT_LINK_BYTES);
    }
    for (int i = 0; i < 2; i++) {
        const struct tt_link link = {
            .mine = ends[i]->region,
            .theirs = { .wire = &fake.wire,
                        .peer = 1u - (uint32_t)i,
                        .mapped = caps & TT_WIRE_CAP_MAPPED ? ends[1 - i]->region : NULL,
                        .handle = { (uintptr_t)ends[1 - i]->region },
                        .bytes = TT_LINK_BYTES },
        };

        tt_mailbox_init(&ends[i]->box, &link);
    }
}

static void ends_fini(void)
{
    free(a.region);
    free(b.region);
}

/* Starts both ends as if a had sent these numbers of cells, and of units in each ring, and b had
 * consumed them. */
static void begin_at(uint32_t cells, uint32_t units)
{
    const uint64_t head = (uint64_t)(uint16_t)cells << 48 | (uint64_t)(uint16_t)units << 32 | units;

    a.box.sent = b.box.got = b.box.reported = (struct tt_mail_count){ cells, { units, units } };
    a.box.head = head;
    memcpy(a.region + TT_LINK_HEAD, &head, 8);
}

static uint32_t units_sent(void)
{
    return a.box.sent.units[TT_MAIL_SHORT] + a.box.sent.units[TT_MAIL_LONG];
}

/* Fills message i: its number in the cell, and `bytes` derived bytes. */
static void fill(uint8_t *payload, uint32_t i, uint32_t bytes)
{
    for (uint32_t k = 0; k < bytes; k++)
        payload[k] = (uint8_t)(tt_mix64(i) + k * 7);
}

static bool send(uint32_t i, uint32_t bytes)
{
    static uint8_t payload[TT_INLINE_BYTES];
    struct tt_cell cell = { .context = 5, .tag = i, .opseq = 1000 + i };
    bool sent;

    fill(payload, i, bytes);
    sent = tt_mail_send(&a.box, &cell, TT_CELL_EAGER, (uint8_t)i, payload, bytes);
    memset(payload, 0xee, bytes);       /* belongs to the caller again */
    return sent;
}

/* Consumes message i if it has arrived. */
static bool receive(uint32_t i, uint32_t bytes)
{
    static uint8_t expected[TT_INLINE_BYTES];
    struct tt_mail m;
    const tutti_status st = tt_mail_next(&b.box, &m);

    if (st == TUTTI_PENDING)
        return false;
    assert_int_equal(st, TUTTI_OK);
    assert_int_equal(m.cell.tag, i);
    assert_int_equal(m.cell.opseq, 1000 + i);
    assert_int_equal(m.cell.context, 5);
    assert_int_equal(m.type, TT_CELL_EAGER);
    assert_int_equal(m.credits, (uint8_t)i);
    assert_int_equal(m.bytes, bytes);
    fill(expected, i, bytes);
    assert_memory_equal(m.payload, expected, bytes);
    tt_mail_drop(&b.box, &m);
    return true;
}

/* ---- properties ---- */

static void short_message_needs_one_post(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        uint32_t most;

        ends_init(kinds[k]);
        most = a.box.inline_bytes;
        assert_int_equal(most, kinds[k] & TT_WIRE_CAP_MAPPED ? 216 : 1048);
        for (uint32_t i = 0; i <= most; i++) {
            fake.posted = 0;
            assert_true(send(i, i));
            assert_int_equal(fake.posted, 1);
            assert_int_equal(units_sent(), 0);
            assert_true(receive(i, i));
        }
        assert_false(receive(0, 0));
        assert_true(send(25, most + 1));
        assert_int_equal(units_sent(), (most + TT_UNIT) / TT_UNIT);
        ends_fini();
    }
}

/* With a mapped mailbox: into the short ring, and while that is full into the long one. All arrive
 * in order, and the short ring is used again. */
static void short_messages_overflow_to_long_ring(void **state)
{
    uint32_t n = 0, in_short, in_long;

    (void)state;
    ends_init(TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_MAPPED);
    while (a.box.sent.units[TT_MAIL_LONG] == 0)
        assert_true(send(n++, TT_SHORT_BYTES));
    in_short = n - 1;
    assert_int_equal(in_short, TT_SHORT_UNITS * TT_UNIT / TT_SHORT_BYTES);
    assert_true(send(n++, TT_SHORT_BYTES + 1));
    assert_true(send(n++, 1));
    assert_true(receive(0, TT_SHORT_BYTES));
    for (uint32_t i = 1; i < n - 2; i++)
        assert_true(receive(i, TT_SHORT_BYTES));
    assert_true(receive(n - 2, TT_SHORT_BYTES + 1));
    assert_true(receive(n - 1, 1));
    in_long = a.box.sent.units[TT_MAIL_LONG];
    for (uint32_t i = 0; i < in_short; i++)
        assert_true(send(n + i, TT_SHORT_BYTES));
    assert_int_equal(a.box.sent.units[TT_MAIL_LONG], in_long);
    for (uint32_t i = 0; i < in_short; i++)
        assert_true(receive(n + i, TT_SHORT_BYTES));
    ends_fini();
}

/* Random lengths at random speeds, from all points of the sequence space: all arrive once, complete
 * and in order. */
static void messages_arrive_complete_and_in_order(void **state)
{
    static const uint32_t from[] = { 0, 1000, UINT32_MAX - 100, 1u << 31 };

    (void)state;
    for (uint32_t seed = 0; seed < 8 * KINDS; seed++) {
        const uint32_t total = 3000 / UNIT_SHARE;
        uint32_t sent = 0, got = 0, full = 0, *bytes = calloc(total, sizeof *bytes);
        struct tt_prng p;

        assert_non_null(bytes);
        tt_prng_init(&p, seed);
        ends_init(kinds[seed % KINDS]);
        begin_at(from[seed / KINDS % 4], from[seed / KINDS / 2 % 4]);
        /* into a mapped region, past the cache */
        a.box.measured.seconds_left = seed % 2 ? UINT8_MAX : 0;
        a.box.stores =
            (const uint8_t[]){ TT_COPY_UNDECIDED, TT_COPY_ORDINARY, TT_COPY_NONTEMPORAL }[seed % 3];
        for (uint32_t i = 0; i < total; i++)
            bytes[i] = tt_prng_below(&p, 3) ? (uint32_t)tt_prng_below(&p, 200)
                                            : (uint32_t)tt_prng_below(&p, TT_INLINE_BYTES + 1);
        while (got < total) {
            for (uint64_t n = tt_prng_below(&p, 400); n > 0 && sent < total; n--) {
                const bool room = tt_mail_room(&a.box, bytes[sent]);

                assert_int_equal(send(sent, bytes[sent]), room);
                if (!room) {
                    full++;
                    break;
                }
                sent++;
            }
            for (uint64_t n = tt_prng_below(&p, 400); n > 0 && got < sent; n--, got++)
                if (!receive(got, bytes[got]))
                    fail_msg("message %u of %u did not come (seed %u)", got, sent, seed);
            if (got == sent)
                assert_false(receive(got, 0));
        }
        assert_in_range(full, 1, total);
        ends_fini();
        free(bytes);
    }
}

static void full_mailbox_waits_for_credit(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        const bool mapped = kinds[k] & TT_WIRE_CAP_MAPPED;
        uint32_t n = 0;

        ends_init(kinds[k]);
        while (send(n, 0))
            n++;
        assert_int_equal(n, mapped ? TT_CELLS_MAPPED : TT_CELLS_POSTED);
        assert_false(tt_mail_room(&a.box, 0));
        for (uint32_t i = 0; i < n / (mapped ? 4 : 2); i++) {
            assert_false(send(n, 0));       /* the peer sends credit only when it is worth a
                                               message */
            assert_true(receive(i, 0));
        }
        assert_true(send(n, 0));
        ends_fini();
    }
}

static void full_ring_accepts_short_messages(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        uint32_t n = 0;

        ends_init(kinds[k]);
        while (send(n, TT_INLINE_BYTES))
            n++;
        assert_int_equal(n, TT_LONG_UNITS * TT_UNIT / TT_INLINE_BYTES);
        assert_true(send(n, TT_CELL_INLINE));
        assert_false(send(n + 1, TT_SHORT_BYTES + TT_UNIT));
        for (uint32_t i = 0; i < n; i++)
            assert_true(receive(i, TT_INLINE_BYTES));
        assert_true(receive(n, TT_CELL_INLINE));
        assert_true(send(n + 1, TT_INLINE_BYTES));
        assert_true(receive(n + 1, TT_INLINE_BYTES));
        ends_fini();
    }
}

/* The longest message of each ring fits an empty mailbox, for any ring position and any outstanding
 * credit. */
static void longest_message_fits_an_empty_mailbox(void **state)
{
    static const uint32_t units[] = { TT_SHORT_UNITS, TT_LONG_UNITS },
                          bytes[] = { TT_SHORT_BYTES, TT_INLINE_BYTES };

    (void)state;
    for (uint32_t ring = TT_MAIL_SHORT; ring <= TT_MAIL_LONG; ring++)
        for (uint32_t at = 0; at < units[ring]; at += ring ? 37 : 1)
            for (uint32_t untold = 0; untold < units[ring] / 4; untold += ring ? 101 : 1) {
                ends_init(TT_WIRE_CAP_ORDERED | TT_WIRE_CAP_MAPPED);
                begin_at(7, at);
                a.box.sent.units[ring] += untold;
                b.box.got.units[ring] += untold;
                assert_true(send(0, bytes[ring]));
                assert_int_equal(a.box.sent.units[!ring], at);
                assert_true(receive(0, bytes[ring]));
                ends_fini();
            }
    for (uint32_t at = 0; at < TT_LONG_UNITS; at += 37)
        for (uint32_t untold = 0; untold < TT_LONG_UNITS / 2; untold += 101) {
            ends_init(TT_WIRE_CAP_ORDERED);
            begin_at(7, at);
            a.box.sent.units[TT_MAIL_LONG] += untold;
            b.box.got.units[TT_MAIL_LONG] += untold;
            assert_true(send(0, TT_INLINE_BYTES));
            assert_true(receive(0, TT_INLINE_BYTES));
            ends_fini();
        }
}

/* If credit needs a separate message, it is combined with another one that is sent in time. If the
 * transport does not accept it, it is sent later. */
static void credit_is_combined_with_messages(void **state)
{
    struct tt_cell cell = { .context = 5 };

    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        const bool mapped = kinds[k] & TT_WIRE_CAP_MAPPED;
        uint32_t before;

        ends_init(kinds[k]);
        for (uint32_t i = 0; i < TT_CELLS_POSTED / 8 && !mapped; i++)
            assert_true(send(i, 100) && receive(i, 100));
        before = fake.posted;
        fake.refuse = 1;
        assert_true(tt_mail_send(&b.box, &cell, TT_CELL_PROBE, 0, NULL, 0));
        assert_int_equal(fake.posted - before, 1);
        assert_int_equal(b.box.reported.cells, 0);
        fake.refuse = UINT32_MAX;
        assert_true(tt_mail_send(&b.box, &cell, TT_CELL_PROBE, 0, NULL, 0));
        assert_int_equal(fake.posted - before, mapped ? 2 : 3);
        assert_int_equal(b.box.reported.cells, b.box.got.cells);
        assert_true(tt_mail_send(&b.box, &cell, TT_CELL_PROBE, 0, NULL, 0));
        assert_int_equal(fake.posted - before, mapped ? 3 : 4);     /* nothing new */
        for (uint32_t i = 0; i < TT_CELLS_POSTED && !mapped; i++)
            assert_true(send(i, 0));
        ends_fini();
    }
}

static void refused_message_is_sent_again(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++)        /* 3, 2 or 1 descriptors per message */
        for (uint32_t taken = 0; taken < KINDS - k; taken++) {
            ends_init(kinds[k]);
            assert_true(send(0, 100));
            fake.refuse = taken;
            assert_false(send(1, 3000));        /* its payload may have been sent */
            assert_true(receive(0, 100));
            assert_false(receive(1, 3000));
            fake.refuse = UINT32_MAX;
            assert_true(send(1, 5000));         /* another message may come first */
            assert_true(receive(1, 5000));
            ends_fini();
        }
}

static void refused_credit_is_sent_later(void **state)
{
    uint32_t n = 0;

    (void)state;
    ends_init(TT_WIRE_CAP_ORDERED);
    while (send(n, 0))
        n++;
    fake.refuse = 0;
    for (uint32_t i = 0; i < n; i++)
        assert_true(receive(i, 0));
    assert_false(tt_mail_room(&a.box, 0));
    fake.refuse = UINT32_MAX;
    tt_mail_ack(&b.box);
    for (uint32_t i = 0; i < TT_CELLS_POSTED; i++)
        assert_true(send(n + i, 0));
    fake.posted = 0;
    tt_mail_ack(&b.box);
    assert_int_equal(fake.posted, 0);   /* nothing new */
    ends_fini();
}

/* "No more puts", and a fence, arrive after the puts; other messages need not. */
static void notifications_follow_all_earlier_puts(void **state)
{
    (void)state;
    for (uint32_t caps = 0; caps <= TT_WIRE_CAP_ORDERED; caps += TT_WIRE_CAP_ORDERED) {
        struct tt_cell cell = { .context = 5 };
        char late[] = "late", later[] = "lag.";
        struct tt_desc put = {
            .kind = TT_DESC_PUT, .flags = TT_DESC_INLINE, .local = late, .bytes = 4
        };
        struct tt_mail m;

        ends_init(caps);
        put.key = &a.box.theirs;
        put.offset = TT_LINK_ARRIVED;
        assert_int_equal(post(&fake.wire, &put, 1), 1);
        assert_true(tt_mail_send(&a.box, &cell, TT_CELL_PROBE, 0, NULL, 0));
        assert_true(fake.flags & TT_DESC_URGENT);
        assert_true(tt_mail_send(&a.box, &cell, TT_CELL_ENDED, 0, NULL, 0));
        assert_false(fake.flags & TT_DESC_URGENT);
        assert_memory_equal(b.region + TT_LINK_ARRIVED, late, 4);
        for (uint8_t type = TT_CELL_PROBE; type <= TT_CELL_ENDED; type++) {
            assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_OK);
            assert_int_equal(m.type, type);
            tt_mail_drop(&b.box, &m);
        }
        put.local = later;
        assert_int_equal(post(&fake.wire, &put, 1), 1);
        assert_true(tt_mail_send(&a.box, &cell, TT_CELL_FENCE, 0, NULL, 0));
        assert_false(fake.flags & TT_DESC_URGENT);
        assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_OK);
        assert_int_equal(m.type, TT_CELL_FENCE);
        assert_memory_equal(b.region + TT_LINK_ARRIVED, later, 4);
        ends_fini();
    }
}

/* ---- an invalid peer ---- */

static void put_state(uint32_t at, uint64_t value)
{
    memcpy(b.region + tt_mail_place(&b.box, at), &value, 8);
}

static void cell_out_of_turn_is_ignored(void **state)
{
    struct tt_mail m;

    (void)state;
    ends_init(0);
    begin_at(300, 0);
    for (uint64_t i = 0; i < 1000; i++) {
        const uint32_t seq = (uint32_t)tt_mix64(i);

        put_state(300, (uint64_t)(seq == 301 ? 0 : seq) << 32 | (uint32_t)tt_mix64(~i));
        assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_PENDING);
    }
    put_state(300, 300ull << 32);       /* a cell of the previous cycle */
    assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_PENDING);
    put_state(300, (300ull + b.box.places + 1) << 32);  /* of the next cycle */
    assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_PENDING);
    put_state(300, 301ull << 32);
    assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_OK);
    ends_fini();
}

/* With any claimed length, the payload is within the link region, and so is the next one. */
static void length_stays_within_the_link_region(void **state)
{
    struct tt_mail m;
    struct tt_prng p;

    (void)state;
    tt_log_set(TT_LOG_NONE);
    tt_prng_init(&p, 1);
    for (uint32_t k = 0; k < KINDS; k++) {
        ends_init(kinds[k]);
        for (uint32_t i = 0; i < 100000 / UNIT_SHARE; i++) {
            const uint64_t bytes =
                tt_prng_below(&p, 4) ? tt_prng_below(&p, 65536) : 65535 - tt_prng_below(&p, 2);

            put_state(i, (uint64_t)(i + 1) << 32 | bytes << 16 | tt_prng_below(&p, 65536));
            const tutti_status st = tt_mail_next(&b.box, &m);

            if (st == TUTTI_OK) {
                const uint8_t *from = m.payload == m.cell.data ? b.region : m.payload;

                assert_int_equal(m.bytes, bytes);
                assert_true(m.payload != m.cell.data || bytes <= TT_CELL_INLINE);
                assert_true(m.payload == m.cell.data || from >= b.region + TT_LINK_CELLS);
                assert_true(from + bytes <= b.region + TT_LINK_BYTES);
            } else {
                assert_int_equal(st, TUTTI_ERR_PROTOCOL);
            }
            tt_mail_drop(&b.box, &m);
        }
        ends_fini();
    }
}

/* An invalid head word only prevents sends, or causes writes inside the peer's own region. */
static void invalid_head_harms_only_the_peer(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < KINDS; k++) {
        uint32_t sent = 0;

        ends_init(kinds[k]);
        for (uint64_t i = 0; i < 2000; i++) {
            const uint64_t head = tt_mix64(i);

            memcpy(a.region + TT_LINK_HEAD, &head, 8);
            if (fake.nheld == HELD_MAX)
                land(fake.nheld);
            /* the transport, or a sanitizer, checks the range */
            sent += send(sent, (uint32_t)(tt_mix64(~i) % (TT_INLINE_BYTES + 1)));
        }
        assert_in_range(sent, 0, 2000);
        ends_fini();
    }
}

static void later_writes_spare_read_messages(void **state)
{
    struct tt_mail m;

    (void)state;
    ends_init(0);
    assert_true(send(3, 8));
    assert_int_equal(tt_mail_next(&b.box, &m), TUTTI_OK);
    memset(b.region + TT_LINK_CELLS, 0xff, TT_UNIT);
    assert_int_equal(m.cell.tag, 3);
    assert_int_equal(m.bytes, 8);
    assert_ptr_equal(m.payload, m.cell.data);
    tt_mail_drop(&b.box, &m);
    assert_int_equal(b.box.got.cells, 1);
    assert_int_equal(b.box.got.units[TT_MAIL_LONG], 0);
    ends_fini();
}

static void flow_words_have_a_place_each(void **state)
{
    static const uint32_t areas[] = { TT_LINK_ARRIVED, TT_LINK_CREDIT };
    static uint8_t taken[TT_LINK_BYTES / 8];

    (void)state;
    ends_init(0);
    taken[TT_LINK_HEAD / 8] = 1;
    for (int area = 0; area < 2; area++)
        for (uint32_t h = 0; h < TT_HANDLES; h++)
            for (uint32_t s = 0; s < TT_FLOW_BYTES / 8; s++) {
                const uint64_t at = tt_link_offset(areas[area], h, s);

                assert_ptr_equal(tt_link_word(&a.box, areas[area], h, s), a.region + at);
                assert_in_range(at, 8, TT_LINK_CELLS - 8);
                assert_int_equal(taken[at / 8]++, 0);
            }
    ends_fini();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_message_needs_one_post),
        cmocka_unit_test(short_messages_overflow_to_long_ring),
        cmocka_unit_test(messages_arrive_complete_and_in_order),
        cmocka_unit_test(full_mailbox_waits_for_credit),
        cmocka_unit_test(full_ring_accepts_short_messages),
        cmocka_unit_test(longest_message_fits_an_empty_mailbox),
        cmocka_unit_test(refused_message_is_sent_again),
        cmocka_unit_test(refused_credit_is_sent_later),
        cmocka_unit_test(credit_is_combined_with_messages),
        cmocka_unit_test(notifications_follow_all_earlier_puts),
        cmocka_unit_test(cell_out_of_turn_is_ignored),
        cmocka_unit_test(length_stays_within_the_link_region),
        cmocka_unit_test(invalid_head_harms_only_the_peer),
        cmocka_unit_test(later_writes_spare_read_messages),
        cmocka_unit_test(flow_words_have_a_place_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
