/* A status page without a coordinator: prints its address, then executes the lines on standard
 * input, replying to each with "ok":
 *
 *   run N NAME     show a run of N members
 *   hostile N      with a name that contains markup
 *   measured N     with the bandwidth between its members, and shared state
 *   epoch E        the same run, in that epoch
 *
 * It exits at the end of its input. --empty: nothing is shown before the first line. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "coordinator/web.h"
#include "snapshots.h"

static struct tt_snapshot *run_of(const char *line)
{
    char name[TT_ELASTIC_TEXT_BYTES] = "";
    struct tt_snapshot *s = NULL;
    unsigned n;

    if (sscanf(line, "run %u %199[^\n]", &n, name) == 2 || sscanf(line, "epoch %u", &n) == 1)
        s = snapshots_run(name[0] ? name : "char-lm", name[0] ? n : 6);
    else if (sscanf(line, "hostile %u", &n) == 1)
        s = snapshots_run(snapshots_hostile, n);
    else if (sscanf(line, "measured %u", &n) == 1)
        s = snapshots_run("char-lm", n);
    if (s && line[0] == 'm')
        snapshots_measure(s);
    if (s && line[0] == 'm')
        snapshots_sync(s);
    if (s && line[0] == 'e')
        s->epoch = n;
    return s;
}

/* The run of the last line; rendered again for each request, as in a coordinator. */
static struct {
    pthread_mutex_t lock;
    struct tt_board *board;
    char line[400];
} shown = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool show(const char *line)
{
    struct tt_snapshot *s;

    pthread_mutex_lock(&shown.lock);
    s = run_of(line ? line : shown.line);
    if (s && line)
        snprintf(shown.line, sizeof shown.line, "%s", line);
    if (s)
        tt_board_hang(shown.board, s);
    pthread_mutex_unlock(&shown.lock);
    return s;
}

static void show_again(void *context)
{
    (void)context;
    show(NULL);
}

int main(int argc, char **argv)
{
    struct tt_web *web;
    char line[400];

    if (tt_board_create(&shown.board, show_again, NULL) != TUTTI_OK)
        return 1;
    if (argc < 2 || strcmp(argv[1], "--empty") != 0)
        show("run 6 char-lm");
    if (tt_web_create(&web, argc > 2 ? argv[2] : "127.0.0.1:0", shown.board, "") != TUTTI_OK)
        return 1;
    printf("%s\n", tt_web_address(web));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        printf(show(line) ? "ok\n" : "no such line\n");
        fflush(stdout);
    }
    tt_web_destroy(web);
    tt_board_destroy(shown.board);
    return 0;
}
