/* A mark: an abstract Unix socket by which other processes find out whether this one is on their host. See boot/samehost.h for
 * the ranks of a start-up, whose number is known; marks are for members that come and leave. */
#ifndef TT_BOOT_MARK_H
#define TT_BOOT_MARK_H

#include <stdint.h>

struct tt_mark {
    int fd;                     /* -1: none */
    uint64_t number;            /* random, for other processes; 0: none */
};

enum tt_mark_place {
    TT_MARK_HERE,               /* the process is on this host */
    TT_MARK_ELSEWHERE,          /* it is not, or it has ended */
    TT_MARK_UNKNOWN             /* it has no mark, or the system does not allow the connection */
};

/* Never fails: without abstract Unix sockets there is no mark. The caller ends *out with tt_mark_fini. */
void tt_mark_init(struct tt_mark *out);
/* Also good for one that has { .fd = -1 }. */
void tt_mark_fini(struct tt_mark *m);
/* Where the process is whose mark has this number. Two or three system calls; nothing is sent, and no answer is needed. */
enum tt_mark_place tt_mark_find(uint64_t number);

#endif
