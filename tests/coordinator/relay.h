/* A relay between a client and a server on this host that can lose answers: the server has carried out what was asked, and the client does not
 * know. */
#ifndef TESTS_COORDINATOR_RELAY_H
#define TESTS_COORDINATOR_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

struct relay {
    unsigned port, to;
    int listener;
    atomic_int lose;        /* so many answers that have `word` in them are lost from now on, with their connections */
    atomic_bool ends;
    const char *word;
    pthread_t thread;
};

/* Asserts that it works. */
void relay_begin(struct relay *r, unsigned to, const char *word);
void relay_end(struct relay *r);

#endif
