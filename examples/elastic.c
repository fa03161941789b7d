/* A run whose members come and go: each adds 1 with all others, five times a second, and prints the sum, until it is ended. Start a coordinator, then
 * as many of these as you like; end one with Ctrl-C or SIGTERM (it leaves), or kill it (the others go on).
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
    signal(sig, SIG_DFL);   /* once more ends it at once */
}

int main(int argc, char **argv)
{
    tutti_view view = { .size = sizeof view };
    tutti_news news = { .size = sizeof news };
    tutti_status st;
    tutti_run *run;
    int told = 0;

    if (argc > 1) {
        printf("%s: adds 1 with all members of the run at TUTTI_COORDINATOR, over and over, until Ctrl-C or SIGTERM: then it leaves\n", argv[0]);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);   /* each line at once, into a pipe too */
    if (tutti_run_join(&run, NULL))
        return 1;       /* Tutti has said why */
    signal(SIGINT, leave);
    signal(SIGTERM, leave);
    while (!(st = tutti_run_epoch(run, TUTTI_ADMIT, 0, 0, -1, &view)) && view.nranks > 0) {
        printf("epoch %llu: %d members\n", (unsigned long long)view.epoch, view.nranks);
        do {
            float mine = 1, sum;

            if (leaving && !told++)
                tutti_run_leave(run);
            st = tutti_run_allreduce(run, &mine, &sum, 1, TUTTI_F32, TUTTI_SUM, 0);   /* again with who is left, if need be */
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
