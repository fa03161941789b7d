/* Arbitrary rules for interfaces (TUTTI_INTERFACES), and arbitrary names: the rule up to the first
 * zero, then the name. A rule and its negation never agree, a rule with only the name matches it,
 * and an additional word never excludes more. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "base/status.h"
#include "wire/ifaddr.h"

#define TEXT_BYTES_MAX 512

/* The rule with only that name; none for names with a comma, or that start like rules. */
static void check_alone(const char *name)
{
    char rule[TEXT_BYTES_MAX + 2];

    if (!*name || strchr(name, ',') || *name == '^' || *name == '=')
        return;
    tt_assert(tt_ifaddr_allows(name, name));
    snprintf(rule, sizeof rule, "=%s", name);
    tt_assert(tt_ifaddr_allows(rule, name));
    *rule = '^';
    tt_assert(!tt_ifaddr_allows(rule, name));
}

static void check_rule(const char *rule, const char *name)
{
    char other[2 * TEXT_BYTES_MAX + 3];

    if (!*rule || *rule == '^')
        return;
    snprintf(other, sizeof other, "^%s", rule);
    tt_assert(tt_ifaddr_allows(other, name) != tt_ifaddr_allows(rule, name));
    if (!tt_ifaddr_allows(rule, name))
        return;
    snprintf(other, sizeof other, "%s,=x", rule);
    tt_assert(tt_ifaddr_allows(other, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char text[TEXT_BYTES_MAX + 2];
    const char *name;

    if (bytes > TEXT_BYTES_MAX)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = text[bytes + 1] = 0;
    name = text + strlen(text) + 1;
    if (name > text + bytes)
        name = text + bytes;        /* no zero: no name */
    tt_assert(tt_ifaddr_allows("", name) && tt_ifaddr_allows(NULL, name));
    check_rule(text, name);
    check_alone(name);
    return 0;
}
