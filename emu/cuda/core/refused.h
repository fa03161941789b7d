/* Calls that are not emulated. */
#ifndef TT_EMU_REFUSED_H
#define TT_EMU_REFUSED_H

/* Prints once that the call `name` is not emulated. Returns the value of
 * CUDA_ERROR_NOT_SUPPORTED. */
int tt_emu_refused(const char *name, _Atomic int *noted);

/* The same for the runtime: it also becomes the last error of the thread. */
int tt_emu_rt_refused(const char *name, _Atomic int *noted);

#endif
