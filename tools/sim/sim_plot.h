/* Drawing of a sweep: time over size, one line per algorithm, both axes logarithmic. */
#ifndef TUTTI_TOOLS_SIM_PLOT_H
#define TUTTI_TOOLS_SIM_PLOT_H

#include <stdint.h>
#include "tutti/tutti.h"

struct sim_point {
    const char *series;
    uint64_t bytes;
    double time_us;
};

/* Writes points[n] as SVG. The points of a series must be consecutive. SYSTEM (logged): the file
 * cannot be written. */
tutti_status sim_plot(const char *path, const char *title, const char *subtitle,
                      const struct sim_point *points, uint32_t n);

#endif
