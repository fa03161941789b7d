/* Discovers this host with hwloc. No other file uses hwloc, so its results are copied. */
#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "topo/machine.h"

#define CLASS_VGA 0x0300u
#define CLASS_3D 0x0302u
#define CLASS_ACCELERATOR 0x1200u

static void clear_objects(struct tt_machine *m)
{
    memset(m, 0, sizeof *m);
    for (int c = 0; c < TT_CPUS_MAX; c++)
        m->cpu[c] = (struct tt_cpu){ TT_UNKNOWN, TT_UNKNOWN, TT_UNKNOWN };
}

static tutti_status load_hwloc(hwloc_topology_t *out)
{
    static const hwloc_obj_type_t kept[] = { HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE };
    static const char *const unasked[] = { "x86", "pci", "opencl", "gl" };
    hwloc_topology_t t;

    if (hwloc_topology_init(&t) != 0)
        return tt_fail(TUTTI_ERR_NOMEM, "hwloc: out of memory for the topology");
    hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        hwloc_topology_set_type_filter(t, kept[i], HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    /* Linux provides everything. Querying each CPU itself would run on each in turn, which takes
     * longer than all the rest. libpciaccess finds no devices beyond /sys, and leaks; OpenCL and GL
     * start a driver. */
    for (size_t i = 0; i < sizeof unasked / sizeof *unasked; i++)
        hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unasked[i]);
    if (hwloc_topology_load(t) != 0) {
        const int err = errno;

        hwloc_topology_destroy(t);
        return tt_fail_errno(err, "hwloc: cannot discover this host");
    }
    *out = t;
    return TUTTI_OK;
}

/* The kernel's ID of a package, as in tt_socket_of. hwloc's own index omits packages that a process
 * may not use, so two processes of a host would number its sockets differently. */
static int package_number(hwloc_obj_t package)
{
    return package && package->os_index <= INT_MAX ? (int)package->os_index : TT_UNKNOWN;
}

/* The socket that is the object or contains it; the only one, if there is only one. */
static int object_socket(hwloc_topology_t t, hwloc_obj_t obj)
{
    const hwloc_obj_t package = obj->type == HWLOC_OBJ_PACKAGE
                                    ? obj
                                    : hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, obj);

    if (package || hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE) != 1)
        return package_number(package);
    return package_number(hwloc_get_obj_by_type(t, HWLOC_OBJ_PACKAGE, 0));
}

static int object_numa(hwloc_obj_t obj)
{
    return obj->nodeset && hwloc_bitmap_weight(obj->nodeset) == 1 ? hwloc_bitmap_first(obj->nodeset)
                                                                  : TT_UNKNOWN;
}

static void copy_cpus(struct tt_machine *m, hwloc_topology_t t)
{
    m->nsockets = (uint32_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
    m->ncores = (uint32_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
    m->ncpus = (uint32_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    m->nnuma = (uint32_t)hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_NUMANODE);
    for (hwloc_obj_t pu = NULL; (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu));) {
        const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, pu);
        const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);

        if (pu->os_index < TT_CPUS_MAX)
            m->cpu[pu->os_index] = (struct tt_cpu){
                .socket = package_number(package),
                .core = core ? (int)core->logical_index : TT_UNKNOWN,
                .numa = object_numa(pu),
            };
    }
}

/* hwloc reads /sys, which may belong to another network namespace: the same name with another
 * hardware address is another interface. */
static bool is_same_nic(hwloc_obj_t dev, const struct tt_nic *nic)
{
    const char *address = hwloc_obj_get_info_by_name(dev, "Address");
    char mac[18];

    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", nic->mac[0], nic->mac[1],
             nic->mac[2], nic->mac[3], nic->mac[4], nic->mac[5]);
    return strcmp(dev->name, nic->name) == 0 && (!address || strcasecmp(address, mac) == 0);
}

/* The bridges above, from the host's down; unknown if there are more than TT_PCI_DEPTH_MAX. */
static struct tt_pci_path path_of(hwloc_obj_t dev)
{
    struct tt_pci_path path = { 0 };
    hwloc_obj_t up;

    for (up = dev->parent; up && hwloc_obj_type_is_io(up->type); up = up->parent)
        path.depth += up->type == HWLOC_OBJ_BRIDGE;
    if (path.depth > TT_PCI_DEPTH_MAX)
        return (struct tt_pci_path){ 0 };
    up = dev->parent;
    for (uint32_t left = path.depth; left > 0; up = up->parent)
        if (up->type == HWLOC_OBJ_BRIDGE)
            path.bridge[--left] = up->gp_index;
    return path;
}

static void place_nics(struct tt_machine *m, hwloc_topology_t t)
{
    for (hwloc_obj_t dev = NULL; (dev = hwloc_get_next_osdev(t, dev));) {
        const hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(t, dev);

        for (uint32_t i = 0;
             i < m->nnics && dev->name && dev->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK; i++)
            if (is_same_nic(dev, &m->nic[i])) {
                m->nic[i].socket = object_socket(t, at);
                m->nic[i].numa = object_numa(at);
                m->nic[i].pci = path_of(dev);
            }
    }
}

/* Compute devices; display devices only of GPU vendors, as servers have one for the console. */
static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    const bool maker =
        pci->vendor_id == 0x10de || pci->vendor_id == 0x1002 || pci->vendor_id == 0x8086;

    return pci->class_id == CLASS_3D || pci->class_id == CLASS_ACCELERATOR ||
           (pci->class_id == CLASS_VGA && maker);
}

static void copy_gpus(struct tt_machine *m, hwloc_topology_t t)
{
    for (hwloc_obj_t dev = NULL; m->ngpus < TT_GPUS_MAX && (dev = hwloc_get_next_pcidev(t, dev));) {
        const struct hwloc_pcidev_attr_s *pci = &dev->attr->pcidev;
        const hwloc_obj_t at = hwloc_get_non_io_ancestor_obj(t, dev);
        const char *name = hwloc_obj_get_info_by_name(dev, "PCIDevice");
        struct tt_gpu *gpu = &m->gpu[m->ngpus];

        if (!is_gpu(pci))
            continue;
        m->ngpus++;
        snprintf(gpu->bus, sizeof gpu->bus, "%04x:%02x:%02x.%x", (unsigned)(pci->domain & 0xffff),
                 pci->bus, pci->dev, (unsigned)(pci->func & 7));
        snprintf(gpu->name, sizeof gpu->name, "%s", name ? name : "");
        gpu->socket = object_socket(t, at);
        gpu->numa = object_numa(at);
        gpu->pci = path_of(dev);
    }
}

tutti_status tt_machine_discover(struct tt_machine *m)
{
    hwloc_topology_t t = NULL;
    tutti_status st;

    st = load_hwloc(&t);
    if (st)
        return st;
    clear_objects(m);
    if (gethostname(m->host, sizeof m->host - 1) != 0)
        m->host[0] = '\0';
    copy_cpus(m, t);
    m->nnics = tt_nics_list(m->nic, TT_NICS_MAX);
    place_nics(m, t);
    copy_gpus(m, t);
    hwloc_topology_destroy(t);
    return TUTTI_OK;
}
