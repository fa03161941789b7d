/* Bugs that tests plant, to check that the room's tests detect them. In the library
 * TT_DEVICE_PLANTED is always false. */
#ifndef TT_DEVICE_PLANTED_H
#define TT_DEVICE_PLANTED_H

enum tt_device_bug {
    TT_DEVICE_BUG_NONE,
    TT_DEVICE_BUG_MARK_LOST,        /* a signal after a fence is sent without the fence flag */
    TT_DEVICE_BUG_DRAIN_SKIPPED,    /* the proxy continues without a drain */
    TT_DEVICE_BUG_FENCE_WAITS,      /* a fence blocks the FIFO until its peer is drained */
    TT_DEVICE_BUG_PARITY_IGNORED,   /* a slot of the previous lap is taken for a new one */
    TT_DEVICE_BUG_FLUSH_EARLY,      /* a source is released before the wire has sent it */
    TT_DEVICE_BUG_ROOM_OF_ALL,      /* a peer with a full queue blocks the FIFO for all peers */
    TT_DEVICE_BUG_CREDIT_LOST,      /* a fence does not return its credit */
    TT_DEVICE_BUG_END
};

#ifdef TT_PLANTED_BUGS
extern int tt_device_bug;
#define TT_DEVICE_PLANTED(bug) (tt_device_bug == (bug))
#else
#define TT_DEVICE_PLANTED(bug) ((void)(bug), 0)
#endif

#endif
