/* Rounds: runs each form once, compares its results, and takes the time of the slowest rank. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rank.h"
#include "report.h"

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static tutti_status run_form(struct rank *me, enum form form)
{
    const tutti_moe_routing routing = {
        .size = sizeof routing,
        .tokens = me->tokens,
        .ntokens = (size_t)me->o->tokens,
        .experts = me->experts,
        .weights = me->weights,
    };

    return me->run(me->arg, form, &routing);
}

/* Returns the number of wrong elements and prints the first one. */
static size_t count_wrong(const struct rank *me, enum form form)
{
    const size_t hidden = me->model.shape.hidden, elems = (size_t)me->o->tokens * hidden;
    size_t wrong = 0;

    me->reach->copy(me->got, me->out, elems * sizeof *me->got);
    for (size_t i = 0; i < elems; i++) {
        if (tutti_moe_bits(me->got[i]) == tutti_moe_bits(me->reference[i]))
            continue;
        if (wrong++ == 0)
            fprintf(stderr,
                    "moe: %s: token %zu of rank %u has %.9g (%#x) as element %zu, but the "
                    "reference is %.9g (%#x)\n",
                    options_forms[form], i / hidden, me->rank, (double)me->got[i],
                    tutti_moe_bits(me->got[i]), i % hidden, (double)me->reference[i],
                    tutti_moe_bits(me->reference[i]));
    }
    return wrong;
}

/* Sets the proxy mode of a kernel form. Collectives use none. */
static tutti_status set_mode(struct rank *me, enum form form)
{
    static const tutti_device_mode modes[FORMS] = {
        [FULL] = TUTTI_DEVICE_FULL, [COUPLED] = TUTTI_DEVICE_COUPLED,
        [DECOUPLED] = TUTTI_DEVICE_DECOUPLED, [ORDERED] = TUTTI_DEVICE_ORDERED,
    };

    if (form < FULL)
        return TUTTI_OK;
    return tutti_device_set_mode(tutti_moe_device(me->tiles), modes[form], TUTTI_DEVICE_SEQUENCED);
}

/* Runs one form once. *ms and *compute_ms: of the slowest rank; *wrong: sum over all ranks. */
static tutti_status measure(struct rank *me, enum form form, double *ms, double *compute_ms,
                            int64_t *wrong)
{
    tutti_device *device = tutti_moe_device(me->tiles);
    double took[2], worst[2];
    int64_t mine;
    tutti_status st = set_mode(me, form);

    me->reach->fill(me->out, 0xff, (size_t)me->o->tokens * me->ffn.hidden * sizeof *me->out);
    me->compute_ms = 0;
    if (!st)
        st = tutti_device_counters_reset(device);
    if (!st)
        st = tutti_barrier(me->comm, NULL);
    if (st)
        return st;
    took[0] = now_ms();
    st = run_form(me, form);
    took[0] = now_ms() - took[0];
    took[1] = me->compute_ms;
    if (st)
        return st;
    mine = (int64_t)count_wrong(me, form);
    me->counters[form].size = sizeof me->counters[form];
    st = tutti_device_read_counters(device, &me->counters[form]);
    if (!st)
        st = tutti_allreduce(took, worst, 2, TUTTI_F64, TUTTI_MAX, me->comm, NULL);
    *ms = worst[0];
    if (form == COLLECTIVE)
        *compute_ms = worst[1];
    return st ? st : tutti_allreduce(&mine, wrong, 1, TUTTI_I64, TUTTI_SUM, me->comm, NULL);
}

bool rank_is_refused(struct rank *me)
{
    const uint32_t first = me->experts[0];
    bool good = true;

    if (me->rank == me->nranks - 1)
        me->experts[0] = me->model.shape.experts;
    for (int form = 0; form < FORMS && good; form++) {
        tutti_status st;

        if (!options_want(me->o, form) || form == PADDED)   /* PADDED does not check the routing */
            continue;
        st = set_mode(me, (enum form)form);
        if (!st)
            st = run_form(me, (enum form)form);
        good = st == TUTTI_ERR_INVALID;
        if (!good)
            fprintf(stderr, "moe: rank %u, %s: an invalid routing returned %s\n", me->rank,
                    options_forms[form], tutti_status_name(st));
    }
    me->experts[0] = first;
    return good;
}

int rank_measure(struct rank *me, double *times)
{
    const size_t rounds = (size_t)me->o->rounds;
    int64_t wrong = 0;
    tutti_status st;

    for (size_t round = 0; round <= rounds; round++)        /* round 0 is a warm-up for both */
        for (int form = 0; form < FORMS; form++) {
            const size_t at = round ? round - 1 : 0;

            if (!options_want(me->o, form))
                continue;
            st = measure(me, (enum form)form, &times[(size_t)form * rounds + at],
                         &times[FORMS * rounds + at], &wrong);
            if (st) {
                /* Tutti has logged the cause */
                fprintf(stderr, "moe: rank %u, %s: %s\n", me->rank, options_forms[form],
                        tutti_status_name(st));
                return 1;
            }
            if (wrong) {
                if (me->rank == 0)
                    fprintf(stderr, "moe: %s: %lld elements differ from the reference\n",
                            options_forms[form], (long long)wrong);
                return 1;
            }
        }
    return 0;
}

/* Returns the bytes put per run by the proxy of the rank with the most puts. It is the same for
 * every measured mode. */
static tutti_status most_put(const struct rank *me, uint64_t *bytes)
{
    uint64_t mine = 0;

    for (int form = FULL; form < FORMS; form++)
        mine = me->counters[form].put_bytes > mine ? me->counters[form].put_bytes : mine;
    return tutti_allreduce(&mine, bytes, 1, TUTTI_U64, TUTTI_MAX, me->comm, NULL);
}

tutti_status rank_report(const struct rank *me, const double *times)
{
    struct report r = {
        .o = me->o,
        .shape = &me->model.shape,
        .nranks = me->nranks,
        .nblocks = me->nblocks,
        .ms = times,
        .proxy = me->counters,
    };
    const tutti_status st = most_put(me, &r.put_bytes);

    if (!st && me->rank == 0)
        (me->o->json ? report_json : report_table)(&r);
    return st;
}
