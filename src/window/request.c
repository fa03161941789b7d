#include "window/request.h"

#include "base/status.h"
#include "reduce/reduce.h"
#include "window/peer.h"
#include "window/transfer.h"

bool tt_window_send_request(struct tt_windows *home, struct tt_window_peer *p,
                            struct tt_window_message *m, const void *payload, void *to,
                            struct tt_window_transfer *t, tutti_status *failed)
{
    struct tt_window_pending *a = &p->asked[p->next_token % TT_WINDOW_REQUESTS_MAX];
    const uint64_t follow = m->verb == TT_WINDOW_PUT ? m->bytes : 0;

    if (a->busy)
        return false;
    m->token = p->next_token;
    tt_window_message_write(m, home->message);
    if (follow)
        tt_copy(home->message + TT_WINDOW_HEADER_BYTES, NULL, payload, follow, 0);
    if (!tt_engine_client_send(home->engine, p->rank, home->message,
                               (uint32_t)(TT_WINDOW_HEADER_BYTES + follow)))
        return false;
    *a = (struct tt_window_pending){
        .busy = true,
        .verb = m->verb,
        .token = m->token,
        .window = m->window,
        .tick = home->tick,
        .to = to,
        .bytes = m->bytes,
        .transfer = t,
        .failed = failed,
    };
    p->next_token++;
    p->nasked++;
    p->nmail_changes += m->verb != TT_WINDOW_GET;
    if (t)
        t->left++;
    return true;
}

bool tt_window_send_message(struct tt_windows *home, uint32_t rank,
                            const struct tt_window_message *m)
{
    uint8_t header[TT_WINDOW_HEADER_BYTES];

    tt_window_message_write(m, header);
    return tt_engine_client_send(home->engine, rank, header, sizeof header);
}

/* Handles a reply. False: it has no request. */
static bool handle_reply(struct tt_window_peer *p, const struct tt_window_message *m,
                         const void *payload)
{
    struct tt_window_pending *a = &p->asked[m->token % TT_WINDOW_REQUESTS_MAX];

    if (!a->busy || a->token != m->token)
        return false;
    if (m->bytes != (a->verb == TT_WINDOW_GET && !m->gone ? a->bytes : 0))
        return false;
    if (m->bytes && a->to)
        tt_copy(a->to, NULL, payload, m->bytes, 0);
    a->busy = false;
    p->nasked--;
    if (a->verb != TT_WINDOW_GET) {
        p->nmail_changes--;
        p->mail_fenced &= p->nmail_changes > 0;
    }
    if (m->gone && a->failed)
        *a->failed = TUTTI_ERR_ABORTED;
    if (a->transfer) {
        a->transfer->old = m->operand;
        tt_transfer_part(a->transfer, m->gone ? TUTTI_ERR_ABORTED : TUTTI_OK);
    }
    return true;
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Sends a reply. The data of a get is read when there is room for the reply. */
static bool send_reply(struct tt_windows *home, struct tt_window_peer *p,
                       const struct tt_window_message *ask)
{
    const struct tt_window *w = tt_window_find(home, ask->window);
    struct tt_window_message m = { .verb = TT_WINDOW_ANSWER,
                                   .token = ask->token,
                                   .operand = ask->operand };
    bool has = w || ask->verb != TT_WINDOW_GET;

    if (ask->gone || !has) {
        m.gone = 1;
    } else if (ask->verb == TT_WINDOW_GET) {
        m.bytes = ask->bytes;
        if (m.bytes)
            tt_copy(home->message + TT_WINDOW_HEADER_BYTES, NULL, w->mem + ask->offset, m.bytes, 0);
    }
    tt_window_message_write(&m, home->message);
    return tt_engine_client_send(home->engine, p->rank, home->message,
                                 (uint32_t)(TT_WINDOW_HEADER_BYTES + m.bytes));
}

/* Sends pending replies. Returns whether any was sent. */
static bool send_replies(struct tt_windows *home, struct tt_window_peer *p)
{
    struct tt_engine_client_link link;
    bool any = false;
    tutti_status st;

    if (p->answers_head == p->answers_tail)
        return false;
    st = tt_engine_client_reach(home->engine, p->rank, &link);
    if (st > TUTTI_PENDING) {
        home->nanswers -= p->answers_tail - p->answers_head;
        p->answers_head = p->answers_tail;
    }
    while (st == TUTTI_OK && p->answers_head != p->answers_tail &&
           send_reply(home, p, &p->answers[p->answers_head % TT_WINDOW_REQUESTS_MAX])) {
        p->answers_head++;
        home->nanswers--;
        any = true;
    }
    return any;
}

/* Executes a put or an atomic, and its signal. False: out of bounds. */
static bool execute(struct tt_windows *home, struct tt_window_message *m, const void *payload)
{
    const struct tt_window *w = tt_window_find(home, m->window);
    const struct tt_window *signals = m->signal_op ? tt_window_find(home, m->signal_window) : w;
    uint64_t *word = NULL;

    m->gone = !w || !signals || (w->device && (m->bytes || m->verb != TT_WINDOW_PUT)) ||
              (m->signal_op && signals->device);
    if (m->gone)
        return true;
    if (m->signal_op) {
        word = tt_window_word(signals->mem, signals->bytes, m->signal_offset, sizeof *word);
        if (!word)
            return false;
    }
    if (m->verb == TT_WINDOW_GET)
        return tt_window_holds(w->bytes, m->offset, m->bytes);
    if (!tt_window_apply(m, payload, w->mem, w->bytes, &m->operand))
        return false;
    if (word)
        tt_window_raise(word, m->signal_op, m->signal_value);
    return true;
}

/* Handles the message that a rank frees its window: its last signal has landed. False: it is not
 * a member of the window. */
static bool handle_leave(struct tt_windows *home, uint32_t from, const struct tt_window_message *m)
{
    struct tt_window *w = tt_window_find(home, m->window);

    for (uint32_t r = 0; w && r < w->comm->nranks; r++)
        if (tt_window_job_rank(w, r) == from) {
            if (!w->ways[r].left)
                atomic_fetch_add(&w->nleft, 1);
            w->ways[r].left = true;
            return true;
        }
    return !w;                  /* freed here, too */
}

bool tt_window_receive(struct tt_windows *home, uint32_t from, const void *payload, uint32_t bytes)
{
    struct tt_window_peer *p = tt_window_peer_of(home, from);
    struct tt_window_message m;
    const uint8_t *follows = (const uint8_t *)payload + TT_WINDOW_HEADER_BYTES;

    if (!p)
        return false;
    if (!tt_window_message_read(&m, payload, bytes)) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u sent an invalid window message of %u bytes", from, bytes);
        return false;
    }
    if (m.verb == TT_WINDOW_ANSWER) {
        if (!handle_reply(p, &m, follows)) {
            tt_fail(TUTTI_ERR_PROTOCOL,
                    "protocol error: rank %u sent a window reply without a request", from);
            return false;
        }
        return true;
    }
    if (m.verb == TT_WINDOW_LEAVE) {
        if (!handle_leave(home, from, &m)) {
            tt_fail(TUTTI_ERR_PROTOCOL,
                    "protocol error: rank %u sent LEAVE for window %u, of which it is not a member",
                    from, m.window);
            return false;
        }
        return true;
    }
    if (p->answers_tail - p->answers_head == TT_WINDOW_REQUESTS_MAX) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u has more than %u window requests outstanding", from,
                TT_WINDOW_REQUESTS_MAX);
        return false;
    }
    if (!execute(home, &m, follows)) {
        tt_fail(TUTTI_ERR_PROTOCOL,
                "protocol error: rank %u accessed window %u out of bounds: %llu bytes at offset "
                "%llu, signal at offset %llu",
                from, m.window, (unsigned long long)m.bytes, (unsigned long long)m.offset,
                (unsigned long long)m.signal_offset);
        return false;
    }
    p->answers[p->answers_tail++ % TT_WINDOW_REQUESTS_MAX] = m;
    home->nanswers++;
    send_replies(home, p);
    return true;
}

bool tt_window_send_replies(struct tt_windows *home)
{
    bool any = false;

    for (uint32_t r = 0; home->nanswers > 0 && r < home->nranks; r++)
        if (home->peers[r])
            any |= send_replies(home, home->peers[r]);
    return any;
}
