/* prog_members RUN N ADDRESS: N light members join a run without a token, form a view, and stay
 * until the end of standard input; then they exit as if killed. Prints "gathered" when they are in
 * a view. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include "support/hive.h"

int main(int argc, char **argv)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
    struct hive *h;
    uint32_t n;

    if (argc != 4)
        return 2;
    n = (uint32_t)strtoul(argv[2], NULL, 10);
    h = hive_create(argv[1], n, 1, n, false, &(struct tt_secure_conf){ .mode = TT_SECURE_PLAIN });
    hive_add_address(h, argv[3]);
    if (!hive_gather(h, 60000))
        return 1;
    printf("gathered\n");
    fflush(stdout);
    while (poll(&input, 1, 0) == 0)
        hive_turn(h, 50);
    hive_destroy(h);
    return 0;
}
