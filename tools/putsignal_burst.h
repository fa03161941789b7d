/* Bursts of puts and signals from devices: of each source `transfers` at once, to the ranks of other hosts in turn (where there is one host: to the other
 * ranks). All functions but those that say otherwise are collective. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_BURST_H
#define TUTTI_TOOLS_PUTSIGNAL_BURST_H

#include "putsignal_options.h"
#include "tutti/device.h"

struct putsignal_burst {
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device;       /* NULL: this rank is no source */
    struct putsignal_case c;
    uint32_t rank, nblocks;
    tutti_device_lanes lanes;
    uint8_t *src;               /* any part of it is sent, so that each transfer of each burst has bytes of its own */
    uint32_t *peers;            /* [nranks] room to list a source's */
    tutti_device_signal_to *signals;    /* [transfers] of this source, those of one destination together */
    size_t slots_at, slot_bytes;        /* in each rank's part of the window: words of signals, and then slots */
    uint32_t source_slots;      /* of one source */
    uint64_t nbursts, nsignalled;       /* so far; of them with signals */
};

struct putsignal_conf {
    struct putsignal_case c;    /* ranks, hosts and destinations are found out */
    uint32_t nblocks;           /* of a kernel */
    tutti_device_lanes lanes;
};

/* Makes the window and the devices. NOMEM, or what the library says. Ended by putsignal_burst_fini, also after an error. */
tutti_status putsignal_burst_init(struct putsignal_burst *b, tutti_comm *comm, const struct putsignal_conf *conf);
void putsignal_burst_fini(struct putsignal_burst *b);

/* What a turn took. */
struct putsignal_turn {
    double us;                          /* median burst of the slowest source, from its publication until all has landed */
    double drains, fences, signals;     /* of a burst of rank 0 */
};

/* One burst that is not timed, and then n, 1 to PUTSIGNAL_ROUNDS_MAX. */
tutti_status putsignal_turn(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t n,
                            struct putsignal_turn *out);

/* One burst, whose bytes are compared as soon as their signals are seen (put-only: when all have landed). *wrong: bytes on all ranks that are not what was
 * sent, and words of signals that do not count all of them. spoil: so many bytes are changed on each rank before, which must be found. */
tutti_status putsignal_check(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t spoil, uint64_t *wrong);

/* The wire between a source and the first of its destinations, by rank 0; "?" elsewhere. Local. */
const char *putsignal_wire(const struct putsignal_burst *b);

#endif
