/* Packets as read from a TUN device with IFF_VNET_HDR: a header for offloads, then an IPv4 or IPv6
 * packet. With segmentation offload, a long TCP packet contains many segments and is forwarded as
 * one packet. Rates, queues and losses apply to its segments, and a part of it is another packet of
 * this form. */
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
    uint32_t to;                /* index of the destination host */
    uint32_t nsegments;
    uint32_t header_bytes;      /* headers of each segment: IP and TCP; 0 with only one segment */
    uint32_t segment_bytes;     /* payload of all segments except the last */
    uint32_t payload_bytes;     /* in total */
};

/* Parses frame[bytes]. Returns false if it is not a packet to one of nhosts hosts. */
bool wan_shape_read(struct wan_shape *out, const uint8_t *frame, size_t bytes, uint32_t nhosts);

/* Returns a hash of the flow of a packet that wan_shape_read accepts: its protocol and ports. */
uint32_t wan_flow(const uint8_t *frame, size_t bytes);

/* Returns the size of its first n segments on a link, with their IP headers. */
uint64_t wan_shape_bytes(const struct wan_shape *s, uint32_t n);

/* Returns how many of its first segments fit into `bytes` on a link. */
uint32_t wan_shape_fit(const struct wan_shape *s, uint64_t bytes);

/* Writes n of its segments, starting with `first`, as a separate frame to
 * piece[WAN_FRAME_BYTES_MAX]. Returns its size. */
size_t wan_piece_write(uint8_t *piece, const struct wan_shape *s, const uint8_t *frame,
                       uint32_t first, uint32_t n);

#endif
