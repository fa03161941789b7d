/* Teardown of OpenSSL. If another library (Python's ssl) was its first user, exit() makes OpenSSL
 * free everything while threads are still using it. Each use that may be in a thread is therefore
 * enclosed in tt_openssl_enter and tt_openssl_leave. The teardown waits for threads inside; later
 * threads block forever. Any thread. */
#ifndef TT_SECURE_ENDING_H
#define TT_SECURE_ENDING_H

#include <stdbool.h>

/* Returns true: OpenSSL is usable until tt_openssl_leave. After the teardown it returns false in
 * the thread that ran it, which must not use OpenSSL. In all other threads it does not return, as
 * the process is about to exit. Must not be nested. */
bool tt_openssl_enter(void);
void tt_openssl_leave(void);
/* As tt_openssl_enter, but returns false in every thread after the teardown. For callers that can
 * continue without OpenSSL, and hold a lock that other threads may need until the process exits. */
bool tt_openssl_try(void);
/* Returns whether OpenSSL was torn down. Other threads may then be blocked forever while they hold
 * locks, so do not wait for them. */
bool tt_openssl_is_over(void);

#endif
