#include "size.h"

#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool sh_size_parse(const char *text, size_t *bytes)
{
    static const char units[] = "KMGT";
    const char *unit;
    double value;
    char *end;

    if (text[strspn(text, "0123456789.")] && !strchr("kKmMgGtT", text[strspn(text, "0123456789.")]))
        return false;           /* strtod also reads signs, exponents, "inf" and more */
    value = strtod(text, &end);
    if (end == text)
        return false;
    if (*end) {
        unit = strchr(units, toupper((unsigned char)*end));
        if (!unit || end[1])
            return false;
        value = ldexp(value, 10 * (int)(unit - units + 1));
    }
    if (value >= 0x1p63)
        return false;
    *bytes = (size_t)value;
    return true;
}
