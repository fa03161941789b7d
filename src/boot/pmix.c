#include "boot/pmix.h"

#ifndef TUTTI_HAVE_PMIX

bool tt_pmix_is_built(void)
{
    return false;
}

const char *tt_pmix_why(void)
{
    return "this build has no PMIx";
}

tutti_status tt_pmix_size(uint32_t *nranks)
{
    (void)nranks;
    return TUTTI_ERR_UNSUPPORTED;
}

tutti_status tt_pmix_broadcast(uint32_t rank, char *value, size_t cap, unsigned timeout_s,
                               bool *not_all)
{
    (void)rank;
    (void)not_all;
    (void)value;
    (void)cap;
    (void)timeout_s;
    return TUTTI_ERR_UNSUPPORTED;
}

#else

#include <dlfcn.h>
#include <limits.h>
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"

#define KEY "tutti-rendezvous"
#define ANCESTORS_MAX 16
#define LATE_S 1        /* to read rank 0's value after a barrier that not all ranks reached */
#define LIBRARY "libpmix.so.2"

bool tt_pmix_is_built(void)
{
    return true;
}

/* The connection to the launcher's server. Not every libpmix supports a second PMIx_Init after
 * PMIx_Finalize. Therefore a process connects only once, from the first query until the exchange is
 * complete, or until exit. */
static struct {
    pid_t process;          /* that opened it; 0: none */
    pmix_proc_t self;
    char why[256];
} session;

/* Functions of libpmix, with the header's types, so the compiler checks our calls. */
static struct pmix {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Error_string) *error_string;
} pmix;

const char *tt_pmix_why(void)
{
    return session.why;
}

static void *open_below(const char *prefix)
{
    static const char *const folders[] = { "lib", "lib/openmpi" };
    void *library = NULL;

    for (size_t i = 0; i < 2 && !library; i++) {
        char path[PATH_MAX];
        const int n = snprintf(path, sizeof path, "%s/%s/" LIBRARY, prefix, folders[i]);

        if (n > 0 && (size_t)n < sizeof path)
            library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}

/* Writes the prefix of PRRTE's prterun or prted, if `pid` runs it. */
static bool prefix_of(pid_t pid, char out[PATH_MAX])
{
    char link[32], *name, *folder;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0)
        return false;
    out[n] = '\0';
    name = strrchr(out, '/');
    if (!name || strncmp(name, "/prte", 5) != 0)
        return false;
    *name = '\0';
    folder = strrchr(out, '/');
    if (!folder)
        return false;
    *folder = '\0';
    return true;
}

/* Returns the parent of a process, or 0 if it is unknown. The name in parentheses may contain any
 * characters. */
static pid_t parent_of(pid_t pid)
{
    char path[32], line[512];
    const char *end;
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    end = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    if (!end || sscanf(end, ") %*c %d", &parent) != 1)
        parent = 0;
    fclose(f);
    return parent;
}

/* Writes the prefix of the nearest prterun or prted among our ancestors, as prterun sets no
 * variable with it. A shell or another program may be in between. */
static bool launcher_prefix(char out[PATH_MAX])
{
    pid_t pid = getppid();

    for (int i = 0; i < ANCESTORS_MAX && pid > 0; i++) {
        if (prefix_of(pid, out))
            return true;
        pid = parent_of(pid);
    }
    return false;
}

/* Opens the library that matches the server. MPI may have loaded one: two copies in a process would
 * share symbols. Otherwise the launcher's library is preferred to the system's, whose release may
 * differ and make the server print errors. A set-uid program uses only the system's. */
static void *open_library(void)
{
    static const char *const prefixes[] = { "PMIX_PREFIX", "OPAL_PREFIX" };
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    char parent[PATH_MAX];

    for (size_t i = 0; i < 2 && !library; i++) {
        const char *prefix = secure_getenv(prefixes[i]);

        if (prefix && *prefix)
            library = open_below(prefix);
    }
    if (!library && secure_getenv("PMIX_NAMESPACE") && launcher_prefix(parent))
        library = open_below(parent);
    return library ? library : dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
}

/* The library stays loaded, as MPI may be using it. */
static bool pmix_load(struct pmix *p)
{
    void *library = p->init ? NULL : open_library();

    if (p->init)
        return true;
    if (!library) {
        snprintf(session.why, sizeof session.why,
                 "PMIx: %.150s; set PMIX_PREFIX to the installation directory of "
                 "the launcher",
                 dlerror());
        return false;
    }
    p->init = (__typeof__(p->init))dlsym(library, "PMIx_Init");
    p->finalize = (__typeof__(p->finalize))dlsym(library, "PMIx_Finalize");
    p->put = (__typeof__(p->put))dlsym(library, "PMIx_Put");
    p->commit = (__typeof__(p->commit))dlsym(library, "PMIx_Commit");
    p->fence = (__typeof__(p->fence))dlsym(library, "PMIx_Fence");
    p->get = (__typeof__(p->get))dlsym(library, "PMIx_Get");
    p->error_string = (__typeof__(p->error_string))dlsym(library, "PMIx_Error_string");
    if (p->init && p->finalize && p->put && p->commit && p->fence && p->get && p->error_string)
        return true;
    snprintf(session.why, sizeof session.why, "PMIx: " LIBRARY " lacks functions of PMIx 2");
    p->init = NULL;
    return false;
}

static void close_session(void)
{
    if (session.process == getpid())
        pmix.finalize(NULL, 0);
    session.process = 0;
}

/* Connects to the server, unless connected. */
static bool open_session(void)
{
    static bool watched;
    pmix_status_t rc;

    if (session.process == getpid())
        return true;
    if (session.process) {
        snprintf(session.why, sizeof session.why,
                 "PMIx: this process is a forked child of a process that uses PMIx");
        return false;
    }
    if (!pmix_load(&pmix))
        return false;
    rc = pmix.init(&session.self, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        snprintf(session.why, sizeof session.why, "PMIx_Init: %s", pmix.error_string(rc));
        return false;
    }
    session.process = getpid();
    if (!watched)
        atexit(close_session);
    watched = true;
    return true;
}

static tutti_status pmix_fail(const struct pmix *p, const char *call, pmix_status_t rc)
{
    return tt_fail(rc == PMIX_ERR_TIMEOUT ? TUTTI_ERR_TIMEOUT : TUTTI_ERR_SYSTEM,
                   "start-up through PMIx: %s: %s", call, p->error_string(rc));
}

static tutti_status pmix_publish(const struct pmix *p, char *value)
{
    pmix_value_t v = { .type = PMIX_STRING, .data.string = value };
    pmix_status_t rc = p->put(PMIX_GLOBAL, KEY, &v);

    if (rc == PMIX_SUCCESS)
        rc = p->commit();
    return rc == PMIX_SUCCESS ? TUTTI_OK : pmix_fail(p, "PMIx_Put", rc);
}

static pmix_info_t timeout_info(unsigned timeout_s)
{
    pmix_info_t info = { .flags = 0 };

    snprintf(info.key, sizeof info.key, "%s", PMIX_TIMEOUT);
    info.value.type = PMIX_INT;
    info.value.data.integer = (int)timeout_s;
    return info;
}

/* A barrier of all ranks; values published before it can be read after it. TIMEOUT is not
 * logged. */
static tutti_status pmix_fence(const struct pmix *p, unsigned timeout_s)
{
    pmix_info_t info[2] = { { .flags = 0 }, timeout_info(timeout_s) };
    pmix_status_t rc;

    snprintf(info[0].key, sizeof info[0].key, "%s", PMIX_COLLECT_DATA);
    info[0].value.type = PMIX_BOOL;
    info[0].value.data.flag = true;
    rc = p->fence(NULL, 0, info, timeout_s ? 2 : 1);
    if (rc == PMIX_ERR_TIMEOUT)
        return TUTTI_ERR_TIMEOUT;
    return rc == PMIX_SUCCESS ? TUTTI_OK : pmix_fail(p, "PMIx_Fence", rc);
}

static tutti_status pmix_look_up(const struct pmix *p, const pmix_proc_t *self, char *value,
                                 size_t cap, unsigned timeout_s)
{
    pmix_info_t limit = timeout_info(timeout_s);
    pmix_proc_t zero = *self;
    pmix_value_t *v = NULL;
    tutti_status st = TUTTI_OK;
    pmix_status_t rc;

    zero.rank = 0;
    rc = p->get(&zero, KEY, &limit, timeout_s ? 1 : 0, &v);
    if (rc != PMIX_SUCCESS)
        return pmix_fail(p, "PMIx_Get", rc);
    if (v->type != PMIX_STRING || !v->data.string || strlen(v->data.string) >= cap)
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "start-up through PMIx: the value that rank 0 published is not an address");
    else
        memcpy(value, v->data.string, strlen(v->data.string) + 1);
    if (v->type == PMIX_STRING)
        free(v->data.string);
    free(v);        /* like the header's PMIX_VALUE_RELEASE, which would need linking */
    return st;
}

tutti_status tt_pmix_size(uint32_t *nranks)
{
    pmix_value_t *v = NULL;
    pmix_proc_t all;
    pmix_status_t rc;
    tutti_status st = TUTTI_OK;

    if (!open_session())
        return TUTTI_ERR_UNSUPPORTED;
    all = session.self;
    all.rank = PMIX_RANK_WILDCARD;
    rc = pmix.get(&all, PMIX_JOB_SIZE, NULL, 0, &v);
    if (rc != PMIX_SUCCESS)
        return pmix_fail(&pmix, "PMIx_Get(" PMIX_JOB_SIZE ")", rc);
    if (v->type != PMIX_UINT32 || v->data.uint32 == 0)
        st = tt_fail(TUTTI_ERR_PROTOCOL,
                     "start-up through PMIx: " PMIX_JOB_SIZE " is not a valid number of ranks");
    else
        *nranks = v->data.uint32;
    if (v->type == PMIX_STRING)
        free(v->data.string);
    free(v);
    if (!st && *nranks == 1)
        close_session();        /* there will be no exchange */
    return st;
}

tutti_status tt_pmix_broadcast(uint32_t rank, char *value, size_t cap, unsigned timeout_s,
                               bool *not_all)
{
    tutti_status st = TUTTI_OK;

    if (!open_session()) {
        tt_log(TT_LOG_INFO, "boot: %s", session.why);
        return TUTTI_ERR_UNSUPPORTED;
    }
    if (rank == 0)
        st = pmix_publish(&pmix, value);
    if (!st)
        st = pmix_fence(&pmix, timeout_s);
    *not_all = st == TUTTI_ERR_TIMEOUT;
    if ((!st || *not_all) && rank != 0)
        st = pmix_look_up(&pmix, &session.self, value, cap, *not_all ? LATE_S : 0);
    else if (*not_all)
        st = TUTTI_OK;
    if (st && *not_all)
        st = tt_fail(TUTTI_ERR_TIMEOUT,
                     "start-up through PMIx: not every rank joined within %u s, and rank 0 "
                     "published no address",
                     timeout_s);
    if (!st && !*not_all)
        close_session();
    return st;
}

#endif
