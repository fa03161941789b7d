/* Table of the communicators, windows and elastic runs to which records refer by a small number. A
 * closed one stays until its entry is needed, since records may still refer to it. Bounded memory:
 * TT_COMMS_MAX entries, and TT_COMMS_MEMBERS_BYTES for all lists of members. */
#ifndef TT_TRACE_COMMS_H
#define TT_TRACE_COMMS_H

#include <stdbool.h>
#include <stdint.h>

#define TT_COMMS_MAX 4096u
#define TT_COMMS_NAME_BYTES 64u
#define TT_COMMS_MEMBERS_BYTES (4u << 20)
#define TT_COMMS_LIST_BYTES (64u << 10)     /* maximum size of a list; longer lists are omitted */

enum tt_comms_of { TT_COMMS_COMM, TT_COMMS_WINDOW, TT_COMMS_RUN };

struct tt_comms_info {
    uint64_t hash;              /* equal on all members, unique in the job */
    enum tt_comms_of of;
    uint32_t rank, nranks;      /* rank of this process in it */
    const uint32_t *ranks;      /* [nranks] job ranks; NULL: see ids */
    const uint64_t *ids;        /* [nranks] member ids of an elastic run; NULL: unknown */
    const char *name;           /* NULL: none */
};

/* A copy of an entry. */
struct tt_comms_entry {
    uint64_t hash;
    uint64_t since;             /* tick: older records refer to a previous entry; 0: no such one */
    enum tt_comms_of of;
    uint32_t rank, nranks;
    bool open;
    char name[TT_COMMS_NAME_BYTES];
    char *members;              /* "0-14:2,16", owned by the caller; NULL: omitted */
};

/* Adds an entry; *info and its arrays are copied. Returns its number; 0: all entries are in use by
 * open communicators. Any thread. */
uint16_t tt_comms_add(const struct tt_comms_info *info);
/* Closes an entry. number 0 has no effect. */
void tt_comms_close(uint16_t number);
/* Changes the members, e.g. of a run in a new view. */
void tt_comms_set_members(uint16_t number, uint32_t rank, uint32_t nranks, const uint64_t *ids);
/* Sets the name; a longer name is truncated. */
void tt_comms_set_name(uint16_t number, const char *name);
/* Copies an entry. with_members: also its list of members. False: there is no such entry. */
bool tt_comms_get(uint16_t number, bool with_members, struct tt_comms_entry *out);
/* Returns the bytes in use. */
uint64_t tt_comms_bytes(void);

/* Prints a list of numbers as "0-14:2,16": N, A-B, or A-B:STEP, separated by commas. NULL: out of
 * memory, or longer than `most` bytes. The caller frees it. */
char *tt_comms_print_members(const uint32_t *ranks, const uint64_t *ids, uint32_t n, uint64_t most);

#endif
