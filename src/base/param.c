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
        "deadline of start-up and default deadline of every call; -1: none (0 is invalid)" },
    [TT_PARAM_LANES]             = { "TUTTI_LANES",             "connections",        0,    0,      16,
        "lanes per peer: TCP connections, RDMA queue pairs, or libfabric endpoints for bulk data; 0: chosen (one connection or endpoint, one connection per rail for a rank alone on its host, queue pairs by distance)" },
    [TT_PARAM_EAGER_BYTES]       = { "TUTTI_EAGER_BYTES",       "bytes",       32 * KIB,    0,     32 * KIB,
        "largest eager message in shared memory" },
    [TT_PARAM_TCP_EAGER_BYTES]   = { "TUTTI_TCP_EAGER_BYTES",   "bytes",       32 * KIB,    0,     32 * KIB,
        "largest eager message over TCP" },
    [TT_PARAM_SEGMENT_BYTES]     = { "TUTTI_SEGMENT_BYTES",     "bytes",       64 * KIB,    4 * KIB, 1 * MIB,
        "segment size of streamed transfers in shared memory; up to eight times as much for very long messages" },
    [TT_PARAM_TCP_SEGMENT_BYTES] = { "TUTTI_TCP_SEGMENT_BYTES", "bytes",      512 * KIB,    4 * KIB, 4 * MIB,
        "segment size of streamed transfers over TCP" },
    [TT_PARAM_TCP_SILENCE_S]     = { "TUTTI_TCP_SILENCE_S",     "s",                 60,    0,      65534,
        "a TCP peer is lost if its host does not respond for this long; 0: the limit of the kernel" },
    [TT_PARAM_SPIN_US]           = { "TUTTI_SPIN_US",           "us",                50,    0,      1000000,
        "time that a waiter spins before it blocks, unless oversubscribed" },
    [TT_PARAM_CMA]               = { "TUTTI_CMA",               "0, 1 or 2",          1,    0,      2,
        "direct copies between processes (process_vm_readv): 0 never; 1 for very long messages, if oversubscribed; 2 for all messages from 256 KiB on" },
    [TT_PARAM_NUDGE_MS]          = { "TUTTI_NUDGE_MS",          "ms",                20,    1,      60000,
        "time that an operation waits before it queries the state of the awaited rank" },
    [TT_PARAM_FTAR_CHUNK_BYTES]  = { "TUTTI_FTAR_CHUNK_BYTES",  "bytes",        8 * MIB,  256 * KIB, 1024 * MIB,
        "longest message of the all-reduce \"ftar\"; the value of rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_CHUNKS]       = { "TUTTI_FTAR_CHUNKS",       "chunks",             4,    1,      1024,
        "maximum chunks in flight from one rank to another in \"ftar\"; the value of rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_PIECE_BYTES]  = { "TUTTI_FTAR_PIECE_BYTES",  "bytes",        1 * MIB,   64 * KIB, 1024 * MIB,
        "bytes of a vector that \"ftar\" sends as one message, at most a chunk; the value of rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_REDUCE_BYTES] = { "TUTTI_FTAR_REDUCE_BYTES", "bytes",              0,    0,         4 * MIB,
        "bytes of a piece that \"ftar\" reduces and forwards at a time, a power of two from 8192 on; 0: the transport's segment; the value of rank 0 is used on all ranks" },
    [TT_PARAM_TOPO_MEASURE]      = { "TUTTI_TOPO_MEASURE",      "0, 1 or 2",          2,    0,      2,
        "measurements between hosts at start-up: 0 none; 1 latencies and rates, and which hosts are near each other if they have no labels; 2 the latency between two hosts, if no description sets it" },
    [TT_PARAM_RDMA_PORT]         = { "TUTTI_RDMA_PORT",         "port",               0,    0,      255,
        "port of RDMA devices, from 1; 0: active ports, the first one of each device first" },
    [TT_PARAM_RDMA_SERVICE_LEVEL] = { "TUTTI_RDMA_SERVICE_LEVEL", "level",            0,    0,      15,
        "service level of queue pairs: the virtual lane on InfiniBand, the VLAN priority on RoCE" },
    [TT_PARAM_RDMA_TRAFFIC_CLASS] = { "TUTTI_RDMA_TRAFFIC_CLASS", "traffic class",    0,    0,      255,
        "traffic class of RoCE packets: four times the DSCP, and ECN in the lowest two bits" },
    [TT_PARAM_OFI_HMEM]          = { "TUTTI_OFI_HMEM",          "0 or 1",             0,    0,      1,
        "1: use only libfabric providers that support device memory (FI_HMEM)" },
    [TT_PARAM_REGISTER_BYTES]    = { "TUTTI_REGISTER_BYTES",    "bytes", 65536 * MIB,    0,     INT64_MAX,
        "memory that stays registered with RDMA devices while no call uses it, per process" },
    [TT_PARAM_REGISTER_COUNT]    = { "TUTTI_REGISTER_COUNT",    "registrations",   4096,    0,     1 << 20,
        "maximum number of such registrations" },
    [TT_PARAM_REGISTER_DYNAMIC]  = { "TUTTI_REGISTER_DYNAMIC",  "0 or 1",             1,    0,      1,
        "0: RDMA only on memory of tutti_mem_register and tutti_mem_alloc, everything else is an error; 1: register other memory when it is used" },
    [TT_PARAM_HUGE_PAGES]        = { "TUTTI_HUGE_PAGES",        "0 or 1",             1,    0,      1,
        "1: move buffers of 4 MiB and more that calls between ranks of a host use repeatedly to huge pages, if the system leaves the choice to programs (madvise)" },
};

const struct tt_param_word tt_param_words[] = {
    { "TUTTI_RANK", "rank of this process, from 0; for start-up without a launcher" },
    { "TUTTI_SIZE", "number of ranks; required with TUTTI_RANK" },
    { "TUTTI_RENDEZVOUS", "rendezvous of the ranks: tcp://host:port of rank 0, or file:///path on a shared file system" },
    { "TUTTI_TOKEN", "secret of the job, the same on all ranks; without it, any process that reaches the rendezvous may join" },
    { "TUTTI_SECURITY", "connections between hosts: \"plain\"; TLS 1.3 with \"token\" (TUTTI_TOKEN) or \"certificate\"; the same on all ranks; default: plain; in an elastic run token, if TUTTI_TOKEN is set" },
    { "TUTTI_CERTIFICATE", "with TUTTI_SECURITY=certificate: certificate of this rank or member, a PEM file" },
    { "TUTTI_KEY", "with TUTTI_SECURITY=certificate: its private key, a PEM file without passphrase" },
    { "TUTTI_AUTHORITY", "with TUTTI_SECURITY=certificate: certificate of the authority that signed all ranks' certificates, a PEM file" },
    { "TUTTI_COORDINATOR", "elastic runs: addresses of the coordinators, \"host:port,host:port\"" },
    { "TUTTI_RUN", "elastic runs: name of the run; default: tutti" },
    { "TUTTI_LISTEN", "elastic runs: address for connections of other members, \"address:port\" or \":port\"; default: any port of all addresses; without TUTTI_SECURITY or a token, of loopback" },
    { "TUTTI_DATA_PORTS", "elastic runs: ports for data over TCP, \"40000-40007\"; default: any" },
    { "TUTTI_ANNOUNCE", "elastic runs: external \"address:port\" of this member, if ports are forwarded to it" },
    { "TUTTI_WIRES", "allowed transports, e.g. \"shm,tcp\"; default: all usable ones except verbs and ofi, which must be named: \"shm,verbs,tcp\"" },
    { "TUTTI_INTERFACES", "network interfaces, by prefix: \"eth\"; by name: \"=eth0\"; all except: \"^docker,lo\"; default: by route" },
    { "TUTTI_RDMA_DEVICES", "allowed RDMA devices, as in TUTTI_INTERFACES: \"mlx5\", \"=mlx5_0\", \"^rxe\"; at most two are used; default: those near the process" },
    { "TUTTI_RDMA_GID", "GID of a RoCE port: its index, \"3\", or its address or network, \"10.77.0.0/16\"; default: the best one that is an address of this network namespace" },
    { "TUTTI_RDMA_PKEY", "partition key of the queue pairs on RDMA devices: \"0x8001\"; default: the key at index 0 of the port" },
    { "TUTTI_OFI_PROVIDER", "libfabric provider for the transport ofi, e.g. \"efa\", \"tcp;ofi_rxm\"; default: the first usable one" },
    { "TUTTI_REGISTER", "when memory is registered with RDMA devices: \"none\", for each call; \"lazy\", at its first use, and kept; \"eager\", by tutti_mem_register; \"async\", then, in the background; default: lazy" },
    { "TUTTI_TOPO", "description of the links between hosts and of their labels: a file, or a built-in name (`tutti topo --help`); default: none" },
    { "TUTTI_GPU", "PCI address of this rank's GPU, \"0000:3b:00.0\", to select a near rail; default: the only GPU of CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, if numbers follow the bus (CUDA_DEVICE_ORDER) or all GPUs are alike" },
    { "TUTTI_TOPO_LABELS", "labels of this host, which override TUTTI_TOPO: \"rack=r1,zone=a\"; rack, zone, building, fabric" },
    { "TUTTI_LANE_BYTES", "maximum outstanding bytes on one lane (TCP connection, queue pair), 65536 to 1073741824, by distance of the peer: \"8388608\" for all, or \"4194304,wan=134217728\"; default: 4 MiB, building 8, fabric 16, wan 64; for queue pairs by the link (docs/lanes.md)" },
    { "TUTTI_ALGORITHMS", "additional algorithms: shared objects and JSON plans, e.g. \"./mine.so,./plan.json\"; the same on all ranks" },
    { "TUTTI_TUNE_FILE", "files of `tutti tune`, e.g. \"shm4.json,tcp4.json\"; they take precedence over any model; rank 0 reads them for all ranks" },
    { "TUTTI_TUNE", "selection of algorithms: \"sim\", by simulation of the candidates; \"model\", by closed forms; the value of rank 0 is used on all ranks; default: sim" },
    { "TUTTI_LOG", "log level on stderr: none, error, warn, info or debug; default: warn" },
    { "TUTTI_SIMD", "instruction set of reductions: \"portable\" or \"avx2\"; default: the best one here" },
    { "TUTTI_LOCAL_RANK", "set by tutti run: index of this rank on its host" },
    { "TUTTI_LOCAL_SIZE", "set by tutti run: number of ranks on its host" },
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
            tt_log(TT_LOG_WARN, "unknown environment variable %.*s (`tutti info --params` lists all)", (int)bytes, *e);
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
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\": must be %s%" PRId64 " to %" PRId64 " (%s)", p->name, text,
                       none ? "-1 (none) or " : "", none ? 1 : p->value_min, p->value_max, p->unit);
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
