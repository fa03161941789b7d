/* Hosts with fewer cores than ranks. Messages for a rank without a core wait until it gets one. */
#include <stdlib.h>

#include "sim/des_state.h"

bool des_cores_init(struct des *s)
{
    const struct tt_layout *l = s->conf->net->layout;
    const uint32_t cores = s->conf->cores;

    if (!cores || cores >= tt_layout_widest(l))
        return true;
    s->inbox = malloc(l->nranks * sizeof *s->inbox);
    s->host = malloc(l->nhosts * sizeof *s->host);
    s->last_rank = malloc((size_t)l->nhosts * cores * sizeof *s->last_rank);
    if (!s->inbox || !s->host || !s->last_rank)
        return false;
    for (uint32_t r = 0; r < l->nranks; r++)
        s->inbox[r] = (struct des_inbox){ .first = DES_NONE, .last = DES_NONE, .next = DES_NONE };
    for (uint32_t i = 0; i < l->nhosts * cores; i++)
        s->last_rank[i] = DES_NONE;
    for (uint32_t h = 0; h < l->nhosts; h++)
        s->host[h] = (struct des_host){
            .first = DES_NONE,
            .last = DES_NONE,
            .nfree = cores,
            .last_rank = &s->last_rank[h * cores],
            .nranks = tt_layout_host_ranks(l, h),
        };
    return true;
}

void des_cores_fini(struct des *s)
{
    free(s->inbox);
    free(s->host);
    free(s->last_rank);
}

double des_cores_busy(const struct des *s, uint64_t time_ps)
{
    double most = 0;

    for (uint32_t h = 0; s->host && time_ps && h < s->conf->net->layout->nhosts; h++) {
        const double busy = (double)s->host[h].busy_ps / (double)s->conf->cores / (double)time_ps;

        most = busy > most ? busy : most;
    }
    return most < 1 ? most : 1;     /* work charged beyond the end of the simulation also counts */
}

/* Takes a free core of the host for a rank, preferably the one that it used last. Returns true if
 * the core must switch to it. */
static bool take_core(struct des_host *h, uint32_t rank)
{
    uint32_t i = 0, last;

    while (i < h->nfree && h->last_rank[i] != rank)
        i++;
    if (i == h->nfree)
        i = 0;
    last = h->last_rank[i];
    h->last_rank[i] = h->last_rank[--h->nfree];
    h->last_rank[h->nfree] = rank;
    return last != rank;
}

static void give_core(struct des_host *h, uint32_t rank, uint32_t cores)
{
    uint32_t i = h->nfree;

    while (i + 1 < cores && h->last_rank[i] != rank)
        i++;
    h->last_rank[i] = h->last_rank[h->nfree];
    h->last_rank[h->nfree++] = rank;
}

/* The rank, which has a core, processes all its messages, and keeps the core until that work is
 * done. */
static void rank_work(struct des *s, uint32_t rank)
{
    struct des_inbox *in = &s->inbox[rank];
    uint64_t until_ps;
    uint32_t m;

    while (in->first != DES_NONE) {
        m = in->first;
        in->first = s->msg[m].next;
        s->handle(s, m);
    }
    in->last = DES_NONE;
    m = des_alloc(s);
    s->msg[m] = (struct des_msg){ .kind = DES_CORE, .to = rank, .next = DES_NONE };
    until_ps = s->rank[rank].clock_ps > s->now_ps ? s->rank[rank].clock_ps : s->now_ps;
    s->host[tt_layout_host(s->conf->net->layout, rank)].busy_ps += until_ps - s->now_ps;
    des_at(s, until_ps, m);
}

/* Time that a core needs to switch to another rank, including the polls of idle ranks. */
static uint64_t turn_ps(const struct des *s, const struct des_host *h)
{
    const uint32_t cores = s->conf->cores, idle = h->nranks - (cores - h->nfree) - h->nwaiting;
    const double ns = s->conf->wake_ns + s->conf->idle_ns * (double)idle / (double)cores;

    return (uint64_t)(ns * TT_PS_PER_NS + 0.5);
}

static void host_dispatch(struct des *s, struct des_host *h)
{
    while (h->nfree && h->first != DES_NONE) {
        const uint32_t rank = h->first;
        struct des_inbox *in = &s->inbox[rank];

        h->first = in->next;
        if (h->first == DES_NONE)
            h->last = DES_NONE;
        in->next = DES_NONE;
        in->waits = false;
        h->nwaiting--;
        in->works = true;
        if (s->rank[rank].clock_ps < s->now_ps)
            s->rank[rank].clock_ps = s->now_ps;
        if (take_core(h, rank))
            s->rank[rank].clock_ps = tt_net_after(s->rank[rank].clock_ps, (double)turn_ps(s, h));
        rank_work(s, rank);
    }
}

void des_cores_come(struct des *s, uint32_t m)
{
    const uint32_t rank = s->msg[m].to;
    struct des_host *h = &s->host[tt_layout_host(s->conf->net->layout, rank)];
    struct des_inbox *in = &s->inbox[rank];

    s->msg[m].next = DES_NONE;
    if (in->last == DES_NONE)
        in->first = m;
    else
        s->msg[in->last].next = m;
    in->last = m;
    if (in->works || in->waits)
        return;
    in->waits = true;
    h->nwaiting++;
    if (h->last == DES_NONE)
        h->first = rank;
    else
        s->inbox[h->last].next = rank;
    h->last = rank;
    host_dispatch(s, h);
}

void des_cores_go_on(struct des *s, uint32_t m)
{
    const uint32_t rank = s->msg[m].to;
    struct des_host *h = &s->host[tt_layout_host(s->conf->net->layout, rank)];
    struct des_inbox *in = &s->inbox[rank];

    des_free(s, m);
    if (in->first != DES_NONE) {
        rank_work(s, rank);
        return;
    }
    in->works = false;
    give_core(h, rank, s->conf->cores);
    host_dispatch(s, h);
}
