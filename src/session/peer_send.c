/* Sending to the other members over their control connections. */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/host.h"
#include "session/run.h"

struct tt_peer_link *tt_peers_find(tutti_run *run, uint64_t id)
{
    struct tt_peer_link *p = run->peers;

    while (p && p->id != id)
        p = p->next;
    return p;
}

uint64_t tt_peers_host(const tutti_run *run)
{
    uint64_t first = run->m.id, mark = run->mark.number;

    for (const struct tt_peer_link *p = run->peers; p; p = p->next)
        if (p->id < first && tt_run_rank_of(run, p->id) != UINT32_MAX &&
            tt_member_card_is_here(&run->card, &p->card, p->place)) {
            first = p->id;
            mark = p->card.mark;
        }
    return mark ? mark : tt_host_hash();
}

void tt_peer_conn_update_events(tutti_run *run, struct tt_peer_conn *c)
{
    const uint32_t events = tt_channel_events(c->channel);

    if (events == c->events)
        return;
    c->events = events;
    tt_poller_change(run, tt_stream_fd(tt_channel_stream(c->channel)), events, c);
}

void tt_peer_conn_send(tutti_run *run, struct tt_peer_conn *c, const struct tt_message *s)
{
    uint8_t data[TT_MESSAGE_BYTES_MAX];
    const size_t bytes = tt_message_write(s, data);

    if (c->dead)
        return;
    if (tt_channel_send(c->channel, data, bytes) != 0) {
        tt_peer_conn_end(c);
        tt_run_wake(run);
    } else {
        tt_peer_conn_update_events(run, c);
    }
}

void tt_peers_broadcast(tutti_run *run, const struct tt_message *s)
{
    for (uint32_t i = 0; i < run->m.nranks; i++) {
        const struct tt_peer_link *p = tt_peers_find(run, run->m.view[i].id);

        if (p && p->conn)
            tt_peer_conn_send(run, p->conn, s);
    }
}

void tt_peers_send(tutti_run *run, uint64_t id, const void *head, size_t head_bytes,
                   const void *body, size_t body_bytes)
{
    const struct tt_peer_link *p = tt_peers_find(run, id);
    struct tt_parcel *parcel;

    if (!p || !p->conn || p->conn->dead)
        return;
    parcel = tt_parcel_join(head, head_bytes, body, body_bytes);
    if (!parcel || tt_channel_send_parcel(p->conn->channel, parcel) != 0) {
        tt_peer_conn_end(p->conn);
        tt_run_wake(run);
    } else {
        tt_peer_conn_update_events(run, p->conn);
    }
    tt_parcel_drop(parcel);
}

void tt_peer_conn_set_unsent(struct tt_peer_conn *c, uint32_t bytes)
{
    const int unsent = (int)bytes;

    if (c->unsent_bytes != bytes &&
        setsockopt(c->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent) == 0)
        c->unsent_bytes = bytes;
}

void tt_peers_measure(tutti_run *run, bool measuring)
{
    for (const struct tt_peer_link *p = run->peers; p; p = p->next)
        if (p->conn && !p->conn->dead)
            tt_peer_conn_set_unsent(p->conn,
                                    measuring ? TT_SURVEY_UNSENT_MIN : TT_PEER_UNSENT_BYTES);
}

void tt_peers_resume_send(tutti_run *run, uint64_t id)
{
    const struct tt_peer_link *p = tt_peers_find(run, id);

    if (p && p->conn)
        p->conn->more = true;
}
