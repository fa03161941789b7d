/* The options of the program. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The timed forms, in the order of each round. From FULL on, they are modes of the proxy. */
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

/* Default values. */
extern const struct options options_default;

/* Returns true if the form is timed. */
static inline bool options_want(const struct options *o, int form) { return o->forms >> form & 1; }

/* Parses the arguments into *o, which contains the defaults; *shape receives the selected shape,
 * scaled. Returns false after printing a message or the help; *status is the exit status. */
bool options_take(int argc, char **argv, struct options *o, struct shape *shape, int *status);

#ifdef __cplusplus
}
#endif

#endif
