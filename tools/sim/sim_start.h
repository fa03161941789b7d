/* tutti sim start: start-up of a job in simulated time. */
#ifndef TUTTI_TOOLS_SIM_START_H
#define TUTTI_TOOLS_SIM_START_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/start_central.h"
#include "sim/start_levels.h"

struct sim_start_options {
    uint32_t nranks, per_host, children_max, backlog, central_backlog;
    const char *topo;           /* NULL: equal latencies everywhere */
    bool cyclic, no_retries, measured, baseline, json, quiet;
    bool growth;                /* also simulate a quarter of the ranks */
    uint32_t place_bytes, constants_bytes;
    uint32_t ngathers, record_bytes;    /* of the baseline */
    uint32_t ngroups;           /* of a split; 0: none */
    double latency_us, message_us, byte_ns, spread_s, loss, timeout_s;
    enum tt_start_plant plant;
    uint64_t seed;
    const char *svg;            /* output file of the drawing; NULL: none */
};

/* A split of the job into groups of equal size. */
struct sim_start_split {
    double gather_ns, agree_ns, connect_ns;     /* the first two simulated, the last calculated */
    double sort_ns;             /* processor time of a rank, measured here */
    double total_ns;
};

struct sim_start_result {
    struct tt_start_report whole;
    struct tt_start_finding findings[TT_START_FINDINGS_MAX];
    uint32_t nfindings;
    struct tt_central_result central;   /* with --baseline */
    struct sim_start_split split;       /* with --split; zero if it has failed */
    double wall_s;
};

/* argv[0] is "tutti sim start". Returns the exit status. */
int sim_start_main(int argc, char **argv);

/* ---- sim_start_split.c ---- */

/* Simulates the calls of tutti_comm_split, with the message times of the options. NOMEM, INVALID
 * (logged). */
tutti_status sim_start_split(const struct sim_start_options *o, struct sim_start_split *out);

/* ---- sim_start_print.c ---- */

/* Names a level: "root", "leaders 1", "ranks". */
void sim_start_level_name(const struct tt_start_level *l, char out[24]);
/* One sentence about a finding. */
void sim_start_finding_text(const struct tt_start_report *r, const struct tt_start_finding *f,
                            char out[200]);
void sim_start_print_text(const struct sim_start_options *o, const struct sim_start_result *r);
void sim_start_print_json(const struct sim_start_options *o, const struct sim_start_result *r);

/* ---- sim_start_svg.c ---- */

/* Draws the timeline of the levels. SYSTEM (logged): the file cannot be written. */
tutti_status sim_start_draw(const char *path, const struct tt_start_report *r);

#endif
