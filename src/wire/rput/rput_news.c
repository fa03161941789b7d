#include "wire/rput/rput_news.h"

static void news_add(struct tt_rput_news_list *l, struct tt_rput_news *n)
{
    if (n->up || n->lost)
        return;     /* already listed */
    n->next = NULL;
    *(l->first ? l->end : &l->first) = n;
    l->end = &n->next;
}

void tt_rput_news_up(struct tt_rput_news_list *l, struct tt_rput_news *n,
                     const struct tt_link *link)
{
    news_add(l, n);
    n->link = *link;
    n->up = true;
}

void tt_rput_news_lost(struct tt_rput_news_list *l, struct tt_rput_news *n, tutti_status status)
{
    news_add(l, n);
    n->status = status;
    n->lost = true;
}

int tt_rput_news_report(struct tt_rput_news_list *l, struct tt_done *done, int max)
{
    int n = 0;

    while (n < max && l->first) {
        struct tt_rput_news *news = l->first;

        done[n] = (struct tt_done){ .peer = news->peer };
        if (news->up) {
            done[n].kind = TT_DONE_LINK_UP;
            done[n].link = news->link;
            news->up = false;
        } else {
            done[n].kind = TT_DONE_LINK_LOST;
            done[n].status = news->status;
            news->lost = false;
        }
        n++;
        if (!news->up && !news->lost)
            l->first = news->next;
    }
    return n;
}
