/* Arbitrary lists and files of hosts. Accepted hosts have names and valid slots, and ranks are
 * placed only on these, at most as many as slots. The first byte selects a list or a file, and the
 * number of ranks. */
#include "tools/run/run_place.c"

#include <stddef.h>
#include <sys/mman.h>
#include "base/status.h"

#define NRANKS_MAX 128u
#define TEXT_BYTES_MAX 4096

static void check(struct hosts *h, uint32_t nranks)
{
    uint32_t host_of[NRANKS_MAX], local_of[NRANKS_MAX];

    tt_assert(h->n <= HOSTS_MAX);
    for (uint32_t i = 0; i < h->n; i++) {
        tt_assert(memchr(h->at[i].name, 0, HOST_BYTES) && h->at[i].name[0]);
        tt_assert(h->at[i].slots <= RANKS_MAX && h->at[i].nlocal == 0);
    }
    if (h->n == 0 || !hosts_place(h, nranks, host_of, local_of))
        return;
    for (uint32_t r = 0; r < nranks; r++) {
        const struct host *at = &h->at[host_of[r]];

        tt_assert(host_of[r] < h->n && local_of[r] < at->nlocal);
        tt_assert(at->slots == 0 || at->nlocal <= at->slots);
        tt_assert(r == 0 || host_of[r] >= host_of[r - 1]);
    }
}

static bool read_file(struct hosts *h, const char *text, size_t bytes)
{
    const int fd = memfd_create("hosts", MFD_CLOEXEC);
    char path[64];
    bool ok;

    tt_assert(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ok = hosts_read(h, "fuzz", path);
    close(fd);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    char text[TEXT_BYTES_MAX + 1];
    struct hosts h;
    bool ok;

    if (bytes < 1 || bytes > TEXT_BYTES_MAX)
        return 0;
    if (!nowhere)
        stderr = nowhere = fopen("/dev/null", "w");     /* messages of the parser; sanitizers write
                                                           to the descriptor */
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = 0;
    ok = data[0] & 1 ? read_file(&h, text, bytes - 1) : hosts_parse(&h, "fuzz", text);
    if (ok)
        check(&h, 1 + data[0] / 2);
    free(h.at);
    return 0;
}
