/* Data written by a peer of the verbs transport: greetings, hellos of queue pairs, and the blobs of
 * addresses and keys. No read goes outside of them, and accepted data has the properties that the
 * transport relies on: it is written back to the same bytes, and no range wraps. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"
#include "wire/verbs/verbs_frame.h"

static void hello(const uint8_t *data, size_t bytes)
{
    uint8_t in[TT_VERBS_HELLO_BYTES] = { 0 }, out[TT_VERBS_HELLO_BYTES];
    struct tt_verbs_hello h, again;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (!tt_verbs_hello_read(&h, in))
        return;
    tt_assert(h.incarnation > 0 && h.mtu >= 1 && h.mtu <= 5);
    tt_assert(h.qp >> 24 == 0 && h.psn >> 24 == 0);
    tt_verbs_hello_write(&h, out);
    tt_assert(tt_verbs_hello_read(&again, out));
    tt_assert(again.incarnation == h.incarnation && again.qp == h.qp && again.psn == h.psn &&
              again.lid == h.lid);
    tt_assert(memcmp(again.gid, h.gid, sizeof h.gid) == 0 &&
              memcmp(again.report, h.report, sizeof h.report) == 0);
}

static void greeting(const uint8_t *data, size_t bytes)
{
    uint8_t in[TT_VERBS_LINK_HELLO_BYTES] = { 0 }, out[TT_VERBS_LINK_HELLO_BYTES];
    struct tt_verbs_link_hello g;

    memcpy(in, data, bytes < sizeof in ? bytes : sizeof in);
    if (!tt_verbs_link_hello_read(&g, in))
        return;
    tt_assert(g.rails >= 1 && g.rails <= TT_VERBS_RAILS && g.data_lanes >= 1 &&
              g.data_lanes <= TT_VERBS_DATA_LANES);
    tt_assert(g.link_address + g.link_bytes >= g.link_address);
    tt_verbs_link_hello_write(&g, out);
    tt_assert(memcmp(in, out, sizeof in) == 0);
}

static void blobs(const uint8_t *data, size_t bytes)
{
    struct tt_blob in = { .bytes = (uint16_t)bytes }, out = { 0 };
    struct tt_verbs_address a;
    struct tt_verbs_key k;

    memcpy(in.data, data, bytes < sizeof in.data ? bytes : sizeof in.data);
    if (tt_verbs_address_read(&a, &in)) {
        tt_assert(a.tcp.bytes <= TT_BLOB_BYTES - TT_VERBS_ADDRESS_HEAD_BYTES);
        tt_verbs_address_write(&a, &out);
        tt_assert(out.bytes == in.bytes && memcmp(out.data, in.data, in.bytes) == 0);
    }
    if (tt_verbs_key_read(&k, &in)) {
        tt_assert(k.region < TT_VERBS_REGIONS_MAX && k.address + k.bytes >= k.address);
        tt_verbs_key_write(&k, &out);
        tt_assert(out.bytes <= TT_KEY_BYTES && out.bytes == in.bytes &&
                  memcmp(out.data, in.data, in.bytes) == 0);
    }
}

/* The first byte selects the parser. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    switch (data[0] % 3) {
    case 1:
        hello(data + 1, bytes - 1);
        break;
    case 2:
        greeting(data + 1, bytes - 1);
        break;
    default:
        blobs(data + 1, bytes - 1);
        break;
    }
    return 0;
}
