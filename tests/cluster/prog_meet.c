/* Connects to the other ranks as described by its environment, checks the cards of all ranks and
 * the secret, floods a word over the control overlay and waits for the words of all others. Prints
 * "rank R of N met". Variants:
 *   prog_meet            as above
 *   prog_meet twice      connects a second time, at the same rendezvous
 *   prog_meet quiet      floods nothing
 *   prog_meet stay       after start-up, prints each LOST, until it is killed */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/prng.h"
#include "base/status.h"
#include "boot/boot.h"

struct card {
    uint32_t rank;
    uint32_t pid;
};

static void die(const char *what)
{
    printf("failed: %s: %s\n", what, tutti_last_error());
    exit(1);
}

static bool wait_event(struct tt_overlay *o, struct tt_overlay_event *ev, uint64_t deadline_ns)
{
    while (!tt_overlay_next(o, ev)) {
        struct pollfd p = { .fd = tt_overlay_fd(o), .events = POLLIN };

        if (tt_now_ns() > deadline_ns)
            return false;
        poll(&p, 1, 100);
    }
    return true;
}

static void check_table(struct tt_table *t)
{
    for (uint32_t r = 0; r < t->nranks; r++) {
        const uint8_t *found;
        uint32_t holder;
        struct card card;

        tt_assert(tt_boot_card(&t->records, r, &found, &holder) == sizeof card);
        memcpy(&card, found, sizeof card);
        tt_assert(card.rank == r);
    }
}

/* Each rank floods one word with a hash of the secret. No word may be missing, duplicated, or of
 * another job. */
static void check_flood(const struct tt_table *t, struct tt_overlay *o, uint64_t deadline_ns)
{
    const uint64_t word = tt_hash_bytes(t->secret, sizeof t->secret, 7);
    bool *heard = calloc(t->nranks, 1);
    struct tt_overlay_event ev;

    tt_assert(heard);
    tt_overlay_flood(o, &word, sizeof word);
    for (uint32_t n = 1; n < t->nranks; n++) {
        if (!wait_event(o, &ev, deadline_ns))
            die("a word did not come");
        tt_assert(ev.kind == TT_OVERLAY_FRAME && ev.bytes == sizeof word &&
                  memcmp(ev.data, &word, sizeof word) == 0);
        tt_assert(ev.origin != t->rank && !heard[ev.origin]);
        heard[ev.origin] = true;
    }
    free(heard);
}

static _Noreturn void watch(struct tt_overlay *o)
{
    struct tt_overlay_event ev;

    for (;;) {
        while (tt_overlay_next(o, &ev))
            if (ev.kind == TT_OVERLAY_LOST) {
                printf("lost %u\n", ev.origin);
                fflush(stdout);
            }
        poll(&(struct pollfd){ .fd = tt_overlay_fd(o), .events = POLLIN }, 1, -1);
    }
}

static void start_up_once(const struct tt_launch *launch, const char *how)
{
    const struct card card = { .rank = launch->rank, .pid = (uint32_t)getpid() };
    const struct tt_boot_offer offer = { .card = &card, .card_bytes = sizeof card };
    const uint64_t deadline_ns = tt_deadline_ns(tt_now_ns(), launch->timeout_ms);
    struct tt_overlay *overlay;
    struct tt_table table;

    if (tt_boot_rendezvous(launch, &offer, deadline_ns, &table, &overlay) != TUTTI_OK)
        die("meet");
    check_table(&table);
    if (strcmp(how, "quiet") != 0)
        check_flood(&table, overlay, deadline_ns);
    printf("rank %u of %u met (%s)\n", table.rank, table.nranks, launch->launcher);
    fflush(stdout);
    if (strcmp(how, "stay") == 0)
        watch(overlay);
    tt_overlay_close(overlay);
    tt_table_fini(&table);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    struct tt_launch launch;

    if (tt_boot_launch(&launch, NULL) != TUTTI_OK)
        die("launch");
    tt_log_rank((int)launch.rank);
    start_up_once(&launch, how);
    if (strcmp(how, "twice") == 0)
        start_up_once(&launch, how);
    return 0;
}
