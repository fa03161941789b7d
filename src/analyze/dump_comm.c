/* Communicators of a dump, and the calls of its rank on them. */
#include <stdlib.h>
#include <string.h>

#include "analyze/dump_reading.h"
#include "analyze/grow.h"
#include "base/prng.h"

#define COMMS_MAX 65536u                /* per dump */
#define NAME_BYTES 44

uint64_t tt_reading_hash_of(const struct tt_line_text *t)
{
    uint64_t n = 0;

    if (t->bytes == 0 || t->bytes > 16)
        return tt_hash_bytes(t->text, t->bytes, 1);
    for (size_t i = 0; i < t->bytes; i++) {
        const char c = t->text[i];

        if (c >= '0' && c <= '9')
            n = n << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n << 4 | (uint64_t)(c - 'a' + 10);
        else
            return tt_hash_bytes(t->text, t->bytes, 1);
    }
    return n;
}

static uint32_t *comm_slot(const struct tt_dumps *d, uint64_t hash)
{
    uint64_t at = tt_mix64(hash);

    while (d->comm_slots[at & (d->cap_slots - 1)] != 0 &&
           d->comms[d->comm_slots[at & (d->cap_slots - 1)] - 1].hash != hash)
        at++;
    return &d->comm_slots[at & (d->cap_slots - 1)];
}

static bool grow_slots(struct tt_dumps *d)
{
    const size_t n = d->cap_slots ? 2 * d->cap_slots : 256;
    uint32_t *slots = calloc(n, sizeof *slots);

    if (!slots)
        return false;
    free(d->comm_slots);
    d->comm_slots = slots;
    d->cap_slots = n;
    for (uint32_t c = 0; c < d->ncomms; c++)
        *comm_slot(d, d->comms[c].hash) = c + 1;
    return true;
}

uint32_t tt_reading_comm_of(struct tt_reading *g, uint64_t hash)
{
    struct tt_dumps *d = g->d;
    uint32_t *slot;

    if (2 * (size_t)d->ncomms >= d->cap_slots && !grow_slots(d)) {
        tt_reading_no_memory(g);
        return TT_DUMPS_NONE;
    }
    slot = comm_slot(d, hash);
    if (*slot == 0) {
        if (!tt_grow(&d->comms, &d->cap_comms, d->ncomms, sizeof *d->comms)) {
            tt_reading_no_memory(g);
            return TT_DUMPS_NONE;
        }
        d->comms[d->ncomms] = (struct tt_dumps_comm){ .hash = hash, .marked_rank = TT_DUMPS_NONE };
        *slot = ++d->ncomms;
    }
    return *slot - 1;
}

struct tt_dumps_local *tt_reading_local_of(struct tt_reading *g, uint32_t comm)
{
    struct tt_dumps *d = g->d;
    struct tt_dumps_comm *c = &d->comms[comm];

    if (c->marked_rank != g->number) {
        if (g->rank->nlocals == COMMS_MAX) {
            tt_reading_broken(g, "more than 65536 communicators");
            return NULL;
        }
        if (!tt_grow(&d->locals, &d->cap_locals, d->nlocals, sizeof *d->locals)) {
            tt_reading_no_memory(g);
            return NULL;
        }
        c->marked_rank = g->number;
        c->marked_local = d->nlocals++;
        d->locals[c->marked_local] = (struct tt_dumps_local){ .rank = g->number, .comm = comm };
        g->rank->nlocals++;
    }
    return &d->locals[c->marked_local];
}

static void set_members(struct tt_reading *g, struct tt_dumps_comm *c, const struct tt_line_text *t)
{
    const uint64_t hash = tt_hash_bytes(t->text, t->bytes, 2) | 1;
    const char *wrong;

    if (c->members_hash == hash)
        return;
    /* the members of a run are those of its latest view, which may differ between dumps */
    if (c->members_hash != 0 && strcmp(tt_dumps_text(g->d, c->of), "run") == 0)
        return;
    if (c->members_hash != 0) {
        tt_reading_broken(g, "the members of a communicator differ from those in another dump");
        return;
    }
    wrong = tt_members_parse(&c->members, t->text, t->bytes, g->d->nranks);
    if (wrong) {
        tt_reading_broken(g, wrong);
        return;
    }
    c->members_hash = hash;
    for (uint32_t i = 0; i < c->members.nranges; i++) {
        const struct tt_members_range *r = &c->members.ranges[i];
        const uint32_t last = r->first + (r->n - 1) * r->step;

        if (last >= g->d->nmentioned)
            g->d->nmentioned = last + 1;
    }
}

void tt_read_comm(struct tt_reading *g, struct tt_line *l)
{
    struct tt_line_text key, text = { "", 0 }, members = { "", 0 };
    uint32_t name = 0, of = 0, comm;
    bool is_open = true;

    if (!tt_line_string(l, &text))
        return;
    while (tt_line_key(l, &key))
        if (tt_line_is(&key, "name"))
            name = tt_reading_text_of(g, l, NAME_BYTES);
        else if (tt_line_is(&key, "of"))
            of = tt_reading_text(g, l);
        else if (tt_line_is(&key, "open") && !tt_line_null(l))
            tt_line_bool(l, &is_open);
        else if (tt_line_is(&key, "members") && !tt_line_null(l))
            tt_line_string(l, &members);
        else if (!tt_line_is(&key, "members"))
            tt_line_skip(l);
    if (!tt_line_end(l))
        return;
    comm = tt_reading_comm_of(g, tt_reading_hash_of(&text));
    if (comm == TT_DUMPS_NONE || !tt_reading_local_of(g, comm))
        return;
    if (g->d->comms[comm].name == TT_INTERN_EMPTY)
        g->d->comms[comm].name = name;
    g->d->comms[comm].of = of;
    g->d->comms[comm].is_open |= is_open;
    if (members.bytes > 0)
        set_members(g, &g->d->comms[comm], &members);
}
