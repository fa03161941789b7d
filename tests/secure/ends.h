/* The two ends of a connection, in one process and driven by hand, so that nothing here waits or depends on time. */
#ifndef TESTS_SECURE_ENDS_H
#define TESTS_SECURE_ENDS_H

#include "base/prng.h"
#include "secure/stream.h"

#define ENDS_TOKEN "one token of 32 characters, more"
#define ENDS_STEPS 2000000      /* more than any test needs: whoever gets there hangs */

enum { CONNECTS, ACCEPTS };     /* indices of both ends */

struct ends {
    struct tt_stream *stream[2];
};

/* A context with a token; NULL: a plain one. */
struct tt_secure *ends_secure(const char *token);
/* A connected pair of sockets that do not block; `tight`: with as little room in between as the system allows. */
void ends_sockets(int fd[2], bool tight);
/* Streams over such a pair. */
void ends_open(struct ends *e, struct tt_secure *connects, struct tt_secure *accepts, bool tight);
void ends_close(struct ends *e);
/* Lets both ends go on until both are ready, or one has failed, whose errno it returns (0: none has). Reads nothing. */
int ends_shake(struct ends *e);
/* Reads one byte at an end until there is one, the end of all, or an error: what the read returned, when it was not -EAGAIN. */
ssize_t ends_hear(struct ends *e, int end);

#endif
