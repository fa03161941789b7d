#include "base/xml.h"

static const char *entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void tt_xml_put(FILE *to, const char *text)
{
    for (; *text; text++) {
        const char *as = entity(*text);

        if (as)
            fputs(as, to);
        else
            fputc(*text, to);
    }
}
