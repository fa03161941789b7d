#include "boot/pmix.h"

#ifndef TUTTI_HAVE_PMIX

bool tt_pmix_is_built(void)
{
    return false;
}

tutti_status tt_pmix_tell(uint32_t rank, char *value, size_t cap, unsigned timeout_s, bool *not_all)
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
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/status.h"

#define KEY "tutti-rendezvous"
#define LATE_S 1        /* for what rank 0 has published, when all have waited in vain for somebody */

bool tt_pmix_is_built(void)
{
    return true;
}

/* What we call of libpmix. Its types are the header's, so the compiler checks our calls. */
struct pmix {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence) *fence;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Error_string) *error_string;
};

/* The library stays loaded: MPI may be using the same one. */
static bool load(struct pmix *p)
{
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);

    if (!library) {
        tt_log(TT_LOG_INFO, "boot: no PMIx: %s", dlerror());
        return false;
    }
    p->init = (__typeof__(p->init))dlsym(library, "PMIx_Init");
    p->finalize = (__typeof__(p->finalize))dlsym(library, "PMIx_Finalize");
    p->put = (__typeof__(p->put))dlsym(library, "PMIx_Put");
    p->commit = (__typeof__(p->commit))dlsym(library, "PMIx_Commit");
    p->fence = (__typeof__(p->fence))dlsym(library, "PMIx_Fence");
    p->get = (__typeof__(p->get))dlsym(library, "PMIx_Get");
    p->error_string = (__typeof__(p->error_string))dlsym(library, "PMIx_Error_string");
    return p->init && p->finalize && p->put && p->commit && p->fence && p->get && p->error_string;
}

static tutti_status fail(const struct pmix *p, const char *call, pmix_status_t rc)
{
    return tt_fail(rc == PMIX_ERR_TIMEOUT ? TUTTI_ERR_TIMEOUT : TUTTI_ERR_SYSTEM, "start-up through PMIx: %s: %s", call,
                   p->error_string(rc));
}

static tutti_status publish(const struct pmix *p, char *value)
{
    pmix_value_t v = { .type = PMIX_STRING, .data.string = value };
    pmix_status_t rc = p->put(PMIX_GLOBAL, KEY, &v);

    if (rc == PMIX_SUCCESS)
        rc = p->commit();
    return rc == PMIX_SUCCESS ? TUTTI_OK : fail(p, "PMIx_Put", rc);
}

static pmix_info_t timeout_info(unsigned timeout_s)
{
    pmix_info_t info = { .flags = 0 };

    snprintf(info.key, sizeof info.key, "%s", PMIX_TIMEOUT);
    info.value.type = PMIX_INT;
    info.value.data.integer = (int)timeout_s;
    return info;
}

/* All ranks pass, and what was published before is known after. TIMEOUT is not logged. */
static tutti_status fence(const struct pmix *p, unsigned timeout_s)
{
    pmix_info_t info[2] = { { .flags = 0 }, timeout_info(timeout_s) };
    pmix_status_t rc;

    snprintf(info[0].key, sizeof info[0].key, "%s", PMIX_COLLECT_DATA);
    info[0].value.type = PMIX_BOOL;
    info[0].value.data.flag = true;
    rc = p->fence(NULL, 0, info, timeout_s ? 2 : 1);
    if (rc == PMIX_ERR_TIMEOUT)
        return TUTTI_ERR_TIMEOUT;
    return rc == PMIX_SUCCESS ? TUTTI_OK : fail(p, "PMIx_Fence", rc);
}

static tutti_status look_up(const struct pmix *p, const pmix_proc_t *self, char *value, size_t cap, unsigned timeout_s)
{
    pmix_info_t limit = timeout_info(timeout_s);
    pmix_proc_t zero = *self;
    pmix_value_t *v = NULL;
    tutti_status st = TUTTI_OK;
    pmix_status_t rc;

    zero.rank = 0;
    rc = p->get(&zero, KEY, &limit, timeout_s ? 1 : 0, &v);
    if (rc != PMIX_SUCCESS)
        return fail(p, "PMIx_Get", rc);
    if (v->type != PMIX_STRING || !v->data.string || strlen(v->data.string) >= cap)
        st = tt_fail(TUTTI_ERR_PROTOCOL, "start-up through PMIx: what rank 0 published is no address");
    else
        memcpy(value, v->data.string, strlen(v->data.string) + 1);
    if (v->type == PMIX_STRING)
        free(v->data.string);
    free(v);        /* what the header's PMIX_VALUE_RELEASE does, without linking to it */
    return st;
}

tutti_status tt_pmix_tell(uint32_t rank, char *value, size_t cap, unsigned timeout_s, bool *not_all)
{
    struct pmix p;
    pmix_proc_t self;
    pmix_status_t rc;
    tutti_status st = TUTTI_OK;

    if (!load(&p))
        return TUTTI_ERR_UNSUPPORTED;
    rc = p.init(&self, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        tt_log(TT_LOG_INFO, "boot: no PMIx: PMIx_Init: %s", p.error_string(rc));
        return TUTTI_ERR_UNSUPPORTED;
    }
    if (rank == 0)
        st = publish(&p, value);
    if (!st)
        st = fence(&p, timeout_s);
    *not_all = st == TUTTI_ERR_TIMEOUT;
    if ((!st || *not_all) && rank != 0)
        st = look_up(&p, &self, value, cap, *not_all ? LATE_S : 0);
    else if (*not_all)
        st = TUTTI_OK;
    if (st && *not_all)
        st = tt_fail(TUTTI_ERR_TIMEOUT,
                     "start-up through PMIx: not every rank came within %u s, and rank 0 published nothing", timeout_s);
    p.finalize(NULL, 0);
    return st;
}

#endif
