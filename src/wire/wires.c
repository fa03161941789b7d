#include "wire/wires.h"

#include <string.h>

/* Preferred first: a peer is reached by the first wire that can. */
const struct tt_wire_ops *const tt_wires[] = {
    &tt_wire_shm,
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
