/* The register of wires, in order of preference; one line each in wires.c. */
#ifndef TT_WIRE_WIRES_H
#define TT_WIRE_WIRES_H

#include "wire/wire.h"

extern const struct tt_wire_ops *const tt_wires[];
extern const size_t tt_nwires;

extern const struct tt_wire_ops tt_wire_shm, tt_wire_ofi, tt_wire_tcp, tt_wire_verbs;

/* By name; NULL if there is none. */
const struct tt_wire_ops *tt_wire_find(const char *name);
/* "shm, verbs, ofi, tcp": all of them, for sentences. Until the thread's next call of this. */
const char *tt_wire_names(void);
/* Whether the wire is in the comma-separated list (TUTTI_WIRES); NULL and "" hold all that need not be named. */
bool tt_wire_is_listed(const char *list, const struct tt_wire_ops *ops);
/* Every name in the list must be a wire. INVALID says which is none. */
tutti_status tt_wire_check_list(const char *list);

#endif
