/* One host: sockets, processors, NICs, GPUs, as hwloc and the operating system tell them from inside this process's container and network
 * namespace. What they do not tell is unknown here too. */
#ifndef TT_TOPO_MACHINE_H
#define TT_TOPO_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_UNKNOWN (-1)             /* a socket, core or NUMA node that is not told */
#define TT_NIC_NAME_BYTES 16
#define TT_NICS_MAX 64
#define TT_GPUS_MAX 64
#define TT_CPUS_MAX 4096
#define TT_PCI_DEPTH_MAX 16

/* The bridges above a PCI device, from the host's down. Equal numbers are equal bridges of this process's machine. */
struct tt_pci_path {
    uint32_t depth;                 /* 0: not told, or no PCI device */
    uint64_t bridge[TT_PCI_DEPTH_MAX];
};

struct tt_nic {
    char name[TT_NIC_NAME_BYTES];
    uint8_t mac[6];
    bool up, loopback;
    bool addressed;                 /* has an IPv4 address, or an IPv6 one beyond its link */
    int64_t bit_s;                  /* 0: not told */
    bool wired;                     /* of hardware, or above some (a bond, say): a wire carries bit_s, where others make it up */
    int socket, numa;               /* that it is attached to, or TT_UNKNOWN */
    struct tt_pci_path pci;
};

struct tt_gpu {
    char bus[16];                   /* "0000:3b:00.0" */
    char name[48];                  /* "" if not told */
    int socket, numa;
    struct tt_pci_path pci;
};

struct tt_cpu {
    int socket, core, numa;         /* logical numbers, from 0; or TT_UNKNOWN: also where this cpu is not there */
};

struct tt_machine {
    char host[256];
    uint32_t nsockets, ncores, ncpus, nnuma;    /* 0: not told */
    struct tt_cpu cpu[TT_CPUS_MAX];             /* by the kernel's number */
    struct tt_nic nic[TT_NICS_MAX];             /* of this network namespace, in the kernel's order */
    uint32_t nnics;
    struct tt_gpu gpu[TT_GPUS_MAX];
    uint32_t ngpus;
};

/* Fills *m. Takes tens of milliseconds. Any thread. It is large: not on the stack. */
tutti_status tt_machine_discover(struct tt_machine *m);

/* The interfaces of this network namespace, as the kernel lists them; sockets unknown. Returns how many nic[max] got. */
uint32_t tt_nics_list(struct tt_nic *nic, uint32_t max);

/* A number of the socket that all cpus of the set are on, from the kernel; TT_UNKNOWN if they are on several or it is not told. Equal
 * sockets have equal numbers, which need not be those of tt_machine_discover. */
int tt_socket_of(const cpu_set_t *set);

/* The last cache before memory that a processor has, and how many processors of this host share it. */
struct tt_cache {
    uint64_t bytes;                 /* 0: not told, and cpus too */
    uint32_t cpus;
};

/* That of the first cpu of the set, from the kernel, and which share it; sharing NULL: that is not wanted. */
struct tt_cache tt_last_cache_of(const cpu_set_t *set, cpu_set_t *sharing);

/* The socket that all cpus of the set are on; TT_UNKNOWN if they are on several or it is not told. Pure. */
int tt_machine_socket(const struct tt_machine *m, const cpu_set_t *set);
/* Likewise the NUMA node. */
int tt_machine_numa(const struct tt_machine *m, const cpu_set_t *set);
/* The number of the GPU that a process has, TT_UNKNOWN if nobody says: that of the bus `told` ("0000:3b:00.0" or "3b:00.0"); or else the one whose number
 * `visible` is, as CUDA_VISIBLE_DEVICES tells it, where `by_bus` says that numbers go by bus, or all GPUs are alike. Both may be NULL. Pure. */
int tt_machine_gpu(const struct tt_machine *m, const char *told, const char *visible, bool by_bus);
/* How many cores the set touches; 0 if that is not told. Pure. */
uint32_t tt_machine_cores(const struct tt_machine *m, const cpu_set_t *set);
/* The processors of a set as the kernel writes them, "0-3,8", into out[cap]; what does not fit is cut. Pure. */
void tt_cpus_print(const cpu_set_t *set, char *out, size_t cap);

#endif
