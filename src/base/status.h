/* The one error space. The function that discovers an error calls tt_fail once. It logs the message
 * and keeps it as the thread's last error; callers return the status. Bugs assert, also in release
 * builds. */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ERROR_BYTES 1024

/* Records and logs (level error) a message, and returns `status`. Any thread. */
tutti_status tt_fail(tutti_status status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* As tt_fail, for a failed system call: appends ": strerror(err)". Returns NOMEM for
 * ENOMEM/EMFILE/ENFILE, else SYSTEM. */
tutti_status tt_fail_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns NOMEM: `what` fails because all descriptors are in use, and `missing` more are needed. */
tutti_status tt_fail_descriptors(const char *what, uint32_t missing);
/* The system call `call`, which `what` needs, failed with err. Names the call, and the remedy if a
 * sandbox refuses it. */
tutti_status tt_fail_call(int err, const char *what, const char *call);
/* Sets the calling thread's last error to `sentence` without logging: the discovering function has
 * logged it. */
tutti_status tt_fail_again(tutti_status status, const char *sentence);

/* Plural suffix of a noun after the number n: "" or "s". */
#define TT_PLURAL(n) ((n) == 1 ? "" : "s")

#define tt_assert(cond) \
    do { \
        if (__builtin_expect(!(cond), 0)) \
            tt_assert_failed(#cond, __FILE__, __LINE__); \
    } while (0)
_Noreturn void tt_assert_failed(const char *cond, const char *file, int line);

#endif
