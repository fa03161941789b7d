/* A relay between a client and a server on this host that can lose replies: the server has executed
 * the request, but the client does not get the reply. */
#ifndef TESTS_COORDINATOR_RELAY_H
#define TESTS_COORDINATOR_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

struct relay {
    unsigned port, to;
    int listener;
    atomic_int lose;        /* number of next replies containing `word` to drop, with their
                               connections */
    atomic_bool ends;
    const char *word;
    pthread_t thread;
};

/* Asserts success. */
void relay_begin(struct relay *r, unsigned to, const char *word);
void relay_end(struct relay *r);

#endif
