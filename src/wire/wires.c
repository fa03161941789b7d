#include "wire/wires.h"

#include <stdio.h>
#include <string.h>
#include "base/status.h"

/* In order of preference: the first wire that can reach a peer is used. */
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

/* Returns the next entry of a list, or NULL. */
static const char *next_entry(const char *at)
{
    const char *comma = strchr(at, ',');

    return comma ? comma + 1 : NULL;
}

bool tt_wire_is_listed(const char *list, const struct tt_wire_ops *ops)
{
    const size_t len = strlen(ops->name);

    if (!list || !*list)
        return !ops->by_name;
    for (const char *at = list; at; at = next_entry(at))
        if (strncmp(at, ops->name, len) == 0 && (at[len] == ',' || at[len] == 0))
            return true;
    return false;
}

tutti_status tt_wire_check_list(const char *list)
{
    for (const char *at = list; at && *at; at = next_entry(at)) {
        const int len = (int)strcspn(at, ",");
        char name[32];

        snprintf(name, sizeof name, "%.*s", len, at);
        if (!tt_wire_find(name))
            return tt_fail(TUTTI_ERR_INVALID,
                           "unknown transport \"%s\" in the list \"%s\" (TUTTI_WIRES and "
                           "conf.wires accept: %s)",
                           name, list, tt_wire_names());
    }
    return TUTTI_OK;
}
