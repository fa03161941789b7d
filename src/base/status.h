/* The one error space, and how an error is told: who discovers it calls tt_fail once, which logs it and
 * keeps the sentence as the thread's last error; callers pass the status on. Bugs assert, in release too. */
#ifndef TT_BASE_STATUS_H
#define TT_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>
#include "tutti/tutti.h"

#define TT_ERROR_BYTES 1024

/* Records and logs (level error) a sentence, and returns `status`. Any thread. */
tutti_status tt_fail(tutti_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a failed system call: appends ": strerror(err)". Returns NOMEM for ENOMEM/EMFILE/ENFILE, else SYSTEM. */
tutti_status tt_fail_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* NOMEM: `what` fails because all descriptors are in use, and `missing` more are needed. */
tutti_status tt_fail_descriptors(const char *what, uint32_t missing);
/* The system call `call`, without which `what` cannot be done, failed with err: names the call, and the remedy where a
 * sandbox refuses it. */
tutti_status tt_fail_call(int err, const char *what, const char *call);
/* Makes `sentence` the calling thread's last error without logging: it was logged where it was discovered. */
tutti_status tt_fail_again(tutti_status status, const char *sentence);

/* What a noun behind the number n ends with in a sentence: "" or "s". */
#define TT_PLURAL(n) ((n) == 1 ? "" : "s")

#define tt_assert(cond) \
    do { \
        if (__builtin_expect(!(cond), 0)) \
            tt_assert_failed(#cond, __FILE__, __LINE__); \
    } while (0)
_Noreturn void tt_assert_failed(const char *cond, const char *file, int line);

#endif
