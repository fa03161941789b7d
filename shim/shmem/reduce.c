#include "reduce.h"

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "fold.h"
#include "move.h"

#define GATHER_BYTES 65536u     /* bytes per PE and chunk */

_Static_assert((int)SH_I8 == (int)TUTTI_I8 && (int)SH_U64 == (int)TUTTI_U64,
               "integers are numbered alike");

static tutti_dtype dtype_of(enum sh_type type)
{
    if (type == SH_F32)
        return TUTTI_F32;
    return type == SH_F64 ? TUTTI_F64 : (tutti_dtype)type;
}

/* Reduces parts[n][count] into its first part, in the default floating-point environment, on the
 * x87 unit too. The environment of the caller and its exception flags do not change. */
static void fold_parts(char *parts, int n, size_t count, enum sh_type type, enum sh_op op)
{
    const size_t bytes = count * sh_type_bytes(type);
    fenv_t kept;

    fegetenv(&kept);
    fesetenv(FE_DFL_ENV);
    for (int i = 1; i < n; i++)
        sh_fold_of(type, op)(parts, parts + (size_t)i * bytes, count);
    fesetenv(&kept);
}

/* Gathers the input of all PEs in chunks and reduces it locally. All PEs compute in the same order
 * and floating-point environment, so results are bitwise identical. */
static void reduce_here(const struct sh_party *p, char *dest, const char *src, size_t n,
                        enum sh_type type, enum sh_op op)
{
    const size_t bytes = sh_type_bytes(type), most = GATHER_BYTES / bytes;
    char *all = sh_alloc(p->call, (size_t)p->n * most * bytes);

    for (size_t at = 0; at < n; at += most) {
        const size_t now = n - at < most ? n - at : most;

        sh_party_fcollect(p, all, src + at * bytes, now * bytes);
        fold_parts(all, p->n, now, type, op);
        memcpy(dest + at * bytes, all, now * bytes);
    }
    free(all);
}

void sh_reduce(const struct sh_party *p, void *dest, const void *src, size_t n, enum sh_type type,
               enum sh_op op)
{
    static const tutti_redop redops[SH_OPS] = {
        [SH_AND] = TUTTI_BAND, [SH_OR] = TUTTI_BOR,  [SH_XOR] = TUTTI_BXOR,  [SH_MAX] = TUTTI_MAX,
        [SH_MIN] = TUTTI_MIN,  [SH_SUM] = TUTTI_SUM, [SH_PROD] = TUTTI_PROD,
    };

    if (p->whole && type <= SH_F64)
        sh_check(p->call, tutti_allreduce(src, dest, n, dtype_of(type), redops[op], p->comm, NULL));
    else
        reduce_here(p, dest, src, n, type, op);
}
