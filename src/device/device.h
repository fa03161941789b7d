/* A device: the memory that its blocks see, its proxy, and the thread that runs it. */
#ifndef TT_DEVICE_DEVICE_H
#define TT_DEVICE_DEVICE_H

#include <pthread.h>
#include <stddef.h>

#include "base/status.h"
#include "device/proxy_put.h"

/* size of the conf in the first release that has it */
#define TT_DEVICE_CONF_BYTES_FIRST offsetof(tutti_device_conf, pending)
#define TT_DEVICE_PIECES 24     /* maximum allocations visible to blocks */

struct tt_device_piece {
    void *mem;
    tutti_device_memory memory;
};

struct tutti_device {
    struct tt_window *window;
    tutti_device_conf conf;     /* complete: defaults are filled in */
    tutti_device_view view;
    struct tt_device_piece pieces[TT_DEVICE_PIECES];
    uint32_t npieces;
    /* Writable pointers to fields that the view shows as const. */
    uint64_t *status, *clock_ms;
    uint64_t began_ns;
    uint64_t pulse_seen;        /* used only by the thread, like eager_ns */
    uint64_t eager_ns;          /* the thread polls without a pause until then */
    struct tt_proxy proxy;      /* used by the thread while it runs */
    struct tt_proxy_put sink;        /* used by the thread while it runs, under the progress lock */
    uint32_t asleep;            /* futex: 1 while the thread sleeps because there are no triggers */
    pthread_t thread;
    bool runs;
    bool stuck;                 /* the window was notified of a wait for room; under the
                                   progress lock */
    atomic_bool stop, aborted;
    _Atomic uint32_t change;    /* next mode and lanes, with TT_DEVICE_CHANGE set; 0: none */
    pthread_mutex_t lock;
    char why[TT_ERROR_BYTES];   /* message of *status; protected by lock */
};

/* Flag in tutti_device.change, which contains mode and lanes. */
#define TT_DEVICE_CHANGE 0x80000000u
static inline uint32_t tt_device_change(tutti_device_mode mode, tutti_device_lanes lanes)
{
    return TT_DEVICE_CHANGE | (uint32_t)mode | (uint32_t)lanes << 8;
}

/* ---- thread.c ---- */

/* Starts the thread that runs the proxy. */
tutti_status tt_device_start(tutti_device *d);
/* Stops it after the triggers in the FIFO were taken, or the device has ended. */
void tt_device_stop(tutti_device *d);

#endif
