/* The client of PMI-1, the line protocol of MPICH's hydra (and of srun's pmi2 plugin), as pure
 * state machines. It distributes one value of rank 0 to every rank, as start-up needs.
 *
 *   cmd=init pmi_version=1 pmi_subversion=1      cmd=response_to_init pmi_version=1
 *   pmi_subversion=1 rc=0
 *   cmd=get_maxes                                cmd=maxes kvsname_max=256 keylen_max=64
 *   vallen_max=1024
 *   cmd=get_my_kvsname                           cmd=my_kvsname kvsname=kvs_1_0
 *   cmd=put kvsname=... key=... value=...        cmd=put_result rc=0                    (rank 0)
 *   cmd=barrier_in                               cmd=barrier_out
 *   cmd=get kvsname=... key=...                  cmd=get_result rc=0 value=...          (the
 *   others)
 *   cmd=finalize                                 cmd=finalize_ack
 *
 * The lines are sent over the inherited descriptor PMI_FD, or a connection to PMI_PORT. On such a
 * connection the client first sends its PMI_ID, and receives its rank and the number of ranks:
 *
 *   cmd=initack pmiid=0                          cmd=initack
 *                                                cmd=set size=2
 *                                                cmd=set rank=0
 *                                                cmd=set debug=0
 *
 * Source: MPICH, "PMI v1 wire protocol" (src/pmi in its distribution). */
#ifndef TT_BOOT_PMI1_H
#define TT_BOOT_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TT_PMI1_LINE_BYTES 2048
#define TT_PMI1_NAME_BYTES 257
#define TT_PMI1_VALUE_BYTES 512

enum tt_pmi1_state {
    TT_PMI1_INIT,
    TT_PMI1_MAXES,
    TT_PMI1_NAME,
    TT_PMI1_PUT,
    TT_PMI1_BARRIER,
    TT_PMI1_GET,
    TT_PMI1_FINALIZE,
    TT_PMI1_DONE,
    TT_PMI1_FAILED      /* the cause is in `why` */
};

struct tt_pmi1 {
    uint8_t state;              /* request that waits for its response */
    bool publishes;             /* rank 0 */
    bool leaves;                /* only init and finalize */
    char name[TT_PMI1_NAME_BYTES];
    char value[TT_PMI1_VALUE_BYTES];    /* rank 0: value to publish; else: the published value,
                                           once DONE */
    char why[160];
};

/* Handshake of a connection to PMI_PORT. */
struct tt_pmi1_join {
    bool done, failed;
    bool greeted, has_rank, has_nranks;
    uint8_t nlines;
    uint32_t rank, nranks;      /* once done: rank < nranks */
    char why[160];              /* once failed */
};

/* Starts. value: the value that rank 0 publishes; NULL on other ranks. Writes the first request,
 * with its newline, to line[TT_PMI1_LINE_BYTES]. */
void tt_pmi1_begin(struct tt_pmi1 *p, const char *value, char *line);
/* As tt_pmi1_begin, for a rank that exchanges nothing: without these requests, the server treats
 * the end of the connection as a crash. */
void tt_pmi1_begin_leave(struct tt_pmi1 *p, char *line);
/* Processes a line of the server, without its newline, and writes the next request ("" if none) to
 * line. */
void tt_pmi1_step(struct tt_pmi1 *p, const char *answer, char *line);

/* Starts the handshake: writes the request to line[TT_PMI1_LINE_BYTES]. */
void tt_pmi1_join_begin(struct tt_pmi1_join *j, uint32_t id, char *line);
/* Processes a line of the server, without its newline. */
void tt_pmi1_join_step(struct tt_pmi1_join *j, const char *answer);

#endif
