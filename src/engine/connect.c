#include "engine/connect.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/context_end.h"
#include "engine/describe.h"
#include "engine/peers.h"

/* Shared memory of another host is not accessible, so its address is unused. */
void tt_engine_trim_card(const struct tt_engine *e, uint8_t *card, size_t bytes)
{
    struct tt_reader r;

    tt_reader_init(&r, card, bytes);
    if (tt_read_u64(&r) == e->host)
        return;
    for (uint32_t n = tt_read_u8(&r); n > 0; n--) {
        char name[16];
        uint16_t length;

        tt_read_string(&r, name, sizeof name);
        length = tt_read_u16(&r);
        if (r.bad || length > r.end - r.at)
            return;
        if (strcmp(name, "shm") == 0)
            memset(card + (r.at - card), 0, length);
        r.at += length;
    }
}

size_t tt_engine_read_card(const struct tt_engine *e, uint32_t rank, uint8_t *card)
{
    const size_t bytes = e->cards.read ? e->cards.read(e->cards.arg, rank, card) : 0;

    tt_assert(bytes <= TT_ENGINE_CARD_BYTES);
    tt_engine_trim_card(e, card, bytes);
    return bytes;
}

static void add_name(char *list, size_t cap, const char *name)
{
    const size_t n = strlen(list);

    snprintf(list + n, cap - n, "%s%s", n ? ", " : "", name);
}

/* Declares a peer lost because no wire of this process can reach its addresses. why: reasons of
 * the wires; may be empty. */
static void fail_unreachable(struct tt_engine *e, const struct tt_peer *p, const char *theirs,
                             const char *why)
{
    char ours[64] = "", how[384], own[TT_RANK_TEXT_BYTES], other[TT_RANK_TEXT_BYTES];

    for (uint32_t i = 0; i < e->nwires; i++)
        add_name(ours, sizeof ours, e->wire[i]->ops->name);
    snprintf(how, sizeof how, "no transport of this process reaches it: %s has %s, %s has %s%s%s",
             tt_rank_text(e, e->rank, own), ours, tt_rank_text(e, p->rank, other),
             *theirs ? theirs : "none", *why ? ": " : "", why);
    tt_peer_lost(e, p->rank, how);
}

void tt_peer_connect(struct tt_engine *e, struct tt_peer *p)
{
    uint8_t card[TT_ENGINE_CARD_BYTES];
    char theirs[64] = "", why[192] = "";
    struct tt_reader r;

    tt_reader_init(&r, card, tt_engine_read_card(e, p->rank, card));
    tt_read_u64(&r);            /* skip the host */
    p->state = TT_PEER_CONNECTING;
    for (uint32_t n = tt_read_u8(&r); n > 0; n--) {
        struct tt_blob address = { 0 };
        char name[16];

        tt_read_string(&r, name, sizeof name);
        address.bytes = tt_read_u16(&r);
        if (r.bad || address.bytes > TT_BLOB_BYTES)
            break;
        tt_read_bytes(&r, address.data, address.bytes);
        add_name(theirs, sizeof theirs, name);
        for (uint32_t i = 0; i < e->nwires; i++) {
            if (strcmp(e->wire[i]->ops->name, name) != 0)
                continue;
            if (e->wire[i]->ops->connect(e->wire[i], p->rank, &address) == TUTTI_OK) {
                p->wire = e->wire[i];
                e->passes = 0;
                return;
            }
            if (e->wire[i]->unreached) {
                tt_log(TT_LOG_INFO, "rank %u is not reachable over %s: %s", p->rank, name,
                       e->wire[i]->unreached);
                add_name(why, sizeof why, e->wire[i]->unreached);
            }
        }
    }
    fail_unreachable(e, p, theirs, why);
}

void tt_engine_log_unusable(struct tt_engine *e)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    char ours[64] = "";
    bool first;

    if (!e->unusable)
        return;
    for (uint32_t i = 0; i < e->nwires; i++)
        add_name(ours, sizeof ours, e->wire[i]->ops->name);
    first = e->rank == e->cards.first_here && !atomic_flag_test_and_set(&told);
    tt_log(first ? TT_LOG_WARN : TT_LOG_INFO,
           "of the allowed transports (TUTTI_WIRES), only %s can be used on this host: %s", ours,
           e->unusable);
    free(e->unusable);
    e->unusable = NULL;
}

/* ---- losses ---------------------------------------------------------------------------------- */

static bool has_member(const struct tt_context *c, uint32_t rank)
{
    for (uint32_t i = 0; i < c->nranks; i++)
        if (c->ranks[i] == rank)
            return true;
    return false;
}

/* Returns the last failure that a rank reported, or NULL. */
static const char *report_of(const struct tt_engine *e, uint32_t rank)
{
    for (uint32_t i = 0; i < e->nreports && i < TT_REPORTS; i++)
        if (e->reports[i].rank == rank)
            return e->reports[i].sentence;
    return NULL;
}

void tt_report_keep(struct tt_engine *e, uint32_t rank, const char *sentence)
{
    struct tt_report *r = NULL;

    if (rank == UINT32_MAX)
        return;
    if (!e->reports)
        e->reports = calloc(TT_REPORTS, sizeof *e->reports);
    if (!e->reports)
        return;
    for (uint32_t i = 0; i < e->nreports && i < TT_REPORTS && !r; i++)
        if (e->reports[i].rank == rank)
            r = &e->reports[i];
    if (!r)
        r = &e->reports[e->nreports++ % TT_REPORTS];
    r->rank = rank;
    snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
}

/* Prints "; it had reported: ...", or "". */
const char *tt_report_text(const struct tt_engine *e, uint32_t rank, char out[TT_REPORT_TEXT_BYTES])
{
    const char *report = report_of(e, rank);

    if (report)
        snprintf(out, TT_REPORT_TEXT_BYTES, "; it had reported: %.*s", TT_REPORT_TEXT_BYTES - 30,
                 report);
    else
        out[0] = 0;
    return out;
}

void tt_peer_lost(struct tt_engine *e, uint32_t rank, const char *how)
{
    struct tt_peer *p = tt_peer_of(e, rank);
    char who[TT_RANK_TEXT_BYTES], why[TT_ERROR_BYTES], report[TT_REPORT_TEXT_BYTES];

    if (p && p->state == TT_PEER_LOST)
        return;
    if (p)
        p->state = TT_PEER_LOST;
    snprintf(why, sizeof why, "%s was lost: %.*s%s", tt_rank_text(e, rank, who),
             TT_ERROR_BYTES - TT_REPORT_TEXT_BYTES - 60, how, tt_report_text(e, rank, report));
    for (struct tt_context *c = e->contexts, *next; c; c = next) {
        next = c->next;
        if (has_member(c, rank))
            tt_context_fail_here(c, TUTTI_ERR_PEER_LOST, why, true);
    }
}

void tt_peer_left(struct tt_engine *e, struct tt_peer *p)
{
    p->left_ns = tt_now_ns();       /* tt_check_deadlines fails the operations that wait for it */
    tt_peer_has_left(e, p);
}
