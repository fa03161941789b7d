#include "support/hash_vectors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Generates a test vector: little-endian words, word i = (i + 1) * 0x9e3779b1; truncated to
 * `bytes`. */
static uint8_t *generated(size_t bytes)
{
    uint8_t *data = malloc(bytes + 1);

    for (size_t i = 0; i < bytes && data; i++)
        data[i] = (uint8_t)((uint32_t)(i / 4 + 1) * 0x9e3779b1u >> 8 * (i % 4));
    return data;
}

/* Parses a row of the table: "| what | bytes | `value` |". */
static bool vector_of(const char *line, size_t *bytes, char text[TT_HASH_TEXT_BYTES])
{
    const char *value = strstr(line, "| `");
    unsigned long long n;

    if (line[0] != '|' || !value || sscanf(value + 3, "%32[0-9a-f]`", text) != 1 ||
        strlen(text) != 32)
        return false;
    while (value > line && value[-1] != '|')
        value--;
    if (sscanf(value, "%llu", &n) != 1)
        return false;
    *bytes = (size_t)n;
    return true;
}

size_t hash_vectors_each(size_t most, hash_vector_try *try, void *arg)
{
    const char *sources = getenv("TUTTI_SOURCE_DIR");
    char path[4096], line[1024], want[TT_HASH_TEXT_BYTES];
    size_t bytes, nvectors = 0, longest = 0;
    bool good = true;
    FILE *file;

    snprintf(path, sizeof path, "%s/docs/hash.md", sources ? sources : ".");
    file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "cannot read %s (TUTTI_SOURCE_DIR is the sources' folder)\n", path);
        return 0;
    }
    while (fgets(line, sizeof line, file))
        if (vector_of(line, &bytes, want) && bytes <= most) {
            uint8_t *data = generated(bytes);

            good &= data && try(data, bytes, want, arg);
            longest = bytes > longest ? bytes : longest;
            nvectors++;
            free(data);
        }
    fclose(file);
    return good && nvectors >= 12 ? longest : 0;
}
