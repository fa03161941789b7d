/* Memory: allocation, attributes of pointers, pinned and registered memory, and its errors. */
#include "gpu.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void copies_return_what_was_written(void **state)
{
    static const size_t sizes[] = { 1, 511, 4096, 3 << 20 };

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        unsigned char *out = malloc(sizes[i]), *in = malloc(sizes[i]);
        void *a, *b;

        for (size_t k = 0; k < sizes[i]; k++)
            out[k] = (unsigned char)(k * 7 + i);
        memset(in, 0, sizes[i]);
        assert_cuda(cudaMalloc(&a, sizes[i]));
        assert_cuda(cudaMalloc(&b, sizes[i]));
        assert_int_equal((uintptr_t)a % 256, 0);
        assert_cuda(cudaMemcpy(a, out, sizes[i], cudaMemcpyHostToDevice));
        assert_cuda(cudaMemcpy(b, a, sizes[i], cudaMemcpyDeviceToDevice));
        assert_cuda(cudaMemcpy(in, b, sizes[i], cudaMemcpyDefault));
        assert_memory_equal(in, out, sizes[i]);
        assert_cuda(cudaMemset(a, 0x5a, sizes[i]));
        assert_cuda(cudaMemcpy(in, a, sizes[i], cudaMemcpyDeviceToHost));
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(in[k], 0x5a);
        assert_cuda(cudaFree(a));
        assert_cuda(cudaFree(b));
        free(out);
        free(in);
    }
}

static void rows_keep_what_lies_between_them(void **state)
{
    enum { WIDTH = 100, HEIGHT = 7 };
    unsigned char host[HEIGHT][WIDTH + 20], back[HEIGHT][WIDTH + 20];
    size_t pitch;
    void *p;

    (void)state;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH + 20; x++)
            host[y][x] = (unsigned char)(y * 31 + x);
    memset(back, 0xee, sizeof(back));
    assert_cuda(cudaMallocPitch(&p, &pitch, WIDTH, HEIGHT));
    assert_true(pitch >= WIDTH);
    assert_cuda(
        cudaMemcpy2D(p, pitch, host, sizeof(host[0]), WIDTH, HEIGHT, cudaMemcpyHostToDevice));
    assert_cuda(
        cudaMemcpy2D(back, sizeof(back[0]), p, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    for (int y = 0; y < HEIGHT; y++) {
        assert_memory_equal(back[y], host[y], WIDTH);
        for (int x = WIDTH; x < WIDTH + 20; x++)
            assert_int_equal(back[y][x], 0xee);
    }
    assert_cuda_error(
        cudaMemcpy2D(back, WIDTH - 1, p, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost),
        cudaErrorInvalidPitchValue);
    assert_cuda(cudaFree(p));
}

static void attributes_show_the_kind_of_memory(void **state)
{
    struct cudaPointerAttributes a;
    void *device, *pinned, *managed, *plain = malloc(100);

    (void)state;
    assert_cuda(cudaMalloc(&device, 100));
    assert_cuda(cudaMallocHost(&pinned, 100));
    assert_cuda(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
    assert_cuda(cudaPointerGetAttributes(&a, (char *)device + 50));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_int_equal(a.device, 0);
    assert_ptr_equal(a.devicePointer, (char *)device + 50);
    assert_null(a.hostPointer);
    assert_cuda(cudaPointerGetAttributes(&a, pinned));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ptr_equal(a.hostPointer, pinned);
    assert_cuda(cudaPointerGetAttributes(&a, managed));
    assert_int_equal(a.type, cudaMemoryTypeManaged);
    assert_cuda(cudaPointerGetAttributes(&a, plain));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    assert_null(a.devicePointer);
    assert_cuda(cudaHostRegister(plain, 100, cudaHostRegisterDefault));
    assert_cuda(cudaPointerGetAttributes(&a, plain));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_cuda_error(cudaHostRegister(plain, 100, cudaHostRegisterDefault),
                      cudaErrorHostMemoryAlreadyRegistered);
    assert_cuda(cudaHostUnregister(plain));
    assert_cuda_error(cudaHostUnregister(plain), cudaErrorHostMemoryNotRegistered);
    assert_cuda(cudaFree(device));
    assert_cuda(cudaFreeHost(pinned));
    assert_cuda(cudaFree(managed));
    free(plain);
}

static void bad_arguments_give_errors(void **state)
{
    char host[16];
    void *p;

    (void)state;
    assert_cuda(cudaMalloc(&p, 0));
    assert_null(p);
    assert_cuda(cudaFree(NULL));
    assert_cuda(cudaMalloc(&p, 1000));
    assert_cuda_error(cudaFree((char *)p + 8), cudaErrorInvalidValue);
    assert_cuda_error(cudaFreeHost(p), cudaErrorInvalidValue);
    assert_cuda_error(cudaMemcpy(p, host, 16, (enum cudaMemcpyKind)7),
                      cudaErrorInvalidMemcpyDirection);
    assert_cuda_error(cudaMemcpy(p, NULL, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    assert_cuda_error(cudaSetDevice(1000), cudaErrorInvalidDevice);
    assert_cuda_error(cudaMalloc(&p, SIZE_MAX / 2), cudaErrorMemoryAllocation);
    assert_cuda(cudaFree(p));
    assert_cuda_error(cudaFree(p), cudaErrorInvalidValue);
    if (gpu_is_emulated())      /* on a GPU it depends on the driver whether this is detected */
        assert_cuda_error(cudaMemcpy(host, p, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
}

static void free_memory_is_counted(void **state)
{
    size_t before, with, after, total;
    void *p;

    (void)state;
    assert_cuda(cudaMemGetInfo(&before, &total));
    assert_true(before <= total);
    assert_cuda(cudaMalloc(&p, 64 << 20));
    assert_cuda(cudaMemGetInfo(&with, &total));
    assert_true(before - with >= 64 << 20);
    assert_cuda(cudaFree(p));
    assert_cuda(cudaMemGetInfo(&after, &total));
    assert_true(after > with);
}

static void host_access_to_device_memory_faults(void **state)
{
    volatile char *p;
    pid_t pid;
    int status;
    void *m;

    (void)state;
    assert_cuda(cudaMalloc(&m, 100));
    p = m;
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        p[3] = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_cuda(cudaFree(m));
}

static void use_in_child(void *arg)
{
    void *p;

    (void)arg;
    if (cudaMalloc(&p, 16) != cudaErrorInitializationError)
        _exit(1);
}

static void children_of_fork_get_an_error(void **state)
{
    (void)state;
    assert_cuda(cudaFree(NULL));
    assert_int_equal(gpu_in_child(use_in_child, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_return_what_was_written),
        cmocka_unit_test(rows_keep_what_lies_between_them),
        cmocka_unit_test(attributes_show_the_kind_of_memory),
        cmocka_unit_test(bad_arguments_give_errors),
        cmocka_unit_test(free_memory_is_counted),
        cmocka_unit_test(host_access_to_device_memory_faults),
        cmocka_unit_test(children_of_fork_get_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
