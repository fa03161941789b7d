/* The serial reference of a run with changing membership (test_churn.py): repeats the steps
 * committed by members of prog_churn in one process, with the contributions that counted.
 *
 *   prog_churn_serial < STEPS     the lines of prog_churn's log behind "step", from the first step
 *                                 on
 *
 * Sums wrap, so the state's hash must be equal. Averages were summed in f64, and the increment of
 * each step is compared: a plain one was rounded once; a quantized one may differ by
 * churn_quantized_bound. Prints the number of steps. Exit status: 0: all are correct; 1: one is
 * wrong, and is printed; 2: invalid line. */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "churn.h"

/* Contents of a line. */
struct said {
    uint64_t step, hash;
    double averaged[PLACES], quantized[PLACES];
    uint64_t ids[MEMBERS_MAX];
    size_t nids;
};

/* The state after the steps so far. */
struct serial {
    uint64_t steps, sums[NUMBERS];
    double averaged[PLACES], quantized[PLACES];     /* as reported in the log */
};

/* Parses "STEP EPOCH HASH HASH AVERAGED... QUANTIZED... ID...", with each number followed by one
 * space or the end of the line. */
static bool parse(char *line, struct said *out)
{
    char *at = line, *end = line;
    size_t word = 0;

    *out = (struct said){ 0 };
    for (; *at && *at != '\n'; at = *end == ' ' ? end + 1 : end, word++) {
        if (word == 0)
            out->step = strtoull(at, &end, 10);
        else if (word == 1 || word == 3) /* the epoch, and a hash that members compare */
            strtoull(at, &end, word == 1 ? 10 : 16);
        else if (word == 2)
            out->hash = strtoull(at, &end, 16);
        else if (word < 4 + PLACES)
            out->averaged[word - 4] = strtod(at, &end);
        else if (word < 4 + 2 * PLACES)
            out->quantized[word - 4 - PLACES] = strtod(at, &end);
        else if (out->nids < MEMBERS_MAX)
            out->ids[out->nids++] = strtoull(at, &end, 10);
        else
            return false;
        if (end == at || (*end != ' ' && *end != '\n'))
            return false;
    }
    return out->nids > 0 && *at == '\n';
}

static double mean_weight(const struct said *s)
{
    double sum = 0;

    for (size_t k = 0; k < s->nids; k++)
        sum += (double)churn_weight(s->ids[k], s->step);
    return sum / (double)s->nids;
}

static bool is_near(const struct said *s, const char *what, double added, double expected,
                    double bound)
{
    if (fabs(added - expected) <= bound)
        return true;
    printf("step %" PRIu64
           " by %zu members: it adds %.9g to %s, and one process %.9g; %.3g would be allowed\n",
           s->step, s->nids, added, what, expected, bound);
    return false;
}

static bool take(struct serial *state, const struct said *s)
{
    const double mean = mean_weight(s);

    if (s->step != state->steps + 1) {
        printf("step %" PRIu64 " follows step %" PRIu64 "\n", s->step, state->steps);
        return false;
    }
    state->steps = s->step;
    for (size_t k = 0; k < s->nids; k++)
        for (size_t i = 0; i < NUMBERS; i++)
            state->sums[i] += churn_number(s->ids[k], s->step, i);
    if (churn_hash(state->steps, state->sums) != s->hash) {
        printf("step %" PRIu64 " by %zu members: the sums are not those of one process\n", s->step,
               s->nids);
        return false;
    }
    for (size_t k = 0; k < PLACES; k++) {
        const double ramp = (double)(churn_places[k] % RAMP);

        if (!is_near(s, "an average", s->averaged[k] - state->averaged[k], mean, mean * 0x1p-23) ||
            !is_near(s, "a quantized average", s->quantized[k] - state->quantized[k], mean + ramp,
                     churn_quantized_bound(s->nids)))
            return false;
    }
    memcpy(state->averaged, s->averaged, sizeof state->averaged);
    memcpy(state->quantized, s->quantized, sizeof state->quantized);
    return true;
}

int main(void)
{
    static struct serial state;
    struct said said;
    char *line = NULL;
    size_t room = 0;
    int status = 0;

    while (status == 0 && getline(&line, &room, stdin) > 0) {
        if (!parse(line, &said)) {
            printf("no line of a step: %s", line);
            status = 2;
        } else if (!take(&state, &said)) {
            status = 1;
        }
    }
    free(line);
    if (status == 0)
        printf("%" PRIu64 " steps\n", state.steps);
    return status;
}
