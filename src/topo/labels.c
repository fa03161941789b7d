/* Labels of hosts by their names: patterns, and the text matched by their stars. */
#include "topo/labels.h"

#include <string.h>

#include "topo/topo.h"

/* Each '*' matches as little as possible. Only the last one passed may need more: extending an
 * earlier one would leave less for the rest. */
bool tt_pattern_match(const char *pattern, const char *name, struct tt_pattern_stars *out)
{
    struct tt_pattern_stars stars = { .n = 0 };
    const char *after_star = NULL;

    while (*name || *pattern) {
        if (*pattern == '*') {
            if (stars.n == TT_PATTERN_STARS)
                return false;
            stars.star[stars.n++] = (struct tt_pattern_star){ .at = name, .bytes = 0 };
            after_star = ++pattern;
        } else if (*name && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (after_star) {    /* extend the last star by one character */
            struct tt_pattern_star *s = &stars.star[stars.n - 1];

            if (!s->at[s->bytes])
                return false;
            name = s->at + ++s->bytes;
            pattern = after_star;
        } else {
            return false;
        }
    }
    *out = stars;
    return true;
}

void tt_pattern_fill(const char *text, const struct tt_pattern_stars *stars, char *out, size_t cap)
{
    size_t n = 0;

    for (; *text && n + 1 < cap; text++) {
        const unsigned which =
            *text == '$' && text[1] >= '1' && text[1] <= '9' ? (unsigned)(text[1] - '0') : 0;

        if (which == 0 || which > stars->n) {
            out[n++] = *text;
            continue;
        }
        for (size_t i = 0; i < stars->star[which - 1].bytes && n + 1 < cap; i++)
            out[n++] = stars->star[which - 1].at[i];
        text++;
    }
    out[n] = '\0';
}

void tt_topo_label(const struct tt_topo *t, const char *host, enum tt_distance level, char *out)
{
    struct tt_pattern_stars stars;

    *out = '\0';
    for (uint32_t i = 0; i < t->nrules; i++)
        if (tt_pattern_match(t->rules[i].host, host, &stars)) {
            tt_pattern_fill(t->rules[i].label[level], &stars, out, TT_TOPO_LABEL_BYTES);
            return;
        }
}

static bool parse_word(const char *word, size_t bytes, struct tt_labels *out)
{
    const char *equals = memchr(word, '=', bytes);
    const size_t key_bytes = equals ? (size_t)(equals - word) : 0,
                 value_bytes = equals ? bytes - key_bytes - 1 : 0;

    if (!equals || value_bytes == 0 || value_bytes >= TT_TOPO_LABEL_BYTES)
        return false;
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++) {
        const char *name = tt_distance_name((enum tt_distance)d);

        if (strlen(name) == key_bytes && memcmp(name, word, key_bytes) == 0) {
            memset(out->label[d], 0, sizeof out->label[d]);
            memcpy(out->label[d], equals + 1, value_bytes);
            return true;
        }
    }
    return false;
}

bool tt_labels_parse(struct tt_labels *out, const char *text, size_t *bad_at)
{
    struct tt_labels found = *out;
    const char *at = text;

    while (*at) {
        const size_t bytes = strcspn(at, ",");

        if (!parse_word(at, bytes, &found)) {
            *bad_at = (size_t)(at - text);
            return false;
        }
        at += bytes;
        at += *at == ',';
    }
    *out = found;
    return true;
}

void tt_labels_of(struct tt_labels *out, const struct tt_topo *t, const char *host)
{
    for (int d = TT_NEAR_RACK; d < TT_NEAR_WAN; d++)
        tt_topo_label(t, host, (enum tt_distance)d, out->label[d]);
}
