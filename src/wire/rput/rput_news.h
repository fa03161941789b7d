/* Links of network transports: events for poll (a link has come up or was lost), in order; and the
 * distance of a peer. */
#ifndef TT_WIRE_RPUT_RPUT_NEWS_H
#define TT_WIRE_RPUT_RPUT_NEWS_H

#include <stdbool.h>
#include "wire/wire.h"

/* The events of one link, part of the transport's struct of the link. Zero except for peer. */
struct tt_rput_news {
    struct tt_rput_news *next;
    uint32_t peer;
    bool up, lost;                  /* to report */
    tutti_status status;            /* cause of the loss */
    struct tt_link link;            /* reported with LINK_UP */
};

struct tt_rput_news_list {
    struct tt_rput_news *first, **end;      /* end: valid if the list is not empty */
};

/* Add an event. The entry must live until it is reported or the list is dropped. */
void tt_rput_news_up(struct tt_rput_news_list *l, struct tt_rput_news *n,
                     const struct tt_link *link);
void tt_rput_news_lost(struct tt_rput_news_list *l, struct tt_rput_news *n, tutti_status status);
/* Moves up to max events to done[]. Returns their number. */
int tt_rput_news_report(struct tt_rput_news_list *l, struct tt_done *done, int max);

/* Returns the distance of a peer; as within a rack while the layout is unknown. */
static inline enum tt_distance tt_rput_distance(const struct tt_wire_conf *conf, uint32_t peer)
{
    const struct tt_layout *l = conf->layout;

    return l && l->nranks ? tt_layout_distance(l, conf->rank, peer) : TT_NEAR_RACK;
}

#endif
