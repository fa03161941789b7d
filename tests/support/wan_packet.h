/* Packets as a TUN device with IFF_VNET_HDR hands them over: a header that says what is left to do, then an IPv4 or IPv6 packet. Where the
 * kernel leaves it to the device to cut a long TCP packet, it is many segments in one, and is carried as one; rates, queues and losses
 * count its segments, and a piece of it is such a packet again. */
#ifndef TESTS_SUPPORT_WAN_PACKET_H
#define TESTS_SUPPORT_WAN_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAN_VNET_BYTES 10               /* struct virtio_net_hdr */
#define WAN_FRAME_BYTES_MAX (WAN_VNET_BYTES + 65535 + 40)

/* Host h has the addresses 10.79.0.(h + 1) and fd79::(h + 1). */
#define WAN_PREFIX_4 \
    {                \
        10, 79, 0    \
    }
#define WAN_PREFIX_6                                      \
    {                                                     \
        0xfd, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

struct wan_shape {
    uint32_t to;                /* number of the host that it is for */
    uint32_t nsegments;
    uint32_t header_bytes;      /* that each segment has: IP and TCP; 0 where it is only one */
    uint32_t segment_bytes;     /* of payload, in all but the last */
    uint32_t payload_bytes;     /* of all */
};

/* What frame[bytes] is. False if it is for none of nhosts hosts, or no packet at all. */
bool wan_shape_read(struct wan_shape *out, const uint8_t *frame, size_t bytes, uint32_t nhosts);

/* How long its first n segments are as packets on a line, with their IP headers. */
uint64_t wan_shape_bytes(const struct wan_shape *s, uint32_t n);

/* How many of its first segments fit into that many bytes on a line. */
uint32_t wan_shape_fit(const struct wan_shape *s, uint64_t bytes);

/* Writes `n` of its segments, from `first` on, as a frame of their own to piece[WAN_FRAME_BYTES_MAX]; returns its length. */
size_t wan_piece_write(uint8_t *piece, const struct wan_shape *s, const uint8_t *frame, uint32_t first, uint32_t n);

#endif
