#include "boot/tree_report.h"

#include <stdlib.h>
#include <string.h>
#include "base/status.h"

#define RUN_BYTES_MAX (9u + TT_TREE_SETTINGS_MAX + 2 * (1 + TT_ENDPOINT_BYTES) + 4)
#define HEAD_BYTES (4u + 8 + 4 + 4 + 1 + 2 + 4 + REFUSAL_BYTES_MAX)
#define REFUSAL_BYTES_MAX (4u + 1 + 2 + TT_TREE_CAUSE_MAX)
#define REPORT_GONE 1u                  /* flags of a report */
#define REPORT_CARDS 2u
#define REPORT_REFUSAL 4u
#define REPORT_PLACES 8u

void tt_tree_write_address(struct tt_writer *w, const struct tt_tree_address *a)
{
    tt_write_u8(w, a->bytes);
    tt_write_bytes(w, a->data, a->bytes);
}

void tt_tree_read_address(struct tt_reader *r, struct tt_tree_address *out)
{
    out->bytes = tt_read_u8(r);
    if (out->bytes > sizeof out->data) {
        out->bytes = 0;
        r->bad = true;
    }
    tt_read_bytes(r, out->data, out->bytes);
}

void tt_tree_write_refusal(struct tt_writer *w, uint8_t status, const char *cause)
{
    tt_write_u8(w, status);
    tt_write_string(w, cause);
}

void tt_tree_read_refusal(struct tt_reader *r, struct tt_tree_refusal *out)
{
    out->status = tt_read_u8(r);
    tt_read_string(r, out->cause, sizeof out->cause);
    if (out->status < TUTTI_ERR_INVALID || out->status >= TUTTI_STATUS_COUNT)
        r->bad = true;
    if (r->bad)
        out->status = TUTTI_OK;
}

/* ---- reports ---- */

size_t tt_tree_report_bytes_max(const struct tt_tree_seat *seats, uint32_t n)
{
    size_t bytes = HEAD_BYTES + (size_t)n * RUN_BYTES_MAX;

    for (uint32_t i = 0; i < n; i++)
        bytes += 2 * TT_RECORD_OVERHEAD + seats[i].place_bytes + seats[i].card_bytes +
                 seats[i].constants_bytes;
    return bytes;
}

static int compare_seats(const void *a, const void *b)
{
    const struct tt_tree_seat *x = a, *y = b;

    if (x->live != y->live)
        return x->live ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Returns the number of seats, from the first on, that form one run. */
static uint32_t run_seats(const struct tt_tree_seat *seats, uint32_t n)
{
    uint32_t count = 1;

    while (count < n && seats[count].rank == seats[0].rank + count &&
           seats[count].settings_bytes == seats[0].settings_bytes &&
           memcmp(seats[count].settings, seats[0].settings, seats[0].settings_bytes) == 0)
        count++;
    return count;
}

static void write_run(struct tt_writer *w, const struct tt_tree_seat *seats, uint32_t count,
                      bool places, bool cards)
{
    struct tt_record_stream records = { .n = 0 }, of_places = { .n = 0 };

    tt_write_u32(w, seats[0].rank);
    tt_write_u32(w, count);
    tt_write_u8(w, seats[0].settings_bytes);
    tt_write_bytes(w, seats[0].settings, seats[0].settings_bytes);
    tt_tree_write_address(w, &seats[0].address);
    tt_tree_write_address(w, &seats[count - 1].address);
    for (uint32_t i = 0; i < count; i++)
        tt_write_u32(w, seats[i].tag);
    for (uint32_t i = 0; places && i < count; i++)
        tt_record_write(&of_places, w, 0, seats[i].place, seats[i].place_bytes);
    for (uint32_t i = 0; cards && i < count; i++)
        tt_record_write(&records, w, 0, seats[i].card, seats[i].card_bytes);
}

void tt_tree_write_report(struct tt_writer *w, const struct tt_tree_report_head *head,
                          struct tt_tree_seat *seats, uint32_t n)
{
    const struct tt_tree_seat *refuses = NULL;
    uint32_t nlive = 0, nruns = 0;
    bool places = false, cards = false, has_constants;

    qsort(seats, n, sizeof *seats, compare_seats);
    for (; nlive < n && seats[nlive].live; nlive++) {
        places |= seats[nlive].place_bytes > 0;
        cards |= seats[nlive].card_bytes > 0;
        if (!refuses && seats[nlive].status)
            refuses = &seats[nlive];
    }
    has_constants = nlive > 0 && seats[0].rank == 0;
    for (uint32_t i = 0; i < nlive; i += run_seats(seats + i, nlive - i))
        nruns++;
    tt_write_u32(w, head->reporter);
    tt_write_u64(w, head->process);
    tt_write_u32(w, head->generation);
    tt_write_u32(w, head->host);
    tt_write_u8(w, (uint8_t)((head->gone ? REPORT_GONE : 0) | (cards ? REPORT_CARDS : 0) |
                             (refuses ? REPORT_REFUSAL : 0) | (places ? REPORT_PLACES : 0)));
    tt_write_u16(w, has_constants ? seats[0].constants_bytes : 0);
    if (has_constants)
        tt_write_bytes(w, seats[0].constants, seats[0].constants_bytes);
    if (refuses) {
        tt_write_u32(w, refuses->rank);
        tt_tree_write_refusal(w, refuses->status, refuses->cause ? refuses->cause : "");
    }
    tt_write_u32(w, nruns);
    for (uint32_t i = 0, count; i < nlive; i += count) {
        count = run_seats(seats + i, nlive - i);
        write_run(w, seats + i, count, places, cards);
    }
}

void tt_tree_read_report(struct tt_reader *r, uint32_t nranks, struct tt_tree_report_head *out)
{
    uint8_t flags;

    out->reporter = tt_read_u32(r);
    out->process = tt_read_u64(r);
    out->generation = tt_read_u32(r);
    out->host = tt_read_u32(r);
    flags = tt_read_u8(r);
    out->gone = flags & REPORT_GONE;
    out->cards = flags & REPORT_CARDS;
    out->places = flags & REPORT_PLACES;
    out->constants_bytes = tt_read_u16(r);
    out->constants = tt_reader_take(r, out->constants_bytes);
    out->refusal = (struct tt_tree_refusal){ .status = TUTTI_OK };
    if (flags & REPORT_REFUSAL) {
        out->refusal.rank = tt_read_u32(r);
        tt_tree_read_refusal(r, &out->refusal);
        if (out->refusal.rank >= nranks)
            r->bad = true;
    }
    out->nruns = tt_read_u32(r);
    if (flags > (REPORT_GONE | REPORT_CARDS | REPORT_REFUSAL | REPORT_PLACES) ||
        out->reporter >= nranks || out->host >= nranks || out->nruns > nranks ||
        out->constants_bytes > TT_TREE_CONSTANTS_MAX)
        r->bad = true;
    if (r->bad)
        out->nruns = 0;
}

/* Reads `count` entries of at most `most` bytes each; *packed and *unpacked: their total size
 * before and after unpacking. Returns the first entry. */
static const uint8_t *read_entries_of_run(struct tt_reader *r, uint32_t count, uint16_t most,
                                          size_t *packed, size_t *unpacked)
{
    struct tt_record_stream records = { .n = 0 };
    const uint8_t *begin = r->at;

    *unpacked = 0;
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        tt_record_read(&records, r);
        if (records.entry.bytes > most)
            r->bad = true;
        *unpacked += records.entry.bytes;
    }
    *packed = r->bad ? 0 : (size_t)(r->at - begin);
    return begin;
}

void tt_tree_read_run(struct tt_reader *r, uint32_t nranks, const struct tt_tree_report_head *head,
                      struct tt_tree_run *out)
{
    size_t skip;

    *out = (struct tt_tree_run){ .first = tt_read_u32(r) };
    out->count = tt_read_u32(r);
    out->settings_bytes = tt_read_u8(r);
    out->settings = tt_reader_take(r, out->settings_bytes);
    tt_tree_read_address(r, &out->before);
    tt_tree_read_address(r, &out->after);
    if (out->first >= nranks || out->count == 0 || out->count > nranks - out->first)
        r->bad = true;
    out->tags = r->bad ? NULL : tt_reader_take(r, (size_t)out->count * 4);
    if (head->places)
        out->places =
            read_entries_of_run(r, out->count, TT_TREE_PLACE_MAX, &out->places_bytes, &skip);
    if (head->cards)
        out->cards = read_entries_of_run(r, out->count, TT_TREE_CARD_MAX, &out->cards_bytes,
                                         &out->records_bytes);
    if (r->bad)
        out->count = 0;
}

/* ---- proofs ---- */

void tt_tree_prove(uint8_t out[TT_MAC_BYTES], const struct tt_tree_proof *p, const void *said,
                   size_t bytes)
{
    uint8_t input[2 * TT_NONCE_BYTES + 6 + TT_MAC_BYTES], digest[TT_MAC_BYTES];
    struct tt_writer w;

    tt_digest(digest, said, bytes);
    tt_writer_init(&w, input, sizeof input);
    tt_write_bytes(&w, p->server_nonce, TT_NONCE_BYTES);
    tt_write_bytes(&w, p->client_nonce, TT_NONCE_BYTES);
    tt_write_u8(&w, p->up);
    tt_write_u32(&w, p->number);
    tt_write_u8(&w, p->type);
    tt_write_bytes(&w, digest, sizeof digest);
    tt_mac(out, p->token, strlen(p->token), "tutti start-up tree", input, tt_writer_bytes(&w));
}

void tt_tree_mask(uint8_t secret[TT_TREE_SECRET_BYTES], const char *token,
                  const uint8_t *server_nonce, const uint8_t *client_nonce)
{
    uint8_t nonces[2 * TT_NONCE_BYTES], pad[TT_MAC_BYTES];

    memcpy(nonces, server_nonce, TT_NONCE_BYTES);
    memcpy(nonces + TT_NONCE_BYTES, client_nonce, TT_NONCE_BYTES);
    tt_mac(pad, token, strlen(token), "tutti rendezvous pad", nonces, sizeof nonces);
    for (size_t i = 0; i < TT_TREE_SECRET_BYTES; i++)
        secret[i] ^= pad[i];
}
