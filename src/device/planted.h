/* Mistakes that tests put back on purpose, to see that the room's tests find them. In the library TT_DEVICE_PLANTED is always false. */
#ifndef TT_DEVICE_PLANTED_H
#define TT_DEVICE_PLANTED_H

enum tt_device_bug {
    TT_DEVICE_BUG_NONE,
    TT_DEVICE_BUG_MARK_LOST,        /* a signal behind a fence does not carry its mark */
    TT_DEVICE_BUG_DRAIN_SKIPPED,    /* the proxy goes on without a drain */
    TT_DEVICE_BUG_FENCE_WAITS,      /* a fence waits for its peer before anything else is taken */
    TT_DEVICE_BUG_PARITY_IGNORED,   /* a slot of the lap before is taken for one of this */
    TT_DEVICE_BUG_FLUSH_EARLY,      /* a source is given back before the wire has it */
    TT_DEVICE_BUG_ROOM_OF_ALL,      /* a peer whose queue is at its bound stops the FIFO for all */
    TT_DEVICE_BUG_CREDIT_LOST,      /* a fence does not give its credit back */
    TT_DEVICE_BUG_END
};

#ifdef TT_PLANTED_BUGS
extern int tt_device_bug;
#define TT_DEVICE_PLANTED(bug) (tt_device_bug == (bug))
#else
#define TT_DEVICE_PLANTED(bug) ((void)(bug), 0)
#endif

#endif
