/* libfabric is loaded when the wire opens and not linked: it loads a dozen libraries of network
 * cards, whose cost other jobs must not bear. The rest of its interface is reached through the
 * objects that these functions return. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "wire/ofi/ofi.h"

#define NAME "libfabric.so.1"

static struct tt_ofi_library library;
static char why_not[256];

/* Looks up a symbol. Uses memcpy, as ISO C does not convert object pointers to function
 * pointers. */
static bool load_symbol(void *handle, const char *symbol, void *function)
{
    void *const found = dlsym(handle, symbol);

    if (!found)
        snprintf(why_not, sizeof why_not, "ofi: %s lacks the function %s", NAME, symbol);
    memcpy(function, &found, sizeof found);
    return found;
}

/* Some libraries that libfabric loads (for PSM) install signal handlers that print a stack and
 * exit, even on Control-C. Restores the program's handlers. */
static void *open_quietly(void)
{
    static const int signals[] = { SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGTERM };
    struct sigaction before[sizeof signals / sizeof *signals];
    void *handle;

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], NULL, &before[i]);
    handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &before[i], NULL);
    return handle;
}

static void load_libfabric(void)
{
    char bytes[16];
    void *handle;

    /* By default rxm allocates thousands of 16 KiB buffers per endpoint: 80 MB per peer. Our
     * messages are short. */
    snprintf(bytes, sizeof bytes, "%d", TT_OFI_SLOT_BYTES);
    setenv("FI_OFI_RXM_BUFFER_SIZE", bytes, 0);
    setenv("FI_SOCKETS_PE_WAITTIME", "0", 0);   /* otherwise its threads spin for 10 ms after
                                                   each message, on cores that ranks need */
    handle = open_quietly();
    if (!handle) {
        snprintf(why_not, sizeof why_not, "ofi: cannot load libfabric: %s", dlerror());
        return;
    }
    if (!load_symbol(handle, "fi_getinfo", &library.getinfo) ||
        !load_symbol(handle, "fi_freeinfo", &library.freeinfo) ||
        !load_symbol(handle, "fi_dupinfo", &library.dupinfo) ||
        !load_symbol(handle, "fi_fabric", &library.fabric) ||
        !load_symbol(handle, "fi_version", &library.version) ||
        !load_symbol(handle, "fi_strerror", &library.strerror))
        dlclose(handle);
}

const struct tt_ofi_library *tt_ofi_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load_libfabric);
    return &library;
}

const char *tt_ofi_library_why_not(void)
{
    tt_ofi_library();
    return *why_not ? why_not : NULL;
}

const char *tt_ofi_strerror(ssize_t err)
{
    return tt_ofi_library()->strerror((int)(err < 0 ? -err : err));
}

void tt_ofi_close(struct fid *fid)
{
    const int err = fid ? fi_close(fid) : 0;

    if (err)
        tt_log(TT_LOG_DEBUG, "ofi: cannot close an object: %s", tt_ofi_strerror(err));
}
