/* How tools say that a call of the library failed. */
#ifndef TUTTI_TOOLS_FAILED_H
#define TUTTI_TOOLS_FAILED_H

#include "tutti/tutti.h"

#define FILE_SIZE_HINT " (a file size limit is set: ulimit -f)" /* for EFBIG: SIGXFSZ is ignored */

/* Once: the library's log has said why already, unless TUTTI_LOG leaves errors out. who: "tutti perf: rank 2"; what: "allreduce of 8 bytes", which is said in any
 * case, or NULL, where there is nothing to add to the library's sentence. */
void tool_failed(const char *who, const char *what, tutti_status st);

#endif
