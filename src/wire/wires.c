#include "wire/wires.h"

#include <stdio.h>
#include <string.h>

/* Preferred first: a peer is reached by the first wire that can. */
const struct tt_wire_ops *const tt_wires[] = {
    &tt_wire_shm,
    &tt_wire_verbs,
    &tt_wire_ofi,
    &tt_wire_tcp,
};
const size_t tt_nwires = sizeof tt_wires / sizeof *tt_wires;

const struct tt_wire_ops *tt_wire_find(const char *name)
{
    for (size_t i = 0; i < tt_nwires; i++)
        if (strcmp(tt_wires[i]->name, name) == 0)
            return tt_wires[i];
    return NULL;
}

const char *tt_wire_names(void)
{
    static _Thread_local char all[64];
    size_t n = 0;

    for (size_t i = 0; i < tt_nwires && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", tt_wires[i]->name);
    return all;
}
