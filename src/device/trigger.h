/* Parsing of the triggers that blocks write into the FIFO (include/tutti/device.h). Pure. */
#ifndef TT_DEVICE_TRIGGER_H
#define TT_DEVICE_TRIGGER_H

#include <stdbool.h>
#include "tutti/device.h"

/* One call of a block. */
struct tt_command {
    uint8_t what;               /* TUTTI_TRIGGER_*, except SOURCE */
    uint8_t op;                 /* tutti_signal_op: of a signal, or of a put's signal */
    uint32_t peer;              /* quiet and flush: also TUTTI_DEVICE_ALL */
    uint64_t offset, bytes;     /* destination and length of a put */
    const void *src;
    uint64_t word, value;       /* offset of the signal word, and the value */
    uint32_t ticket;            /* of a quiet or flush of all peers, set by the proxy */
    bool credited;              /* counts against the peer's limit until the proxy has completed
                                   it */
};

/* An incomplete command. Initially zero. */
struct tt_trigger_reader {
    uint8_t next;               /* the only permitted next trigger; NONE: a new command */
    struct tt_command c;
};

enum tt_trigger_found { TT_TRIGGER_PART, TT_TRIGGER_WHOLE, TT_TRIGGER_BAD };

/* Parses the next trigger, with any bits. WHOLE: *out is a command; BAD: invalid or out of
 * sequence; the next trigger begins a command. */
enum tt_trigger_found tt_trigger_take(struct tt_trigger_reader *r, uint64_t head, uint64_t body,
                                      struct tt_command *out);

/* Returns whether the command stays within nranks parts of bytes[nranks], of which those with
 * words[nranks] have signal words. Also rejects commands that a block of this rank executes
 * itself. */
bool tt_command_fits(const struct tt_command *c, uint32_t rank, uint32_t nranks,
                     const uint64_t *bytes, const uint8_t *words);

#endif
