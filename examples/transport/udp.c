/* udp: a network transport in one file, as an example of a transport on src/wire/rput
 * (docs/transports.md). It passes the conformance tests also if packets are lost. It has no
 * congestion control and copies all data twice, so tcp is faster.
 *
 * A link has one stream of numbered messages. A message is one packet: a head, a record
 * (rput_frame.h) and its payload. A long put is cut into several messages. The last one has the
 * signal. The receiver applies messages in order, drops all others, and returns how many it has
 * applied. The sender keeps unacknowledged messages. It retransmits them (go-back-n) after a
 * timeout, or if the receiver reports a gap. A source is read when its message is made, so it is
 * reusable from then on.
 *
 *   packet   0 token  8 number (ACK: 1 after a gap)  12 rank of the sender  16 record  80 payload
 *   hello    0 magic  4 port  6 token  14 bytes of the link region
 *   address  0 magic  2 address of the inner tcp wire                         all little-endian */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/bytes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/prng.h"
#include "base/status.h"
#include "wire/rput/rput.h"
#include "wire/rput/rput_queue.h"
#include "wire/tcp/tcp.h"

#define HEAD_BYTES 16
#define PAYLOAD_BYTES 1328          /* a packet fits in 1,500 bytes with its IPv6 and UDP headers */
#define SLOT_BYTES (HEAD_BYTES + TT_RPUT_RECORD_BYTES + PAYLOAD_BYTES)
#define WINDOW 128                  /* messages that are not acknowledged */
#define QUEUE 128                   /* puts of a link that are queued, or not reported */
#define RESERVED 32                 /* part of QUEUE that is reserved for inline puts */
#define RESEND_MAX 32               /* messages retransmitted at once */
#define RESEND_NS (4 * TT_MS)       /* the first timeout; each further one is twice as long */
#define RESEND_MAX_NS (256 * TT_MS)
#define RECEIVE_MAX 256             /* packets per poll */
#define LOOK_EVERY 64               /* polls between polls of the inner tcp wire */
#define HELLO_BYTES 24
#define HELLO_MAGIC 0x48555454u     /* "TTUH" */
#define ADDRESS_MAGIC 0x4155u       /* "UA" */
#define KEY_MAGIC 0x4b55u           /* "UK" */
#define SOCKET_BYTES (4 << 20)      /* requested size of the receive buffer */

struct put {
    struct tt_rput_out base;        /* data: its source, or a copy */
    struct tt_rput_record record;   /* of the whole put */
    uint8_t *copy;                  /* owned: the data of an inline put that had to wait */
    uint64_t cut;                   /* number of its bytes that are in messages */
    uint64_t end;                   /* index of the message after its last one, once it is cut */
    bool revoked;                   /* its data is not read any more */
};

struct udp_link {
    struct tt_rput_link base;       /* local: [WINDOW][SLOT_BYTES], unacknowledged messages */
    struct tt_rput_session session;
    uint64_t token, theirs_token;   /* required in packets to this end, and to the peer */
    struct sockaddr_in6 address;    /* of the peer's socket */
    struct tt_rkey theirs;

    /* ---- sending ---- */
    struct tt_rput_queue puts;      /* of struct put [QUEUE]; done: cut into messages */
    uint64_t acked, sent;           /* messages */
    uint16_t bytes[WINDOW];         /* lengths of the packets */
    uint64_t resend_ns, timeout_ns; /* time of the next retransmit, while acked < sent */
    uint64_t gap;                   /* 1 + the message that was retransmitted after a gap */

    /* ---- receiving ---- */
    uint64_t applied;
    bool ack_due;
    bool has_gap;                   /* a message after the next expected one has arrived */
};

struct udp {
    struct tt_rput base;
    int fd;
    uint16_t port;
#ifdef UDP_DROP_EVERY
    uint32_t ndropped;
#endif
};

static struct udp *udp_of(struct tt_wire *w)
{
    return (struct udp *)w;
}

static struct udp_link *link_at(const struct udp *u, uint32_t i)
{
    return (struct udp_link *)u->base.active[i];
}

static struct put *put_at(const struct udp_link *link, uint64_t number)
{
    return &((struct put *)link->puts.out)[number % QUEUE];
}

static uint8_t *slot_at(const struct udp_link *link, uint64_t message)
{
    return link->base.local + message % WINDOW * SLOT_BYTES;
}

/* ---- packets ---- */

/* Sends a packet, with the current count of applied messages. If the kernel does not accept it now,
 * the packet counts as lost. */
static void packet_send(struct udp_link *link, uint8_t *packet, size_t bytes)
{
    struct udp *u = (struct udp *)link->base.rput;
    const uint64_t applied[TT_RPUT_STREAMS] = { link->applied };

    tt_rput_record_stamp(packet + HEAD_BYTES, applied);
    link->ack_due = false;
#ifdef UDP_DROP_EVERY               /* for tests: simulates the loss of packets */
    if (++u->ndropped % UDP_DROP_EVERY == 0)
        return;
#endif
    (void)!sendto(u->fd, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&link->address, sizeof link->address);
}

/* Writes head and record. */
static void packet_write(const struct udp_link *link, uint64_t number,
                         const struct tt_rput_record *r, uint8_t *packet)
{
    uint8_t record[TT_RPUT_RECORD_BYTES];
    struct tt_writer w;

    tt_rput_record_write(r, record);
    tt_writer_init(&w, packet, HEAD_BYTES + sizeof record);
    tt_write_u64(&w, link->theirs_token);
    tt_write_u32(&w, (uint32_t)number);
    tt_write_u32(&w, link->base.rput->conf.rank);
    tt_write_bytes(&w, record, sizeof record);
}

static void ack_send(struct udp_link *link)
{
    const struct tt_rput_record ack = { .kind = TT_RPUT_ACK };
    uint8_t packet[HEAD_BYTES + TT_RPUT_RECORD_BYTES];

    packet_write(link, link->has_gap, &ack, packet);
    link->has_gap = false;
    packet_send(link, packet, sizeof packet);
}

/* ---- sending ---- */

/* Makes and sends the next message of a put. */
static void message_send(struct udp_link *link, struct put *p)
{
    const uint64_t left = p->record.data.bytes - p->cut;
    const uint64_t bytes = left < PAYLOAD_BYTES ? left : PAYLOAD_BYTES;
    uint8_t *slot = slot_at(link, link->sent);
    struct tt_rput_record r = p->record;

    r.payload = (uint16_t)bytes;
    r.data.offset += p->cut;
    r.data.bytes = bytes;
    if (bytes < left)
        r.signal_op = TT_SIGNAL_NONE;
    packet_write(link, link->sent, &r, slot);
    if (bytes > 0)
        memcpy(slot + HEAD_BYTES + TT_RPUT_RECORD_BYTES, p->base.data + p->cut, bytes);
    p->cut += bytes;
    link->bytes[link->sent % WINDOW] = (uint16_t)(HEAD_BYTES + TT_RPUT_RECORD_BYTES + bytes);
    if (link->acked == link->sent) {
        link->timeout_ns = RESEND_NS;
        link->resend_ns = tt_now_ns() + RESEND_NS;
    }
    packet_send(link, slot, link->bytes[link->sent++ % WINDOW]);
}

/* Determines which puts have been applied. */
static void puts_acked(struct udp_link *link)
{
    struct tt_rput_queue *q = &link->puts;

    while (q->acked < q->done && put_at(link, q->acked)->end <= link->acked)
        q->acked++;
}

/* Cuts queued puts into messages as far as the window allows. The rest of a revoked put is not
 * sent. */
static void link_pump(struct udp_link *link)
{
    while (link->puts.done < link->puts.tail) {
        struct put *p = put_at(link, link->puts.done);
        bool last = p->revoked;

        if (link->base.state != TT_RPUT_UP || (!last && link->sent - link->acked == WINDOW))
            return;
        if (!last) {
            message_send(link, p);
            last = p->cut == p->record.data.bytes;
        }
        if (last) {
            free(p->copy);
            p->copy = NULL;
            p->end = link->sent;
            link->puts.done++;
            puts_acked(link);
        }
    }
}

static void link_retransmit(struct udp_link *link, uint64_t now_ns)
{
    const uint64_t end = link->acked + RESEND_MAX;

    if (link->acked == link->sent || now_ns < link->resend_ns)
        return;
    for (uint64_t i = link->acked; i < link->sent && i < end; i++)
        packet_send(link, slot_at(link, i), link->bytes[i % WINDOW]);
    if (link->resend_ns > 0 && link->timeout_ns < RESEND_MAX_NS)
        link->timeout_ns *= 2;
    link->resend_ns = now_ns + link->timeout_ns;
}

/* Returns whether the data of an inline put fits in the window at once; otherwise it is copied. */
static bool fits_now(const struct udp_link *link, uint64_t bytes)
{
    return link->puts.done == link->puts.tail && link->base.state == TT_RPUT_UP &&
           link->sent - link->acked + 1 + bytes / PAYLOAD_BYTES < WINDOW;
}

/* Queues a put. Returns false if there is no space now. */
static bool put_enter(struct tt_rput_link *base, uint32_t stream, const struct tt_desc *d)
{
    struct udp_link *link = (struct udp_link *)base;
    const bool copied = d->flags & TT_DESC_INLINE;
    struct put *p = put_at(link, link->puts.tail);

    (void)stream;
    if (link->puts.tail - link->puts.remote >= QUEUE - (copied ? 0 : RESERVED))
        return false;
    *p = (struct put){ .base = tt_rput_out_of(d), .record = tt_rput_record_of(d, false, false) };
    p->base.data = d->local;
    if (copied && d->bytes > 0 && !fits_now(link, d->bytes)) {
        p->copy = malloc(d->bytes);
        if (!p->copy)
            return false;
        p->base.data = memcpy(p->copy, d->local, d->bytes);
    }
    link->puts.tail++;
    link_pump(link);        /* now, while the data of an inline put is the caller's */
    return true;
}

static void udp_pump(struct tt_rput_link *base, uint32_t stream)
{
    (void)stream;
    link_pump((struct udp_link *)base);
}

static int udp_post(struct tt_wire *w, const struct tt_desc *desc, int n)
{
    return tt_rput_post(tt_rput_of(w), desc, n, put_enter, udp_pump);
}

/* A source is revoked: the rest of its puts is not sent. */
static void region_withdraw(struct tt_rput_region *r)
{
    struct udp *u = udp_of(r->public.wire);

    for (uint32_t i = 0; i < u->base.nactive; i++) {
        struct udp_link *link = link_at(u, i);

        for (uint64_t k = link->puts.done; k < link->puts.tail; k++) {
            struct put *p = put_at(link, k);

            p->revoked |= !p->copy && p->base.data &&
                          tt_rput_region_covers(r, p->base.data, p->record.data.bytes) &&
                          !tt_rput_covers(&u->base.regions, p->base.data, p->record.data.bytes);
        }
        link_pump(link);
    }
}

/* ---- receiving ---- */

/* Processes the count of applied messages. Returns false if the peer cannot have sent it. */
static bool take_ack(struct udp_link *link, uint32_t applied)
{
    const uint64_t acked = tt_rput_later(link->acked, applied);

    if (acked == link->acked || acked > link->sent)
        return acked == link->acked;
    link->acked = acked;
    puts_acked(link);
    link->timeout_ns = RESEND_NS;
    link->resend_ns = tt_now_ns() + RESEND_NS;
    return true;
}

/* Applies a message if it is the next one. Returns false if a correct peer cannot have sent it. */
static bool message_arrived(struct udp_link *link, uint32_t number, const uint8_t *record,
                            size_t bytes)
{
    const struct tt_rput *r = link->base.rput;
    struct tt_rput_record put;

    if (!tt_rput_record_read(&put, record, TT_RPUT_ACK, PAYLOAD_BYTES) ||
        bytes != TT_RPUT_RECORD_BYTES + (size_t)put.payload || !take_ack(link, put.applied[0]))
        return false;
    if (put.kind == TT_RPUT_ACK) {
        if (number > 0 && link->gap != link->acked + 1) {
            link->gap = link->acked + 1;        /* once: the peer reports it for each message */
            link->resend_ns = 0;
        }
        return true;
    }
    if (put.kind != TT_RPUT_PUT || put.payload != put.data.bytes)
        return false;
    link->ack_due = true;       /* also after a gap or a duplicate */
    if (number != (uint32_t)link->applied) {
        link->has_gap |= number - (uint32_t)link->applied < WINDOW;
        return true;
    }
    tt_rput_apply(&r->regions, link->base.mine, r->conf.link_bytes, &put,
                  record + TT_RPUT_RECORD_BYTES);
    link->applied++;
    return true;
}

/* Handles a packet. Packets without the token are dropped, because any process can send to the
 * socket. */
static void packet_arrived(struct udp *u, const uint8_t *packet, size_t bytes)
{
    struct udp_link *link;
    struct tt_reader at;
    uint64_t token;
    uint32_t number;

    if (bytes < HEAD_BYTES + TT_RPUT_RECORD_BYTES)
        return;
    tt_reader_init(&at, packet, HEAD_BYTES);
    token = tt_read_u64(&at);
    number = tt_read_u32(&at);
    link = tt_sparse_get(&u->base.links, tt_read_u32(&at));
    if (!link || link->base.state == TT_RPUT_LOST || token != link->token)
        return;
    if (!message_arrived(link, number, packet + HEAD_BYTES, bytes - HEAD_BYTES))
        tt_rput_link_lose(&link->base, TUTTI_ERR_PROTOCOL, "protocol error: invalid message");
}

static uint32_t receive(struct udp *u)
{
    uint8_t packet[SLOT_BYTES];
    uint32_t n;

    for (n = 0; n < RECEIVE_MAX; n++) {
        const ssize_t bytes = recv(u->fd, packet, sizeof packet, MSG_DONTWAIT | MSG_TRUNC);

        if (bytes < 0)
            break;
        if ((size_t)bytes <= sizeof packet)
            packet_arrived(u, packet, (size_t)bytes);
    }
    return n;
}

/* ---- links ---- */

static tutti_status udp_begin(struct tt_rput_link *base)
{
    struct udp_link *link = (struct udp_link *)base;

    tt_random_bytes(&link->token, sizeof link->token);
    if (!tt_rput_queue_init(&link->puts, base->peer, QUEUE, sizeof(struct put)))
        return tt_fail(TUTTI_ERR_NOMEM, "udp: out of memory for a link to rank %u", base->peer);
    tt_rput_session_next(&link->session);
    tt_rput_session_send(base, &link->session);
    return TUTTI_OK;
}

static void udp_end(struct tt_rput_link *base)
{
    struct udp_link *link = (struct udp_link *)base;

    for (; link->puts.done < link->puts.tail; link->puts.done++)
        free(put_at(link, link->puts.done)->copy);
    tt_rput_queue_fini(&link->puts);
}

static size_t udp_hello(struct tt_rput_link *base, const struct tt_rput_session *s, uint8_t *out)
{
    const struct udp *u = (const struct udp *)base->rput;
    struct tt_writer w;

    (void)s;
    tt_writer_init(&w, out, HELLO_BYTES);
    tt_write_u32(&w, HELLO_MAGIC);
    tt_write_u16(&w, u->port);
    tt_write_u64(&w, ((const struct udp_link *)base)->token);
    tt_write_u64(&w, u->base.conf.link_bytes);
    return HELLO_BYTES - 2;
}

/* Sets the peer's IP address: that of the inner connection. Returns false if that has ended. */
static bool find_peer(struct udp_link *link)
{
    const struct tt_rput *r = link->base.rput;
    const struct tt_tcp_link *tcp = tt_sparse_get(&tt_tcp_of(r->tcp)->links, link->base.peer);
    struct sockaddr_storage a = { 0 };
    socklen_t bytes = sizeof a;

    if (getpeername(tcp->lanes[0].fd, (struct sockaddr *)&a, &bytes) != 0)
        return false;
    if (a.ss_family == AF_INET6) {
        memcpy(&link->address, &a, sizeof link->address);
        return true;
    }
    link->address = (struct sockaddr_in6){ .sin6_family = AF_INET6 };
    link->address.sin6_addr.s6_addr[10] = link->address.sin6_addr.s6_addr[11] = 0xff;
    memcpy(link->address.sin6_addr.s6_addr + 12, &((struct sockaddr_in *)&a)->sin_addr, 4);
    return true;
}

static void handle_hello(struct udp_link *link)
{
    struct tt_rput_link *base = &link->base;
    uint8_t in[HELLO_BYTES];
    struct tt_reader r;
    bool good;

    tt_rput_session_read(base, &link->session, in);
    tt_reader_init(&r, in, sizeof in);
    good = tt_read_u32(&r) == HELLO_MAGIC && find_peer(link);
    link->address.sin6_port = htons(tt_read_u16(&r));
    link->theirs_token = tt_read_u64(&r);
    link->theirs = (struct tt_rkey){ .wire = &base->rput->wire, .peer = base->peer };
    link->theirs.bytes = tt_read_u64(&r);
    if (!good) {
        tt_rput_link_lose(base, TUTTI_ERR_PROTOCOL, "protocol error: invalid hello");
        return;
    }
    link->session.hello_received = link->session.ready_pending = true;
}

static void udp_step(struct tt_rput_link *base)
{
    struct udp_link *link = (struct udp_link *)base;
    struct tt_rput_session *s = &link->session;

    if (!s->hello_received && tt_rput_session_hello(base, s) == s->incarnation)
        handle_hello(link);
    if (base->state == TT_RPUT_LOST)
        return;
    tt_rput_session_send(base, s);
    if (base->state == TT_RPUT_HANDSHAKE && s->hello_received && !s->ready_pending &&
        tt_rput_session_ready(base, s) == s->incarnation)
        tt_rput_link_up(base, &link->theirs);
}

static void udp_drain(struct tt_rput_link *base)
{
    while (receive((struct udp *)base->rput) > 0)
        continue;
}

static bool udp_linger(struct tt_rput_link *base, bool first)
{
    const struct udp_link *link = (const struct udp_link *)base;

    (void)first;
    return link->acked != link->sent || link->puts.done != link->puts.tail;
}

static uint64_t udp_bytes(const struct tt_rput_link *base)
{
    const struct udp_link *link = (const struct udp_link *)base;
    uint64_t bytes = tt_rput_queue_bytes(&link->puts);

    for (uint64_t i = link->puts.done; link->puts.out && i < link->puts.tail; i++)
        bytes += put_at(link, i)->copy ? put_at(link, i)->record.data.bytes : 0;
    return bytes;
}

static const struct tt_rput_ops link_ops = {
    .link_bytes = sizeof(struct udp_link),
    .hello_bytes = HELLO_BYTES,
    .nsessions = 1,
    .purpose = "udp: links",
    .begin = udp_begin,
    .end = udp_end,
    .step = udp_step,
    .drain = udp_drain,
    .hello = udp_hello,
    .linger = udp_linger,
    .bytes = udp_bytes,
};

/* ---- the wire ---- */

extern const struct tt_wire_ops tt_wire_udp;

static void udp_close(struct tt_wire *w)
{
    struct udp *u = udp_of(w);

    tt_rput_close_tcp(&u->base);
    tt_rput_links_free(&u->base);
    tt_rput_close(&u->base);
    if (u->fd >= 0)
        close(u->fd);
    free(u);
}

static tutti_status socket_open(struct udp *u)
{
    struct sockaddr_in6 a = { .sin6_family = AF_INET6 };
    socklen_t bytes = sizeof a;
    const int off = 0, buffer_bytes = SOCKET_BYTES;

    u->fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (u->fd < 0)
        return tt_fail_again(TUTTI_ERR_UNSUPPORTED, "udp: not usable: no IPv6 sockets");
    setsockopt(u->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    if (bind(u->fd, (const struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(u->fd, (struct sockaddr *)&a, &bytes) != 0 || !tt_rput_watch(&u->base, u->fd))
        return tt_fail_errno(errno, "udp: cannot open a socket");
    u->port = ntohs(a.sin6_port);
    return TUTTI_OK;
}

static tutti_status udp_open(struct tt_wire **out, const struct tt_wire_conf *conf)
{
    tutti_status st = tt_rput_check("udp", "UDP", conf);
    struct udp *u;

    if (st)
        return st;
    u = calloc(1, sizeof *u);
    if (!u)
        return tt_fail(TUTTI_ERR_NOMEM, "udp: out of memory for the transport");
    u->fd = -1;
    tt_rput_init(&u->base, &tt_wire_udp, &link_ops, conf);
    u->base.mine_bytes = conf->link_bytes;
    u->base.local_bytes = (size_t)WINDOW * SLOT_BYTES;
    u->base.regions.region_bytes = sizeof(struct tt_rput_region);
    u->base.regions.key_magic = KEY_MAGIC;
    u->base.regions.withdraw = region_withdraw;
    st = tt_rput_regions_open(&u->base.regions);
    if (!st)
        st = tt_rput_open(&u->base);
    if (!st)
        st = socket_open(u);
    if (st) {
        udp_close(&u->base.wire);
        return st;
    }
    *out = &u->base.wire;
    return TUTTI_OK;
}

static tutti_status udp_address(struct tt_wire *w, struct tt_blob *out)
{
    struct tt_writer at;
    struct tt_blob tcp;
    const tutti_status st = tt_rput_address(tt_rput_of(w), TT_BLOB_BYTES - 2, &tcp);

    if (st)
        return st;
    tt_writer_init(&at, out->data, sizeof out->data);
    tt_write_u16(&at, ADDRESS_MAGIC);
    tt_write_bytes(&at, tcp.data, tcp.bytes);
    out->bytes = (uint16_t)tt_writer_bytes(&at);
    return TUTTI_OK;
}

static tutti_status udp_connect(struct tt_wire *w, uint32_t peer, const struct tt_blob *address)
{
    struct tt_blob tcp = { 0 };
    struct tt_reader at;

    tt_reader_init(&at, address->data, address->bytes);
    if (tt_read_u16(&at) != ADDRESS_MAGIC || at.bad)
        return TUTTI_ERR_UNSUPPORTED;
    tcp.bytes = (uint16_t)(at.end - at.at);
    tt_read_bytes(&at, tcp.data, tcp.bytes);
    return tt_rput_connect(tt_rput_of(w), peer, &tcp);
}

static tutti_status udp_import(struct tt_wire *w, uint32_t peer, const struct tt_blob *key,
                               struct tt_rkey *out)
{
    return tt_rput_import(&tt_rput_of(w)->regions, peer, key, out);
}

static int udp_poll(struct tt_wire *w, struct tt_done *done, int max)
{
    struct udp *u = udp_of(w);
    struct tt_rput *r = &u->base;
    int n = 0;

    receive(u);
    if (r->armed || r->mending || r->nactive == 0 || ++r->tick % LOOK_EVERY == 0) {
        r->armed = false;
        tt_rput_tcp_step(r);
        tt_rput_links_step(r);
    }
    for (uint32_t i = 0; i < r->nactive; i++) {
        struct udp_link *link = link_at(u, i);

        link_pump(link);
        if (link->acked < link->sent)
            link_retransmit(link, tt_now_ns());
        if (link->ack_due)
            ack_send(link);
        n += tt_rput_queue_report(&link->puts, done + n, max - n);
    }
    return n + tt_rput_news_report(&r->news, done + n, max - n);
}

/* A sleeper with unacknowledged messages wakes up in time to retransmit them. */
static int udp_arm(struct tt_wire *w)
{
    struct udp *u = udp_of(w);
    struct itimerspec nap = { 0 };

    for (uint32_t i = 0; i < u->base.nactive; i++) {
        const struct udp_link *link = link_at(u, i);

        if (tt_rput_queue_has_reports(&link->puts) || link->ack_due)
            return -1;
        if (link->acked < link->sent)
            nap.it_value.tv_nsec = (long)RESEND_NS;
    }
    timerfd_settime(u->base.timer_fd, 0, &nap, NULL);
    return tt_rput_arm(&u->base);
}

static void udp_memory(const struct tt_wire *w, tutti_memory *m)
{
    const struct udp *u = (const struct udp *)w;
    const tutti_memory_part own = { .purpose = "udp: transport",
                                    .shared = 1,
                                    .fixed_bytes =
                                        sizeof *u + tt_rput_regions_bytes(&u->base.regions) };

    tt_memory_add(m, &own);
    tt_rput_links_memory(&u->base, m);
}

const struct tt_wire_ops tt_wire_udp = {
    .name = "udp",
    .summary = "an example of a transport",
    .by_name = true,
    .open = udp_open,
    .close = udp_close,
    .address = udp_address,
    .connect = udp_connect,
    .reg = tt_rput_wire_reg,
    .source = tt_rput_wire_source,
    .dereg = tt_rput_dereg,
    .import = udp_import,
    .post = udp_post,
    .poll = udp_poll,
    .arm = udp_arm,
    .memory = udp_memory,
};
