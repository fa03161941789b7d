/* tutti topo --measure outside a job: starts a job. */
#include "tools/topo/topo.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/own_path.h"
#include "tools/run/run_place.h"

#define WORDS_MAX 32

/* Counts the slots of the hosts. Returns 0, after an error message, if there are no hosts or too
 * many slots. */
static uint32_t count_ranks(const char *list, const char *file)
{
    struct hosts h = { .at = NULL };
    uint64_t n = 0;

    if (list ? hosts_parse(&h, "tutti topo", list) : hosts_read(&h, "tutti topo", file))
        for (uint32_t i = 0; i < h.n; i++)
            n += h.at[i].slots ? h.at[i].slots : 1;
    free(h.at);
    if (n > TOPO_RANKS_MAX) {
        fprintf(stderr,
                "tutti topo: too many slots: %llu (the maximum is %u; one per host suffices)\n",
                (unsigned long long)n, TOPO_RANKS_MAX);
        return 0;
    }
    return (uint32_t)n;
}

int topo_measure_start(const char *hosts, const char *hostfile, const char *rsh,
                       const char *const options[])
{
    const uint32_t nranks = count_ranks(hosts, hostfile);
    char self[PATH_MAX] = "", count[16];
    const char *words[WORDS_MAX] = { self,
                                     "run",
                                     "-n",
                                     count,
                                     "-o",
                                     "plain",
                                     hosts ? "--hosts" : "--hostfile",
                                     hosts ? hosts : hostfile };
    size_t n = 8;

    if (nranks == 0)
        return 1;
    if (!own_path(self)) {
        fprintf(stderr, "tutti topo: cannot start ranks: %s\n", strerror(errno));
        return 126;
    }
    snprintf(count, sizeof count, "%u", nranks);
    if (rsh) {
        words[n++] = "--rsh";
        words[n++] = rsh;
    }
    words[n++] = "--";
    words[n++] = self;
    words[n++] = "topo";
    while (*options && n < WORDS_MAX - 1)
        words[n++] = *options++;
    execv(self, (char *const *)words);      /* execv does not modify them */
    fprintf(stderr, "tutti topo: cannot run %s: %s\n", self, strerror(errno));
    return 126;
}
