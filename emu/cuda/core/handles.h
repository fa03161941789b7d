/* The set of live handles, so that a stale or foreign handle gives an error and not a crash. */
#ifndef TT_EMU_HANDLES_H
#define TT_EMU_HANDLES_H

#include <stdbool.h>

enum tt_emu_handle {
    TT_EMU_STREAM = 1,
    TT_EMU_ENDING_STREAM,       /* destroyed, but with pending work */
    TT_EMU_EVENT,
    TT_EMU_CONTEXT,
    TT_EMU_GRAPH,
    TT_EMU_NODE,
    TT_EMU_EXEC,
    TT_EMU_POOL,
    TT_EMU_FUNCTION,
    TT_EMU_PHYSICAL,
    TT_EMU_OBJECT,
    TT_EMU_MODULE,
};

void tt_emu_handle_add(const void *handle, enum tt_emu_handle kind);

/* Removes `handle`; returns false if it is not a live handle of this kind. Any thread. */
bool tt_emu_handle_remove(const void *handle, enum tt_emu_handle kind);

bool tt_emu_handle_is(const void *handle, enum tt_emu_handle kind);

/* Calls visit(handle, arg) for each live handle of a kind, with the table locked: `visit` must
 * neither add nor remove handles. */
void tt_emu_handle_each(enum tt_emu_handle kind, void (*visit)(void *handle, void *arg), void *arg);

#endif
