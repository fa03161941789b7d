#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *tt_emu_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p) {
        fprintf(stderr, "tutti emulation: out of memory (%zu bytes)\n", bytes);
        abort();
    }
    return p;
}

void tt_emu_note(const char *format, ...)
{
    char text[512];
    va_list args;

    if (getenv("TUTTI_EMU_QUIET"))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "tutti emulation: %s\n", text);
}

unsigned long long tt_emu_setting(const char *name, unsigned long long otherwise,
                                  unsigned long long min, unsigned long long max)
{
    static const char units[] = "KMGT";
    const char *text = getenv(name);
    const char *unit;
    unsigned long long value;
    unsigned shift = 0;
    char *end;

    if (!text || !*text)
        return otherwise;
    errno = 0;
    value = strtoull(text, &end, 10);
    unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if (errno || *end || text[0] == '-' || value > (max >> shift) || value << shift < min) {
        tt_emu_note("%s: \"%s\" is not a number from %llu to %llu; %llu is used", name, text, min,
                    max, otherwise);
        return otherwise;
    }
    return value << shift;
}
