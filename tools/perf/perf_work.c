#include "tools/perf/perf_work.h"

#define CHAIN 400

static volatile double result;      /* keeps the computation */

void perf_work(unsigned long units)
{
    double x = 1;

    for (unsigned long i = 0; i < units; i++)
        for (int k = 0; k < CHAIN; k++)
            x = x * 0.5 + 1;
    result = x;
}
