#include "base/param.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"

#define KIB 1024ll
#define MIB (1024 * KIB)

const struct tt_param tt_params[TT_PARAM_COUNT] = {
    /*                                name                       unit            default    min      max        */
    [TT_PARAM_TIMEOUT_MS]        = { "TUTTI_TIMEOUT_MS",        "ms",            300000,   -1,      INT32_MAX,
        "deadline of start-up and default deadline of every call; -1: none (0 is refused)" },
    [TT_PARAM_LANES]             = { "TUTTI_LANES",             "connections",        0,    0,      16,
        "TCP connections, or queue pairs or libfabric's endpoints for bulk data, to each peer; 0: one connection, or one per rail where a rank is alone on its host; one endpoint; queue pairs by distance" },
    [TT_PARAM_EAGER_BYTES]       = { "TUTTI_EAGER_BYTES",       "bytes",       32 * KIB,    0,     32 * KIB,
        "largest message in shared memory that travels without asking the receiver first" },
    [TT_PARAM_TCP_EAGER_BYTES]   = { "TUTTI_TCP_EAGER_BYTES",   "bytes",       32 * KIB,    0,     32 * KIB,
        "largest message over TCP that travels without asking the receiver first" },
    [TT_PARAM_SEGMENT_BYTES]     = { "TUTTI_SEGMENT_BYTES",     "bytes",       64 * KIB,    4 * KIB, 1 * MIB,
        "segment of a streamed transfer in shared memory; of very long messages up to eight times as long" },
    [TT_PARAM_TCP_SEGMENT_BYTES] = { "TUTTI_TCP_SEGMENT_BYTES", "bytes",      512 * KIB,    4 * KIB, 4 * MIB,
        "segment of a streamed transfer over TCP" },
    [TT_PARAM_TCP_SILENCE_S]     = { "TUTTI_TCP_SILENCE_S",     "s",                 60,    0,      65534,
        "how long the host of a TCP peer may answer nothing before the peer counts as lost; 0: as long as the kernel allows" },
    [TT_PARAM_SPIN_US]           = { "TUTTI_SPIN_US",           "us",                50,    0,      1000000,
        "how long a waiter spins before it blocks, where cores suffice" },
    [TT_PARAM_CMA]               = { "TUTTI_CMA",               "0, 1 or 2",          1,    0,      2,
        "copy straight between processes (process_vm_readv): 0 never; 1 very long messages, where ranks outnumber cores; 2 all from 256 KiB on" },
    [TT_PARAM_NUDGE_MS]          = { "TUTTI_NUDGE_MS",          "ms",                20,    1,      60000,
        "how long an operation waits before it asks the rank it waits for" },
    [TT_PARAM_FTAR_CHUNK_BYTES]  = { "TUTTI_FTAR_CHUNK_BYTES",  "bytes",        8 * MIB,  256 * KIB, 1024 * MIB,
        "longest message of the all-reduce \"ftar\"; rank 0's holds for all" },
    [TT_PARAM_FTAR_CHUNKS]       = { "TUTTI_FTAR_CHUNKS",       "chunks",             4,    1,      1024,
        "how many such messages' bytes may be on their way from one rank to another; rank 0's holds for all" },
    [TT_PARAM_FTAR_PIECE_BYTES]  = { "TUTTI_FTAR_PIECE_BYTES",  "bytes",        1 * MIB,   64 * KIB, 1024 * MIB,
        "how much of a vector the all-reduce \"ftar\" transfers as one message, at most a chunk; rank 0's holds for all" },
    [TT_PARAM_FTAR_REDUCE_BYTES] = { "TUTTI_FTAR_REDUCE_BYTES", "bytes",              0,    0,         4 * MIB,
        "how much of a piece \"ftar\" reduces and sends on at a time, a power of two from 8192 on; 0: the wire's segment; rank 0's holds for all" },
    [TT_PARAM_TOPO_MEASURE]      = { "TUTTI_TOPO_MEASURE",      "0, 1 or 2",          2,    0,      2,
        "what start-up measures between hosts: 0 nothing; 1 latencies and rates, and which hosts are near each other where none has labels; 2 the latency between two, where it is not told" },
    [TT_PARAM_RDMA_PORT]         = { "TUTTI_RDMA_PORT",         "port",               0,    0,      255,
        "which port of RDMA devices, from 1; 0: those that are up, the first of each device before others" },
    [TT_PARAM_RDMA_SERVICE_LEVEL] = { "TUTTI_RDMA_SERVICE_LEVEL", "level",            0,    0,      15,
        "service level of queue pairs: the virtual lane on InfiniBand, the VLAN priority on RoCE" },
    [TT_PARAM_RDMA_TRAFFIC_CLASS] = { "TUTTI_RDMA_TRAFFIC_CLASS", "traffic class",    0,    0,      255,
        "traffic class of RoCE packets: four times the DSCP, and ECN in the lowest two bits" },
    [TT_PARAM_OFI_HMEM]          = { "TUTTI_OFI_HMEM",          "0 or 1",             0,    0,      1,
        "1: of libfabric's providers only those that know memory of devices (FI_HMEM)" },
    [TT_PARAM_REGISTER_BYTES]    = { "TUTTI_REGISTER_BYTES",    "bytes", 65536 * MIB,    0,     INT64_MAX,
        "how much memory stays registered with RDMA devices when no call uses it, in a process" },
    [TT_PARAM_REGISTER_COUNT]    = { "TUTTI_REGISTER_COUNT",    "registrations",   4096,    0,     1 << 20,
        "in how many registrations" },
    [TT_PARAM_REGISTER_DYNAMIC]  = { "TUTTI_REGISTER_DYNAMIC",  "0 or 1",             1,    0,      1,
        "0: calls may use RDMA on memory only that Tutti was told of (tutti_mem_register, tutti_mem_alloc); all else is an error" },
    [TT_PARAM_HUGE_PAGES]        = { "TUTTI_HUGE_PAGES",        "0 or 1",             1,    0,      1,
        "1: buffers of 4 MiB and more that calls among ranks of a host use again and again are moved to huge pages, where the system leaves these to programs (madvise)" },
};

const struct tt_param_word tt_param_words[] = {
    { "TUTTI_RANK", "this process's rank, from 0; where nothing else starts the job" },
    { "TUTTI_SIZE", "number of ranks; goes with TUTTI_RANK" },
    { "TUTTI_RENDEZVOUS", "where the ranks meet: tcp://host:port of rank 0, or file:///path on a file system of all" },
    { "TUTTI_TOKEN", "secret of the job, the same on all ranks; without one, whoever reaches the rendezvous may take a seat" },
    { "TUTTI_SECURITY", "connections between hosts: \"plain\"; TLS 1.3 by TUTTI_TOKEN, \"token\", or by certificates, \"certificate\"; the same on all ranks; not set: plain, "
      "and in an elastic run by TUTTI_TOKEN, if there is one" },
    { "TUTTI_CERTIFICATE", "with TUTTI_SECURITY=certificate: this rank's (or member's) certificate, a PEM file" },
    { "TUTTI_KEY", "with TUTTI_SECURITY=certificate: its private key, a PEM file without passphrase" },
    { "TUTTI_AUTHORITY", "with TUTTI_SECURITY=certificate: the certificate of who signed those of all ranks, a PEM file" },
    { "TUTTI_COORDINATOR", "elastic runs: where the coordinators are, \"host:port,host:port\"" },
    { "TUTTI_RUN", "elastic runs: the run's name; not set: tutti" },
    { "TUTTI_LISTEN", "elastic runs: where other members connect, \"address:port\" or \":port\"; not set: any port of all addresses; without TUTTI_SECURITY or a token: of loopback" },
    { "TUTTI_DATA_PORTS", "elastic runs: the ports for data over TCP, \"40000-40007\"; not set: any" },
    { "TUTTI_ANNOUNCE", "elastic runs: \"address:port\" by which others reach this member from outside, where ports are forwarded to it" },
    { "TUTTI_WIRES", "the wires that may be used, like \"shm,tcp\"; not set: all usable but verbs and ofi, which have to be named: \"shm,verbs,tcp\"" },
    { "TUTTI_INTERFACES", "network interfaces, by prefix: \"eth\"; by name: \"=eth0\"; all but: \"^docker,lo\"; not set: by route" },
    { "TUTTI_RDMA_DEVICES", "RDMA devices that may be used, by the same kind of rule: \"mlx5\", \"=mlx5_0\", \"^rxe\"; two at most are used; not set: those near the process" },
    { "TUTTI_RDMA_GID", "which GID a RoCE port uses: by its index, \"3\", or by its address or network, \"10.77.0.0/16\"; not set: the best that is an address of this network namespace" },
    { "TUTTI_RDMA_PKEY", "partition of the queue pairs on RDMA devices, by its key: \"0x8001\"; not set: that at the port's index 0" },
    { "TUTTI_OFI_PROVIDER", "where TUTTI_WIRES names ofi: which of libfabric's providers, \"efa\", \"tcp;ofi_rxm\"; not set: its first that serves" },
    { "TUTTI_REGISTER", "when memory is registered with RDMA devices: \"none\", anew for each call; \"lazy\", when it is first used, and kept; \"eager\", when Tutti "
      "is told of it; \"async\", then, in the background; not set: lazy" },
    { "TUTTI_TOPO", "description of what joins the hosts, and of their labels: a file, or a built-in name (`tutti topo --help`); not set: none" },
    { "TUTTI_GPU", "the GPU of this rank, by its bus: \"0000:3b:00.0\"; of several rails it uses one near to that; not set: the only one that CUDA_VISIBLE_DEVICES, "
      "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES names, where numbers go by bus (CUDA_DEVICE_ORDER) or all GPUs are alike" },
    { "TUTTI_TOPO_LABELS", "where this host is, over what TUTTI_TOPO says of it: \"rack=r1,zone=a\"; rack, zone, building, fabric" },
    { "TUTTI_LANE_BYTES", "bytes that may be outstanding on one lane (TCP connection, queue pair), 65536 to 1073741824, by distance of the peer: \"8388608\" for all, or \"4194304,wan=134217728\"; "
      "not set: 4 MiB, building 8, fabric 16, wan 64; for queue pairs by what lies between (docs/lanes.md)" },
    { "TUTTI_ALGORITHMS", "algorithms to add: shared objects and .json plans, like \"./mine.so,./plan.json\"; the same on all ranks" },
    { "TUTTI_TUNE_FILE", "what `tutti tune` measured, like \"shm4.json,tcp4.json\": asked before any model; rank 0 reads it for all" },
    { "TUTTI_TUNE", "how algorithms are chosen: \"sim\", candidates are simulated; \"model\", by closed forms; rank 0's holds for all; not set: sim" },
    { "TUTTI_LOG", "what goes to stderr: none, error, warn, info or debug; not set: warn" },
    { "TUTTI_SIMD", "\"portable\" or \"avx2\": how reductions add; not set: the best here" },
    { "TUTTI_LOCAL_RANK", "set by tutti run for the program: its number among the ranks of its host" },
    { "TUTTI_LOCAL_SIZE", "set by tutti run for the program: how many ranks its host has" },
};
const size_t tt_nparam_words = sizeof tt_param_words / sizeof *tt_param_words;

static bool is_name(const char *name, const char *text, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, text, bytes) == 0;
}

static bool ends_with(const char *text, size_t bytes, const char *end)
{
    const size_t n = strlen(end);

    return bytes >= n && memcmp(text + bytes - n, end, n) == 0;
}

/* Settings that we know, and what is none: places (TUTTI_DIR, TUTTI_HOME, ...), and the variables of our own tests. */
static bool is_known(const char *text, size_t bytes)
{
    for (size_t i = 0; i < TT_PARAM_COUNT; i++)
        if (is_name(tt_params[i].name, text, bytes))
            return true;
    for (size_t i = 0; i < tt_nparam_words; i++)
        if (is_name(tt_param_words[i].name, text, bytes))
            return true;
    return strncmp(text, "TUTTI_TEST_", 11) == 0 || ends_with(text, bytes, "_DIR") || ends_with(text, bytes, "_HOME") ||
           ends_with(text, bytes, "_ROOT") || ends_with(text, bytes, "_PREFIX");
}

void tt_param_warn_unknown(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&done))
        return;
    for (char **e = environ; e && *e; e++) {
        const size_t bytes = strcspn(*e, "=");

        if (strncmp(*e, "TUTTI_", 6) == 0 && !is_known(*e, bytes))
            tt_log(TT_LOG_WARN, "%.*s is set, but there is no such setting (`tutti info --params` lists them)", (int)bytes, *e);
    }
}

tutti_status tt_param_read(enum tt_param_id id, const char *text, int64_t *out)
{
    const struct tt_param *p;
    bool none;
    char *end;
    long long v;

    tt_assert((unsigned)id < TT_PARAM_COUNT);
    p = &tt_params[id];
    none = p->value_min == -1;
    errno = 0;
    v = strtoll(text, &end, 10);
    if ((!isdigit((unsigned char)*text) && *text != '-') || end == text || *end != '\0' || errno != 0 ||
        v < p->value_min || v > p->value_max || (none && v == 0))
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\", but must be %sa number from %" PRId64 " to %" PRId64 " (%s)",
                       p->name, text, none ? "-1 (none) or " : "", none ? 1 : p->value_min, p->value_max, p->unit);
    *out = v;
    return TUTTI_OK;
}

tutti_status tt_param_get(enum tt_param_id id, int64_t *out)
{
    const char *text;

    tt_assert((unsigned)id < TT_PARAM_COUNT);
    text = getenv(tt_params[id].name);
    if (text && *text)
        return tt_param_read(id, text, out);
    *out = tt_params[id].value_default;         /* a variable set to nothing is not set */
    return TUTTI_OK;
}
