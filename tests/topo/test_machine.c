/* Machines given to hwloc by its own variables, and this machine. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/machine.h"

static struct tt_machine m;

static cpu_set_t set_of(int first, int last)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int c = first; c <= last; c++)
        CPU_SET(c, &set);
    return set;
}

static void unique_socket_is_found(void **state)
{
    cpu_set_t set;

    (void)state;
    setenv("HWLOC_SYNTHETIC", "pack:2 core:2 pu:2", 1);
    assert_int_equal(tt_machine_discover(&m), TUTTI_OK);
    unsetenv("HWLOC_SYNTHETIC");
    assert_int_equal(m.nsockets, 2);
    assert_int_equal(m.ncores, 4);
    assert_int_equal(m.ncpus, 8);
    set = set_of(0, 3);
    assert_int_equal(tt_machine_socket(&m, &set), 0);
    set = set_of(6, 6);
    assert_int_equal(tt_machine_socket(&m, &set), 1);
    set = set_of(3, 4);
    assert_int_equal(tt_machine_socket(&m, &set), TT_UNKNOWN);
    set = set_of(0, 8);     /* the last does not exist */
    assert_int_equal(tt_machine_socket(&m, &set), TT_UNKNOWN);
    set = set_of(1, 0);
    assert_int_equal(tt_machine_socket(&m, &set), TT_UNKNOWN);
}

static void sets_have_the_kernel_format(void **state)
{
    cpu_set_t set = set_of(0, 3);
    char text[64];

    (void)state;
    CPU_SET(8, &set);
    CPU_SET(10, &set);
    CPU_SET(11, &set);
    tt_cpus_print(&set, text, sizeof text);
    assert_string_equal(text, "0-3,8,10-11");
    CPU_ZERO(&set);
    tt_cpus_print(&set, text, sizeof text);
    assert_string_equal(text, "");
}

/* On any machine: the loopback interface exists, and the values are consistent. */
static void this_host_is_discovered(void **state)
{
    bool loopback = false;
    cpu_set_t own;

    (void)state;
    assert_int_equal(tt_machine_discover(&m), TUTTI_OK);
    assert_true(m.ncpus > 0);
    for (uint32_t i = 0; i < m.nnics; i++) {
        loopback |= m.nic[i].loopback;
        assert_true(m.nic[i].socket >= TT_UNKNOWN);
        assert_true(m.nic[i].bit_s >= 0 && *m.nic[i].name);
    }
    assert_true(loopback);
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    /* a socket has the same number in both */
    assert_int_equal(tt_socket_of(&own), tt_machine_socket(&m, &own));
}

/* Some machines do not report their caches. */
static void last_cache_is_complete_or_unknown(void **state)
{
    struct tt_cache cache;
    cpu_set_t set, sharing;

    (void)state;
    CPU_ZERO(&set);
    assert_int_equal(tt_last_cache_of(&set, &sharing).bytes, 0);
    assert_int_equal(CPU_COUNT(&sharing), 0);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    cache = tt_last_cache_of(&set, &sharing);
    assert_int_equal(CPU_COUNT(&sharing), cache.cpus);
    CPU_AND(&sharing, &sharing, &set);
    /* at least the first of the set */
    assert_true(cache.bytes == 0 || CPU_COUNT(&sharing) > 0);
    assert_int_equal(cache.bytes > 0, cache.cpus > 0);
    assert_true(cache.bytes == 0 || cache.bytes >= 4096);
    assert_true(cache.cpus <= sysconf(_SC_NPROCESSORS_CONF));
}

/* An XML export of another machine whose only NIC has the name of this loopback and another
 * address: it is not used for this host. */
static void foreign_interface_of_same_name_ignored(void **state)
{
    static const char *const parts[] = {
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE topology SYSTEM "
        "\"hwloc2.dtd\"><topology version=\"2.0\">"
        "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" "
        "allowed_cpuset=\"0x3\" nodeset=\"0x1\""
        " complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">"
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" "
        "nodeset=\"0x1\" complete_nodeset=\"0x1\""
        " gp_index=\"2\" local_memory=\"1024\"/>"
        "<object type=\"Package\" os_index=\"3\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
        "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"3\">"
        "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
        "complete_nodeset=\"0x1\" gp_index=\"4\"/></object>"
        "<object type=\"Package\" os_index=\"7\" cpuset=\"0x2\" complete_cpuset=\"0x2\" "
        "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"5\">"
        "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x1\" "
        "complete_nodeset=\"0x1\" gp_index=\"6\"/>"
        "<object type=\"OSDev\" gp_index=\"7\" name=\"lo\" osdev_type=\"2\">",
        "<info name=\"Address\" value=\"02:00:00:00:00:07\"/>",
        "</object></object></object></topology>",
    };

    (void)state;
    for (int with = 0; with < 2; with++) {
        char path[] = "/tmp/tutti_machine_XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");

        for (int i = 0; i < 3; i++)
            if (i != 1 || with)
                fputs(parts[i], f);
        fclose(f);
        setenv("HWLOC_XMLFILE", path, 1);
        assert_int_equal(tt_machine_discover(&m), TUTTI_OK);
        unsetenv("HWLOC_XMLFILE");
        unlink(path);
        assert_int_equal(m.nsockets, 2);
        assert_int_equal(m.cpu[0].socket, 3);       /* the kernel's numbers */
        assert_int_equal(m.cpu[1].socket, 7);
        for (uint32_t i = 0; i < m.nnics; i++)
            if (strcmp(m.nic[i].name, "lo") == 0)
                assert_int_equal(m.nic[i].socket, with ? TT_UNKNOWN : 7);
    }
}

/* A host bridge above a switch, with a GPU below each of two ports; this loopback represents the
 * NIC below the first. */
static void bridges_of_nic_and_gpu_found(void **state)
{
    static const char text[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><!DOCTYPE topology SYSTEM "
        "\"hwloc2.dtd\"><topology version=\"2.0\">"
        "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
        "allowed_cpuset=\"0x1\" nodeset=\"0x1\""
        " complete_nodeset=\"0x1\" allowed_nodeset=\"0x1\" gp_index=\"1\">"
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
        "nodeset=\"0x1\" complete_nodeset=\"0x1\""
        " gp_index=\"2\" local_memory=\"1024\"/>"
        "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
        "complete_nodeset=\"0x1\" gp_index=\"3\"/>"
        "<object type=\"Bridge\" gp_index=\"4\" bridge_type=\"0-1\" depth=\"0\" "
        "bridge_pci=\"0000:[00-03]\">"
        "<object type=\"Bridge\" gp_index=\"5\" bridge_type=\"1-1\" depth=\"1\" "
        "bridge_pci=\"0000:[01-02]\" pci_busid=\"0000:00:01.0\""
        " pci_type=\"0604 [10b5:8747] [0000:0000] ca\" pci_link_speed=\"0\">"
        "<object type=\"PCIDev\" gp_index=\"6\" pci_busid=\"0000:01:00.0\" pci_type=\"0302 "
        "[10de:2335] [0000:0000] a1\" pci_link_speed=\"0\"/>"
        "<object type=\"PCIDev\" gp_index=\"7\" pci_busid=\"0000:01:01.0\" pci_type=\"0200 "
        "[15b3:1021] [0000:0000] 00\" pci_link_speed=\"0\">"
        "<object type=\"OSDev\" gp_index=\"8\" name=\"lo\" osdev_type=\"2\"/></object></object>"
        "<object type=\"PCIDev\" gp_index=\"9\" pci_busid=\"0000:03:00.0\" pci_type=\"0302 "
        "[10de:2335] [0000:0000] a1\" pci_link_speed=\"0\"/>"
        "</object></object></topology>";
    char path[] = "/tmp/tutti_machine_XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    bool seen = false;

    (void)state;
    fputs(text, f);
    fclose(f);
    setenv("HWLOC_XMLFILE", path, 1);
    assert_int_equal(tt_machine_discover(&m), TUTTI_OK);
    unsetenv("HWLOC_XMLFILE");
    unlink(path);
    assert_int_equal(m.ngpus, 2);
    assert_string_equal(m.gpu[0].bus, "0000:01:00.0");
    assert_int_equal(m.gpu[0].pci.depth, 2);
    assert_int_equal(m.gpu[1].pci.depth, 1);
    assert_true(m.gpu[0].pci.bridge[0] == m.gpu[1].pci.bridge[0]);
    for (uint32_t i = 0; i < m.nnics; i++)
        if (strcmp(m.nic[i].name, "lo") == 0) {
            seen = true;
            assert_memory_equal(&m.nic[i].pci, &m.gpu[0].pci, sizeof m.nic[i].pci);
        }
    assert_true(seen);
}

static void process_gpu_is_the_given_one(void **state)
{
    static const struct {
        const char *told, *visible;
        bool by_bus, alike;
        int is;
    } cases[] = {
        { NULL, NULL, true, true, TT_UNKNOWN },
        { "0000:3b:00.0", NULL, false, false, 1 },
        { "3B:00.0", "0", true, true, 1 },
        { "3b:00.1", "0", true, true, TT_UNKNOWN },       /* unknown: no guess */
        { NULL, "1", true, false, 1 },
        { NULL, "1", false, true, 1 },
        { NULL, "1", false, false, TT_UNKNOWN },
        { "", "0", false, true, 0 },
        { NULL, "0,1", true, true, TT_UNKNOWN },
        { NULL, "2", true, true, TT_UNKNOWN },
        { NULL, "", true, true, TT_UNKNOWN },
        { NULL, "-1", true, true, TT_UNKNOWN },
        { NULL, "99999999999999999999999", true, true, TT_UNKNOWN },
        { NULL, "GPU-8932f937-d72c", true, true, TT_UNKNOWN },
    };

    (void)state;
    memset(&m, 0, sizeof m);
    m.ngpus = 2;
    strcpy(m.gpu[0].bus, "0000:19:00.0");
    strcpy(m.gpu[1].bus, "0000:3b:00.0");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strcpy(m.gpu[0].name, "one");
        strcpy(m.gpu[1].name, cases[i].alike ? "one" : "another");
        if (tt_machine_gpu(&m, cases[i].told, cases[i].visible, cases[i].by_bus) != cases[i].is)
            fail_msg("case %zu: %d", i,
                     tt_machine_gpu(&m, cases[i].told, cases[i].visible, cases[i].by_bus));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(unique_socket_is_found),
        cmocka_unit_test(sets_have_the_kernel_format),
        cmocka_unit_test(this_host_is_discovered),
        cmocka_unit_test(last_cache_is_complete_or_unknown),
        cmocka_unit_test(foreign_interface_of_same_name_ignored),
        cmocka_unit_test(bridges_of_nic_and_gpu_found),
        cmocka_unit_test(process_gpu_is_the_given_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
