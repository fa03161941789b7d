/* One host: sockets, CPUs, NICs and GPUs, as hwloc and the operating system show them in this
 * process's container and network namespace. Properties that these do not show are unknown. */
#ifndef TT_TOPO_MACHINE_H
#define TT_TOPO_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_UNKNOWN (-1)             /* an unknown socket, core or NUMA node */
#define TT_NIC_NAME_BYTES 16
#define TT_NICS_MAX 64
#define TT_GPUS_MAX 64
#define TT_CPUS_MAX 4096
#define TT_PCI_DEPTH_MAX 16

/* The bridges above a PCI device, from the host's down. Equal numbers mean the same bridge, within
 * this process's machine. */
struct tt_pci_path {
    uint32_t depth;                 /* 0: unknown, or not a PCI device */
    uint64_t bridge[TT_PCI_DEPTH_MAX];
};

struct tt_nic {
    char name[TT_NIC_NAME_BYTES];
    uint8_t mac[6];
    bool up, loopback;
    bool addressed;                 /* has an IPv4 address, or an IPv6 one that is not link-local */
    int64_t bit_s;                  /* 0: unknown */
    bool wired;                     /* is hardware, or above hardware (e.g. a bond), so bit_s is
                                       that of a physical link */
    int socket, numa;               /* to which it is attached, or TT_UNKNOWN */
    struct tt_pci_path pci;
};

struct tt_gpu {
    char bus[16];                   /* "0000:3b:00.0" */
    char name[48];                  /* "" if unknown */
    int socket, numa;
    struct tt_pci_path pci;
};

struct tt_cpu {
    int socket, core, numa;         /* logical numbers, from 0; TT_UNKNOWN also if the CPU does
                                       not exist */
};

struct tt_machine {
    char host[256];
    uint32_t nsockets, ncores, ncpus, nnuma;    /* 0: unknown */
    struct tt_cpu cpu[TT_CPUS_MAX];             /* by the kernel's CPU number */
    struct tt_nic nic[TT_NICS_MAX];             /* of this network namespace, in the kernel's
                                                   order */
    uint32_t nnics;
    struct tt_gpu gpu[TT_GPUS_MAX];
    uint32_t ngpus;
};

/* Fills *m. Takes tens of milliseconds. Any thread. The struct is too large for a stack. */
tutti_status tt_machine_discover(struct tt_machine *m);

/* Lists the interfaces of this network namespace as the kernel does; sockets are unknown. Returns
 * the number of entries written to nic[max]. */
uint32_t tt_nics_list(struct tt_nic *nic, uint32_t max);

/* Returns the kernel's number of the socket of all CPUs of the set, or TT_UNKNOWN if there are
 * several or it is unknown. Numbers are consistent, but may differ from those of
 * tt_machine_discover. */
int tt_socket_of(const cpu_set_t *set);

/* The last-level cache of a CPU, and the number of CPUs of this host that share it. */
struct tt_cache {
    uint64_t bytes;                 /* 0: unknown, like cpus */
    uint32_t cpus;
};

/* Returns the last-level cache of the first CPU of the set, from the kernel. sharing: the CPUs that
 * share it; may be NULL. */
struct tt_cache tt_last_cache_of(const cpu_set_t *set, cpu_set_t *sharing);

/* Returns the socket of all CPUs of the set, or TT_UNKNOWN if there are several or it is unknown.
 * Pure. */
int tt_machine_socket(const struct tt_machine *m, const cpu_set_t *set);
/* As tt_machine_socket, for the NUMA node. */
int tt_machine_numa(const struct tt_machine *m, const cpu_set_t *set);
/* Returns the index of the process's GPU, or TT_UNKNOWN. It is the one at the bus address `bus`
 * ("0000:3b:00.0" or "3b:00.0"). Otherwise it is number `visible`, as in CUDA_VISIBLE_DEVICES, if
 * numbers follow the bus (`by_bus`) or all GPUs are alike. Both may be NULL. Pure. */
int tt_machine_gpu(const struct tt_machine *m, const char *bus, const char *visible, bool by_bus);
/* Writes the CPUs of a set in the kernel's format, "0-3,8", to out[cap]; truncates. Pure. */
void tt_cpus_print(const cpu_set_t *set, char *out, size_t cap);

#endif
