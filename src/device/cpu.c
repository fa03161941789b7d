/* The CPU device: blocks are threads. */
#include <stdio.h>
#include <stdlib.h>

#include "device/device.h"
#include "reduce/float_env.h"

#define BLOCKS_MAX 1024u

struct launch {
    const tutti_device_view *view;
    tutti_device_kernel *kernel;
    void *arg;
    uint32_t nblocks;
    pthread_mutex_t lock;
    tutti_status status;        /* of the first block that failed; protected by lock, like its
                                   message */
    uint32_t failed;
    char why[TT_ERROR_BYTES];
};

struct block {
    struct launch *launch;
    uint32_t number;
    pthread_t thread;
};

static void *run_block(void *arg)
{
    const struct block *b = arg;
    struct launch *l = b->launch;
    tutti_status st;

    (void)tt_float_env_enter();     /* kernels compute as on a GPU, independent of the floating-
                                       point environment of the launching thread */
    st = l->kernel(l->view, b->number, l->nblocks, l->arg);
    pthread_mutex_lock(&l->lock);
    if (st && !l->status) {
        l->status = st;
        l->failed = b->number;
        snprintf(l->why, sizeof l->why, "%s", tutti_last_error());
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* Sets the message: the last error of the failed block's thread, or the device's. Both were
 * logged where they occurred. */
static tutti_status launch_result(const struct launch *l, tutti_device *d)
{
    const char *const name = tutti_status_name(l->status);
    char why[TT_ERROR_BYTES], sentence[TT_ERROR_BYTES + 80];

    if (!l->status)
        return TUTTI_OK;
    snprintf(why, sizeof why, "%s", l->why);
    if (!why[0] && tutti_device_status(d) == l->status)
        snprintf(why, sizeof why, "%s", tutti_last_error());
    if (!why[0])
        return tt_fail(l->status, "block %u of %u returned %s: %s", l->failed, l->nblocks, name,
                       l->status == TUTTI_ERR_TIMEOUT ? "timed out"
                                                      : "the kernel recorded no cause");
    snprintf(sentence, sizeof sentence, "block %u of %u returned %s: %s", l->failed, l->nblocks,
             name, why);
    return tt_fail_again(l->status, sentence);
}

/* Starts as many threads as possible; *started of them must be joined. */
static tutti_status start_blocks(struct launch *l, struct block *blocks, uint32_t *started)
{
    for (uint32_t i = 0; i < l->nblocks; i++) {
        int err;

        blocks[i] = (struct block){ .launch = l, .number = i };
        err = pthread_create(&blocks[i].thread, NULL, run_block, &blocks[i]);
        if (err)
            return tt_fail_errno(err, "tutti_device_run: cannot start block %u of %u", i,
                                 l->nblocks);
        *started = i + 1;
    }
    return TUTTI_OK;
}

tutti_status tutti_device_run(tutti_device *device, uint32_t nblocks, tutti_device_kernel *kernel,
                              void *arg)
{
    struct launch l = {
        .kernel = kernel, .arg = arg, .nblocks = nblocks, .lock = PTHREAD_MUTEX_INITIALIZER
    };
    uint32_t started = 0;
    struct block *blocks;
    tutti_status st;

    if (!device || !kernel)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_run: %s is NULL",
                       device ? "kernel" : "device");
    if (nblocks == 0 || nblocks > BLOCKS_MAX)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_run: invalid nblocks %u: must be 1 to %u",
                       nblocks, BLOCKS_MAX);
    if (device->conf.alloc)
        return tt_fail(TUTTI_ERR_INVALID, "tutti_device_run: the device uses conf.alloc: launch "
                                          "its kernels with the GPU runtime");
    blocks = calloc(nblocks, sizeof *blocks);
    if (!blocks)
        return tt_fail(TUTTI_ERR_NOMEM, "tutti_device_run: out of memory for %u blocks", nblocks);
    l.view = &device->view;
    st = start_blocks(&l, blocks, &started);
    if (st)
        tutti_device_abort(device);     /* the running blocks may wait for the others */
    for (uint32_t i = 0; i < started; i++)
        pthread_join(blocks[i].thread, NULL);
    free(blocks);
    return st ? st : launch_result(&l, device);
}
