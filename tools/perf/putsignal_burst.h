/* Bursts of puts and signals from devices. Each source sends `transfers` concurrent transfers, in
 * turn to the ranks of other hosts, or with one host, to the other ranks. All functions except
 * those marked local are collective. */
#ifndef TUTTI_TOOLS_PUTSIGNAL_BURST_H
#define TUTTI_TOOLS_PUTSIGNAL_BURST_H

#include "tools/perf/putsignal_options.h"
#include "tutti/device.h"

struct putsignal_burst {
    tutti_comm *comm;
    tutti_window *window;
    tutti_device *device;       /* NULL: this rank is not a source */
    struct putsignal_case c;
    uint32_t rank, nblocks;
    tutti_device_lanes lanes;
    uint8_t *src;               /* transfers start at different offsets, so that each transfer of
                                   each burst has different data */
    uint32_t *peers;            /* [nranks] scratch for the peers of a source */
    tutti_device_signal_to *signals;    /* [transfers] of this source, grouped by destination */
    size_t slots_at, slot_bytes;        /* in each rank's part of the window: the signal words,
                                           followed by the slots */
    uint32_t source_slots;      /* slots per source */
    uint64_t nbursts, nsignalled;       /* totals so far; nsignalled: bursts with signals */
};

struct putsignal_conf {
    struct putsignal_case c;    /* ranks, hosts and destinations are filled in */
    uint32_t nblocks;           /* blocks per kernel */
    tutti_device_lanes lanes;
};

/* Creates the window and the devices. Returns NOMEM or an error of the library. Undone by
 * putsignal_burst_fini, also after an error. */
tutti_status putsignal_burst_init(struct putsignal_burst *b, tutti_comm *comm,
                                  const struct putsignal_conf *conf);
void putsignal_burst_fini(struct putsignal_burst *b);

/* Measured values of a turn. */
struct putsignal_turn {
    double us;                          /* median over bursts of the time until all data has
                                           arrived, for the slowest source */
    double drains, fences, signals;     /* per burst, on rank 0 */
};

/* Runs one untimed burst and n timed bursts (1 to PUTSIGNAL_ROUNDS_MAX). */
tutti_status putsignal_turn(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t n,
                            struct putsignal_turn *out);

/* Runs one burst and compares the data of each transfer as soon as its signal arrives (put-only:
 * when all data has arrived). *wrong receives the number of corrupted bytes and signal words on all
 * ranks. `spoil` bytes are changed on each rank before, and must be detected. */
tutti_status putsignal_check(struct putsignal_burst *b, enum tt_putsignal_mode mode, uint32_t spoil,
                             uint64_t *wrong);

/* Returns the transport between a source and its first destination, as seen by rank 0; "?" on other
 * ranks. Local. */
const char *putsignal_wire(const struct putsignal_burst *b);

#endif
