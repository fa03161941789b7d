/* Events: the last mark that was recorded, or counters that processes share. */
#ifndef TT_EMU_EVENT_H
#define TT_EMU_EVENT_H

#include "ipc.h"
#include "ipc_event.h"
#include "mark.h"

#include <cuda.h>
#include <pthread.h>

struct tt_emu_capture_point;

struct CUevent_st {
    int      device;
    unsigned flags;
    struct tt_emu_capture_point *_Atomic point; /* recorded in a capture; changed under
                                                   tt_emu_graph_lock */
    pthread_mutex_t lock;               /* the fields below */
    struct tt_emu_mark *mark;           /* NULL: never recorded */
    struct tt_emu_ipc_counters *ipc;    /* of CU_EVENT_INTERPROCESS */
};

CUresult tt_emu_event_create(int device, unsigned flags, CUevent *out);
CUresult tt_emu_event_destroy(CUevent e);
CUresult tt_emu_event_record(CUevent e, CUstream stream, unsigned flags);
CUresult tt_emu_event_query(CUevent e);
CUresult tt_emu_event_synchronize(CUevent e);
CUresult tt_emu_event_elapsed(float *ms, CUevent start, CUevent end);
CUresult tt_emu_stream_wait_event(CUstream stream, CUevent e, unsigned flags);

/* As the calls above, when a graph is launched: never captured. */
CUresult tt_emu_event_record_now(CUevent e, CUstream stream);
CUresult tt_emu_stream_wait_event_now(CUstream stream, CUevent e);

CUresult tt_emu_event_export(CUevent e, struct tt_emu_ipc *out);
CUresult tt_emu_event_import(const struct tt_emu_ipc *handle, CUevent *out);

#endif
