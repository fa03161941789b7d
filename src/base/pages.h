/* Pages of memory that is visited at random. */
#ifndef TT_BASE_PAGES_H
#define TT_BASE_PAGES_H

#include <stddef.h>

/* Asks the kernel for huge pages where memory [bytes], which the caller has allocated or mapped, has room for some. What it is for does not depend on
 * them: they save the walks through page tables that most visits to a table of many megabytes begin with. Best before it is touched. */
void tt_pages_huge(void *memory, size_t bytes);

#endif
