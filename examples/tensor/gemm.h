/* Products of row-major matrices of floats: by OpenBLAS if it is installed, else by a plain
 * loop. */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>

/* Selects the implementation "openblas", "own" or "auto" (OpenBLAS if it can be loaded). Returns
 * its display name (static storage), or NULL with *why if it is not available. Call before the
 * first product. */
const char *gemm_choose(const char *name, const char **why);

/* c[m][n] = a[m][k] b[k][n], with row strides of lda, ldb and ldc floats. Single-threaded. */
void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb,
          float *c, size_t ldc);

#endif
