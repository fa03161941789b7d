#include "status/talk.h"

#include "base/bytes.h"
#include "base/status.h"

static size_t talk_finish(struct tt_writer *w, uint8_t type, uint8_t *out)
{
    tt_assert(!w->bad);
    tt_frame_header(out, type, tt_writer_bytes(w));
    return TT_FRAME_HEADER_BYTES + tt_writer_bytes(w);
}

static void talk_begin(struct tt_writer *w, uint8_t *out)
{
    tt_writer_init(w, out + TT_FRAME_HEADER_BYTES, TT_TALK_BODY_MAX);
}

size_t tt_talk_hello_write(const struct tt_talk_hello *h, uint8_t *out)
{
    struct tt_writer w;

    talk_begin(&w, out);
    tt_write_u8(&w, TT_TALK_VERSION);
    tt_write_u64(&w, h->job);
    tt_write_u32(&w, h->rank);
    tt_write_u32(&w, h->nranks);
    tt_write_u32(&w, h->nhosts);
    tt_write_u32(&w, h->pid);
    tt_write_u8(&w, h->alone);
    tt_write_string(&w, h->host);
    return talk_finish(&w, TT_TALK_HELLO, out);
}

bool tt_talk_hello_read(const struct tt_frame *f, struct tt_talk_hello *h)
{
    struct tt_reader r;
    uint8_t version, alone;

    tt_reader_init(&r, f->body, f->bytes);
    version = tt_read_u8(&r);
    h->job = tt_read_u64(&r);
    h->rank = tt_read_u32(&r);
    h->nranks = tt_read_u32(&r);
    h->nhosts = tt_read_u32(&r);
    h->pid = tt_read_u32(&r);
    alone = tt_read_u8(&r);
    h->alone = alone != 0;
    tt_read_string(&r, h->host, sizeof h->host);
    return f->type == TT_TALK_HELLO && version == TT_TALK_VERSION && !r.bad && r.at == r.end &&
           alone <= 1 && h->rank < h->nranks;
}

size_t tt_talk_request_write(const struct tt_collect_query *q, uint8_t *out)
{
    struct tt_writer w;

    talk_begin(&w, out);
    tt_write_u8(&w, TT_TALK_VERSION);
    tt_write_u8(&w, q->what);
    tt_write_u32(&w, q->target);
    tt_write_u32(&w, q->timeout_ms);
    tt_write_string(&w, q->dir);
    return talk_finish(&w, TT_TALK_REQUEST, out);
}

bool tt_talk_request_read(const struct tt_frame *f, struct tt_collect_query *q)
{
    struct tt_reader r;
    uint8_t version;

    *q = (struct tt_collect_query){ .number = 0 };
    tt_reader_init(&r, f->body, f->bytes);
    version = tt_read_u8(&r);
    q->what = tt_read_u8(&r);
    q->target = tt_read_u32(&r);
    q->timeout_ms = tt_read_u32(&r);
    tt_read_string(&r, q->dir, sizeof q->dir);
    return f->type == TT_TALK_REQUEST && version == TT_TALK_VERSION && !r.bad && r.at == r.end &&
           tt_collect_query_is_valid(q) && q->timeout_ms > 0 && q->timeout_ms <= TT_COLLECT_MS_MAX;
}

size_t tt_talk_refused_write(const char *why, uint8_t *out)
{
    struct tt_writer w;

    talk_begin(&w, out);
    tt_write_string(&w, why);
    return talk_finish(&w, TT_TALK_REFUSED, out);
}

bool tt_talk_refused_read(const struct tt_frame *f, char why[TT_TALK_BODY_MAX])
{
    struct tt_reader r;

    tt_reader_init(&r, f->body, f->bytes);
    tt_read_string(&r, why, TT_TALK_BODY_MAX);
    return f->type == TT_TALK_REFUSED && !r.bad && r.at == r.end;
}
