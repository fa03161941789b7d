/* Requests: created by the caller, completed by the worker, freed with the last reference. */
#include "gpu/request.h"

#include <stdio.h>
#include <stdlib.h>

struct tutti_gpu_request *tt_gpu_request_create(void)
{
    struct tutti_gpu_request *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->completed, NULL);
    r->references = 2;
    return r;
}

void tt_gpu_request_cancel(struct tutti_gpu_request *r)
{
    pthread_cond_destroy(&r->completed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* Drops a reference, and unlocks. The caller holds the lock. */
static void drop_locked(struct tutti_gpu_request *r)
{
    const bool last = !--r->references;

    pthread_mutex_unlock(&r->lock);
    if (last)
        tt_gpu_request_cancel(r);
}

void tt_gpu_request_complete(struct tutti_gpu_request *r, tutti_status status)
{
    pthread_mutex_lock(&r->lock);
    r->status = status;
    if (status)
        snprintf(r->why, sizeof r->why, "%s", tutti_last_error());
    r->done = true;
    pthread_cond_broadcast(&r->completed);
    drop_locked(r);
}

tutti_status tutti_gpu_test(tutti_gpu_request *request)
{
    tutti_status st;

    if (!request)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_test: the request is NULL");
    pthread_mutex_lock(&request->lock);
    st = request->done ? request->status : TUTTI_PENDING;
    if (st && st != TUTTI_PENDING)
        tt_fail_again(st, request->why);
    pthread_mutex_unlock(&request->lock);
    return st;
}

tutti_status tutti_gpu_wait(tutti_gpu_request *request)
{
    tutti_status st;

    if (!request)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_gpu_wait: the request is NULL");
    pthread_mutex_lock(&request->lock);
    while (!request->done)
        pthread_cond_wait(&request->completed, &request->lock);
    st = request->status;
    if (st)
        tt_fail_again(st, request->why);
    drop_locked(request);
    return st;
}
