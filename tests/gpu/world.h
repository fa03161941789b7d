/* Ranks of one process, each with a device and a stream, driven by the thread of the test. The
 * tests use the driver library that the loader finds: the emulation, or that of a GPU. */
#ifndef TESTS_GPU_WORLD_H
#define TESTS_GPU_WORLD_H

#include "support/unit.h"

#include "gpu/cuda.h"
#include "tutti/gpu.h"

#define WORLD_RANKS 8

struct world {
    const struct tt_cuda *cu;
    int n;
    tutti_comm *comm[WORLD_RANKS];
    tutti_comm *host[WORLD_RANKS];          /* the same ranks, for reference results */
    tutti_gpu *gpu[WORLD_RANKS];            /* rank r: device r modulo the number of devices */
    tt_cuda_context context[WORLD_RANKS];
    tt_cuda_stream stream[WORLD_RANKS];
};

/* Returns the number of devices; exits as skipped if there are none. */
int world_devices(void);

/* Opens n ranks; conf is that of each tutti_gpu except the device, and may be NULL. */
void world_open(struct world *w, int n, const tutti_gpu_conf *conf);
void world_close(struct world *w);
/* Creates the tutti_gpu of a rank; conf as above. */
void world_create_gpu(struct world *w, int rank, const tutti_gpu_conf *conf);

/* Memory of the rank's device, filled with a byte. */
void *world_alloc(struct world *w, int rank, size_t bytes, int fill);
void world_free(struct world *w, int rank, void *mem);
/* Copies to and from the device; waits for the rank's stream first. */
void world_write(struct world *w, int rank, void *dst, const void *src, size_t bytes);
void world_read(struct world *w, int rank, void *dst, const void *src, size_t bytes);
void world_sync(struct world *w, int rank);

/* A word that streams can wait for. */
struct gate {
    uint32_t *word;
    struct world *w;
};
void gate_open(struct gate *g, struct world *w);
/* Makes the stream of a rank wait until the gate is lifted. */
void gate_hold(struct gate *g, int rank);
void gate_lift(struct gate *g);
/* The streams must have passed the gate. */
void gate_close(struct gate *g);

#define assert_ok(call) assert_status(call, TUTTI_OK)
#define assert_status(call, status) \
    assert_string_equal(tutti_status_name(call), tutti_status_name(status))

#endif
