/* Runs a fuzzer's entry point without libFuzzer, so that every compiler and every ctest run covers
 * it:
 *
 *     fuzz_<name> RUNS SEED [corpus directory or file...]
 *
 * First every input of the corpus, then RUNS inputs derived from the corpus (or random ones) by a
 * generator with SEED: the same inputs on every machine. If an input breaks the parser, the number
 * of its run and its bytes are printed first. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/prng.h"

#define INPUT_BYTES_MAX 4096
#define SEEDS_MAX 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct input {
    size_t bytes;
    uint8_t *data;
};

static struct input seeds[SEEDS_MAX];
static size_t nseeds;

/* The current input; printed by the signal handler. */
static struct {
    uint64_t run;       /* 0: a corpus file */
    size_t bytes;
    uint8_t data[INPUT_BYTES_MAX];
} now;

static void print_hex(const uint8_t *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    char out[2];

    for (size_t i = 0; i < bytes; i++) {
        out[0] = digits[data[i] >> 4];
        out[1] = digits[data[i] & 15];
        if (write(STDERR_FILENO, out, 2) < 0)
            return;
    }
}

/* Also called by the sanitizers, before they end the process. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void print_input(void)
{
    char line[96];
    const int n =
        snprintf(line, sizeof line,
                 "\nrun %llu broke it, with %zu bytes: ", (unsigned long long)now.run, now.bytes);

    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return;
    print_hex(now.data, now.bytes);
    if (write(STDERR_FILENO, "\n", 1) < 0)
        return;
}

static void on_signal(int signal_number)
{
    print_input();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

/* The bytes are passed in a block of exactly their size, so that sanitizers detect overruns. */
static void try_input(uint64_t run, const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes ? bytes : 1);

    if (!exact)
        abort();
    now.run = run;
    now.bytes = bytes < sizeof now.data ? bytes : sizeof now.data;
    memcpy(now.data, data, now.bytes);
    memcpy(exact, data, bytes);
    LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
}

static void add_seed_file(const char *path)
{
    uint8_t *data;
    size_t bytes;
    FILE *f;

    if (nseeds == SEEDS_MAX)
        return;
    f = fopen(path, "rb");
    data = malloc(INPUT_BYTES_MAX);
    if (!f || !data) {
        fprintf(stderr, "cannot read %s: %s\n", path, strerror(errno));
        exit(2);
    }
    bytes = fread(data, 1, INPUT_BYTES_MAX, f);
    fclose(f);
    seeds[nseeds++] = (struct input){ .bytes = bytes, .data = data };
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Adds a directory's files sorted by name: the same on every machine. It may be missing. */
static void add_seeds(const char *path)
{
    struct dirent **entries;
    struct stat info;
    char file[4096];
    int n;

    if (stat(path, &info))
        return;
    if (!S_ISDIR(info.st_mode)) {
        add_seed_file(path);
        return;
    }
    n = scandir(path, &entries, not_hidden, alphasort);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        add_seed_file(file);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/* Returns a number at a limit, for which parsers often fail. */
static uint64_t awkward(struct tt_prng *p)
{
    static const uint64_t values[] = { 0,      1,      0x7f,       0x80,       0xff,
                                       0x7fff, 0xffff, 0x7fffffff, 0xffffffff, UINT64_MAX };

    return values[tt_prng_below(p, sizeof values / sizeof *values)];
}

/* Makes one change of data[*bytes]: a bit, a byte, a number at a limit, a piece removed,
 * duplicated, or taken from another seed. */
static void mutate(struct tt_prng *p, uint8_t *data, size_t *bytes)
{
    const size_t n = *bytes;
    const size_t at = tt_prng_below(p, n + 1);
    const size_t span = n > at ? 1 + tt_prng_below(p, n - at < 64 ? n - at : 64) : 0;
    const uint64_t value = awkward(p);
    const size_t width = (size_t)1 << tt_prng_below(p, 4);

    switch (tt_prng_below(p, 7)) {
    case 0:
        if (at < n)
            data[at] ^= (uint8_t)(1u << tt_prng_below(p, 8));
        break;
    case 1:
        if (at < n)
            data[at] = (uint8_t)tt_prng_u64(p);
        break;
    case 2:
        if (at + width <= n)
            memcpy(data + at, &value, width);
        break;
    case 3:
        memmove(data + at, data + at + span, n - at - span);
        *bytes = n - span;
        break;
    case 4:
        if (n + span <= INPUT_BYTES_MAX) {
            memmove(data + at + span, data + at, n - at);
            *bytes = n + span;
        }
        break;
    case 5:
        if (n + width <= INPUT_BYTES_MAX) {
            memmove(data + at + width, data + at, n - at);
            memcpy(data + at, &value, width);
            *bytes = n + width;
        }
        break;
    default:
        if (nseeds > 0) {
            const struct input *other = &seeds[tt_prng_below(p, nseeds)];

            if (other->bytes > at) {
                memcpy(data + at, other->data + at, other->bytes - at);
                *bytes = n > other->bytes ? n : other->bytes;
            }
        }
        break;
    }
}

/* Starts with a seed, or with random bytes, one time in eight and if there is none. */
static size_t begin_input(struct tt_prng *p, uint8_t *data)
{
    size_t bytes;

    if (nseeds > 0 && tt_prng_below(p, 8) != 0) {
        const struct input *seed = &seeds[tt_prng_below(p, nseeds)];

        memcpy(data, seed->data, seed->bytes);
        return seed->bytes;
    }
    bytes = tt_prng_below(p, 257);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)tt_prng_u64(p);
    return bytes;
}

int main(int argc, char **argv)
{
    static uint8_t data[INPUT_BYTES_MAX];
    uint64_t nruns, seed;

    if (argc < 3) {
        fprintf(stderr, "usage: %s RUNS SEED [corpus...]\n", argv[0]);
        return 2;
    }
    nruns = strtoull(argv[1], NULL, 10);
    seed = strtoull(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++)
        add_seeds(argv[i]);
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGFPE, on_signal);
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(print_input);

    for (size_t i = 0; i < nseeds; i++)
        try_input(0, seeds[i].data, seeds[i].bytes);
    for (uint64_t run = 1; run <= nruns; run++) {
        struct tt_prng p;
        size_t bytes;

        tt_prng_init(&p, tt_mix64(seed) + run);     /* every run is independent: it can be
                                                       replayed without earlier ones */
        bytes = begin_input(&p, data);
        for (uint64_t changes = tt_prng_below(&p, 8); changes > 0; changes--)
            mutate(&p, data, &bytes);
        try_input(run, data, bytes);
    }
    printf("%zu corpus files and %llu made inputs, seed %llu: none broke it\n", nseeds,
           (unsigned long long)nruns, (unsigned long long)seed);
    for (size_t i = 0; i < nseeds; i++)
        free(seeds[i].data);
    return 0;
}
