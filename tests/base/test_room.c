#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/room.h"
#include "support/unit.h"

static char root[] = "/tmp/tutti_room_XXXXXX";

/* Writes a file below the root, with its directories. */
static void put(const char *path, const char *text)
{
    char full[300];
    FILE *f;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int begin(void **state)
{
    (void)state;
    strcpy(root, "/tmp/tutti_room_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    char command[100];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void without_files_there_is_no_bound(void **state)
{
    (void)state;
    assert_true(tt_available_memory(root) == UINT64_MAX);
}

static void unlimited_machine_has_available_memory(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal:       10 kB\nMemFree:  1 kB\nMemAvailable:      5000 kB\n");
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    put("/sys/fs/cgroup/user/job/memory.current", "77\n");
    assert_true(tt_available_memory(root) == 5000 * 1024);
}

static void lowest_limit_counts_without_cache(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable: 5000000 kB\n");
    put("/proc/self/cgroup", "0::/user/job\n");
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    put("/sys/fs/cgroup/user/job/memory.current", "900\n");
    put("/sys/fs/cgroup/user/memory.max", "1000000\n");
    put("/sys/fs/cgroup/user/memory.current", "300000\n");
    put("/sys/fs/cgroup/user/memory.stat", "anon 200000\ninactive_file 50000\n");
    assert_true(tt_available_memory(root) == 750000);
    put("/sys/fs/cgroup/user/memory.current", "2000000\n");
    assert_true(tt_available_memory(root) == 0);
}

static void limits_of_version_1_count(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable: 5000000 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4096000\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "96000\n");
    assert_true(tt_available_memory(root) == 4000000);
}

static void invisible_group_has_top_limit(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemAvailable: 5000000 kB\n");
    put("/proc/self/cgroup", "0::/../elsewhere\n");
    put("/sys/fs/cgroup/memory.max", "2000\n");
    put("/sys/fs/cgroup/memory.current", "500\n");
    assert_true(tt_available_memory(root) == 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_files_there_is_no_bound, begin, end),
        cmocka_unit_test_setup_teardown(unlimited_machine_has_available_memory, begin, end),
        cmocka_unit_test_setup_teardown(lowest_limit_counts_without_cache, begin,
                                        end),
        cmocka_unit_test_setup_teardown(limits_of_version_1_count, begin, end),
        cmocka_unit_test_setup_teardown(invisible_group_has_top_limit, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
