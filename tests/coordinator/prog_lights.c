/* Light members of a running coordinator: prog_lights ADDRESS RUN MEMBERS ROUNDS. TUTTI_TOKEN may
 * set a token. Prints, as JSON, the time until all were in one view, the time of an `epoch` without
 * changes (each round, from the first call to the last reply), and of one that admits a newcomer.
 * All members are in this thread, whose own time is included. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "support/hive.h"

#define WAIT_MS 60000

static double since(uint64_t begin_ns)
{
    return (double)(tt_now_ns() - begin_ns) / (double)TT_SECOND;
}

static int fail(const struct hive *h, const char *what)
{
    fprintf(stderr, "prog_lights: %s did not end in %d s\n", what, WAIT_MS / 1000);
    for (uint32_t i = 0; i < h->n; i++)
        if (h->lights[i].over) {
            fprintf(stderr, "prog_lights: member %u is out: %s\n", i, h->lights[i].text);
            break;
        }
    return 1;
}

int main(int argc, char **argv)
{
    const char *token = getenv("TUTTI_TOKEN");
    const struct tt_secure_conf secure = { .mode = token ? TT_SECURE_TOKEN : TT_SECURE_PLAIN,
                                           .token = token };
    struct rlimit files;
    struct hive *h;
    uint64_t begin_ns, calls = 1;
    uint32_t n, rounds;

    if (argc != 5)
        return 2;
    n = (uint32_t)strtoul(argv[3], NULL, 10);
    rounds = (uint32_t)strtoul(argv[4], NULL, 10);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    h = hive_create(argv[2], n + 1, 1, n + 1, true, &secure);
    hive_add_address(h, argv[1]);
    begin_ns = tt_now_ns();
    for (uint32_t i = 0; i < n; i++) {
        hive_start(h, i);
        hive_epoch(h, i, n);
    }
    if (!hive_until(h, hive_all_in_epoch, 1, WAIT_MS))
        return fail(h, "the first view");
    printf("{\"first_s\": %.6f, \"same_s\": [", since(begin_ns));
    for (uint32_t k = 0; k < rounds; k++) {
        begin_ns = tt_now_ns();
        for (uint32_t i = 0; i < n; i++)
            hive_epoch(h, i, 0);
        if (!hive_until(h, hive_all_called, ++calls, WAIT_MS))
            return fail(h, "an epoch");
        printf("%s%.6f", k ? ", " : "", since(begin_ns));
    }
    hive_start(h, n);
    hive_epoch(h, n, 0);
    while (!h->lights[n].m.welcome)
        hive_turn(h, 10);
    begin_ns = tt_now_ns();
    for (uint32_t i = 0; i < n; i++)
        hive_epoch(h, i, 0);
    if (!hive_until(h, hive_all_in_epoch, 2, WAIT_MS))
        return fail(h, "the epoch that admits one");
    printf("], \"grow_s\": %.6f}\n", since(begin_ns));
    hive_destroy(h);
    return 0;
}
