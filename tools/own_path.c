#include "tools/own_path.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

bool own_path(char out[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
    const char *const started = (const char *)(uintptr_t)getauxval(AT_EXECFN);

    if (n >= 0) {
        out[n] = '\0';
        return true;
    }
    if (!started) {
        errno = ENOENT;
        return false;
    }
    return realpath(started, out) != NULL;
}
