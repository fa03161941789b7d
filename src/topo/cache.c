/* The last-level cache, from Linux alone, as in socket.c. */
#include <stdio.h>
#include <string.h>

#include "topo/machine.h"

#define INDEXES_MAX 16      /* caches of a CPU */
#define TEXT_BYTES 2048     /* more than a map of all CPUs takes */

static bool read_cache_text(int cpu, int index, const char *what, char *out, int cap)
{
    char path[96];
    FILE *f;
    bool good;

    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, what);
    f = fopen(path, "re");
    if (!f)
        return false;
    good = fgets(out, cap, f) != NULL;
    fclose(f);
    return good;
}

/* Returns 0 if the cache does not exist. */
static int cache_level(int cpu, int index)
{
    char text[TEXT_BYTES];
    int level;

    return read_cache_text(cpu, index, "level", text, sizeof text) &&
                   sscanf(text, "%d", &level) == 1 && level > 0
               ? level
               : 0;
}

static bool cache_has_data(int cpu, int index)
{
    char text[TEXT_BYTES];

    return read_cache_text(cpu, index, "type", text, sizeof text) &&
           strncmp(text, "Instruction", strlen("Instruction")) != 0;
}

/* Returns its index, or -1 if unknown. */
static int last_index_of(int cpu)
{
    int last = -1, highest = 0, level;

    for (int i = 0; i < INDEXES_MAX && (level = cache_level(cpu, i)) > 0; i++)
        if (level > highest && cache_has_data(cpu, i)) {
            highest = level;
            last = i;
        }
    return last;
}

/* Parses e.g. "8192K". */
static uint64_t bytes_in(const char *text)
{
    unsigned long long n;
    char unit = 0;

    if (sscanf(text, "%llu%c", &n, &unit) < 1 || n > UINT64_MAX >> 30)
        return 0;
    return unit == 'K' ? n << 10 : unit == 'M' ? n << 20 : unit == 'G' ? n << 30 : n;
}

/* Parses a CPU map such as "ff,00000003". */
static void read_map(const char *map, cpu_set_t *out)
{
    static const char digits[] = "0123456789abcdef";
    int first = 0;

    CPU_ZERO(out);
    for (size_t at = strlen(map); at > 0; at--) {
        const char *d = strchr(digits, map[at - 1]);

        for (int bit = 0; d && bit < 4; bit++)
            if ((d - digits) >> bit & 1 && first + bit < CPU_SETSIZE)
                CPU_SET(first + bit, out);
        first += d ? 4 : 0;
    }
}

struct tt_cache tt_last_cache_of(const cpu_set_t *set, cpu_set_t *sharing)
{
    struct tt_cache c = { .bytes = 0 };
    cpu_set_t here;
    char size[TEXT_BYTES], map[TEXT_BYTES];
    int cpu = 0, index;

    CPU_ZERO(&here);
    while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, set))
        cpu++;
    index = cpu < CPU_SETSIZE ? last_index_of(cpu) : -1;
    if (index >= 0 && read_cache_text(cpu, index, "size", size, sizeof size) &&
        read_cache_text(cpu, index, "shared_cpu_map", map, sizeof map)) {
        read_map(map, &here);
        c = (struct tt_cache){ .bytes = bytes_in(size), .cpus = (uint32_t)CPU_COUNT(&here) };
    }
    if (c.bytes == 0 || c.cpus == 0) {
        c = (struct tt_cache){ .bytes = 0 };
        CPU_ZERO(&here);
    }
    if (sharing)
        *sharing = here;
    return c;
}
