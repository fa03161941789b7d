#include "base/names.h"

#include <string.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

static const char *const status_names[TUTTI_STATUS_COUNT] = {
    [TUTTI_OK] = "OK",
    [TUTTI_PENDING] = "PENDING",
    [TUTTI_ERR_INVALID] = "INVALID",
    [TUTTI_ERR_NOMEM] = "NOMEM",
    [TUTTI_ERR_SYSTEM] = "SYSTEM",
    [TUTTI_ERR_TIMEOUT] = "TIMEOUT",
    [TUTTI_ERR_PEER_LOST] = "PEER_LOST",
    [TUTTI_ERR_ABORTED] = "ABORTED",
    [TUTTI_ERR_MISMATCH] = "MISMATCH",
    [TUTTI_ERR_UNSUPPORTED] = "UNSUPPORTED",
    [TUTTI_ERR_PROTOCOL] = "PROTOCOL",
    [TUTTI_ERR_FORKED] = "FORKED",
    [TUTTI_ERR_RANGE] = "RANGE",
};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[TUTTI_DTYPE_COUNT] = {
    [TUTTI_I8] = { "i8", 1 },         [TUTTI_U8] = { "u8", 1 },
    [TUTTI_I16] = { "i16", 2 },       [TUTTI_U16] = { "u16", 2 },
    [TUTTI_I32] = { "i32", 4 },       [TUTTI_U32] = { "u32", 4 },
    [TUTTI_I64] = { "i64", 8 },       [TUTTI_U64] = { "u64", 8 },
    [TUTTI_F16] = { "f16", 2 },       [TUTTI_BF16] = { "bf16", 2 },
    [TUTTI_F32] = { "f32", 4 },       [TUTTI_F64] = { "f64", 8 },
    [TUTTI_F8E4M3] = { "f8e4m3", 1 }, [TUTTI_F8E5M2] = { "f8e5m2", 1 },
};

static const char *const redop_names[TUTTI_REDOP_COUNT] = {
    [TUTTI_SUM] = "sum",
    [TUTTI_PROD] = "prod",
    [TUTTI_MIN] = "min",
    [TUTTI_MAX] = "max",
    [TUTTI_AVG] = "avg",
    [TUTTI_BAND] = "band",
    [TUTTI_BOR] = "bor",
    [TUTTI_BXOR] = "bxor",
    [TUTTI_PREMUL_SUM] = "premul_sum",
};

static const char *const quant_names[TUTTI_QUANT_COUNT] = {
    [TUTTI_QUANT_NONE] = "none",         [TUTTI_QUANT_MINMAX_U8] = "minmax8",
    [TUTTI_QUANT_MINMAX_U4] = "minmax4", [TUTTI_QUANT_ZERO_U8] = "zero8",
    [TUTTI_QUANT_ZERO_U4] = "zero4",     [TUTTI_QUANT_F8E4M3] = "e4m3",
    [TUTTI_QUANT_F8E5M2] = "e5m2",
};

/* Values come from the caller and may be invalid, so they are compared as unsigned integers. */
static bool is_dtype(tutti_dtype type)
{
    return (unsigned)type < TUTTI_DTYPE_COUNT;
}

const char *tutti_status_name(tutti_status status)
{
    return (unsigned)status < TUTTI_STATUS_COUNT ? status_names[status] : "?";
}

const char *tutti_version(void)
{
    return STRING(TUTTI_VERSION_MAJOR) "." STRING(TUTTI_VERSION_MINOR) "." STRING(
        TUTTI_VERSION_PATCH);
}

size_t tutti_dtype_bytes(tutti_dtype type)
{
    return is_dtype(type) ? dtypes[type].bytes : 0;
}

const char *tutti_dtype_name(tutti_dtype type)
{
    return is_dtype(type) ? dtypes[type].name : "?";
}

const char *tutti_redop_name(tutti_redop op)
{
    return (unsigned)op < TUTTI_REDOP_COUNT ? redop_names[op] : "?";
}

const char *tutti_quant_name(tutti_quant quant)
{
    return (unsigned)quant < TUTTI_QUANT_COUNT ? quant_names[quant] : "?";
}

bool tt_dtype_parse(const char *name, tutti_dtype *out)
{
    for (unsigned i = 0; name && i < TUTTI_DTYPE_COUNT; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (tutti_dtype)i;
            return true;
        }
    return false;
}

bool tt_quant_parse(const char *name, tutti_quant *out)
{
    for (unsigned i = 0; name && i < TUTTI_QUANT_COUNT; i++)
        if (strcmp(name, quant_names[i]) == 0) {
            *out = (tutti_quant)i;
            return true;
        }
    return false;
}

bool tt_redop_parse(const char *name, tutti_redop *out)
{
    for (unsigned i = 0; name && i < TUTTI_REDOP_COUNT; i++)
        if (strcmp(name, redop_names[i]) == 0) {
            *out = (tutti_redop)i;
            return true;
        }
    return false;
}

const char *tt_collective_name(tutti_coll coll)
{
    static const char *const names[TUTTI_COLL_COUNT] = {
        [TUTTI_ALLREDUCE] = "allreduce",
        [TUTTI_REDUCE] = "reduce",
        [TUTTI_REDUCE_SCATTER] = "reduce_scatter",
        [TUTTI_ALLGATHER] = "allgather",
        [TUTTI_BROADCAST] = "broadcast",
        [TUTTI_GATHER] = "gather",
        [TUTTI_SCATTER] = "scatter",
        [TUTTI_ALLTOALL] = "alltoall",
        [TUTTI_BARRIER] = "barrier",
        [TUTTI_REDUCE_SCATTERV] = "reduce_scatterv",
        [TUTTI_ALLGATHERV] = "allgatherv",
        [TUTTI_GATHERV] = "gatherv",
        [TUTTI_SCATTERV] = "scatterv",
        [TUTTI_ALLTOALLV] = "alltoallv",
    };

    return (unsigned)coll < TUTTI_COLL_COUNT && names[coll] ? names[coll] : "?";
}
