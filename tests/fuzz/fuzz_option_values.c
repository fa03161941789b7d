/* Arbitrary values of options; the first byte selects the kind, the next two the permitted range. A
 * value is refused, or within its range, and lists have at most the permitted length. */
#include <argp.h>
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

static jmp_buf refusal;

static _Noreturn void refuse(const struct argp_state *state, const char *format, ...)
{
    char text[4096];
    va_list values;

    (void)state;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    longjmp(refusal, 1);
}
#define argp_error refuse
#include "tools/option_values.c"
#undef argp_error

#include "base/status.h"

#define TEXT_BYTES_MAX 1024
#define LIST_MAX 32u

struct given {
    const char *text;
    uint64_t min, max;
};

static void take_number(const struct given *g)
{
    const unsigned long long v = option_number(NULL, "-n", g->text, g->min, g->max);

    tt_assert(v >= g->min && v <= g->max && strspn(g->text, "0123456789") == strlen(g->text));
}

static void take_real(const struct given *g)
{
    const double v = option_real(NULL, "-r", g->text, (double)g->min, (double)g->max);

    tt_assert(v >= (double)g->min && v <= (double)g->max && !isspace((unsigned char)*g->text));
}

static void take_size(const struct given *g)
{
    const size_t v = option_size(NULL, "-s", g->text);

    tt_assert(v >= 1 && v <= OPTION_SIZE_MAX && v == option_size_or_none(NULL, "-s", g->text));
}

static void take_sweep(const struct given *g)
{
    uint64_t v = UINT64_MAX;
    const char *end = option_size_until(NULL, "-w", g->text, g->text, ':', &v);

    tt_assert(v <= OPTION_SIZE_MAX && end > g->text && end <= g->text + strlen(g->text) &&
              (!*end || *end == ':'));
}

static void take_list(const struct given *g, bool of_sizes)
{
    uint64_t out[LIST_MAX + 1];
    uint32_t n;

    out[LIST_MAX] = 0x5a;
    n = option_list(NULL, "-l", g->text, of_sizes, 2, g->min, g->max, out, LIST_MAX);
    tt_assert(n >= 1 && n <= LIST_MAX && out[LIST_MAX] == 0x5a);
    for (uint32_t i = 0; i < n; i++)
        tt_assert(out[i] >= g->min && out[i] <= g->max);
}

static void take_numbers(const struct given *g) { take_list(g, false); }
static void take_sizes(const struct given *g) { take_list(g, true); }

static void take_wires(const struct given *g)
{
    option_check_wires(NULL, g->text);
    tt_assert(*g->text && *g->text != ',' && g->text[strlen(g->text) - 1] != ',');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const takes[])(const struct given *) = { take_number, take_real,    take_size,
                                                           take_sweep,  take_numbers, take_sizes,
                                                           take_wires };
    static char text[TEXT_BYTES_MAX + 1];   /* static, because it must survive the jump */
    struct given g = { .text = text };

    if (bytes < 3 || bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(text, data + 3, bytes - 3);
    text[bytes - 3] = 0;
    g.min = data[1];
    g.max = g.min << (data[2] % 56);
    if (setjmp(refusal) == 0)
        takes[data[0] % (sizeof takes / sizeof *takes)](&g);
    return 0;
}
