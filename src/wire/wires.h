/* The registry of wires, in order of preference; one line each in wires.c. */
#ifndef TT_WIRE_WIRES_H
#define TT_WIRE_WIRES_H

#include "wire/wire.h"

extern const struct tt_wire_ops *const tt_wires[];
extern const size_t tt_nwires;

extern const struct tt_wire_ops tt_wire_shm, tt_wire_ofi, tt_wire_tcp, tt_wire_verbs;

/* Returns the wire of this name, or NULL. */
const struct tt_wire_ops *tt_wire_find(const char *name);
/* Returns "shm, verbs, ofi, tcp": all names, for error messages. Valid until the thread's next
 * call. */
const char *tt_wire_names(void);
/* Returns whether the comma-separated list (TUTTI_WIRES) contains the wire. NULL and "" stand for
 * all wires that need not be named. */
bool tt_wire_is_listed(const char *list, const struct tt_wire_ops *ops);
/* Checks that every name in the list is a wire. INVALID names the unknown one. */
tutti_status tt_wire_check_list(const char *list);

#endif
