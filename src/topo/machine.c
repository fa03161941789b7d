#include "topo/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Location of a CPU at a level. */
static int cpu_socket(const struct tt_cpu *cpu) { return cpu->socket; }

static int cpu_numa(const struct tt_cpu *cpu) { return cpu->numa; }

static int common(const struct tt_machine *m, const cpu_set_t *set,
                  int (*of)(const struct tt_cpu *))
{
    int all = TT_UNKNOWN;

    for (int c = 0; c < CPU_SETSIZE && c < TT_CPUS_MAX; c++) {
        const int one = CPU_ISSET(c, set) ? of(&m->cpu[c]) : all;

        if (CPU_ISSET(c, set) && (one == TT_UNKNOWN || (all != TT_UNKNOWN && one != all)))
            return TT_UNKNOWN;
        all = one;
    }
    return all;
}

int tt_machine_socket(const struct tt_machine *m, const cpu_set_t *set)
{
    return common(m, set, cpu_socket);
}

int tt_machine_numa(const struct tt_machine *m, const cpu_set_t *set)
{
    return common(m, set, cpu_numa);
}

static bool are_alike(const struct tt_machine *m)
{
    for (uint32_t i = 0; i < m->ngpus; i++)
        if (!*m->gpu[i].name || strcmp(m->gpu[i].name, m->gpu[0].name) != 0)
            return false;
    return true;
}

int tt_machine_gpu(const struct tt_machine *m, const char *bus, const char *visible, bool by_bus)
{
    unsigned long number;
    char *end;

    for (uint32_t i = 0; bus && *bus && i < m->ngpus; i++)
        if (strcasecmp(m->gpu[i].bus, bus) == 0 ||
            (strncmp(m->gpu[i].bus, "0000:", 5) == 0 && strcasecmp(m->gpu[i].bus + 5, bus) == 0))
            return (int)i;
    if ((bus && *bus) || !visible || *visible < '0' || *visible > '9' || !(by_bus || are_alike(m)))
        return TT_UNKNOWN;
    number = strtoul(visible, &end, 10);
    return *end == '\0' && number < m->ngpus ? (int)number : TT_UNKNOWN;
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
