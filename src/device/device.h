/* A device: the memory that its blocks see, its proxy, and the thread that runs it. */
#ifndef TT_DEVICE_DEVICE_H
#define TT_DEVICE_DEVICE_H

#include <pthread.h>
#include <stddef.h>

#include "base/status.h"
#include "device/sink.h"

#define TT_DEVICE_CONF_BYTES_FIRST offsetof(tutti_device_conf, pending) /* of the first release that has it */
#define TT_DEVICE_PIECES 24     /* of memory that blocks see */

struct tt_device_piece {
    void *mem;
    tutti_device_memory memory;
};

struct tutti_device {
    struct tt_window *window;
    tutti_device_conf conf;     /* complete: no zero stands for a default */
    tutti_device_view view;
    struct tt_device_piece pieces[TT_DEVICE_PIECES];
    uint32_t npieces;
    /* The host's side of what the view shows as const. */
    uint64_t *status, *clock_ms;
    uint64_t began_ns;
    uint64_t pulse_seen;        /* its own, like the next */
    uint64_t eager_ns;          /* until when the thread looks without a pause */
    struct tt_proxy proxy;      /* the thread's, while it runs */
    struct tt_sink sink;        /* likewise, under the baton */
    uint32_t asleep;            /* futex: 1 while the thread sleeps for want of triggers */
    pthread_t thread;
    bool runs;
    bool stuck;                 /* the window knows that we wait for room; under the baton */
    atomic_bool stop, aborted;
    _Atomic uint32_t change;    /* mode and lanes that are to be next, and CHANGE_WANTED; 0: none */
    pthread_mutex_t lock;
    char why[TT_ERROR_BYTES];   /* the sentence of *status; under lock */
};

/* Mode and lanes in tutti_device.change. */
#define TT_DEVICE_CHANGE 0x80000000u
static inline uint32_t tt_device_change(tutti_device_mode mode, tutti_device_lanes lanes)
{
    return TT_DEVICE_CHANGE | (uint32_t)mode | (uint32_t)lanes << 8;
}

/* ---- thread.c ---- */

/* Starts the thread that runs the proxy. */
tutti_status tt_device_start(tutti_device *d);
/* Ends it, when what is in the FIFO has been taken, or the device has ended. */
void tt_device_stop(tutti_device *d);

#endif
