/* Variants of the calls for programs that were compiled with per-thread default streams
 * (--default-stream per-thread, CUDA_API_PER_THREAD_DEFAULT_STREAM): NULL means the stream of the
 * thread. */
#ifndef TT_EMU_PER_THREAD_H
#define TT_EMU_PER_THREAD_H

#include "stream.h"

/* Defines name##suffix, which calls `name` so that a NULL stream is the stream of the thread.
 * `suffix` is _ptsz for calls with a stream, and _ptds for calls without. */
#define TT_EMU_PER_THREAD(type, name, suffix, parameters, arguments) \
    type name##suffix parameters;                                                                  \
    type name##suffix parameters                                                                   \
    {                                                                                              \
        const bool before = tt_emu_stream_null_per_thread(true);                                   \
        const type result = name arguments;                                                        \
        tt_emu_stream_null_per_thread(before);                                                     \
        return result;                                                                             \
    }

#endif
