#include "session/card.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/status.h"

_Static_assert(1 + TT_ENDPOINT_BYTES + 1 + 2 + 16 + 8 <= TT_BLOB_BYTES,
               "a card must fit in a seat");

#define VERSION 2

/* Format: u8 family (0: none), u16 port, ip. */
static void write_address(struct tt_writer *w, const struct tt_member_card *c)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&c->outside.storage;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&c->outside.storage;

    if (!c->has_outside) {
        tt_write_u8(w, 0);
    } else if (c->outside.storage.ss_family == AF_INET) {
        tt_write_u8(w, 4);
        tt_write_u16(w, ntohs(in->sin_port));
        tt_write_bytes(w, &in->sin_addr, 4);
    } else {
        tt_write_u8(w, 6);
        tt_write_u16(w, ntohs(in6->sin6_port));
        tt_write_bytes(w, &in6->sin6_addr, 16);
    }
}

static void read_address(struct tt_reader *r, struct tt_member_card *c)
{
    struct sockaddr_in *in = (struct sockaddr_in *)&c->outside.storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&c->outside.storage;
    const uint8_t family = tt_read_u8(r);

    if (family == 0)
        return;
    c->has_outside = true;
    if (family == 4) {
        in->sin_family = AF_INET;
        in->sin_port = htons(tt_read_u16(r));
        tt_read_bytes(r, &in->sin_addr, 4);
        c->outside.bytes = sizeof *in;
    } else if (family == 6) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(tt_read_u16(r));
        tt_read_bytes(r, &in6->sin6_addr, 16);
        c->outside.bytes = sizeof *in6;
    } else {
        r->bad = true;
    }
}

void tt_member_card_write(const struct tt_member_card *c, struct tt_blob *out)
{
    struct tt_writer w;

    tt_writer_init(&w, out->data, sizeof out->data);
    tt_write_u8(&w, VERSION);
    tt_endpoint_write(&w, &c->inside);
    write_address(&w, c);
    tt_write_u64(&w, c->mark);
    tt_assert(!w.bad);
    out->bytes = (uint16_t)tt_writer_bytes(&w);
}

bool tt_member_card_read(struct tt_member_card *c, const struct tt_blob *blob)
{
    struct tt_reader r;

    memset(c, 0, sizeof *c);
    tt_reader_init(&r, blob->data, blob->bytes);
    if (tt_read_u8(&r) != VERSION)
        return false;
    tt_endpoint_read(&r, &c->inside);
    read_address(&r, c);
    c->mark = tt_read_u64(&r);
    return !r.bad && r.at == r.end;
}

/* Returns whether both announce different outside addresses, and are therefore behind different
 * address translations. */
static bool is_behind_other_nat(const struct tt_member_card *own, const struct tt_member_card *peer)
{
    const struct sockaddr_storage *a = &own->outside.storage, *b = &peer->outside.storage;

    if (!own->has_outside || !peer->has_outside)
        return false;
    if (a->ss_family != b->ss_family)
        return true;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr !=
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, 16) != 0;
}

bool tt_member_card_is_here(const struct tt_member_card *own, const struct tt_member_card *peer,
                            enum tt_mark_place place)
{
    return place == TT_MARK_HERE ||
           (place == TT_MARK_UNKNOWN && own->inside.host == peer->inside.host);
}

size_t tt_member_card_candidates(const struct tt_member_card *own,
                                 const struct tt_member_card *peer, enum tt_mark_place place,
                                 struct tt_address *out)
{
    struct tt_endpoint inside = peer->inside;
    size_t n, near;
    bool here;

    /* different hosts with equal host IDs by chance */
    if (place == TT_MARK_ELSEWHERE && inside.host == own->inside.host) {
        inside.host++;
        tt_endpoint_without_loopback(&inside);
    }
    here = inside.host == own->inside.host;
    n = tt_endpoint_candidates(&own->inside, &inside, out);
    if (here && place == TT_MARK_HERE && n > 1)
        n = 1;      /* a peer whose loopback address refuses connections has ended (peers.c) */
    near = !here && is_behind_other_nat(own, peer) ? 0 : tt_endpoint_near(&own->inside, &inside);
    if (!peer->has_outside)
        return n;
    near = near < n ? near : n;
    memmove(out + near + 1, out + near, (n - near) * sizeof *out);
    out[near] = peer->outside;
    return n + 1;
}
