/* Text in SVG and HTML. */
#ifndef TT_BASE_XML_H
#define TT_BASE_XML_H

#include <stdio.h>

/* Writes untrusted text, escaped for use between tags and within quotes. */
void tt_xml_put(FILE *to, const char *text);

#endif
