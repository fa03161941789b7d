/* The relays that a process of `tutti run` has started. The process is the launcher, or itself a
 * relay. Each link is a remote shell: its standard input and output carry frames, its standard
 * error lines of text. */
#ifndef TUTTI_TOOLS_RUN_LINKS_H
#define TUTTI_TOOLS_RUN_LINKS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include "tools/run/run_child.h"
#include "tools/run/run_frame.h"
#include "tools/run/run_subtree.h"

#define LINK_FDS 4              /* descriptors and poll entries of a link */
#define LINK_NOTE_BYTES 1024

struct link {
    struct child child;         /* its control descriptor carries frames to the relay */
    int up, err;                /* -1: closed */
    struct frame_queue down;
    struct frame_stream in;
    char note[LINK_NOTE_BYTES];     /* an unfinished line of standard error */
    size_t note_bytes;
    uint32_t first, nhosts;     /* its subtree, in links.all->hosts */
    bool reached, done;         /* first and last frame were received */
    bool silent;                /* killed, because it had not answered in time */
    bool ended;
    uint64_t kill_ns;           /* when the remote shell is killed; 0: never */
};

struct links {
    const struct subtree *all;
    struct link *at;            /* [n], started in this order */
    uint32_t n, nopen;
    uint64_t answer_ns;         /* when relays without an answer are killed; TT_NEVER: none */
    int guard;
    /* Called for each valid frame of a relay, and for frames that run_links.c makes: FRAME_NOTE
     * for text of a remote shell, and FRAME_LOST when a relay has ended. Ranks of its subtree whose
     * end was not reported are then lost. */
    void (*frame)(void *arg, const struct frame *f);
    void *arg;
};

/* Starts relays for the hosts from `first` on. Returns 0, or, after an error message, the exit
 * status; then links.n of them were started. */
int links_start(struct links *l, uint32_t first);
/* Sends a signal to all ranks of the subtrees. */
void links_signal(struct links *l, int sig);
/* Closes the connections to the relays, which then end their ranks; kills remote shells that have
 * not ended within two grace periods. */
void links_close(struct links *l);
/* Kills the remote shells. */
void links_kill(struct links *l);
/* Fills LINK_FDS entries per link and returns their number. `listen`: also for frames. A caller
 * that cannot forward more output leaves them in the pipe. */
size_t links_fill(const struct links *l, struct pollfd *p, bool listen);
/* Handles events. */
void links_step(struct links *l, const struct pollfd *p);
/* Returns when links_step must be called even without events. */
uint64_t links_wake_ns(const struct links *l);
/* Kills the remaining remote shells, and frees the links. */
void links_fini(struct links *l);

#endif
