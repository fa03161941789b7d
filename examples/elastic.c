/* An elastic run: five times a second, each member contributes 1 to an all-reduce and prints the
 * sum. Start a coordinator, then any number of members. On Ctrl-C or SIGTERM a member leaves; if
 * one is killed, the others continue.
 *
 *     tutti coordinator --journal none &
 *     TUTTI_COORDINATOR=localhost:29401 elastic */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <tutti/elastic.h>

static volatile sig_atomic_t leaving;

static void leave(int sig)
{
    leaving = sig;
    signal(sig, SIG_DFL);   /* a second signal ends the process at once */
}

int main(int argc, char **argv)
{
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    tutti_status st;
    tutti_run *run;
    int told = 0;

    if (argc > 1) {
        printf("%s: repeatedly sums 1 over all members of the run at TUTTI_COORDINATOR, until "
               "Ctrl-C or SIGTERM makes it leave\n",
               argv[0]);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);   /* line buffering, also for a pipe */
    if (tutti_run_join(&run, NULL))
        return 1;       /* Tutti has logged the error */
    signal(SIGINT, leave);
    signal(SIGTERM, leave);
    while (!(st = tutti_run_epoch(run, TUTTI_ADMIT, 0, 0, -1, &view)) && view.nranks > 0) {
        printf("epoch %llu: %d members\n", (unsigned long long)view.epoch, view.nranks);
        do {
            float mine = 1, sum;

            if (leaving && !told++)
                tutti_run_leave(run);
            /* repeated with the remaining members if one fails */
            st = tutti_run_allreduce(run, &mine, &sum, 1, TUTTI_F32, TUTTI_SUM, 0);
            if (st)
                break;
            printf("the sum is %g\n", sum);
            tutti_run_poll(run, &news);     /* the same on all members */
            usleep(200000);
        } while (!news.newcomers && !news.leaving);
        if (st)
            break;
    }
    tutti_run_destroy(run);
    return st != TUTTI_OK;
}
