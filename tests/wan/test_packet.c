/* Frames of TUN devices: their destinations, their contents, and pieces of long ones. */
#include <linux/virtio_net.h>
#include <string.h>

#include "support/unit.h"
#include "support/wan_packet.h"
#include "wan/frames.h"

#define NHOSTS 5

static uint8_t frame[WAN_FRAME_BYTES_MAX], piece[WAN_FRAME_BYTES_MAX];

static void address_selects_the_host(void **state)
{
    struct wan_shape s;

    (void)state;
    for (uint32_t six = 0; six < 2; six++)
        for (uint32_t to = 0; to < NHOSTS + 3; to++) {
            const size_t bytes = frame_make(frame, six, 0, to, 100, 0, 1);

            assert_int_equal(wan_shape_read(&s, frame, bytes, NHOSTS), to < NHOSTS);
            if (to < NHOSTS)
                assert_int_equal(s.to, to);
        }
}

static void other_packets_have_no_host(void **state)
{
    struct wan_shape s;
    const size_t bytes = frame_make(frame, false, 0, 1, 100, 0, 1);

    (void)state;
    for (size_t n = 0; n < WAN_VNET_BYTES + 20; n++)
        assert_false(wan_shape_read(&s, frame, n, NHOSTS));
    frame[WAN_VNET_BYTES + 17] ^= 1;        /* another network */
    assert_false(wan_shape_read(&s, frame, bytes, NHOSTS));
    frame[WAN_VNET_BYTES + 17] ^= 1;
    frame[WAN_VNET_BYTES] = 0x55;           /* neither IPv4 nor IPv6 */
    assert_false(wan_shape_read(&s, frame, bytes, NHOSTS));
}

static void long_packet_counts_as_its_segments(void **state)
{
    struct wan_shape s;

    (void)state;
    for (uint32_t payload = 1; payload < 10000; payload += 333) {
        const uint32_t n = (payload + 999) / 1000;

        assert_true(
            wan_shape_read(&s, frame, frame_make(frame, false, 0, 1, payload, 1000, 1), NHOSTS));
        assert_int_equal(s.nsegments, n);
        assert_int_equal(wan_shape_bytes(&s, n), payload + n * FRAME_HEADER_4);
        for (uint32_t k = 0; k <= n; k++)
            assert_int_equal(wan_shape_fit(&s, wan_shape_bytes(&s, k)), k);
        for (uint32_t k = 1; k <= n; k++)
            assert_int_equal(wan_shape_fit(&s, wan_shape_bytes(&s, k) - 1), k - 1);
    }
}

/* Compares one piece of a frame with the bytes of the whole. */
static void check_piece(const struct wan_shape *s, bool is_six, uint32_t segment, uint32_t first,
                        uint32_t n, uint64_t stamp)
{
    const size_t bytes = wan_piece_write(piece, s, frame, first, n);
    const uint8_t *tcp = piece + WAN_VNET_BYTES + (is_six ? 40 : 20);
    const bool is_last = first + n == s->nsegments;
    uint32_t payload, offset;
    const uint8_t *content = frame_content(piece, bytes, &payload, &offset);
    struct wan_shape read;
    struct virtio_net_hdr vnet;

    frame_check(piece, bytes);
    assert_int_equal(offset, first * segment);
    assert_int_equal(payload, is_last ? s->payload_bytes - offset : n * segment);
    for (uint32_t i = 0; i < payload; i++)
        assert_int_equal(content[i], frame_byte(stamp, offset + i));
    assert_int_equal(tcp[13], (first == 0 ? 0x80 : 0) | 0x10 | (is_last ? 0x08 | 0x01 : 0));
    if (!is_six)
        assert_int_equal(piece[WAN_VNET_BYTES + 4] << 8 | piece[WAN_VNET_BYTES + 5],
                         (65534 + first) & 0xffff);
    memcpy(&vnet, piece, sizeof vnet);
    assert_int_equal(vnet.gso_size, n > 1 ? segment : 0);
    assert_int_equal(vnet.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
    assert_true(wan_shape_read(&read, piece, bytes, NHOSTS));
    assert_int_equal(read.nsegments, n);
    assert_int_equal(read.to, s->to);
    assert_int_equal(wan_shape_bytes(&read, n),
                     wan_shape_bytes(s, first + n) - wan_shape_bytes(s, first));
}

static void pieces_are_packets_with_their_bytes(void **state)
{
    static const uint32_t payloads[] = { 1001, 2000, 4999, 7000 };

    (void)state;
    for (uint32_t six = 0; six < 2; six++)
        for (size_t i = 0; i < sizeof payloads / sizeof *payloads; i++) {
            struct wan_shape s;

            assert_true(wan_shape_read(&s, frame,
                                       frame_make(frame, six, 2, 3, payloads[i], 1000, i), NHOSTS));
            for (uint32_t first = 0; first < s.nsegments; first++)
                for (uint32_t n = 1; first + n <= s.nsegments; n++)
                    check_piece(&s, six, 1000, first, n, i);
        }
}

static void short_packet_is_one_piece(void **state)
{
    const size_t bytes = frame_make(frame, true, 1, 2, 1200, 1400, 9);
    struct wan_shape s;

    (void)state;
    assert_true(wan_shape_read(&s, frame, bytes, NHOSTS));
    assert_int_equal(s.nsegments, 1);
    assert_int_equal(wan_piece_write(piece, &s, frame, 0, 1), bytes);
    assert_memory_equal(piece, frame, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_selects_the_host),
        cmocka_unit_test(other_packets_have_no_host),
        cmocka_unit_test(long_packet_counts_as_its_segments),
        cmocka_unit_test(pieces_are_packets_with_their_bytes),
        cmocka_unit_test(short_packet_is_one_piece),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
