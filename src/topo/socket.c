/* The socket of a set of CPUs, from Linux alone: start-up needs it on every host, and this takes a
 * hundredth of hwloc's time. */
#include <stdio.h>

#include "topo/machine.h"

static int package_of(int cpu)
{
    char path[96];
    int package = TT_UNKNOWN;
    FILE *f;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
    f = fopen(path, "re");
    if (!f)
        return TT_UNKNOWN;
    if (fscanf(f, "%d", &package) != 1 || package < 0)
        package = TT_UNKNOWN;
    fclose(f);
    return package;
}

int tt_socket_of(const cpu_set_t *set)
{
    int socket = TT_UNKNOWN;

    for (int c = 0; c < CPU_SETSIZE; c++) {
        int package;

        if (!CPU_ISSET(c, set))
            continue;
        package = package_of(c);
        if (package == TT_UNKNOWN || (socket != TT_UNKNOWN && package != socket))
            return TT_UNKNOWN;
        socket = package;
    }
    return socket;
}
