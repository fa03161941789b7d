/* cmocka, with the headers that it wants before itself, and what unit tests share. */
#ifndef TESTS_SUPPORT_UNIT_H
#define TESTS_SUPPORT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Descriptor 2 caught in a file; unit tests of what is printed. */
struct unit_stderr {
    int saved, file;
};

/* Begins catching what this process prints on stderr. */
void unit_stderr_catch(struct unit_stderr *c);
/* Ends it; text[bytes] gets what was printed, NUL-terminated. */
void unit_stderr_release(struct unit_stderr *c, char *text, size_t bytes);

#endif
