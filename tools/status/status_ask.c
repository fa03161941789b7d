/* A query of a process, and its answer. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "tools/status/status.h"

#define GRACE_NS (5 * TT_SECOND)        /* for the answer after the collection's deadline */

void status_answer_fini(struct status_answer *a)
{
    tt_status_report_fini(&a->report);
}

/* Returns the length of the printable UTF-8 character at s, or 0. */
static size_t printable(const unsigned char *s)
{
    const size_t n = s[0] < 0x80                   ? 1
                     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                     : s[0] >= 0xe1 && s[0] < 0xed ? 3
                     : s[0] >= 0xf1 && s[0] < 0xf4 ? 4
                                                   : 0;

    if (s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* Replaces bytes that a terminal or a JSON reader may not accept. */
static void make_printable(char *text)
{
    unsigned char *s = (unsigned char *)text;

    while (*s) {
        const size_t n = printable(s);

        if (n == 0)
            *s = '?';
        s += n ? n : 1;
    }
}

static void clean_texts(struct status_answer *a)
{
    make_printable(a->hello.host);
    make_printable(a->report.detail.host);
    make_printable(a->report.detail.note);
    for (uint32_t i = 0; i < a->report.nlanes; i++)
        make_printable(a->report.lanes[i].wire);
    for (uint32_t i = 0; i < a->report.ncomms; i++) {
        make_printable(a->report.comms[i].name);
        make_printable(a->report.comms[i].members);
    }
}

/* Handles a frame. Returns 1 at the end, -1 on an error, else 0. */
static int handle_frame(const struct tt_frame *f, struct tt_status_report *r, char *why)
{
    char refused[TT_TALK_BODY_MAX];

    if (f->type == TT_TALK_ROWS && tt_status_merge(r, f->body, f->bytes))
        return 0;
    if (f->type == TT_TALK_END && f->bytes == 0)
        return 1;
    if (tt_talk_refused_read(f, refused))
        snprintf(why, STATUS_WHY_BYTES, "the process refused the query: %s", refused);
    else
        snprintf(why, STATUS_WHY_BYTES, "protocol error: invalid frame of type %u", f->type);
    return -1;
}

/* Reads until data arrives or the deadline passes. */
static bool read_more(struct status_link *l, uint64_t due_ns, char *why)
{
    struct pollfd p = { .fd = l->fd, .events = POLLIN };
    size_t room;
    uint8_t *at = tt_framer_space(&l->in, &room);
    ssize_t n;

    if (status_is_stopped(l->stop)) {
        snprintf(why, STATUS_WHY_BYTES, "the query was interrupted");
        return false;
    }
    if (tt_now_ns() >= due_ns) {
        snprintf(why, STATUS_WHY_BYTES, "rank %u did not answer in time (is its process stopped?)",
                 l->hello.rank);
        return false;
    }
    if (status_poll(&p, 1, due_ns, l->stop) <= 0)
        return true;
    n = at ? recv(l->fd, at, room, 0) : -1;
    if (n > 0)
        tt_framer_added(&l->in, (size_t)n);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return true;
    snprintf(why, STATUS_WHY_BYTES, "rank %u closed the connection (%s)", l->hello.rank,
             n == 0 ? "the process has ended, or is serving other queries" : strerror(errno));
    return false;
}

static bool send_query(struct status_link *l, const struct tt_collect_query *q, char *why)
{
    uint8_t frame[TT_TALK_FRAME_MAX + TT_SEAL_BYTES];
    size_t bytes = tt_talk_request_write(q, frame);

    if (l->is_sealed)
        bytes = tt_seal_add(&l->seal, frame, bytes);
    /* a request fits into an empty socket buffer */
    if (send(l->fd, frame, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        return true;
    snprintf(why, STATUS_WHY_BYTES, "cannot send the query to rank %u: %s", l->hello.rank,
             strerror(errno));
    return false;
}

/* Merges the answer of one process. */
static bool ask_one(struct status_link *l, const struct tt_collect_query *q,
                    struct tt_status_report *r, char *why)
{
    const uint64_t due_ns = tt_now_ns() + q->timeout_ms * TT_MS + GRACE_NS;
    struct tt_frame f;
    int got = 0;

    if (!send_query(l, q, why))
        return false;
    while (got == 0) {
        bool bad = false;

        if (tt_framer_next(&l->in, &f)) {
            bad = l->is_sealed && !tt_seal_check(&l->seal, &f);
            got = bad ? 0 : handle_frame(&f, r, why);
        } else {
            bad = l->in.bad;
            got = bad || read_more(l, due_ns, why) ? 0 : -1;
        }
        if (bad) {
            snprintf(why, STATUS_WHY_BYTES, "protocol error: rank %u sent invalid data",
                     l->hello.rank);
            got = -1;
        }
    }
    return got > 0;
}

/* Queries the other processes of this host, which report only themselves. */
static void ask_others(const struct status_where *w, const struct status_link *first,
                       const struct tt_collect_query *q, struct status_answer *out)
{
    uint32_t rank[TT_PLACE_SOCKETS_MAX];
    const uint32_t n = tt_place_ranks(w->base, w->job, rank, TT_PLACE_SOCKETS_MAX);
    char why[STATUS_WHY_BYTES];

    for (uint32_t i = 0; i < n; i++) {
        struct status_where one = *w;
        struct status_link l;

        one.one = true;
        one.first_rank = rank[i];
        if (rank[i] == first->hello.rank || !status_connect(&one, q->timeout_ms, &l, why))
            continue;
        out->nqueried += ask_one(&l, q, &out->report, why);
        status_disconnect(&l);
    }
}

bool status_ask(const struct status_where *w, struct status_link *l,
                const struct tt_collect_query *q, struct status_answer *out, char *why)
{
    const uint64_t began_ns = tt_now_ns();

    *out = (struct status_answer){ .hello = l->hello, .query = *q, .nqueried = 1 };
    tt_status_report_init(&out->report);
    if (!ask_one(l, q, &out->report, why)) {
        status_answer_fini(out);
        return false;
    }
    if (l->hello.alone && !w->one)
        ask_others(w, l, q, out);
    clean_texts(out);
    if (out->report.nops)
        qsort(out->report.ops, out->report.nops, sizeof *out->report.ops, status_compare_ops);
    out->seconds = (double)(tt_now_ns() - began_ns) / 1e9;
    return true;
}
