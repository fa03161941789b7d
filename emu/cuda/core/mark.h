/* A mark is a point in the work of a stream: done when all work before it is done. Events, and
 * streams that wait for each other, hold references to marks. */
#ifndef TT_EMU_MARK_H
#define TT_EMU_MARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_emu_mark;

/* A mark that is not done, with one reference. */
struct tt_emu_mark *tt_emu_mark_create(void);

struct tt_emu_mark *tt_emu_mark_get(struct tt_emu_mark *m);

/* Releases a reference; NULL is allowed. */
void tt_emu_mark_put(struct tt_emu_mark *m);

/* Sets the time of the mark, and wakes all that wait. */
void tt_emu_mark_done(struct tt_emu_mark *m);

bool tt_emu_mark_is_done(struct tt_emu_mark *m);
void tt_emu_mark_wait(struct tt_emu_mark *m);

/* The time at which the mark was done, by tt_emu_now_ns. */
uint64_t tt_emu_mark_time_ns(struct tt_emu_mark *m);

#endif
