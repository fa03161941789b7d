#include "guarded.h"

#include <sys/mman.h>
#include <unistd.h>
#include "support/unit.h"

void guarded_init(struct guarded *g, size_t bytes_min)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    g->bytes = (bytes_min + page - 1) / page * page;
    g->map_bytes = g->bytes + 2 * page;
    g->map = mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g->map != MAP_FAILED);
    g->at = (uint8_t *)g->map + page;
    assert_int_equal(mprotect(g->at, g->bytes, PROT_READ | PROT_WRITE), 0);
}

void guarded_fini(struct guarded *g)
{
    munmap(g->map, g->map_bytes);
}
