#include "trace/job_clock.h"

static uint64_t distance(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

bool tt_clock_contradict(const struct tt_clock_offset *a, const struct tt_clock_offset *b)
{
    return distance(a->offset_ns, b->offset_ns) > a->error_ns + b->error_ns;
}

/* Returns the offset with its bound increased by the elapsed time. */
static struct tt_clock_offset aged(const struct tt_clock_offset *o, uint64_t since_ns,
                                   uint64_t now_ns)
{
    struct tt_clock_offset out = *o;

    if (now_ns > since_ns)
        out.error_ns += (now_ns - since_ns) / 1000000u * TT_CLOCK_DRIFT_PPM +
                        (now_ns - since_ns) % 1000000u * TT_CLOCK_DRIFT_PPM / 1000000u;
    out.known = o->known && out.error_ns < TT_CLOCK_MOST_NS;
    return out;
}

static bool is_plausible(const struct tt_clock_exchange *x)
{
    return x->received_ns >= x->sent_ns && x->replied_ns >= x->arrived_ns &&
           x->replied_ns - x->arrived_ns <= x->received_ns - x->sent_ns &&
           x->received_ns < TT_CLOCK_MOST_NS && x->replied_ns < TT_CLOCK_MOST_NS;
}

static bool is_plausible_offset(const struct tt_clock_offset *o)
{
    return o->error_ns < TT_CLOCK_MOST_NS && o->offset_ns < (int64_t)TT_CLOCK_MOST_NS &&
           o->offset_ns > -(int64_t)TT_CLOCK_MOST_NS;
}

static struct tt_clock_offset measure(const struct tt_clock_exchange *x)
{
    const uint64_t under_way = (x->received_ns - x->sent_ns) - (x->replied_ns - x->arrived_ns);
    const int64_t there = (int64_t)(x->arrived_ns + (x->replied_ns - x->arrived_ns) / 2);
    const int64_t here = (int64_t)(x->sent_ns + (x->received_ns - x->sent_ns) / 2);

    /* rounding of the halves: 2 ns */
    return (struct tt_clock_offset){ true, there - here, under_way / 2 + 2 };
}

void tt_clock_add(struct tt_clock_pair *p, const struct tt_clock_exchange *x,
                  const struct tt_clock_offset *told)
{
    struct tt_clock_offset now, known;

    if (!is_plausible(x) || (told->known && !is_plausible_offset(told)))
        return;
    now = measure(x);
    known = tt_clock_of_pair(p, x->received_ns);
    if (known.known && tt_clock_contradict(&known, &now)) {
        for (uint32_t i = 0; i < TT_CLOCK_SAMPLES; i++)
            p->sample[i].offset.known = false;
        p->njumps++;
    }
    p->sample[p->next].offset = now;
    p->sample[p->next].at_ns = x->received_ns;
    p->next = (p->next + 1) % TT_CLOCK_SAMPLES;
    p->told = *told;
    p->told_ns = x->received_ns;
}

struct tt_clock_offset tt_clock_of_pair(const struct tt_clock_pair *p, uint64_t now_ns)
{
    struct tt_clock_offset best = { .known = false };

    for (uint32_t i = 0; i < TT_CLOCK_SAMPLES; i++) {
        const struct tt_clock_offset o = aged(&p->sample[i].offset, p->sample[i].at_ns, now_ns);

        if (o.known && (!best.known || o.error_ns < best.error_ns))
            best = o;
    }
    return best;
}

struct tt_clock_offset tt_clock_of_host(const struct tt_clock_pair *p, uint64_t now_ns)
{
    const struct tt_clock_offset measured = tt_clock_of_pair(p, now_ns);
    const struct tt_clock_offset same = { .known = measured.known };

    return measured.known && tt_clock_contradict(&measured, &same) ? measured : same;
}

struct tt_clock_offset tt_clock_by_way_of(const struct tt_clock_pair *p,
                                          const struct tt_clock_offset *pair, uint64_t now_ns)
{
    const struct tt_clock_offset told = aged(&p->told, p->told_ns, now_ns);
    struct tt_clock_offset out = { .known = pair->known && told.known };

    if (!out.known)
        return out;
    out.offset_ns = pair->offset_ns + told.offset_ns;
    out.error_ns = pair->error_ns + told.error_ns;
    return out;
}

struct tt_clock_offset tt_clock_better(const struct tt_clock_offset *a,
                                       const struct tt_clock_offset *b)
{
    if (!a->known || !b->known)
        return a->known ? *a : *b;
    return a->error_ns <= b->error_ns ? *a : *b;
}
