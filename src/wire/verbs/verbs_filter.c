#include "wire/verbs/verbs_filter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/param.h"

/* full member of the partition: limited members cannot communicate with each other */
#define PKEY_FULL 0x8000u
#define V4_BITS 96u                 /* bits before an IPv4 address in a GID */

/* Parses a number that must be the whole text. */
static bool whole_number(const char *text, int base, unsigned long most, unsigned long *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoul(text, &end, base);
    return !*end && !errno && *out <= most;
}

/* "10.77.0.1", "10.77.0.0/16", "fd00:1::/32". */
static bool network_parse(struct tt_verbs_filter *c, const char *text)
{
    const char *slash = strchr(text, '/');
    const size_t bytes = slash ? (size_t)(slash - text) : strlen(text);
    char address[INET6_ADDRSTRLEN];
    unsigned long bits = 0;
    uint32_t before = 0;

    if (bytes >= sizeof address)
        return false;
    memcpy(address, text, bytes);
    address[bytes] = 0;
    memset(c->gid, 0, sizeof c->gid);
    if (inet_pton(AF_INET, address, c->gid + 12) == 1) {
        c->gid[10] = c->gid[11] = 0xff;
        before = V4_BITS;
    } else if (inet_pton(AF_INET6, address, c->gid) != 1) {
        return false;
    }
    if (slash && !whole_number(slash + 1, 10, 128 - before, &bits))
        return false;
    c->gid_bits = slash ? before + (uint32_t)bits : 128;
    return true;
}

static tutti_status gid_parse(struct tt_verbs_filter *c, const char *text)
{
    unsigned long index;

    if (!text || !*text)
        return TUTTI_OK;
    if (whole_number(text, 10, TT_VERBS_GIDS_MAX - 1, &index)) {
        c->gid_by = TT_VERBS_GID_INDEX;
        c->gid_index = (uint32_t)index;
        return TUTTI_OK;
    }
    if (!network_parse(c, text))
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_RDMA_GID is \"%s\": must be a number from 0 to %d, or an address or "
                       "a network like \"10.77.0.0/16\" or \"fd00:1::/32\"",
                       text, TT_VERBS_GIDS_MAX - 1);
    c->gid_by = TT_VERBS_GID_NETWORK;
    return TUTTI_OK;
}

static tutti_status pkey_parse(struct tt_verbs_filter *c, const char *text)
{
    unsigned long key;

    if (!text || !*text)
        return TUTTI_OK;
    if (!whole_number(text, strncmp(text, "0x", 2) == 0 ? 16 : 10, UINT16_MAX, &key) ||
        (key & ~PKEY_FULL) == 0)
        return tt_fail(TUTTI_ERR_INVALID,
                       "TUTTI_RDMA_PKEY is \"%s\": must be a partition key like \"0x8001\", 1 to "
                       "0x7fff without its highest bit",
                       text);
    c->has_pkey = true;
    c->pkey = (uint16_t)key;
    return TUTTI_OK;
}

tutti_status tt_verbs_filter_read(struct tt_verbs_filter *out, const char *gid)
{
    struct tt_verbs_filter c = { .gid_by = TT_VERBS_GID_BEST };
    int64_t port = 0, level = 0, class = 0;
    tutti_status st = gid_parse(&c, gid);

    if (!st)
        st = pkey_parse(&c, getenv("TUTTI_RDMA_PKEY"));
    if (!st)
        st = tt_param_get(TT_PARAM_RDMA_PORT, &port);
    if (!st)
        st = tt_param_get(TT_PARAM_RDMA_SERVICE_LEVEL, &level);
    if (!st)
        st = tt_param_get(TT_PARAM_RDMA_TRAFFIC_CLASS, &class);
    if (st)
        return st;
    c.port = (uint8_t)port;
    c.service_level = (uint8_t)level;
    c.traffic_class = (uint8_t) class;
    *out = c;
    return TUTTI_OK;
}

bool tt_verbs_filter_allows(const struct tt_verbs_filter *c, uint32_t index, const uint8_t gid[16])
{
    const uint32_t whole = c->gid_bits / 8, rest = c->gid_bits % 8;

    switch (c->gid_by) {
    case TT_VERBS_GID_INDEX:
        return index == c->gid_index;
    case TT_VERBS_GID_NETWORK:
        return memcmp(gid, c->gid, whole) == 0 &&
               (!rest || (gid[whole] ^ c->gid[whole]) >> (8 - rest) == 0);
    default:
        return true;
    }
}

int tt_verbs_filter_pkey(const struct tt_verbs_filter *c, const uint16_t *table, size_t n)
{
    int found = -1;

    if (!c->has_pkey)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (((table[i] ^ c->pkey) & ~PKEY_FULL) == 0 &&
            (found < 0 || (!(table[found] & PKEY_FULL) && table[i] & PKEY_FULL)))
            found = (int)i;
    return found;
}
