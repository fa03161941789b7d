/* One operation of a stream, or of a node of a graph, as data. It can be copied by
 * tt_emu_work_copy, so that a graph is captured once and replayed many times. */
#ifndef TT_EMU_WORK_H
#define TT_EMU_WORK_H

#include "mark.h"

#include <cuda.h>

struct CUfunc_st;
struct tt_emu_held;

enum tt_emu_work_kind {
    TT_EMU_EMPTY,
    TT_EMU_COPY,
    TT_EMU_FILL,
    TT_EMU_KERNEL,
    TT_EMU_HOST,
    TT_EMU_CALLBACK,
    TT_EMU_MARK,            /* completes a mark */
    TT_EMU_WAIT,            /* waits for a mark */
    TT_EMU_VALUE_WAIT,
    TT_EMU_VALUE_WRITE,
    TT_EMU_FREE,            /* of stream-ordered memory */
    TT_EMU_IPC_MARK,        /* of an event that processes share */
    TT_EMU_IPC_WAIT,
    TT_EMU_HELD,            /* keeps user objects until it has run */
};

/* A box of bytes: `depth` planes of `height` rows of `width` bytes. */
struct tt_emu_copy {
    uintptr_t to, from;
    size_t    to_pitch, from_pitch;     /* bytes from row to row */
    size_t    to_plane, from_plane;     /* bytes from plane to plane */
    size_t    width, height, depth;
    void     *staged;                   /* owned copy of the source, or NULL */
};

struct tt_emu_fill {
    uintptr_t to;
    size_t    pitch, width, height;     /* width in elements */
    uint32_t  value;
    uint32_t  element;                  /* 1, 2 or 4 bytes */
};

struct tt_emu_kernel {
    struct CUfunc_st *function;
    unsigned grid[3], block[3], shared;
    void    *arguments;                 /* owned; at the offsets of the function */
};

struct tt_emu_ipc_counters;

struct tt_emu_work {
    enum tt_emu_work_kind kind;
    union {
        struct tt_emu_copy copy;
        struct tt_emu_fill fill;
        struct tt_emu_kernel kernel;
        struct {
            void (*fn)(void *);
            void *arg;
        } host;
        struct {
            CUstreamCallback fn;
            void *arg;
            CUstream stream;
        } callback;
        struct tt_emu_mark *mark;       /* one reference */
        struct {
            uintptr_t at;
            uint64_t value;
            unsigned flags, bytes;
        } value;
        uintptr_t freed;
        struct tt_emu_held *held;       /* owned */
        struct {
            struct tt_emu_ipc_counters *counters;
            uint64_t count;
        } ipc;
    };
};

/* Performs the work in the calling thread. Returns an error that sticks to the device, or 0. */
CUresult tt_emu_work_run(struct tt_emu_work *work, int device);

/* Makes a deep copy. Marks are shared, with another reference. */
void tt_emu_work_copy(struct tt_emu_work *to, const struct tt_emu_work *from);

/* Releases the resources of the work. */
void tt_emu_work_fini(struct tt_emu_work *work);

#endif
