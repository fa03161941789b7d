/* Both ends of a connection, in one process and single-stepped, so that nothing waits or depends on
 * time. */
#ifndef TESTS_SECURE_ENDS_H
#define TESTS_SECURE_ENDS_H

#include "base/prng.h"
#include "secure/stream.h"

#define ENDS_TOKEN "one token of 32 characters, more"
#define ENDS_STEPS 2000000      /* more than any test needs: limit for hangs */

enum { CONNECTS, ACCEPTS };     /* indices of the ends */

struct ends {
    struct tt_stream *stream[2];
};

/* Creates a context with a token; NULL: a plain one. */
struct tt_secure *ends_secure(const char *token);
/* Creates a connected pair of non-blocking sockets; `tight`: with minimal buffers. */
void ends_sockets(int fd[2], bool tight);
/* Opens streams over such a pair. */
void ends_open(struct ends *e, struct tt_secure *connects, struct tt_secure *accepts, bool tight);
void ends_close(struct ends *e);
/* Steps both ends until both are ready, or one has failed. Returns its errno (0: none). Reads no
 * data. */
int ends_shake(struct ends *e);
/* Reads one byte at an end until there is one, the end of the stream, or an error. Returns the
 * result of that read, which is not -EAGAIN. */
ssize_t ends_read(struct ends *e, int end);

#endif
