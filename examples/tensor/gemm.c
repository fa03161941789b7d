#include "gemm.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libopenblas.so.0"
#define TILE 64                 /* rows of b that stay in the cache while rows of a are processed */

/* Constants of the C interface of BLAS: row-major, not transposed. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

static sgemm_fn *sgemm;         /* NULL: use the loop below */

/* Loads OpenBLAS. There are at least as many ranks as cores, so each computes in one thread;
 * OpenBLAS reads this setting when it is loaded. */
static const char *load(const char **why)
{
    char *(*config)(void);
    void *library;

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    if (!sgemm) {
        *why = dlerror();
        return NULL;
    }
    *(void **)&config = dlsym(library, "openblas_get_config");
    return config ? config() : "OpenBLAS";
}

const char *gemm_choose(const char *name, const char **why)
{
    const char *found = NULL;

    if (strcmp(name, "own") != 0 && strcmp(name, "openblas") != 0 && strcmp(name, "auto") != 0) {
        *why = "must be auto, openblas or own";
        return NULL;
    }
    if (strcmp(name, "own") != 0)
        found = load(why);
    return found || strcmp(name, "openblas") == 0 ? found : "own loop";
}

static void multiply(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b,
                     size_t ldb, float *c, size_t ldc)
{
    for (size_t i = 0; i < m; i++)
        memset(c + i * ldc, 0, n * sizeof *c);
    for (size_t from = 0; from < k; from += TILE) {
        const size_t to = from + TILE < k ? from + TILE : k;

        for (size_t i = 0; i < m; i++) {
            float *restrict sum = c + i * ldc;

            for (size_t x = from; x < to; x++) {
                const float factor = a[i * lda + x];
                const float *restrict row = b + x * ldb;

                for (size_t j = 0; j < n; j++)
                    sum[j] += factor * row[j];
            }
        }
    }
}

void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb,
          float *c, size_t ldc)
{
    if (sgemm)
        sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
              (int)ldb, 0, c, (int)ldc);
    else
        multiply(m, n, k, a, lda, b, ldb, c, ldc);
}
