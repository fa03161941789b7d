/* What blocks write into the FIFO (include/tutti/device.h), read back: triggers to commands. Pure. */
#ifndef TT_DEVICE_TRIGGER_H
#define TT_DEVICE_TRIGGER_H

#include <stdbool.h>
#include "tutti/device.h"

/* One call of a block. */
struct tt_command {
    uint8_t what;               /* TUTTI_TRIGGER_*, but SOURCE */
    uint8_t op;                 /* tutti_signal_op: of a signal, or of the signal that a put comes with */
    uint32_t peer;              /* quiet and flush: or TUTTI_DEVICE_ALL */
    uint64_t offset, bytes;     /* of a put */
    const void *src;
    uint64_t word, value;       /* of a signal: its offset */
    uint32_t ticket;            /* of quiet and flush of all peers: the proxy's number */
    bool credited;              /* it counts against the peer's bound until the proxy is done with it */
};

/* A command whose last trigger has not come yet. Zeroed at first. */
struct tt_trigger_reader {
    uint8_t next;               /* the only trigger that may follow; NONE: it begins a command */
    struct tt_command c;
};

enum tt_trigger_found { TT_TRIGGER_PART, TT_TRIGGER_WHOLE, TT_TRIGGER_BAD };

/* Takes the next trigger. WHOLE: *out is a command; BAD: it is none that tutti/device.h writes, or not there; the next begins a command. Any bits may
 * come. */
enum tt_trigger_found tt_trigger_take(struct tt_trigger_reader *r, uint64_t head, uint64_t body,
                                      struct tt_command *out);

/* Whether the command stays within nranks parts of bytes[nranks], of which those with words[nranks] have words for signals, and is not what a block of
 * this rank does itself. */
bool tt_command_fits(const struct tt_command *c, uint32_t rank, uint32_t nranks, const uint64_t *bytes,
                     const uint8_t *words);

#endif
