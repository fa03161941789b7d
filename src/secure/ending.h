/* The end of OpenSSL. Where another library (Python's ssl) was the first to use it, exit() has OpenSSL free all that it has while threads are
 * still at work in it. So each use of it that may come from a thread stands between tt_openssl_enter and tt_openssl_leave: when it ends, those
 * who are inside are waited for, and who comes later stays outside, for ever. Any thread. */
#ifndef TT_SECURE_ENDING_H
#define TT_SECURE_ENDING_H

#include <stdbool.h>

/* True: OpenSSL is there until tt_openssl_leave. It has ended: false to the thread that ended it, which may not use it; all others do not
 * return, as the process is about to end. Not to be nested. */
bool tt_openssl_enter(void);
void tt_openssl_leave(void);
/* The same, but false to whoever comes once it has ended: for who holds a lock that others may need until the process has ended, and can do
 * without. */
bool tt_openssl_try(void);
/* It has ended: threads may have stopped with locks held, and are not to be waited for. */
bool tt_openssl_is_over(void);

#endif
