/* The options of the program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is timed, in this order in each round; the numbers of modes are those of tutti_device_mode from FULL on. */
enum form { COLLECTIVE, PADDED, FULL, COUPLED, DECOUPLED, ORDERED, FORMS };
extern const char *const options_forms[FORMS];

#define ROUNDS_MAX 1000

struct options {
    const char *shape;
    long scale, tokens, tile, group, processors, rounds, seed;
    double skew;
    tutti_dtype there, back;
    uint32_t forms;             /* bits */
    bool proxied, wrong, json;
};

/* Where nothing is said. */
extern const struct options options_default;

/* Whether that form is to be timed. */
static inline bool options_want(const struct options *o, int form) { return o->forms >> form & 1; }

/* Reads the program's arguments into *o, which has the defaults; *shape is the one that they ask for, scaled. False: something was printed, and *status is the program's. */
bool options_take(int argc, char **argv, struct options *o, struct shape *shape, int *status);

#ifdef __cplusplus
}
#endif

#endif
