/* Collectives with a configuration per call. The configuration is mostly hints for kernels, which
 * have no meaning here; what would change the result or the order of work is refused. */
#include "error.h"

typedef struct ncclComm *comm_t;

/* Layout of ncclCollConfig_t in NCCL 2.32. */
typedef struct {
    size_t size;
    unsigned magic, version;
    void *extensions;
    int ctas_min, ctas_max, nvls_ctas, cga_cluster_size;
    const char *algorithms;
    int force_algorithms, cta_policy;
    uint64_t profiler_tag;
    void *launch_event;
} ncclCollConfig_t;

_Static_assert(sizeof(ncclCollConfig_t) == 72, "size in NCCL 2.32");

static ncclResult_t check(const ncclCollConfig_t *config, const char *call)
{
    if (!config)
        return ncclSuccess;
    if (config->magic != NCCL_MAGIC || config->size < sizeof *config)
        return nccl_fail(ncclInvalidArgument,
                         "%s: the configuration was not initialized with "
                         "NCCL_COLLCONFIG_INITIALIZER",
                         call);
    if (config->launch_event)
        return nccl_fail(ncclInvalidUsage,
                         "%s: config.launchCompletionEvent is not supported by "
                         "Tutti (no kernel is launched)",
                         call);
    if (config->algorithms && config->algorithms[0] && config->force_algorithms)
        return nccl_fail(ncclInvalidUsage,
                         "%s: config.algSelection is not supported by Tutti (set "
                         "forceAlgSelection to 0, or use a tune file)",
                         call);
    return ncclSuccess;
}

/* The call without a configuration, and the one with it. */
#define WITH_CONFIG(name, parameters, arguments)                                                   \
    ncclResult_t p##name parameters;                                                               \
    NCCL_API(ncclResult_t, name##Config, WITH_CONFIG_PARAMETERS parameters,                        \
             const ncclCollConfig_t *config)                                                       \
    {                                                                                              \
        const ncclResult_t result = check(config, #name "Config");                                 \
                                                                            \
        return result ? result : p##name arguments;                                                \
    }
#define WITH_CONFIG_PARAMETERS(...) __VA_ARGS__

WITH_CONFIG(ncclAllReduce,
            (const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op,
             comm_t comm, cudaStream_t stream),
            (src, dst, count, type, op, comm, stream))
WITH_CONFIG(ncclBroadcast,
            (const void *src, void *dst, size_t count, ncclDataType_t type, int root, comm_t comm,
             cudaStream_t stream),
            (src, dst, count, type, root, comm, stream))
WITH_CONFIG(ncclReduce,
            (const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op,
             int root, comm_t comm, cudaStream_t stream),
            (src, dst, count, type, op, root, comm, stream))
WITH_CONFIG(ncclAllGather,
            (const void *src, void *dst, size_t count, ncclDataType_t type, comm_t comm,
             cudaStream_t stream),
            (src, dst, count, type, comm, stream))
WITH_CONFIG(ncclReduceScatter,
            (const void *src, void *dst, size_t count, ncclDataType_t type, ncclRedOp_t op,
             comm_t comm, cudaStream_t stream),
            (src, dst, count, type, op, comm, stream))
WITH_CONFIG(ncclAlltoAll,
            (const void *src, void *dst, size_t count, ncclDataType_t type, comm_t comm,
             cudaStream_t stream),
            (src, dst, count, type, comm, stream))
WITH_CONFIG(ncclGather,
            (const void *src, void *dst, size_t count, ncclDataType_t type, int root, comm_t comm,
             cudaStream_t stream),
            (src, dst, count, type, root, comm, stream))
WITH_CONFIG(ncclScatter,
            (const void *src, void *dst, size_t count, ncclDataType_t type, int root, comm_t comm,
             cudaStream_t stream),
            (src, dst, count, type, root, comm, stream))
