#include "device/trigger.h"

/* Extract the fields of a head; tutti_trigger_head is the inverse. */
static uint32_t what_of(uint64_t head)
{
    return head >> 1 & 7;
}

static uint8_t trigger_op(uint64_t head)
{
    return head >> 4 & 3;
}

static uint32_t trigger_peer(uint64_t head)
{
    return head >> TUTTI_TRIGGER_PEER_SHIFT & TUTTI_DEVICE_ALL;
}

static uint64_t trigger_word(uint64_t head)
{
    return head >> TUTTI_TRIGGER_WORD_SHIFT;
}

/* Handles the first trigger of a command. */
static bool begin_command(struct tt_trigger_reader *r, uint64_t head, uint64_t body)
{
    struct tt_command *c = &r->c;

    *c = (struct tt_command){ .what = (uint8_t)what_of(head),
                              .op = trigger_op(head),
                              .peer = trigger_peer(head) };
    switch (c->what) {
    case TUTTI_TRIGGER_PUT:
        c->offset = body;
        r->next = TUTTI_TRIGGER_SOURCE;
        return c->op <= TUTTI_SIGNAL_ADD && trigger_word(head) == 0;
    case TUTTI_TRIGGER_SIGNAL:
        c->word = trigger_word(head) * 8;
        c->value = body;
        return c->op == TUTTI_SIGNAL_SET || c->op == TUTTI_SIGNAL_ADD;
    case TUTTI_TRIGGER_QUIET:
    case TUTTI_TRIGGER_FLUSH:
    case TUTTI_TRIGGER_FENCE:
    case TUTTI_TRIGGER_WAKE:
        return c->op == 0 && trigger_word(head) == 0 && body == 0;
    default:
        return false;
    }
}

static bool follows(struct tt_trigger_reader *r, uint64_t head, uint64_t body)
{
    struct tt_command *c = &r->c;

    if (what_of(head) != r->next)
        return false;
    if (r->next == TUTTI_TRIGGER_SOURCE) {
        c->bytes = head >> TUTTI_TRIGGER_PEER_SHIFT;
        c->src = (const void *)(uintptr_t)body;
        r->next = c->op ? TUTTI_TRIGGER_SIGNAL : TUTTI_TRIGGER_NONE;
        return trigger_op(head) == 0;
    }
    c->word = trigger_word(head) * 8;
    c->value = body;
    r->next = TUTTI_TRIGGER_NONE;
    return trigger_op(head) == c->op && trigger_peer(head) == c->peer;
}

enum tt_trigger_found tt_trigger_take(struct tt_trigger_reader *r, uint64_t head, uint64_t body,
                                      struct tt_command *out)
{
    if (!(r->next ? follows(r, head, body) : begin_command(r, head, body))) {
        r->next = TUTTI_TRIGGER_NONE;
        return TT_TRIGGER_BAD;
    }
    if (r->next)
        return TT_TRIGGER_PART;
    *out = r->c;
    return TT_TRIGGER_WHOLE;
}

/* Returns whether the command is only for other ranks: blocks store to their own rank directly. */
static bool is_remote_only(uint32_t what)
{
    return what != TUTTI_TRIGGER_WAKE && what != TUTTI_TRIGGER_SIGNAL &&
           what != TUTTI_TRIGGER_QUIET;
}

bool tt_command_fits(const struct tt_command *c, uint32_t rank, uint32_t nranks,
                     const uint64_t *bytes, const uint8_t *words)
{
    if (c->peer == TUTTI_DEVICE_ALL)
        return c->what == TUTTI_TRIGGER_QUIET || c->what == TUTTI_TRIGGER_FLUSH;
    if (c->peer >= nranks || (c->peer == rank && is_remote_only(c->what)))
        return false;
    if (c->what == TUTTI_TRIGGER_PUT &&
        (c->offset > bytes[c->peer] || c->bytes > bytes[c->peer] - c->offset ||
         (c->bytes && !c->src)))
        return false;
    return !c->op || (words[c->peer] && bytes[c->peer] >= 8 && c->word <= bytes[c->peer] - 8);
}
