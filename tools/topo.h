/* tutti topo: what its files share. */
#ifndef TUTTI_TOOLS_TOPO_H
#define TUTTI_TOOLS_TOPO_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include "topo/machine.h"
#include "topo/told.h"
#include "topo/topo.h"

#define TOPO_RANKS_MAX 4096u

/* A rank, as it tells of itself. */
struct topo_rank {
    struct tt_told place;
    char host[64];
    char cpus[64];                  /* that it may use; "" if not told */
    char rail[TT_RAILS_MAX][TT_NIC_NAME_BYTES];
};

/* This host, and ranks: of it, or of the job that we are in. */
struct topo_here {
    struct tt_machine machine;
    struct tt_rails rails;
    struct tt_labels labels;
    struct topo_rank *ranks;        /* [nranks] */
    uint32_t nranks;
    bool in_job;
    struct tt_layout layout;        /* of the ranks, if there are any */
};

/* topo_here.c: discovers; `description` (or NULL) labels this host, TUTTI_TOPO_LABELS too. nranks ranks as `tutti run` would bind them;
 * where a job started us, its real ones, which is a collective call. False after an error that was told. */
bool topo_here_find(struct topo_here *out, const struct tt_topo *description, uint32_t nranks);
void topo_here_free(struct topo_here *h);
struct json_object *topo_here_json(const struct topo_here *h);
void topo_here_print(const struct topo_here *h);
/* The rail of a rank, and why. The rail's number; its name in *name ("none"). */
uint32_t topo_rail_of(const struct topo_here *h, uint32_t rank, const char **name, enum tt_rail_why *why);

/* topo_machine.c: a description. */
struct json_object *topo_machine_json(const struct tt_topo *t);
void topo_machine_print(const struct tt_topo *t);
/* Numbers as people read them: "131,072", "400 Gbit/s", "7 us"; "unknown" for 0. */
void topo_count(uint64_t n, char out[32]);
void topo_rate(double bytes_per_s, char out[32]);
void topo_latency(uint64_t ns, char out[32]);

/* topo_svg.c: pictures, to f. */
void topo_here_draw(const struct topo_here *h, FILE *f);
void topo_machine_draw(const struct tt_topo *t, FILE *f);

/* topo_place.c: `tutti topo place`; argv[0] is "tutti topo place". Returns the exit status. */
int topo_place_main(int argc, char **argv);

#endif
