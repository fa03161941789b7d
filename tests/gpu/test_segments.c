/* Memory that an allocator maps piece by piece, expands, unmaps and maps again, or frees.
 * Operations use the memory that is mapped at the time, and windows detect that their memory was
 * replaced. */
#include "windows.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)2 << 20)
#define PIECES 3
#define assert_cuda(call) assert_int_equal(call, 0)
#define assert_says(part) assert_non_null(strstr(tutti_last_error(), part))

/* Types and values of the driver's ABI. */
typedef unsigned long long handle_t;
enum { ON_DEVICE = 1, PINNED = 1, READ_WRITE = 3 };
struct location {
    int type, id;
};
struct properties {
    int type, handle_types;
    struct location location;
    void *unused;
    unsigned char flags[8];
};
struct rights {
    struct location location;
    int flags;
};

static struct {
    tt_cuda_result (*reserve)(tt_cuda_address *out, size_t bytes, size_t align, tt_cuda_address at,
                              unsigned long long flags);
    tt_cuda_result (*release_range)(tt_cuda_address at, size_t bytes);
    tt_cuda_result (*create)(handle_t *out, size_t bytes, const struct properties *properties,
                             unsigned long long flags);
    tt_cuda_result (*release)(handle_t handle);
    tt_cuda_result (*map)(tt_cuda_address at, size_t bytes, size_t offset, handle_t handle,
                          unsigned long long flags);
    tt_cuda_result (*unmap)(tt_cuda_address at, size_t bytes);
    tt_cuda_result (*set_access)(tt_cuda_address at, size_t bytes, const struct rights *rights,
                                 size_t n);
} vmm;

static void load(void)
{
    static const char *const names[] = { "cuMemAddressReserve", "cuMemAddressFree",
                                         "cuMemCreate",         "cuMemRelease",
                                         "cuMemMap",            "cuMemUnmap",
                                         "cuMemSetAccess" };
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *function;

    assert_non_null(library);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        function = dlsym(library, names[i]);
        assert_non_null(function);
        memcpy((char *)&vmm + i * sizeof function, &function, sizeof function);
    }
    dlclose(library);           /* Tutti keeps it loaded */
}

/* An expandable segment of a rank's device. */
struct segment {
    struct world *w;
    int rank, device;
    tt_cuda_address at;
    bool mapped[PIECES];
};

static void segment_open(struct segment *s, struct world *w, int rank)
{
    *s = (struct segment){ .w = w, .rank = rank, .device = tutti_gpu_device(w->gpu[rank]) };
    assert_cuda(vmm.reserve(&s->at, PIECES * PIECE, 0, 0, 0));
}

static void segment_unmap(struct segment *s, int i)
{
    world_sync(s->w, s->rank);
    assert_cuda(vmm.unmap(s->at + (size_t)i * PIECE, PIECE));
    s->mapped[i] = false;
}

/* Maps new memory at piece i, filled with a byte. */
static void segment_map(struct segment *s, int i, int fill)
{
    const struct location where = { ON_DEVICE, s->device };
    const struct properties properties = { .type = PINNED, .location = where };
    const struct rights rights = { where, READ_WRITE };
    const tt_cuda_address at = s->at + (size_t)i * PIECE;
    handle_t handle;
    char *host = malloc(PIECE);

    assert_non_null(host);
    memset(host, fill, PIECE);
    assert_cuda(vmm.create(&handle, PIECE, &properties, 0));
    assert_cuda(vmm.map(at, PIECE, 0, handle, 0));
    assert_cuda(vmm.release(handle));
    assert_cuda(vmm.set_access(at, PIECE, &rights, 1));
    s->mapped[i] = true;
    world_write(s->w, s->rank, (void *)at, host, PIECE);
    free(host);
}

static void segment_close(struct segment *s)
{
    for (int i = 0; i < PIECES; i++)
        if (s->mapped[i])
            segment_unmap(s, i);
    assert_cuda(vmm.release_range(s->at, PIECES * PIECE));
}

static void assert_filled(struct world *w, int rank, tt_cuda_address at, size_t bytes, int value)
{
    unsigned char *host = malloc(bytes);

    world_read(w, rank, host, (const void *)at, bytes);
    assert_int_equal(host[0], value);
    assert_memory_equal(host, host + 1, bytes - 1);
    free(host);
}

/* One allgather of `bytes` from the segment of each rank, from `offset` on, and one message from
 * rank 0 to rank 1. value[r]: what rank r's segment contains. */
static void exchange(struct segment *s, size_t offset, size_t bytes, const int *value)
{
    struct world *w = s[0].w;
    char *all[2];

    for (int r = 0; r < 2; r++) {
        all[r] = world_alloc(w, r, 3 * bytes, 0);
        assert_ok(tutti_gpu_allgather((void *)(s[r].at + offset), all[r], bytes, TUTTI_U8,
                                      w->gpu[r], w->stream[r]));
    }
    assert_ok(
        tutti_gpu_send((void *)(s[0].at + offset), bytes, TUTTI_U8, 1, w->gpu[0], w->stream[0]));
    assert_ok(tutti_gpu_recv(all[1] + 2 * bytes, bytes, TUTTI_U8, 0, w->gpu[1], w->stream[1]));
    for (int r = 0; r < 2; r++) {
        for (int from = 0; from < 2; from++)
            assert_filled(w, r, (tt_cuda_address)all[r] + (size_t)from * bytes, bytes, value[from]);
        assert_ok(tutti_gpu_status(w->gpu[r]));
    }
    assert_filled(w, 1, (tt_cuda_address)all[1] + 2 * bytes, bytes, value[0]);
    for (int r = 0; r < 2; r++)
        world_free(w, r, all[r]);
}

/* With staging through host memory, and with copies between devices. */
static void operations_follow_a_segment(void **state)
{
    (void)state;
    for (int copies = 0; copies < 2; copies++) {
        struct segment s[2];
        struct world w;

        setenv("TUTTI_GPU_PEER_COPIES", copies ? "1" : "0", 1);
        world_open(&w, 2, &(tutti_gpu_conf){ .chunk_bytes = 256 << 10 });
        for (int r = 0; r < 2; r++) {
            segment_open(&s[r], &w, r);
            segment_map(&s[r], 0, 1 + r);
        }
        exchange(s, 0, PIECE, (const int[]){ 1, 2 });
        for (int r = 0; r < 2; r++)                     /* expanded */
            segment_map(&s[r], 1, 1 + r);
        exchange(s, 1000, 2 * PIECE - 1000, (const int[]){ 1, 2 });
        for (int r = 0; r < 2; r++) {                   /* remapped */
            segment_unmap(&s[r], 0);
            segment_map(&s[r], 0, 5 + r);
        }
        exchange(s, 0, PIECE, (const int[]){ 5, 6 });
        exchange(s, PIECE, PIECE, (const int[]){ 1, 2 });
        segment_unmap(&s[0], 1);
        assert_status(
            tutti_gpu_send((void *)s[0].at, 2 * PIECE, TUTTI_U8, 1, w.gpu[0], w.stream[0]),
            TUTTI_ERR_INVALID);
        assert_says("is not device memory");
        for (int r = 0; r < 2; r++) {
            assert_ok(tutti_gpu_status(w.gpu[r]));
            segment_close(&s[r]);
        }
        world_close(&w);
    }
    unsetenv("TUTTI_GPU_PEER_COPIES");
}

/* ---- windows ---- */

enum access { PUT, GET, ATOMIC, ACCESSES };

/* Rank 0 accesses the window of rank 1. */
static void access_window(struct world *w, enum access a, tutti_gpu_window *window, void *mem,
                          size_t offset)
{
    if (a == PUT)
        assert_ok(
            tutti_gpu_put_signal(mem, 8, TUTTI_U8, 1, window, offset, 0, w->gpu[0], w->stream[0]));
    else if (a == GET)
        assert_ok(tutti_gpu_get(mem, 8, TUTTI_U8, 1, window, offset, w->gpu[0], w->stream[0]));
    else
        assert_ok(tutti_gpu_atomic(TUTTI_ATOMIC_ADD, 1, 0, mem, TUTTI_U64, 1, window, offset,
                                   w->gpu[0], w->stream[0]));
}

/* The access fails the tutti_gpu of both ranks; rank 1 returns INVALID. */
static void assert_stale(struct world *w, enum access a, tutti_gpu_window *window, void *mem,
                         size_t offset)
{
    access_window(w, a, window, mem, offset);
    if (a == PUT)                       /* the put does not wait for the data's arrival */
        assert_ok(tutti_gpu_wait_signal(1, 1, 1, w->gpu[0], w->stream[0]));
    world_sync(w, 0);
    assert_int_not_equal(tutti_gpu_status(w->gpu[0]), TUTTI_OK);
    assert_status(tutti_gpu_status(w->gpu[1]), TUTTI_ERR_INVALID);
    assert_says("gpu: rank 0 accessed 8 bytes at offset");
    assert_says("window whose memory was freed or mapped again");
}

/* A piece of rank 1's window is mapped again. Other pieces stay usable; an access to this piece
 * fails. */
static void a_window_notices_that_a_piece_was_mapped_again(void **state)
{
    static const size_t bytes[] = { 8, 2 * PIECE };

    (void)state;
    for (int a = 0; a < ACCESSES; a++) {
        struct creator c[2];
        struct segment s;
        struct world w;
        void *mem[2];

        world_open(&w, 2, NULL);
        segment_open(&s, &w, 1);
        segment_map(&s, 0, 1);
        segment_map(&s, 1, 2);
        mem[0] = world_alloc(&w, 0, 8, 9);
        mem[1] = (void *)s.at;
        windows_create(c, &w, mem, bytes);
        for (int r = 0; r < 2; r++)
            assert_ok(c[r].status);
        segment_map(&s, 2, 3);                          /* expanded: the window stays valid */
        access_window(&w, a, c[0].window, mem[0], PIECE - 8);
        segment_unmap(&s, 1);
        segment_map(&s, 1, 4);
        access_window(&w, a, c[0].window, mem[0], 0);
        world_sync(&w, 0);
        assert_ok(tutti_gpu_status(w.gpu[0]));
        assert_stale(&w, a, c[0].window, mem[0], PIECE + 64);
        assert_filled(&w, 1, s.at + PIECE, PIECE, 4);   /* untouched */
        for (int r = 0; r < 2; r++)
            assert_ok(tutti_gpu_window_free(c[r].window));
        world_free(&w, 0, mem[0]);
        segment_close(&s);
        world_close(&w);
    }
}

/* The memory is freed and allocated again, at the same address if the driver reuses it. */
static void a_window_notices_that_its_memory_was_freed(void **state)
{
    static const size_t bytes[] = { 64, 64 };

    (void)state;
    for (int again = 0; again < 2; again++) {
        struct windows ws;
        struct world w;

        world_open(&w, 2, NULL);
        windows_open(&ws, &w, bytes);
        world_free(&w, 1, ws.mem[1]);
        if (again)
            ws.mem[1] = world_alloc(&w, 1, 64, 4);
        assert_stale(&w, PUT, ws.window[0], ws.mem[0], 0);
        if (again)
            assert_filled(&w, 1, (tt_cuda_address)ws.mem[1], 64, 4);
        else
            ws.mem[1] = world_alloc(&w, 1, 64, 4);
        windows_close(&ws, &w);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_follow_a_segment),
        cmocka_unit_test(a_window_notices_that_a_piece_was_mapped_again),
        cmocka_unit_test(a_window_notices_that_its_memory_was_freed),
    };

    world_devices();
    load();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
