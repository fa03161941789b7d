/* Text in SVG and HTML. */
#ifndef TT_BASE_XML_H
#define TT_BASE_XML_H

#include <stdio.h>

/* Writes text, of names that may come from anywhere, so that it is text between tags and within quotes. */
void tt_xml_put(FILE *to, const char *text);

#endif
