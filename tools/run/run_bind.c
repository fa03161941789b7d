#include "tools/run/run_bind.h"

#include <stdio.h>
#include <string.h>

/* Reads the hardware threads of the core of `cpu` from the kernel's list ("0,32" or "0-1"). If it
 * is unknown, the set contains only `cpu`. */
static void read_siblings(int cpu, cpu_set_t *out)
{
    char path[96];
    unsigned first, last;
    int more = ',';
    FILE *f;

    CPU_ZERO(out);
    CPU_SET(cpu, out);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    f = fopen(path, "re");
    if (!f)
        return;
    while (more == ',' && fscanf(f, "%u", &first) == 1) {
        last = first;
        more = fgetc(f);
        if (more == '-') {
            if (fscanf(f, "%u", &last) != 1)
                break;
            more = fgetc(f);
        }
        for (unsigned c = first; c <= last && c < CPU_SETSIZE; c++)
            CPU_SET(c, out);
    }
    fclose(f);
}

/* Lists the cores that this process may use, in order of their first hardware thread. Returns their
 * number. */
static uint32_t list_cores(cpu_set_t cores[CPU_SETSIZE])
{
    cpu_set_t allowed;
    uint32_t n = 0;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t core, usable;

        if (!CPU_ISSET(cpu, &allowed))
            continue;
        read_siblings(cpu, &core);
        CPU_AND(&usable, &core, &allowed);
        for (int c = 0; c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, &usable))
                CPU_CLR(c, &allowed);
        cores[n++] = usable;
    }
    return n;
}

bool bind_mask(enum bind_mode mode, uint32_t local, uint32_t nlocal, cpu_set_t *out)
{
    static cpu_set_t cores[CPU_SETSIZE];
    static uint32_t n;
    uint32_t each;

    if (n == 0)
        n = list_cores(cores);
    if (mode == BIND_SHARE && n > 1 && n < nlocal && nlocal % n == 0) {
        *out = cores[local % n];
        return true;
    }
    if (mode == BIND_NONE || n < nlocal)
        return false;
    each = mode == BIND_CORE ? 1 : n / nlocal;
    CPU_ZERO(out);
    for (uint32_t i = 0; i < each; i++)
        CPU_OR(out, out, &cores[local * each + i]);
    return true;
}
