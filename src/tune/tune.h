/* The choice of algorithm, segments, streams and lanes. Pure: the same inputs give the same choice on every rank.
 *
 * All algorithms that fit are ranked by their closed forms (algo->cost). The best of these are simulated, first what is soon simulated: the call at the size that
 * stands for its class, on the layout, with constants that all ranks agree on; the fastest wins. Where ranks are too many for that, programs are walked instead
 * (walk.h). For the fastest of those that were simulated, other segments and streams are tried
 * likewise, and fewer lanes where wires have several. What is too far behind by its closed form is not simulated; where simulating would take too long, or cannot be done, the closed
 * forms decide. docs/tuning.md. */
#ifndef TT_TUNE_TUNE_H
#define TT_TUNE_TUNE_H

#include "tune/predict.h"

enum tt_choice_by {
    TT_BY_MODEL,            /* closed forms */
    TT_BY_SIMULATION,
    TT_BY_WALK,             /* programs of ranks that were walked */
    TT_BY_NAME              /* the caller named it */
};

struct tt_tune_choice {
    const struct tt_algo *algo;
    struct tt_segments segments;
    enum tt_choice_by by;
};

#define TT_TUNE_RANKS_MAX 64u   /* that are simulated; of more, programs are walked, or on one host whose cores they share, the closed forms choose */
#define TT_TUNE_CANDIDATES 48u
#define TT_TUNE_EVENTS_MAX 40000u   /* of all simulations for one choice, on up to 16 ranks: about 20 ms, */
#define TT_TUNE_EVENTS_MIN 2000u    /* and of a short call, on up to 8: about 1 ms. On more they grow with the square, as messages do */

#define TT_TUNE_STEPS_MAX 60000u    /* of programs that are walked for one candidate */
#define TT_TUNE_STEPS_MIN 4000u     /* the same, where many ranks share a core */

#define TT_TUNE_WORTH 0.05          /* what other segments, streams or lanes must gain to be taken */

/* Why a candidate has no predicted time. */
enum tt_candidate_state {
    TT_SIMULATED,
    TT_WALKED,
    TT_SAME,                /* as one before it: another name for the same program */
    TT_TOO_FAR,             /* behind by its closed form */
    TT_TOO_LONG,            /* to simulate or walk: more events or steps than are allowed before a call */
    TT_NOT_WALKED,          /* it hangs on ranks that are not */
    TT_DOES_NOT_FIT,        /* what is simulated for the class */
    TT_NO_SIMULATION
};

struct tt_candidate {
    const struct tt_algo *algo;
    struct tt_segments segments;
    double model_ns;                    /* by its closed form */
    enum tt_candidate_state state;
    struct tt_prediction prediction;    /* if simulated or walked */
    bool variant;                       /* the winner with other segments, streams or lanes */
};

/* How a choice came about. */
struct tt_tune_report {
    uint64_t class_bytes;               /* that stand for the class, */
    uint64_t bytes;                     /* and at which was simulated */
    struct tt_candidate candidate[TT_TUNE_CANDIDATES];
    uint32_t ncandidates;
    uint32_t chosen;                    /* cheapest by closed form first, then variants */
    bool walked;                        /* programs were walked, and nothing simulated */
    uint64_t events, events_max;        /* that were simulated for the choice, and that might have been; or steps, and those of one candidate */
    const char *why_model;              /* why closed forms decided; NULL: they did not */
};

/* Tells conf->limits what conf->costs and conf->links say of messages between hosts and of their rails. */
void tt_tune_tell_limits(struct tt_tune_conf *conf);

/* For quantized calls, whose elements are packed blocks: what a step costs that unpacks, adds and packs. What it costs to pack the input and to unpack the
 * result is the same whatever is chosen, and left out. */
void tt_tune_quantized(struct tt_tune_conf *conf, uint32_t block_bytes);

/* The size that stands for all of its class: the largest of it. Four classes to an octave; bytes of whole elements. */
uint64_t tt_tune_class(uint64_t bytes, uint32_t elem_bytes);

/* The best choice for calls of the class of coll, which is a function of that class alone; so what is chosen may not fit this very call.
 * forced: only this algorithm, which fits; NULL: any. simulate: false: closed forms alone, for this very call. report: NULL, or all
 * that was looked at; then, when the choice is made, those that were stopped for being slower are simulated again, to their end. */
struct tt_tune_choice tt_tune_choose(const struct tt_tune_conf *conf, const struct tt_coll *coll,
                                     const struct tt_algo *forced, bool simulate, struct tt_tune_report *report);

#endif
