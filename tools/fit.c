#include "tools/fit.h"

#include <math.h>

struct sums {
    double w, x, y, xx, xy;     /* sum of the weights; weighted means; moments about the means */
    double low, high;           /* range of x */
};

static bool sum_up(const double *x, const double *y, size_t n, struct sums *s)
{
    *s = (struct sums){ .low = INFINITY, .high = -INFINITY };
    for (size_t i = 0; i < n; i++) {
        const double w = 1 / (y[i] * y[i]);

        if (!(y[i] > 0) || !isfinite(w) || !isfinite(x[i]))
            return false;
        s->w += w;
        s->x += w * x[i];
        s->y += w * y[i];
        s->low = fmin(s->low, x[i]);
        s->high = fmax(s->high, x[i]);
    }
    if (!(s->low < s->high))
        return false;
    s->x /= s->w;
    s->y /= s->w;
    for (size_t i = 0; i < n; i++) {
        const double w = 1 / (y[i] * y[i]);

        s->xx += w * (x[i] - s->x) * (x[i] - s->x);
        s->xy += w * (x[i] - s->x) * (y[i] - s->y);
    }
    return true;
}

bool fit_line(const double *x, const double *y, size_t n, struct fit *out)
{
    struct sums s;
    struct fit f = { .alpha_error = NAN, .beta_error = NAN };
    double off = 0;

    if (!sum_up(x, y, n, &s))
        return false;
    f.beta = s.xy / s.xx;
    f.alpha = s.y - f.beta * s.x;
    for (size_t i = 0; i < n; i++) {
        const double d = (y[i] - f.alpha - f.beta * x[i]) / y[i];

        off += d * d;
    }
    if (n > 2) {
        off /= (double)(n - 2);
        f.alpha_error = sqrt(off * (1 / s.w + s.x * s.x / s.xx));
        f.beta_error = sqrt(off / s.xx);
    }
    *out = f;
    return true;
}
