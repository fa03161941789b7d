#include "support/unit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/prng.h"

bool unit_draw(void)
{
    static uint64_t drawn;

    return tt_mix64(drawn++) % UNIT_SHARE == 0;
}

void unit_stderr_catch(struct unit_stderr *c)
{
    fflush(stderr);
    c->saved = dup(STDERR_FILENO);
    c->file = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(c->saved >= 0 && c->file >= 0);
    assert_int_equal(dup2(c->file, STDERR_FILENO), STDERR_FILENO);
}

void unit_stderr_release(struct unit_stderr *c, char *text, size_t bytes)
{
    ssize_t n;

    fflush(stderr);
    dup2(c->saved, STDERR_FILENO);
    n = pread(c->file, text, bytes - 1, 0);
    close(c->saved);
    close(c->file);
    assert_true(n >= 0);
    text[n] = '\0';
}
