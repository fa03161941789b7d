/* A line through measured points: time = alpha + beta * bytes. */
#ifndef TUTTI_TOOLS_FIT_H
#define TUTTI_TOOLS_FIT_H

#include <stdbool.h>
#include <stddef.h>

struct fit {
    double alpha, beta;                 /* in y, and in y per x */
    double alpha_error, beta_error;     /* standard errors; NAN with two points, which a line always meets */
};

/* Least squares of relative distances: points x[n], y[n] weigh 1 / y^2, so that the small ones tell alpha as well as the large ones beta.
 * False: fewer than two different x, or a y that is not positive. *out is set on success only. */
bool fit_line(const double *x, const double *y, size_t n, struct fit *out);

#endif
