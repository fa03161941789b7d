/* Paths of status sockets: BASE/JOB/RANK, Unix sockets in directories that only the user can open.
 * BASE is /tmp/tutti-UID, or the value of TUTTI_STATUS. JOB is the ID of the job, 16 digits. */
#ifndef TT_STATUS_PLACE_H
#define TT_STATUS_PLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>
#include "tutti/tutti.h"

#define TT_PLACE_BYTES sizeof(((struct sockaddr_un *)NULL)->sun_path)
#define TT_PLACE_JOBS_MAX 256u          /* maximum number of directories to read */
#define TT_PLACE_SOCKETS_MAX 4096u      /* maximum number of sockets of a job to read */

/* Reads TUTTI_STATUS. *out is the base directory, or "" if there is no status socket. INVALID
 * (logged). */
tutti_status tt_place_base(char out[TT_PLACE_BYTES]);
/* Returns whether TUTTI_STATUS contains a directory, so that the user expects the live view. */
bool tt_place_is_chosen(void);
/* A listening socket. */
struct tt_place {
    int fd;                     /* non-blocking */
    dev_t device;               /* with inode: identifies its file */
    ino_t inode;
    char path[TT_PLACE_BYTES];
};

/* Creates a listening socket, and its directories. It replaces a socket of an earlier process with
 * the same rank. On success the caller must call tt_place_leave. SYSTEM (not logged; why[bytes] is
 * the cause). */
tutti_status tt_place_listen(const char *base, uint64_t job, uint32_t rank, struct tt_place *out,
                             char *why, size_t bytes);
/* Closes the socket. Removes it, unless it was replaced, and its directory if that is then
 * empty. */
void tt_place_leave(const struct tt_place *p);
/* Removes sockets of jobs whose processes were killed, except those of `job`. */
void tt_place_tidy(const char *base, uint64_t job);

/* Lists the jobs that have sockets, at most `most`. Returns their number. */
uint32_t tt_place_jobs(const char *base, uint64_t *job, uint32_t most);
/* Lists the ranks of a job that have sockets here, in ascending order, at most `most`. */
uint32_t tt_place_ranks(const char *base, uint64_t job, uint32_t *rank, uint32_t most);
/* Writes the path of a socket. False: it is too long. */
bool tt_place_path(const char *base, uint64_t job, uint32_t rank, char out[TT_PLACE_BYTES]);
/* Connects to a socket, without waiting. Returns the descriptor, non-blocking, or -errno. */
int tt_place_connect(const char *path);

#endif
