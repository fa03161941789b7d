/* Teams and contexts. A context uses the PE numbers of its team. */
#ifndef TUTTI_SHIM_SHMEM_TEAM_H
#define TUTTI_SHIM_SHMEM_TEAM_H

#include "job.h"

struct sh_team {
    tutti_comm *comm;
    int me, n;
    int *pes;                   /* [n]: PE numbers in the job */
    shmem_team_config_t config;
    struct shmemi_ctx *contexts;    /* list of contexts of this team */
    struct sh_team *next;       /* in the list of all teams except the predefined ones */
};

/* Create the predefined teams, and free all teams. */
void sh_teams_init(void);
void sh_teams_fini(void);
/* Returns NULL for SHMEM_TEAM_INVALID. */
struct sh_team *sh_team_find(shmem_team_t team);
/* The same, but calls sh_die for SHMEM_TEAM_INVALID. */
struct sh_team *sh_team_of(const char *call, shmem_team_t team);
/* Returns the job's number of PE `pe` of the context's team; calls sh_die if the context or PE is
 * invalid. */
int sh_pe(const char *call, shmem_ctx_t ctx, int pe);

#endif
