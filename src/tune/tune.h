/* Selection of algorithm, segments, streams and lanes. Pure: the same inputs give the same choice
 * on every rank.
 *
 * All fitting algorithms are ranked by their closed forms (algo->cost). The best ones are
 * simulated, the cheapest simulations first, and the fastest wins. A simulation runs the call at
 * the size that represents its class, on the layout, with constants that all ranks agree on. With
 * too many ranks for simulation, programs are walked instead (critical_path.h). For the fastest
 * simulated one, other segments and streams are tried in the same way, and fewer lanes if
 * transports have several. Algorithms far behind by their closed form are not simulated. If
 * simulation would take too long or is not possible, the closed forms decide. docs/tuning.md. */
#ifndef TT_TUNE_TUNE_H
#define TT_TUNE_TUNE_H

#include "tune/predict.h"

enum tt_choice_by {
    TT_BY_MODEL,            /* closed forms */
    TT_BY_SIMULATION,
    TT_BY_WALK,             /* programs of ranks that were walked */
    TT_BY_NAME              /* named by the caller */
};

struct tt_tune_choice {
    const struct tt_algo *algo;
    struct tt_segments segments;
    enum tt_choice_by by;
};

/* maximum ranks to simulate; with more, programs are walked, or on one oversubscribed host the
 * closed forms decide */
#define TT_TUNE_RANKS_MAX 64u
#define TT_TUNE_CANDIDATES 48u
/* maximum events of all simulations for one choice, on up to 16 ranks: about 20 ms */
#define TT_TUNE_EVENTS_MAX 40000u
/* maximum events for a short call, on up to 8 ranks: about 1 ms. With more ranks, both limits grow
 * with the square, as messages do */
#define TT_TUNE_EVENTS_MIN 2000u

#define TT_TUNE_STEPS_MAX 60000u    /* maximum steps of the programs walked for one candidate */
#define TT_TUNE_STEPS_MIN 4000u     /* maximum steps if many ranks share a core */

#define TT_TUNE_WORTH 0.05          /* minimum gain of other segments, streams or lanes */

/* Why a candidate has no predicted time. */
enum tt_candidate_state {
    TT_SIMULATED,
    TT_WALKED,
    TT_SAME,                /* same program as an earlier candidate with another name */
    TT_TOO_FAR,             /* too slow by its closed form */
    TT_TOO_LONG,            /* too many events or steps to simulate or walk before a call */
    TT_NOT_WALKED,          /* depends on ranks that are not walked */
    TT_DOES_NOT_FIT,        /* does not fit the call simulated for the class */
    TT_NO_SIMULATION
};

struct tt_candidate {
    const struct tt_algo *algo;
    struct tt_segments segments;
    double model_ns;                    /* by its closed form */
    enum tt_candidate_state state;
    struct tt_prediction prediction;    /* if simulated or walked */
    bool variant;                       /* the best candidate with other segments, streams or
                                           lanes */
};

/* Report of a choice. */
struct tt_tune_report {
    uint64_t class_bytes;               /* representative size of the class */
    uint64_t bytes;                     /* simulated size */
    struct tt_candidate candidate[TT_TUNE_CANDIDATES];
    uint32_t ncandidates;
    uint32_t chosen;                    /* cheapest by closed form first, then variants */
    bool walked;                        /* programs were walked, and nothing simulated */
    uint64_t events, events_max;        /* number of events simulated for the choice, and the limit;
                                           or steps, and the limit for one candidate */
    const char *why_model;              /* why closed forms decided; NULL: they did not */
};

/* Sets conf->limits from conf->costs and conf->links, for messages between hosts and their
 * rails. */
void tt_tune_set_limits(struct tt_tune_conf *conf);

/* For quantized calls, whose elements are packed blocks: sets the costs of steps that unpack, add
 * and pack. Packing the input and unpacking the result cost the same for every choice, and are not
 * included. */
void tt_tune_quantized(struct tt_tune_conf *conf, uint32_t block_bytes);

/* Returns the size that represents its class: the largest. Four classes per octave; bytes of whole
 * elements. */
uint64_t tt_tune_class(uint64_t bytes, uint32_t elem_bytes);

/* Returns the best choice for calls of coll's class, which depends on the class alone, so it may
 * not fit this call itself. forced: consider only this algorithm, which fits; NULL: any. simulate:
 * false: only closed forms, for this call itself. report: NULL, or a report of all candidates; then
 * those that were stopped as slower are simulated again to their end, after the choice. */
struct tt_tune_choice tt_tune_choose(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                                     const struct tt_algo *forced, bool simulate,
                                     struct tt_tune_report *report);

#endif
