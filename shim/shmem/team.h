/* Teams, and contexts, which number PEs as their team does. */
#ifndef TUTTI_SHIM_SHMEM_TEAM_H
#define TUTTI_SHIM_SHMEM_TEAM_H

#include "job.h"

struct sh_team {
    tutti_comm *comm;
    int me, n;
    int *pes;                   /* [n]: of the job */
    shmem_team_config_t config;
    struct shmemi_ctx *contexts;    /* that were made of it */
    struct sh_team *next;       /* of all that were split */
};

/* The predefined teams; and the end of all. */
void sh_teams_init(void);
void sh_teams_fini(void);
/* NULL: it is SHMEM_TEAM_INVALID. */
struct sh_team *sh_team_find(shmem_team_t team);
/* The same; dies where that is NULL. */
struct sh_team *sh_team_of(const char *call, shmem_team_t team);
/* The number in the job of PE `pe` of the context's team; dies if there is no such context or PE. */
int sh_pe(const char *call, shmem_ctx_t ctx, int pe);

#endif
