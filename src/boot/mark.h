/* A mark: an abstract Unix socket by which other processes determine whether this one is on their
 * host. For members that join and leave a run; for the fixed ranks of a start-up see
 * boot/samehost.h. */
#ifndef TT_BOOT_MARK_H
#define TT_BOOT_MARK_H

#include <stdint.h>

struct tt_mark {
    int fd;                     /* -1: none */
    uint64_t number;            /* random, sent to other processes; 0: none */
};

enum tt_mark_place {
    TT_MARK_HERE,               /* the process is on this host */
    TT_MARK_ELSEWHERE,          /* it is not, or it has ended */
    TT_MARK_UNKNOWN             /* it has no mark, or the kernel refuses the connection */
};

/* Never fails: without abstract Unix sockets there is no mark. The caller releases *out with
 * tt_mark_fini. */
void tt_mark_init(struct tt_mark *out);
/* A struct with { .fd = -1 } is valid. */
void tt_mark_fini(struct tt_mark *m);
/* Returns the location of the process whose mark has this number. Makes two or three system calls,
 * and sends nothing. */
enum tt_mark_place tt_mark_find(uint64_t number);

#endif
