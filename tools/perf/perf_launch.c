#include "tools/perf/perf_launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "boot/boot.h"
#include "tools/own_path.h"

static struct tt_launch read_launch(void)
{
    struct tt_launch launch;

    if (tt_boot_launch(&launch, NULL) != TUTTI_OK)
        exit(2);
    return launch;
}

uint32_t perf_job_ranks(void)
{
    const struct tt_launch launch = read_launch();

    return strcmp(launch.launcher, "single") == 0 ? 0 : launch.nranks;
}

bool perf_job_speaks(void)
{
    return read_launch().rank == 0;
}

int perf_launch(uint32_t nranks, int argc, char **argv)
{
    char self[PATH_MAX] = "", count[16];
    const char *const tool = strchr(argv[0], ' ') + 1;
    const char *const head[] = { self, "run", "-n", count, "--output", "plain", "--", self, tool };
    const size_t nhead = sizeof head / sizeof *head;
    const char **all = calloc(nhead + (size_t)argc, sizeof *all);

    if (!all || !own_path(self)) {
        fprintf(stderr, "%s: cannot start ranks: %s\n", argv[0], strerror(errno));
        free(all);
        return 126;
    }
    snprintf(count, sizeof count, "%u", nranks);
    memcpy(all, head, sizeof head);
    for (int i = 1; i < argc; i++)
        all[nhead + (size_t)i - 1] = argv[i];
    execv(self, (char *const *)all);    /* execv does not modify them */
    fprintf(stderr, "%s: cannot run %s: %s\n", argv[0], self, strerror(errno));
    free(all);
    return 126;
}
