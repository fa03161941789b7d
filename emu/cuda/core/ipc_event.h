/* Counters of an event that processes share: how often it was recorded, and how many of these
 * records are complete. */
#ifndef TT_EMU_IPC_EVENT_H
#define TT_EMU_IPC_EVENT_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_emu_ipc_counters;

/* New counters with one reference, or those of the memory file `fd`, which the call then owns. */
CUresult tt_emu_ipc_counters_create(int device, struct tt_emu_ipc_counters **out);
CUresult tt_emu_ipc_counters_open(int fd, struct tt_emu_ipc_counters **out);

void tt_emu_ipc_counters_get(struct tt_emu_ipc_counters *c);
void tt_emu_ipc_counters_put(struct tt_emu_ipc_counters *c);
int tt_emu_ipc_counters_fd(const struct tt_emu_ipc_counters *c);

/* Counts a record, and returns its 1-based index. */
uint64_t tt_emu_ipc_counters_record(struct tt_emu_ipc_counters *c);

/* The index of the last record of any process. */
uint64_t tt_emu_ipc_counters_recorded(const struct tt_emu_ipc_counters *c);

void tt_emu_ipc_counters_complete(struct tt_emu_ipc_counters *c, uint64_t count);
bool tt_emu_ipc_counters_reached(const struct tt_emu_ipc_counters *c, uint64_t count);

/* Waits until record `count` is complete, or the device has an error. */
void tt_emu_ipc_counters_wait(const struct tt_emu_ipc_counters *c, uint64_t count, int device);

#endif
