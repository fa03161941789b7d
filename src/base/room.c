#include "base/room.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 512, LINE_BYTES = 512 };

static uint64_t lesser_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Returns the number after `key` in a file of lines "KEY NUMBER"; with an empty key, the first
 * number. UINT64_MAX if there is no number, as in "max". */
static uint64_t number_in(const char *path, const char *key)
{
    FILE *f = fopen(path, "re");
    const size_t n = strlen(key);
    unsigned long long value;
    uint64_t found = UINT64_MAX;
    char line[LINE_BYTES];

    while (f && found == UINT64_MAX && fgets(line, sizeof line, f))
        if (strncmp(line, key, n) == 0 && sscanf(line + n, " %llu", &value) == 1)
            found = value;
    if (f)
        fclose(f);
    return found;
}

/* Returns the remaining bytes of one group's limit. */
static uint64_t left_in(const char *folder, const char *limit_file, const char *usage_file,
                        const char *cache_key)
{
    char path[PATH_BYTES + 64];
    uint64_t limit, used, cache;

    snprintf(path, sizeof path, "%s/%s", folder, limit_file);
    limit = number_in(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, usage_file);
    used = number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    cache = number_in(path, cache_key);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    if (cache != UINT64_MAX)
        used -= lesser_u64(cache, used);
    return limit > used ? limit - used : 0;
}

/* Returns the minimum of the remaining bytes of a group and all its ancestors. In a cgroup
 * namespace the group may not be visible by its path; then the top group is that of the
 * namespace. */
static uint64_t left_up_from(const char *root, const char *top, char *group, bool second)
{
    uint64_t left = UINT64_MAX;
    char folder[PATH_BYTES];

    for (;;) {
        char *const slash = strrchr(group, '/');

        snprintf(folder, sizeof folder, "%s%s%s", root, top, strcmp(group, "/") == 0 ? "" : group);
        left = lesser_u64(left,
                          second ? left_in(folder, "memory.max", "memory.current", "inactive_file ")
                                 : left_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                           "total_inactive_file "));
        if (!*group || !slash)
            return left;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup is "NUMBER:CONTROLLERS:/GROUP"; version 2 has number 0 and no
 * controllers. */
static uint64_t left_of_groups(const char *root)
{
    uint64_t left = UINT64_MAX;
    char path[PATH_BYTES], line[LINE_BYTES];
    FILE *f;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *const controllers = strchr(line, ':'), *const group =
                                                         controllers ? strchr(controllers + 1, ':')
                                                                     : NULL;

        if (!group)
            continue;
        *group = '\0';
        group[1 + strcspn(group + 1, "\n")] = '\0';
        if (strcmp(controllers, ":") == 0)
            left = lesser_u64(left, left_up_from(root, "/sys/fs/cgroup", group + 1, true));
        else if (strstr(controllers, "memory"))
            left = lesser_u64(left, left_up_from(root, "/sys/fs/cgroup/memory", group + 1, false));
    }
    if (f)
        fclose(f);
    return left;
}

uint64_t tt_available_memory(const char *root)
{
    char path[PATH_BYTES];
    uint64_t kib;

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    kib = number_in(path, "MemAvailable:");
    return lesser_u64(kib == UINT64_MAX ? kib : kib * 1024, left_of_groups(root));
}
