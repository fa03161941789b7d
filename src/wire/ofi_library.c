/* libfabric itself. It is loaded when the wire opens, not linked: it brings a dozen libraries of network cards along, which jobs without this wire
 * shall not pay for. All else of its interface is reached through the objects that these few functions give. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/ofi.h"

#define NAME "libfabric.so.1"

static struct tt_ofi_library library;
static char why_not[256];

/* The symbol, through a memcpy: ISO C lets no pointer to an object become one to a function. */
static bool resolve(void *handle, const char *symbol, void *function)
{
    void *const found = dlsym(handle, symbol);

    if (!found)
        snprintf(why_not, sizeof why_not, "ofi: %s lacks the function %s", NAME, symbol);
    memcpy(function, &found, sizeof found);
    return found;
}

/* Some libraries that come along (those of PSM) print a stack and exit at signals, Control-C included. That is the program's business. */
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

static void load(void)
{
    char bytes[16];
    void *handle;

    /* rxm gives each endpoint thousands of these buffers, of 16 KiB unless it is told: 80 MB for a peer. Our messages are short. */
    snprintf(bytes, sizeof bytes, "%d", TT_OFI_SLOT_BYTES);
    setenv("FI_OFI_RXM_BUFFER_SIZE", bytes, 0);
    setenv("FI_SOCKETS_PE_WAITTIME", "0", 0);   /* else its threads spin for 10 ms behind each message, on cores that ranks wait for */
    handle = open_quietly();
    if (!handle) {
        snprintf(why_not, sizeof why_not, "ofi: cannot load libfabric: %s", dlerror());
        return;
    }
    if (!resolve(handle, "fi_getinfo", &library.getinfo) || !resolve(handle, "fi_freeinfo", &library.freeinfo) ||
        !resolve(handle, "fi_dupinfo", &library.dupinfo) || !resolve(handle, "fi_fabric", &library.fabric) ||
        !resolve(handle, "fi_version", &library.version) || !resolve(handle, "fi_strerror", &library.strerror))
        dlclose(handle);
}

const struct tt_ofi_library *tt_ofi_library(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
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
