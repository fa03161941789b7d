/* Products of matrices of floats, row by row in memory: by OpenBLAS where this machine has it, else by a plain loop. */
#ifndef GEMM_H
#define GEMM_H

#include <stddef.h>

/* "openblas", "own", or "auto": OpenBLAS if it can be loaded. Returns its name for people (valid for good), or NULL with *why if there is none of that
 * name. Before the first product. */
const char *gemm_choose(const char *name, const char **why);

/* c[m][n] = a[m][k] b[k][n]; rows are lda, ldb and ldc floats apart. One thread. */
void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc);

#endif
