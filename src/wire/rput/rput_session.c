/* The mailbox: first the word of a refusal, then two words of each session (the newest incarnations
 * whose hello is complete, and for which the peer is ready), then two hellos of each session,
 * indexed by incarnation modulo 2. Older ones are not needed. */
#include <string.h>
#include "base/status.h"
#include "wire/rput/rput.h"

static size_t hello_word_at(const struct tt_rput_session *s)
{
    return 8 * (1 + 2 * (size_t)s->index);
}

static size_t ready_word_at(const struct tt_rput_session *s)
{
    return hello_word_at(s) + 8;
}

static size_t hello_at(const struct tt_rput_link *link, const struct tt_rput_session *s)
{
    const struct tt_rput_ops *ops = link->rput->ops;

    return 8 * (1 + 2 * (size_t)ops->nsessions) +
           (2 * (size_t)s->index + s->incarnation % 2) * ops->hello_bytes;
}

static uint64_t mailbox_read(const struct tt_rput_link *link, size_t word_at)
{
    const uint8_t *box = link->tcp.mine;

    return __atomic_load_n((const uint64_t *)(const void *)(box + word_at), __ATOMIC_ACQUIRE);
}

/* Writes data[bytes] at `at` of the peer's mailbox, then `word` at `word_at`. Returns false if the
 * tcp wire has no space now. */
static bool mailbox_write(struct tt_rput_link *link, size_t word_at, uint64_t word, size_t at,
                          const void *data, size_t bytes)
{
    struct tt_wire *tcp = link->rput->tcp;
    const struct tt_desc d = {
        .kind = TT_DESC_PUT,
        .flags = TT_DESC_INLINE,
        .signal_op = TT_SIGNAL_SET,
        .local = (void *)(uintptr_t)data,
        .bytes = bytes,
        .key = &link->tcp.theirs,
        .offset = at,
        .signal_key = &link->tcp.theirs,
        .signal_offset = word_at,
        .signal_value = word,
    };

    return tcp->ops->post(tcp, &d, 1) == 1;
}

bool tt_rput_refuse(struct tt_rput_link *link)
{
    return mailbox_write(link, 0, 1, 0, NULL, 0);
}

bool tt_rput_is_refused(const struct tt_rput_link *link)
{
    return mailbox_read(link, 0) != 0;
}

void tt_rput_session_next(struct tt_rput_session *s)
{
    s->incarnation++;
    s->hello_received = false;
    s->hello_pending = true;
    s->ready_pending = false;
}

static bool send_hello(struct tt_rput_link *link, const struct tt_rput_session *s)
{
    const struct tt_rput_ops *ops = link->rput->ops;
    uint8_t out[TT_RPUT_HELLO_MAX];
    size_t bytes;

    tt_assert(ops->hello_bytes <= sizeof out &&
              8 * (1 + 2 * (size_t)ops->nsessions) + 2 * ops->nsessions * ops->hello_bytes <=
                  TT_RPUT_MAILBOX_BYTES);
    bytes = ops->hello(link, s, out);
    return mailbox_write(link, hello_word_at(s), s->incarnation, hello_at(link, s), out, bytes);
}

void tt_rput_session_send(struct tt_rput_link *link, struct tt_rput_session *s)
{
    if (s->hello_pending)
        s->hello_pending = !send_hello(link, s);
    if (s->ready_pending && !s->hello_pending)
        s->ready_pending = !mailbox_write(link, ready_word_at(s), s->incarnation, 0, NULL, 0);
}

uint64_t tt_rput_session_hello(const struct tt_rput_link *link, const struct tt_rput_session *s)
{
    return mailbox_read(link, hello_word_at(s));
}

uint64_t tt_rput_session_ready(const struct tt_rput_link *link, const struct tt_rput_session *s)
{
    return mailbox_read(link, ready_word_at(s));
}

void tt_rput_session_read(const struct tt_rput_link *link, const struct tt_rput_session *s,
                          uint8_t *out)
{
    memcpy(out, (const uint8_t *)link->tcp.mine + hello_at(link, s), link->rput->ops->hello_bytes);
}
