#include "topo/machine.h"

#include <stdio.h>
#include <string.h>

int tt_machine_socket(const struct tt_machine *m, const cpu_set_t *set)
{
    int socket = TT_UNKNOWN;

    for (int c = 0; c < CPU_SETSIZE && c < TT_CPUS_MAX; c++) {
        if (!CPU_ISSET(c, set))
            continue;
        if (m->cpu[c].socket == TT_UNKNOWN || (socket != TT_UNKNOWN && m->cpu[c].socket != socket))
            return TT_UNKNOWN;
        socket = m->cpu[c].socket;
    }
    return socket;
}

uint32_t tt_machine_cores(const struct tt_machine *m, const cpu_set_t *set)
{
    bool seen[TT_CPUS_MAX] = { false };
    uint32_t n = 0;

    for (int c = 0; c < CPU_SETSIZE && c < TT_CPUS_MAX; c++) {
        const int core = CPU_ISSET(c, set) ? m->cpu[c].core : TT_UNKNOWN;

        if (core >= 0 && core < TT_CPUS_MAX && !seen[core]) {
            seen[core] = true;
            n++;
        }
    }
    return n;
}

void tt_cpus_print(const cpu_set_t *set, char *out, size_t cap)
{
    size_t n = 0;

    *out = '\0';
    for (int c = 0; c < CPU_SETSIZE && n < cap; c++) {
        int last = c;

        if (!CPU_ISSET(c, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        if (last == c)
            n += (size_t)snprintf(out + n, cap - n, "%s%d", n ? "," : "", c);
        else
            n += (size_t)snprintf(out + n, cap - n, "%s%d-%d", n ? "," : "", c, last);
        c = last;
    }
}
