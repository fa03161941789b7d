/* tutti topo: what its files share. */
#ifndef TUTTI_TOOLS_TOPO_H
#define TUTTI_TOOLS_TOPO_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include "comm/between.h"
#include "topo/machine.h"
#include "topo/told.h"
#include "topo/topo.h"

#define TOPO_RANKS_MAX 4096u

/* A rank, as it tells of itself. */
struct topo_rank {
    struct tt_told place;
    char host[64];
    char cpus[64];                  /* that it may use; "" if not told */
    char gpu[16];                   /* the bus of its GPU; "" if not told */
    char rail[TT_RAILS_MAX][TT_NIC_NAME_BYTES];
    struct tt_labels labels;        /* of its host, as they hold */
};

/* This host, and ranks: of it, or of the job that we are in. */
struct topo_here {
    struct tt_machine machine;
    struct tt_rails rails;
    struct tt_labels labels;
    struct topo_rank *ranks;        /* [nranks] */
    uint32_t nranks;
    bool in_job;
    uint32_t rank;                  /* ours, in a job */
    bool measured, labelled;        /* what lies between ranks was measured; some host's labels were told */
    struct tt_between between;      /* what came of that; its arrays are gone */
    struct tt_topo_link links[TT_DISTANCES];    /* what lies between ranks, as far as the job knows it */
    struct tt_layout layout;        /* of the ranks, if there are any */
};

/* topo_here.c: discovers; `description` (or NULL) labels this host, TUTTI_TOPO_LABELS too. nranks ranks as `tutti run` would bind them;
 * where a job started us, its real ones, which is a collective call; `measure`: that job measures what lies between its ranks. False after
 * an error that was told. */
bool topo_here_find(struct topo_here *out, const struct tt_topo *description, uint32_t nranks, bool measure);
void topo_here_free(struct topo_here *h);
struct json_object *topo_here_json(const struct topo_here *h);
void topo_here_print(const struct topo_here *h);
/* The rail of a rank, and why. The rail's number; its name in *name ("none"). */
uint32_t topo_rail_of(const struct topo_here *h, uint32_t rank, const char **name, enum tt_rail_why *why);

/* topo_levels.c: the hosts of a job, and what lies between them. */
void topo_levels_print(const struct topo_here *h);
void topo_levels_json(const struct topo_here *h, struct json_object *out);
/* A description for jobs to come; the caller's. NULL, after saying why, if there cannot be one. */
struct json_object *topo_levels_description(const struct topo_here *h);
/* The hosts that a description names, with ranks in their slots. False: it names none, or more than TOPO_RANKS_MAX slots. topo_here_free ends
 * it. */
bool topo_hosts_described(struct topo_here *out, const struct tt_topo *t);
/* Numbers of all hosts, those of a group together; the caller frees them. */
uint32_t *topo_hosts_sorted(const struct topo_here *h);
const struct topo_rank *topo_host_first(const struct topo_here *h, uint32_t host);
bool topo_same_group(const struct topo_here *h, uint32_t a, uint32_t b, int level);
/* Whether some group of that level, RACK to FABRIC, holds several of the level below. */
bool topo_level_joins(const struct topo_here *h, int level);
/* "zone z1": the group of a host; "ranks 0 to 3": what is on it. */
void topo_group_name(const struct topo_here *h, uint32_t host, int level, char out[96]);
void topo_host_ranks_text(const struct topo_here *h, uint32_t host, char out[64]);

/* topo_measure.c: becomes a job on these hosts (a list, or a file of them), of `tutti topo` with these options (NULL at the end). Returns, after
 * saying why, only if that fails: an exit status. */
int topo_measure_start(const char *hosts, const char *hostfile, const char *rsh, const char *const options[]);

/* topo_machine.c: a description. */
struct json_object *topo_link_json(const struct tt_topo_link *l, bool above);
struct json_object *topo_machine_json(const struct tt_topo *t);
void topo_machine_print(const struct tt_topo *t);
/* Numbers as people read them: "131,072", "400 Gbit/s", "7 us"; "unknown" for 0. */
void topo_count(uint64_t n, char out[32]);
void topo_rate(double bytes_per_s, char out[32]);
void topo_latency(uint64_t ns, char out[32]);

/* topo_svg.c: pictures, to f. topo_job_svg.c: that of a job's hosts. */
void topo_job_draw(const struct topo_here *h, FILE *f);
void topo_here_draw(const struct topo_here *h, FILE *f);
void topo_machine_draw(const struct tt_topo *t, FILE *f);

/* What pictures are made of. */
extern const char *const topo_level_colours[TT_DISTANCES];
const char *topo_rail_colour(const struct topo_here *h, const char *name);
void topo_svg_begin(FILE *f, double w, double h);
void topo_svg_box(FILE *f, double x, double y, double w, double h, const char *fill, const char *stroke);
void topo_svg_label(FILE *f, double x, double y, double size, const char *anchor, const char *text);

/* topo_place.c: `tutti topo place`; argv[0] is "tutti topo place". Returns the exit status. */
int topo_place_main(int argc, char **argv);

#endif
