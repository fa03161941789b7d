/* Error reports of failed library calls. */
#ifndef TUTTI_TOOLS_FAILED_H
#define TUTTI_TOOLS_FAILED_H

#include "tutti/tutti.h"

#define FILE_SIZE_HINT " (a file size limit is set: ulimit -f)" /* for EFBIG: SIGXFSZ is ignored */

/* Reports the failure on stderr. The library has already logged the cause, unless TUTTI_LOG
 * excludes errors; then the cause is added. `who` is the prefix, e.g. "tutti perf: rank 2". `what`
 * is always printed, e.g. "allreduce of 8 bytes"; NULL: only the cause. */
void tool_failed(const char *who, const char *what, tutti_status st);

#endif
