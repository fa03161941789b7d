/* Linear fit to measured points: time = alpha + beta * bytes. */
#ifndef TUTTI_TOOLS_FIT_H
#define TUTTI_TOOLS_FIT_H

#include <stdbool.h>
#include <stddef.h>

struct fit {
    double alpha, beta;                 /* in units of y, and of y per x */
    double alpha_error, beta_error;     /* standard errors; NAN with two points, which the line
                                           always passes through */
};

/* Weighted least squares. Points x[n], y[n] have the weight 1 / y^2 (relative errors), so that
 * small points determine alpha as well as large points determine beta. Returns false if there are
 * fewer than two different x, or if a y is not positive. *out is set on success only. */
bool fit_line(const double *x, const double *y, size_t n, struct fit *out);

#endif
