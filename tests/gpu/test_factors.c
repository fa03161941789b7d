/* Factors of premul_sum have the same value in every floating-point environment of the calling
 * thread, which is also that of the threads that tutti_gpu_create starts. */
#include "world.h"

#include <fenv.h>
#include <string.h>

struct setting {
    const char *name;
    int rounding;
    bool flushes;       /* results and operands that are denormal become 0 */
};

static const struct setting settings[] = {
    { "the default", FE_TONEAREST, false },
    { "flush-to-zero and denormals-are-zero", FE_TONEAREST, true },
    { "rounding upwards", FE_UPWARD, false },
    { "rounding downwards", FE_DOWNWARD, false },
    { "rounding towards zero", FE_TOWARDZERO, false },
};

static void flush_denormals(void)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 1u << 24));
#endif
}

/* Bits of an input, a factor and their product. */
struct factor {
    tutti_dtype type;
    uint64_t input, factor, product;
};

static const struct factor factors[] = {
    { TUTTI_F32, 0x71800000, 0x00000200, 0x2b800000 },      /* 2^100 * 2^-140 */
    { TUTTI_F16, 0x6400, 0x0010, 0x1400 },                  /* 2^10 * 2^-20 */
    { TUTTI_F64, 0x7e30000000000000, 0x1, 0x3b10000000000000 },     /* 2^996 * 2^-1074 */
    { TUTTI_I64, 1, (1ull << 53) + 1, 1ull << 53 },         /* as f64: a tie, rounded to even */
    { TUTTI_U64, 1, (1ull << 53) + 3, (1ull << 53) + 4 },
};

/* Multiplies with a factor in host memory, in device memory, or, for f64, in the call itself. */
static void multiply(struct world *w, const struct factor *f, uint64_t products[3])
{
    const size_t bytes = tutti_dtype_bytes(f->type);
    void *buf = world_alloc(w, 0, bytes, 0), *device = world_alloc(w, 0, bytes, 0);

    world_write(w, 0, device, &f->factor, bytes);
    for (int way = 0; way < (f->type == TUTTI_F64 ? 3 : 2); way++) {
        tutti_gpu_op op = { .size = sizeof op,
                            .kind = TUTTI_GPU_ALLREDUCE,
                            .gpu = w->gpu[0],
                            .stream = w->stream[0],
                            .src = buf,
                            .dst = buf,
                            .count = 1,
                            .type = f->type,
                            .op = TUTTI_PREMUL_SUM,
                            .scale_from = way == 0 ? &f->factor : device };

        if (way == 2) {
            op.scale_from = NULL;
            memcpy(&op.scale, &f->factor, sizeof op.scale);
        }
        world_write(w, 0, buf, &f->input, bytes);
        assert_ok(tutti_gpu_group(&op, 1));
        world_read(w, 0, &products[way], buf, bytes);
    }
    world_free(w, 0, buf);
    world_free(w, 0, device);
}

static void factors_do_not_depend_on_the_floating_point_environment(void **state)
{
    static const char *const ways[] = { "host memory", "device memory", "the call" };

    (void)state;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        uint64_t products[sizeof factors / sizeof *factors][3] = { 0 };
        struct world w;

        fesetround(settings[s].rounding);
        if (settings[s].flushes)
            flush_denormals();
        world_open(&w, 1, NULL);
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            multiply(&w, &factors[i], products[i]);
        world_close(&w);
        fesetenv(FE_DFL_ENV);
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            for (int way = 0; way < (factors[i].type == TUTTI_F64 ? 3 : 2); way++)
                if (products[i][way] != factors[i].product)
                    fail_msg("%s, a factor in %s, %s: the product is %#llx instead of %#llx",
                             tutti_dtype_name(factors[i].type), ways[way], settings[s].name,
                             (unsigned long long)products[i][way],
                             (unsigned long long)factors[i].product);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_do_not_depend_on_the_floating_point_environment),
    };

    world_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
