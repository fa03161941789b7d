#include "base/memory.h"

#include <string.h>
#include "base/status.h"

#define PARTS (sizeof((tutti_memory *)0)->parts / sizeof(tutti_memory_part))

void tt_memory_add(tutti_memory *m, const tutti_memory_part *part)
{
    uint32_t i = 0;

    while (i < m->nparts && strcmp(m->parts[i].purpose, part->purpose) != 0)
        i++;
    if (i == m->nparts) {
        tt_assert(i < PARTS);
        m->nparts++;
        m->parts[i] = (tutti_memory_part){ .purpose = part->purpose, .shared = part->shared };
    }
    m->parts[i].fixed_bytes += part->fixed_bytes;
    m->parts[i].rank_bytes += part->rank_bytes;
    m->parts[i].peer_bytes += part->peer_bytes;
}
