/* Memory per rank without communication: its address record, and the state of the overlay, of
 * communicators and of transports for it. */
#include "support/unit.h"

#include <string.h>
#include "base/prng.h"
#include "boot/record_store.h"
#include "comm/cores.h"
#include "engine/state.h"
#include "topo/rank_location.h"
#include "wire/ofi/ofi_frame.h"
#include "wire/tcp/tcp_frame.h"
#include "wire/verbs/verbs_frame.h"
#include "wire/wires.h"

#define MANY 1024u

/* A job: ranks per host, and its transports. */
struct job {
    uint32_t per_host;
    const char *wires[4];
};

/* The stored address of transport `name` for a rank on the `host`th host. Those of verbs and ofi
 * contain the address of their inner tcp transport. A rank that shares no records does not store
 * the addresses of shared memory on other hosts. */
static void address_of(struct tt_prng *prng, const struct job *job, const char *name, uint32_t host,
                       struct tt_blob *out)
{
    struct tt_tcp_address tcp = { .host = tt_mix64(host + 1),
                                  .port = (uint16_t)(32768 + tt_prng_below(prng, 28232)) };
    struct tt_verbs_address verbs = { .infiniband = true, .subnet = 0xfe80ull << 48 };
    struct tt_ofi_address ofi = { .format = 10, .provider = "efa" };

    if (strcmp(name, "shm") == 0) {
        out->bytes = 28;
        memset(out->data, 0, out->bytes);
        for (size_t i = 0; (job->per_host > 1 || host == 0) && i < out->bytes; i++)
            out->data[i] = i < 12 ? (uint8_t)i : (uint8_t)tt_prng_u64(prng);
        return;
    }
    for (uint8_t k = 0; k < 3; k++) {       /* a management network, and two rails */
        const uint8_t ip[16] = { 10, k, (uint8_t)(host >> 8), (uint8_t)host };

        tt_tcp_address_add(&tcp, 4, ip);
    }
    tt_tcp_address_write(&tcp, out);
    if (strcmp(name, "verbs") == 0) {
        verbs.tcp = *out;
        tt_verbs_address_write(&verbs, out);
    } else if (strcmp(name, "ofi") == 0) {
        ofi.tcp = *out;
        tt_ofi_address_write(&ofi, out);
    }
}

/* The card of a rank: its processors and location, then the engine's part: the host, and the
 * transports' addresses. Hosts differ in a hash and in addresses, ranks in ports and in names of
 * shared memory. */
static size_t card_of(struct tt_prng *prng, const struct job *job, uint32_t rank,
                      uint8_t card[TT_TREE_CARD_MAX])
{
    const uint32_t host = rank / job->per_host;
    const struct tt_rank_location place = { .host = tt_mix64(host + 1),
                                            .socket = (int16_t)(rank % job->per_host % 2) };
    struct tt_writer w;
    cpu_set_t cores;
    uint8_t n = 0;

    while (job->wires[n])
        n++;
    CPU_ZERO(&cores);
    CPU_SET(rank % job->per_host % CPU_SETSIZE, &cores);
    tt_writer_init(&w, card, TT_TREE_CARD_MAX);
    tt_cores_write(&cores, &w);
    tt_rank_location_write(&place, &w);
    tt_write_u64(&w, tt_mix64(host + 1));
    tt_write_u8(&w, n);
    for (uint8_t i = 0; i < n; i++) {
        struct tt_blob address;

        address_of(prng, job, job->wires[i], host, &address);
        tt_write_string(&w, job->wires[i]);
        tt_write_u16(&w, address.bytes);
        tt_write_bytes(&w, address.data, address.bytes);
    }
    assert_false(w.bad);
    return tt_writer_bytes(&w);
}

/* Returns the bytes per rank, including the state of the overlay and of a communicator. Transports
 * have no such state (see below). */
static double idle_bytes(const struct tt_record_store *s, uint32_t nsharing)
{
    /* in tt_flood, whose header depends on frames of transports */
    const size_t overlay = sizeof(uint64_t) + sizeof(bool);
    const size_t communicator = sizeof *((struct tt_context *)0)->ranks;

    return (double)tt_record_store_bytes(s, nsharing) / s->nranks +
           (double)(overlay + communicator);
}

static void check_job(const struct job *job)
{
    struct tt_record_store s;
    struct tt_prng prng;
    double idle;

    tt_prng_init(&prng, 1);
    assert_int_equal(tt_record_store_init(&s, MANY), TUTTI_OK);
    for (uint32_t rank = 0; rank < MANY; rank++) {
        uint8_t card[TT_TREE_CARD_MAX];
        const size_t bytes = card_of(&prng, job, rank, card);

        assert_int_equal(
            tt_record_store_add(&s, rank - rank % job->per_host, card, (uint16_t)bytes), TUTTI_OK);
    }
    tt_record_store_settle(&s);
    s.shared = job->per_host > 1;       /* for the calculation */
    idle = idle_bytes(&s, job->per_host);
    s.shared = false;
    print_message("%4u x %4u:", MANY / job->per_host, job->per_host);
    for (size_t i = 0; job->wires[i]; i++)
        print_message(" %s", job->wires[i]);
    print_message(": %.1f bytes a card, %.1f an idle rank\n", (double)s.used / MANY, idle);
    assert_true(idle <= (job->per_host >= 8 ? 32 : 64));
    tt_record_store_fini(&s);
}

/* The ranks of a host share the records. */
static void idle_rank_takes_32_bytes_with_8_ranks_per_host(void **state)
{
    static const struct job jobs[] = {
        { MANY, { "shm", "tcp" } },
        { 32, { "shm", "tcp" } },
        { 8, { "shm", "tcp" } },
        { 2, { "shm", "tcp" } },
        { 1, { "shm", "tcp" } },
        { 1, { "tcp" } },
        { MANY, { "shm", "verbs", "tcp" } },
        { 8, { "shm", "verbs", "tcp" } },
        { 2, { "shm", "verbs", "tcp" } },
        { 1, { "shm", "verbs", "tcp" } },
        { 8, { "verbs" } },
        { 1, { "verbs" } },
        { MANY, { "shm", "ofi", "tcp" } },
        { 8, { "shm", "ofi", "tcp" } },
        { 2, { "shm", "ofi", "tcp" } },
        { 1, { "shm", "ofi", "tcp" } },
        { 1, { "ofi" } },
    };

    (void)state;
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++)
        check_job(&jobs[j]);
}

/* Tests ranks without communication, over the transports that can be opened here. */
static void wires_have_nothing_for_idle_ranks(void **state)
{
    static const uint8_t secret[16];
    struct tt_wire_conf conf = {
        .nranks = MANY, .secret = secret, .link_bytes = 4096, .interfaces = "lo", .cma = true
    };
    size_t opened = 0;

    (void)state;
    for (size_t i = 0; i < tt_nwires; i++) {
        tutti_memory m = { 0 };
        struct tt_wire *w;

        if (tt_wires[i]->open(&w, &conf))
            continue;
        opened++;
        tt_wires[i]->memory(w, &m);
        assert_true(m.nparts > 0);
        for (uint32_t k = 0; k < m.nparts; k++)
            assert_int_equal(m.parts[k].rank_bytes, 0);
        tt_wires[i]->close(w);
    }
    assert_true(opened >= 2);       /* shm and tcp */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_rank_takes_32_bytes_with_8_ranks_per_host),
        cmocka_unit_test(wires_have_nothing_for_idle_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
