#include "secure/ending.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/* maximum wait for threads in OpenSSL, whose calls do not block */
#define PATIENCE_NS (2 * TT_SECOND)
#define LOOK_NS 50000

static atomic_uint inside;
static atomic_bool is_over;
static pthread_t ender;     /* valid if is_over: the thread that tore OpenSSL down */

/* OpenSSL calls this before it frees anything. */
static void openssl_teardown(void)
{
    const uint64_t deadline_ns = tt_now_ns() + PATIENCE_NS;

    ender = pthread_self();
    atomic_store(&is_over, true);
    while (atomic_load(&inside) > 0 && tt_now_ns() < deadline_ns)
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    if (atomic_load(&inside) > 0)
        tt_log(TT_LOG_WARN, "secure: the process exits while another thread is inside OpenSSL");
}

/* In a forked child: the counted threads do not exist. */
static void reset_after_fork(void)
{
    atomic_store(&inside, 0);
}

/* The first user of OpenSSL decides whether OpenSSL frees its memory at exit(). If this library is
 * the first, OpenSSL does not: the kernel frees the memory, and OpenSSL stays usable for other exit
 * handlers. */
__attribute__((constructor)) static void begin(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    OPENSSL_atexit(openssl_teardown);
    pthread_atfork(NULL, NULL, reset_after_fork);
}

bool tt_openssl_try(void)
{
    atomic_fetch_add(&inside, 1);
    if (!atomic_load(&is_over))
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

bool tt_openssl_enter(void)
{
    if (tt_openssl_try())
        return true;
    while (!pthread_equal(ender, pthread_self()))
        pause();
    return false;
}

void tt_openssl_leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

bool tt_openssl_is_over(void)
{
    return atomic_load(&is_over);
}
