#include "support/wan_packet.h"

#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

#include "base/prng.h"
#include "base/status.h"

#define IP4_BYTES 20            /* without options */
#define IP6_BYTES 40
#define TCP_BYTES 20
#define PORTS_BYTES 4           /* of TCP and UDP */
#define TCP_SEQUENCE 4          /* offsets in the headers */
#define TCP_OFFSET 12
#define TCP_FLAGS 13
#define TCP_CHECK 16
#define FLAG_FIN 0x01
#define FLAG_PSH 0x08
#define FLAG_CWR 0x80
#define IP4_LENGTH 2
#define IP4_ID 4
#define IP4_PROTOCOL 9
#define IP4_CHECK 10
#define IP4_SOURCE 12
#define IP4_TARGET 16
#define IP6_LENGTH 4
#define IP6_PROTOCOL 6
#define IP6_SOURCE 8
#define IP6_TARGET 24

_Static_assert(sizeof(struct virtio_net_hdr) == WAN_VNET_BYTES,
               "the header that the kernel writes");

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static void put16(uint8_t *at, uint32_t v)
{
    at[0] = (uint8_t)(v >> 8);
    at[1] = (uint8_t)v;
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

static void put32(uint8_t *at, uint32_t v)
{
    put16(at, v >> 16);
    put16(at + 2, v & 0xffff);
}

static bool is_ip6(const uint8_t *ip)
{
    return ip[0] >> 4 == 6;
}

/* Finds the destination host of an IP packet. */
static bool read_target(uint32_t *to, const uint8_t *ip, size_t bytes, uint32_t nhosts)
{
    static const uint8_t prefix4[] = WAN_PREFIX_4, prefix6[] = WAN_PREFIX_6;
    const uint8_t *prefix, *target;
    size_t n;

    if (bytes >= IP4_BYTES && ip[0] >> 4 == 4) {
        prefix = prefix4;
        n = sizeof prefix4;
        target = ip + IP4_TARGET;
    } else if (bytes >= IP6_BYTES && is_ip6(ip)) {
        prefix = prefix6;
        n = sizeof prefix6;
        target = ip + IP6_TARGET;
    } else {
        return false;
    }
    if (memcmp(target, prefix, n) != 0 || target[n] < 1 || target[n] > nhosts)
        return false;
    *to = target[n] - 1u;
    return true;
}

/* Returns the size of the IP and TCP headers, or 0 if TCP does not directly follow IP. */
static uint32_t tcp_header_bytes(const uint8_t *ip, size_t bytes)
{
    const uint32_t ip_bytes = is_ip6(ip) ? IP6_BYTES : (ip[0] & 15u) * 4;
    uint32_t tcp_bytes;

    if (ip_bytes < IP4_BYTES || bytes < ip_bytes + TCP_BYTES ||
        ip[is_ip6(ip) ? IP6_PROTOCOL : IP4_PROTOCOL] != IPPROTO_TCP)
        return 0;
    tcp_bytes = (ip[ip_bytes + TCP_OFFSET] >> 4) * 4u;
    return tcp_bytes < TCP_BYTES || bytes < ip_bytes + tcp_bytes ? 0 : ip_bytes + tcp_bytes;
}

bool wan_shape_read(struct wan_shape *out, const uint8_t *frame, size_t bytes, uint32_t nhosts)
{
    const uint8_t *ip = frame + WAN_VNET_BYTES;
    struct virtio_net_hdr vnet;
    struct wan_shape s = { .nsegments = 1 };
    uint32_t header_bytes, kind;

    if (bytes <= WAN_VNET_BYTES || bytes > WAN_FRAME_BYTES_MAX ||
        !read_target(&s.to, ip, bytes - WAN_VNET_BYTES, nhosts))
        return false;
    memcpy(&vnet, frame, sizeof vnet);
    bytes -= WAN_VNET_BYTES;
    kind = vnet.gso_type & ~(uint32_t)VIRTIO_NET_HDR_GSO_ECN;
    s.payload_bytes = s.segment_bytes = (uint32_t)bytes;
    if ((kind == VIRTIO_NET_HDR_GSO_TCPV4 || kind == VIRTIO_NET_HDR_GSO_TCPV6) &&
        vnet.gso_size > 0) {
        header_bytes = tcp_header_bytes(ip, bytes);
        if (header_bytes > 0 && bytes > header_bytes) {
            s.header_bytes = header_bytes;
            s.payload_bytes = (uint32_t)bytes - header_bytes;
            s.segment_bytes = vnet.gso_size;
            s.nsegments = (s.payload_bytes + s.segment_bytes - 1) / s.segment_bytes;
        }
    }
    *out = s;
    return true;
}

uint32_t wan_flow(const uint8_t *frame, size_t bytes)
{
    const uint8_t *ip = frame + WAN_VNET_BYTES;
    const uint32_t header_bytes = is_ip6(ip) ? IP6_BYTES : (ip[0] & 15u) * 4;
    const uint8_t protocol = ip[is_ip6(ip) ? IP6_PROTOCOL : IP4_PROTOCOL];
    uint64_t flow = protocol;

    if ((protocol == IPPROTO_TCP || protocol == IPPROTO_UDP) &&
        bytes >= WAN_VNET_BYTES + header_bytes + PORTS_BYTES)
        flow |= (uint64_t)get32(ip + header_bytes) << 8;
    return (uint32_t)(tt_mix64(flow) >> 32);
}

uint64_t wan_shape_bytes(const struct wan_shape *s, uint32_t n)
{
    const uint64_t payload = (uint64_t)n * s->segment_bytes;

    return (uint64_t)n * s->header_bytes +
           (payload < s->payload_bytes ? payload : s->payload_bytes);
}

uint32_t wan_shape_fit(const struct wan_shape *s, uint64_t bytes)
{
    if (bytes >= wan_shape_bytes(s, s->nsegments))
        return s->nsegments;
    /* the last segment, which is shorter, does not fit */
    return (uint32_t)(bytes / (s->header_bytes + s->segment_bytes));
}

/* The Internet checksum of 16-bit words, folded, not inverted. */
static uint32_t sum16(const uint8_t *at, size_t bytes, uint32_t sum)
{
    for (; bytes > 1; at += 2, bytes -= 2)
        sum += get16(at);
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Writes the checksum of the IP header. For TCP, writes the sum of the pseudo-header, as the kernel
 * does for checksum offload. */
static void write_ip(uint8_t *ip, uint32_t bytes, uint32_t first)
{
    const uint32_t ip_bytes = is_ip6(ip) ? IP6_BYTES : (ip[0] & 15u) * 4;
    const uint32_t rest = IPPROTO_TCP + bytes - ip_bytes;
    uint8_t *check = ip + ip_bytes + TCP_CHECK;

    if (is_ip6(ip)) {
        put16(ip + IP6_LENGTH, bytes - IP6_BYTES);
        put16(check, sum16(ip + IP6_SOURCE, 32, rest));
        return;
    }
    put16(ip + IP4_LENGTH, bytes);
    put16(ip + IP4_ID, (get16(ip + IP4_ID) + first) & 0xffff);
    put16(ip + IP4_CHECK, 0);
    put16(ip + IP4_CHECK, ~sum16(ip, ip_bytes, 0) & 0xffff);
    put16(check, sum16(ip + IP4_SOURCE, 8, rest));
}

size_t wan_piece_write(uint8_t *piece, const struct wan_shape *s, const uint8_t *frame,
                       uint32_t first, uint32_t n)
{
    const uint32_t from = first * s->segment_bytes;
    const uint32_t left = s->payload_bytes - from;
    const uint32_t payload = n * s->segment_bytes < left ? n * s->segment_bytes : left;
    uint8_t *ip = piece + WAN_VNET_BYTES;
    struct virtio_net_hdr vnet;
    uint8_t *tcp;

    tt_assert(n >= 1 && first + n <= s->nsegments);
    memcpy(&vnet, frame, sizeof vnet);
    if (n == 1) {
        vnet.gso_type = VIRTIO_NET_HDR_GSO_NONE;
        vnet.gso_size = 0;
    }
    memcpy(piece, &vnet, sizeof vnet);
    memcpy(ip, frame + WAN_VNET_BYTES, s->header_bytes);
    memcpy(ip + s->header_bytes, frame + WAN_VNET_BYTES + s->header_bytes + from, payload);
    if (s->header_bytes == 0)
        return WAN_VNET_BYTES + payload;        /* the only segment: unchanged */

    tcp = ip + (is_ip6(ip) ? IP6_BYTES : (ip[0] & 15u) * 4);
    put32(tcp + TCP_SEQUENCE, get32(tcp + TCP_SEQUENCE) + from);
    if (first > 0)
        tcp[TCP_FLAGS] &= (uint8_t)~FLAG_CWR;
    if (first + n < s->nsegments)
        tcp[TCP_FLAGS] &= (uint8_t) ~(FLAG_FIN | FLAG_PSH);
    write_ip(ip, s->header_bytes + payload, first);
    return WAN_VNET_BYTES + s->header_bytes + payload;
}
