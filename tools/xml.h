/* Text in SVG and HTML. */
#ifndef TUTTI_TOOLS_XML_H
#define TUTTI_TOOLS_XML_H

#include <stdio.h>

/* Writes text, of names that may come from anywhere, so that it is text between tags and within quotes. */
void xml_put(FILE *to, const char *text);

#endif
