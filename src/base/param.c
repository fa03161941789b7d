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

/* clang-format off */
const struct tt_param tt_params[TT_PARAM_COUNT] = {
    /* name                       unit            default    min      max */
    [TT_PARAM_TIMEOUT_MS]        = { "TUTTI_TIMEOUT_MS",        "ms",            300000,   -1,      INT32_MAX,
        "timeout of start-up, and default timeout of all calls; -1: none; 0 is invalid" },
    [TT_PARAM_LANES]             = { "TUTTI_LANES",             "connections",        0,    0,      16,
        "lanes per peer: TCP connections, RDMA queue pairs or libfabric endpoints; 0: automatic: "
        "one connection (one per rail if a rank is alone on its host; more to distant ranks, see "
        "TUTTI_FAR_LANES), one endpoint, or a number of queue pairs that depends on the distance" },
    [TT_PARAM_FAR_LANES]         = { "TUTTI_FAR_LANES",         "connections",       16,    1,      16,
        "most TCP connections to a rank whose round trip is at least 5 ms, opened when data waits "
        "for them (docs/lanes.md); without effect if TUTTI_LANES is set" },
    [TT_PARAM_EAGER_BYTES]       = { "TUTTI_EAGER_BYTES",       "bytes",       32 * KIB,    0,     32 * KIB,
        "maximum size of an eager message in shared memory" },
    [TT_PARAM_TCP_EAGER_BYTES]   = { "TUTTI_TCP_EAGER_BYTES",   "bytes",       32 * KIB,    0,     32 * KIB,
        "maximum size of an eager message over TCP" },
    [TT_PARAM_SEGMENT_BYTES]     = { "TUTTI_SEGMENT_BYTES",     "bytes",       64 * KIB,    4 * KIB, 1 * MIB,
        "segment size of long transfers in shared memory; up to eight times this value for very "
        "long messages" },
    [TT_PARAM_TCP_SEGMENT_BYTES] = { "TUTTI_TCP_SEGMENT_BYTES", "bytes",      512 * KIB,    4 * KIB, 4 * MIB,
        "segment size of long transfers over TCP" },
    [TT_PARAM_TCP_SILENCE_S]     = { "TUTTI_TCP_SILENCE_S",     "s",                 60,    0,      65534,
        "time after which a TCP peer is declared lost if its host does not respond; 0: the limit "
        "of the kernel" },
    [TT_PARAM_SPIN_US]           = { "TUTTI_SPIN_US",           "us",                50,    0,      1000000,
        "time that a waiting thread spins before it blocks; if oversubscribed, it does not spin" },
    [TT_PARAM_CMA]               = { "TUTTI_CMA",               "0, 1 or 2",          1,    0,      2,
        "use of direct copies between processes (process_vm_readv): 0: never; 1: for very long "
        "messages, if oversubscribed; 2: for all messages of at least 256 KiB" },
    [TT_PARAM_PROBE_MS]          = { "TUTTI_NUDGE_MS",          "ms",                20,    1,      60000,
        "time that an operation waits for a rank before it queries the state of this rank" },
    [TT_PARAM_FTAR_CHUNK_BYTES]  = { "TUTTI_FTAR_CHUNK_BYTES",  "bytes",        8 * MIB,  256 * KIB, 1024 * MIB,
        "maximum chunk size of the allreduce \"ftar\"; the value of rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_CHUNKS]       = { "TUTTI_FTAR_CHUNKS",       "chunks",             4,    1,      1024,
        "maximum number of chunks in flight from one rank to another in \"ftar\"; the value of "
        "rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_PIECE_BYTES]  = { "TUTTI_FTAR_PIECE_BYTES",  "bytes",        1 * MIB,   64 * KIB, 1024 * MIB,
        "size of the pieces in which \"ftar\" sends a vector, at most the chunk size; the value "
        "of rank 0 is used on all ranks" },
    [TT_PARAM_FTAR_REDUCE_BYTES] = { "TUTTI_FTAR_REDUCE_BYTES", "bytes",              0,    0,         4 * MIB,
        "size of the parts of a piece that \"ftar\" reduces and forwards, a power of two of at "
        "least 8192; 0: the segment size of the transport; the value of rank 0 is used on all "
        "ranks" },
    [TT_PARAM_TOPO_MEASURE]      = { "TUTTI_TOPO_MEASURE",      "0, 1 or 2",          2,    0,      2,
        "measurements between hosts at start-up: 0: none; 1: latencies and rates, and a grouping "
        "by latency of hosts without labels; 2: the latency between two hosts, if no topology "
        "description sets it" },
    [TT_PARAM_RDMA_PORT]         = { "TUTTI_RDMA_PORT",         "port",               0,    0,      255,
        "port number on RDMA devices, from 1; 0: the first active port of each device, then other "
        "active ports" },
    [TT_PARAM_RDMA_SERVICE_LEVEL] = { "TUTTI_RDMA_SERVICE_LEVEL", "level",            0,    0,      15,
        "service level of queue pairs: selects the virtual lane on InfiniBand and the VLAN "
        "priority on RoCE" },
    [TT_PARAM_RDMA_TRAFFIC_CLASS] = { "TUTTI_RDMA_TRAFFIC_CLASS", "traffic class",    0,    0,      255,
        "traffic class of RoCE packets: 4 * DSCP + ECN bits" },
    [TT_PARAM_OFI_HMEM]          = { "TUTTI_OFI_HMEM",          "0 or 1",             0,    0,      1,
        "1: use only libfabric providers that support device memory (FI_HMEM)" },
    [TT_PARAM_REGISTER_BYTES]    = { "TUTTI_REGISTER_BYTES",    "bytes", 65536 * MIB,    0,     INT64_MAX,
        "maximum memory of this process that stays registered with RDMA devices while no call "
        "uses it" },
    [TT_PARAM_REGISTER_COUNT]    = { "TUTTI_REGISTER_COUNT",    "registrations",   4096,    0,     1 << 20,
        "maximum number of registrations that are kept while no call uses them" },
    [TT_PARAM_REGISTER_DYNAMIC]  = { "TUTTI_REGISTER_DYNAMIC",  "0 or 1",             1,    0,      1,
        "0: RDMA transports accept only memory from tutti_mem_register and tutti_mem_alloc; 1: "
        "they register other memory when it is used" },
    [TT_PARAM_HUGE_PAGES]        = { "TUTTI_HUGE_PAGES",        "0 or 1",             1,    0,      1,
        "1: use huge pages for buffers of at least 4 MiB that calls between ranks of a host use "
        "repeatedly, if transparent huge pages are set to \"madvise\"" },
    [TT_PARAM_OVERLAY_DOUBLING]  = { "TUTTI_OVERLAY_DOUBLING",  "0 or 1",             0,    0,      1,
        "1: ranks request the addresses of the control overlay from each other, and use the table "
        "of all addresses only if this fails (docs/start-up.md); must be the same on all ranks. 0 "
        "until start-up can do without the table" },
    [TT_PARAM_GPU_PEER_COPIES]   = { "TUTTI_GPU_PEER_COPIES",   "0 or 1",             0,    0,      1,
        "1: ranks of one host copy long messages and collectives between their device memories "
        "(docs/gpu.md); must be the same on all ranks. 0 until it has been tested on a GPU" },
    [TT_PARAM_TRACE]             = { "TUTTI_TRACE",             "0 to 65536",         1,    0,      65536,
        "recording of operations (docs/observability.md): 0: off; 1: all operations; n: one of n "
        "operations of each communicator, the same ones on all ranks" },
    [TT_PARAM_TRACE_RECORDS]     = { "TUTTI_TRACE_RECORDS",     "records",        65536,   64,      1 << 24,
        "number of newest operations that are kept, of 64 bytes each; rounded up to a power of "
        "two" },
    [TT_PARAM_TRACE_SIGNAL]      = { "TUTTI_TRACE_SIGNAL",      "signal",            12,    0,      64,
        "number of the signal that writes the trace to TUTTI_TRACE_DIR, if the program does not "
        "handle this signal itself; 0: none; default: 12 (SIGUSR2)" },
};
/* clang-format on */

const struct tt_param_word tt_param_words[] = {
    { "TUTTI_RANK", "rank of this process, from 0, for start-up without a launcher" },
    { "TUTTI_SIZE", "number of ranks; required with TUTTI_RANK" },
    { "TUTTI_RENDEZVOUS",
      "address at which the ranks find each other: tcp://host:port of rank 0, file:///path on a "
      "shared file system, or etcd://host:port/prefix" },
    { "TUTTI_TOKEN",
      "shared secret of the job; must be the same on all ranks. Without it, any process that "
      "reaches the rendezvous may join" },
    { "TUTTI_SECURITY",
      "security of connections between hosts: \"plain\", or TLS 1.3 with a \"token\" "
      "(TUTTI_TOKEN) or a \"certificate\"; must be the same on all ranks; default: plain, but "
      "token in an elastic run with TUTTI_TOKEN" },
    { "TUTTI_CERTIFICATE",
      "with TUTTI_SECURITY=certificate: PEM file with the certificate of this rank or member" },
    { "TUTTI_KEY",
      "with TUTTI_SECURITY=certificate: PEM file with the private key of the certificate, without "
      "passphrase" },
    { "TUTTI_AUTHORITY",
      "with TUTTI_SECURITY=certificate: PEM file with the certificate of the authority that "
      "signed all ranks' certificates" },
    { "TUTTI_COORDINATOR", "elastic runs: addresses of the coordinators, \"host:port,host:port\"" },
    { "TUTTI_RUN", "elastic runs: name of the run; default: tutti" },
    { "TUTTI_LISTEN",
      "elastic runs: address to listen on for other members, \"address:port\" or \":port\"; "
      "default: any port, on all addresses (on loopback if neither TUTTI_SECURITY nor a token is "
      "set)" },
    { "TUTTI_DATA_PORTS",
      "elastic runs: range of ports to listen on for data over TCP, \"40000-40007\"; default: any "
      "port" },
    { "TUTTI_ANNOUNCE",
      "elastic runs: \"address:port\" that other members must use to reach this one, if its ports "
      "are forwarded" },
    { "TUTTI_WIRES",
      "allowed transports, e.g. \"shm,tcp\" or \"shm,verbs,tcp\"; default: all usable transports "
      "except verbs and ofi" },
    { "TUTTI_INTERFACES",
      "network interfaces: \"eth\" (name prefix), \"=eth0\" (exact name), or \"^docker,lo\" (all "
      "except these prefixes); default: selected by the routing table" },
    { "TUTTI_RDMA_DEVICES",
      "allowed RDMA devices, in the form of TUTTI_INTERFACES: \"mlx5\", \"=mlx5_0\", \"^rxe\"; at "
      "most two are used; default: the devices nearest to the process" },
    { "TUTTI_RDMA_GID",
      "GID of RoCE ports: an index, \"3\", an address, or a network, \"10.77.0.0/16\"; default: "
      "the best GID whose address belongs to this network namespace" },
    { "TUTTI_RDMA_PKEY",
      "partition key of queue pairs: \"0x8001\"; default: the key at index 0 of the port" },
    { "TUTTI_OFI_PROVIDER",
      "libfabric provider for transport ofi, e.g. \"efa\" or \"tcp;ofi_rxm\"; default: the first "
      "usable provider" },
    { "TUTTI_REGISTER",
      "when memory is registered with RDMA devices: \"none\": for each call; \"lazy\": at its "
      "first use, and kept; \"eager\": in tutti_mem_register; \"async\": in the background after "
      "tutti_mem_register; default: lazy" },
    { "TUTTI_TOPO",
      "topology description, with the hosts' labels and the links between hosts: a file or a "
      "built-in name (`tutti topo --help`); default: none" },
    { "TUTTI_GPU",
      "PCI address of this rank's GPU, \"0000:3b:00.0\", to select a rail near it; default: the "
      "GPU in CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, if it is the "
      "only one and its number is unambiguous (CUDA_DEVICE_ORDER=PCI_BUS_ID, or identical GPUs)" },
    { "TUTTI_TOPO_LABELS",
      "labels of this host (rack, zone, building, fabric), which override TUTTI_TOPO: "
      "\"rack=r1,zone=a\"" },
    { "TUTTI_LANE_BYTES",
      "maximum outstanding bytes per lane (TCP connection, queue pair), 65536 to 1073741824, for "
      "all peers or by distance: \"8388608\", or \"4194304,wan=134217728\"; default for TCP: 4 "
      "MiB (building: 8 MiB, fabric: 16 MiB, wan: 64 MiB); default for queue pairs: depends on "
      "the link (docs/lanes.md)" },
    { "TUTTI_ALGORITHMS",
      "additional algorithms: shared objects and JSON plans, e.g. \"./mine.so,./plan.json\"; must "
      "be the same on all ranks" },
    { "TUTTI_TUNE_FILE",
      "tune files (`tutti tune`), e.g. \"shm4.json,tcp4.json\", which take precedence over "
      "TUTTI_TUNE; rank 0 reads them for all ranks" },
    { "TUTTI_TUNE",
      "how algorithms are selected: \"sim\": by simulation of the candidates; \"model\": by cost "
      "formulas; the value of rank 0 is used on all ranks; default: sim" },
    { "TUTTI_TRACE_DIR",
      "directory for dumps of the trace after failures, on TUTTI_TRACE_SIGNAL and by "
      "tutti_trace_dump; default: none, and no dump after failures" },
    { "TUTTI_STATUS",
      "Unix sockets for `tutti status`: 1: in /tmp/tutti-UID; 0: none; or the absolute path of "
      "another directory, which only the user can open; default: 1" },
    { "TUTTI_STATUS_LISTEN",
      "address on which the first rank of each host listens for `tutti status` of other hosts, with "
      "a token: \"192.0.2.7:9465\" or \":9465\"; must be valid on all ranks; default: none" },
    { "TUTTI_STATUS_TOKEN",
      "secret of the clients of TUTTI_STATUS_LISTEN, of at least 16 characters, for the ranks and "
      "for `tutti status`; default: the token of the job (TUTTI_TOKEN)" },
    { "TUTTI_LOG",
      "level of messages logged to stderr: none, error, warn, info or debug; default: warn" },
    { "TUTTI_SIMD",
      "instruction set of reductions: \"portable\" or \"avx2\"; default: the best one that the "
      "CPU supports" },
    { "TUTTI_LOCAL_RANK", "set by `tutti run`: index of this rank on its host" },
    { "TUTTI_LOCAL_SIZE", "set by `tutti run`: number of ranks on its host" },
};
const size_t tt_nparam_words = sizeof tt_param_words / sizeof *tt_param_words;

static bool is_variable(const char *name, const char *text, size_t bytes)
{
    return strlen(name) == bytes && memcmp(name, text, bytes) == 0;
}

static bool name_ends_with(const char *text, size_t bytes, const char *end)
{
    const size_t n = strlen(end);

    return bytes >= n && memcmp(text + bytes - n, end, n) == 0;
}

/* Known settings and names that are not settings: paths (TUTTI_DIR, TUTTI_HOME, ...), variables of
 * the tests and of the emulation of GPUs. */
static bool is_known_variable(const char *text, size_t bytes)
{
    for (size_t i = 0; i < TT_PARAM_COUNT; i++)
        if (is_variable(tt_params[i].name, text, bytes))
            return true;
    for (size_t i = 0; i < tt_nparam_words; i++)
        if (is_variable(tt_param_words[i].name, text, bytes))
            return true;
    return strncmp(text, "TUTTI_TEST_", 11) == 0 || strncmp(text, "TUTTI_EMU_", 10) == 0 ||
           name_ends_with(text, bytes, "_DIR") || name_ends_with(text, bytes, "_HOME") ||
           name_ends_with(text, bytes, "_ROOT") || name_ends_with(text, bytes, "_PREFIX");
}

void tt_param_warn_unknown(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    if (atomic_flag_test_and_set(&done))
        return;
    for (char **e = environ; e && *e; e++) {
        const size_t bytes = strcspn(*e, "=");

        if (strncmp(*e, "TUTTI_", 6) == 0 && !is_known_variable(*e, bytes))
            tt_log(TT_LOG_WARN,
                   "unknown environment variable %.*s (`tutti info --params` lists all)",
                   (int)bytes, *e);
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
    if ((!isdigit((unsigned char)*text) && *text != '-') || end == text || *end != '\0' ||
        errno != 0 || v < p->value_min || v > p->value_max || (none && v == 0))
        return tt_fail(TUTTI_ERR_INVALID, "%s is \"%s\": must be %s%" PRId64 " to %" PRId64 " (%s)",
                       p->name, text, none ? "-1 (none) or " : "", none ? 1 : p->value_min,
                       p->value_max, p->unit);
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
    *out = tt_params[id].value_default;         /* an empty variable counts as unset */
    return TUTTI_OK;
}
