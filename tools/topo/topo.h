/* tutti topo: shared declarations. */
#ifndef TUTTI_TOOLS_TOPO_H
#define TUTTI_TOOLS_TOPO_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include "comm/link_probe.h"
#include "topo/machine.h"
#include "topo/rank_location.h"
#include "topo/topo.h"

#define TOPO_RANKS_MAX 4096u

/* A rank, as it describes itself. */
struct topo_rank {
    struct tt_rank_location place;
    char host[64];
    char cpus[64];                  /* allowed CPUs; "" if unknown */
    char gpu[16];                   /* PCI bus id of its GPU; "" if unknown */
    char rail[TT_RAILS_MAX][TT_NIC_NAME_BYTES];
    struct tt_labels labels;        /* labels of its host */
};

/* This host, and ranks: the assumed ranks of this host, or the ranks of the current job. */
struct topo_here {
    struct tt_machine machine;
    struct tt_rails rails;
    struct tt_labels labels;
    struct topo_rank *ranks;        /* [nranks] */
    uint32_t nranks;
    bool in_job;
    uint32_t rank;                  /* this rank, in a job */
    bool measured, labelled;        /* links between ranks were measured; a host has labels */
    struct tt_link_probe between;      /* result of the measurement; its arrays are freed */
    struct tt_topo_link links[TT_DISTANCES];    /* known links between ranks */
    struct tt_layout layout;        /* layout of the ranks, if any */
};

/* topo_here.c: discovers this host. `description` (or NULL) and TUTTI_TOPO_LABELS contain its
 * labels. Outside a job, nranks ranks are assumed to be bound as by `tutti run`. In a job, gathers
 * the real ranks, which is collective; `measure`: also measures the links between them. Returns
 * false after an error message. */
bool topo_here_find(struct topo_here *out, const struct tt_topo *description, uint32_t nranks,
                    bool measure);
void topo_here_free(struct topo_here *h);
struct json_object *topo_here_json(const struct topo_here *h);
void topo_here_print(const struct topo_here *h);
/* Returns the rail of a rank, its name in *name ("none") and the reason of the choice. */
uint32_t topo_rail_of(const struct topo_here *h, uint32_t rank, const char **name,
                      enum tt_rail_why *why);

/* topo_levels.c: prints the hosts of a job and the links between them. */
void topo_levels_print(const struct topo_here *h);
void topo_levels_json(const struct topo_here *h, struct json_object *out);
/* Returns a description for later jobs, owned by the caller, or NULL after an error message. */
struct json_object *topo_levels_description(const struct topo_here *h);
/* Lists the hosts named in a description, with one rank per slot. Returns false if it names no
 * hosts, or more than TOPO_RANKS_MAX slots. Undone by topo_here_free. */
bool topo_hosts_described(struct topo_here *out, const struct tt_topo *t);
/* Returns the indices of all hosts, sorted by group; the caller frees them. */
uint32_t *topo_hosts_sorted(const struct topo_here *h);
const struct topo_rank *topo_host_first(const struct topo_here *h, uint32_t host);
bool topo_same_group(const struct topo_here *h, uint32_t a, uint32_t b, int level);
/* Returns true if a group of the level (RACK to FABRIC) contains several groups of the level
 * below. */
bool topo_level_joins(const struct topo_here *h, int level);
/* Return the name of a host's group ("zone z1") and of the ranks on it ("ranks 0 to 3"). */
void topo_group_name(const struct topo_here *h, uint32_t host, int level, char out[96]);
void topo_host_ranks_text(const struct topo_here *h, uint32_t host, char out[64]);

/* topo_measure.c: replaces this process by a job of `tutti topo` with these options
 * (NULL-terminated) on the hosts (a list, or a file). Returns an exit status, after an error
 * message, only if it fails. */
int topo_measure_start(const char *hosts, const char *hostfile, const char *rsh,
                       const char *const options[]);

/* topo_machine.c: output of a description. */
struct json_object *topo_link_json(const struct tt_topo_link *l, bool above);
struct json_object *topo_machine_json(const struct tt_topo *t);
void topo_machine_print(const struct tt_topo *t);
/* Format numbers for people: "131,072", "400 Gbit/s", "7 us"; "unknown" for 0. */
void topo_count(uint64_t n, char out[32]);
void topo_rate(double bytes_per_s, char out[32]);
void topo_latency(uint64_t ns, char out[32]);

/* topo_svg.c and topo_job_svg.c: drawings, written to f. topo_job_draw draws the hosts of a job. */
void topo_job_draw(const struct topo_here *h, FILE *f);
void topo_here_draw(const struct topo_here *h, FILE *f);
void topo_machine_draw(const struct tt_topo *t, FILE *f);

/* Elements of the drawings. */
extern const char *const topo_level_colours[TT_DISTANCES];
const char *topo_rail_colour(const struct topo_here *h, const char *name);
void topo_svg_begin(FILE *f, double w, double h);
void topo_svg_box(FILE *f, double x, double y, double w, double h, const char *fill,
                  const char *stroke);
void topo_svg_label(FILE *f, double x, double y, double size, const char *anchor, const char *text);

/* topo_place.c: `tutti topo place`. argv[0] is "tutti topo place". Returns the exit status. */
int topo_place_main(int argc, char **argv);

#endif
