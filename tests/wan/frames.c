#include "wan/frames.h"

#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <string.h>

#include "support/unit.h"
#include "support/wan_packet.h"

#define CWR 0x80
#define FIRST_SEQUENCE 0xfffff000u      /* wraps around in a long packet */

uint8_t frame_byte(uint64_t stamp, uint32_t at)
{
    return (uint8_t)((stamp * 0x9e3779b97f4a7c15ull + at * 0xbf58476d1ce4e5b9ull) >> 56);
}

/* The 16-bit one's complement sum of Internet checksums, folded: 0xffff if a contained checksum is
 * correct. */
static uint32_t sum_of(const uint8_t *at, size_t bytes, uint32_t sum)
{
    for (size_t i = 0; i < bytes; i++)
        sum += i % 2 ? at[i] : (uint32_t)at[i] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

static void write_ip4(uint8_t *at, uint32_t from, uint32_t to, size_t bytes)
{
    struct iphdr ip = {
        .version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP, .id = htons(65534)
    };

    ip.tot_len = htons((uint16_t)bytes);
    ip.saddr = htonl(0x0a4f0000u + from + 1);
    ip.daddr = htonl(0x0a4f0000u + to + 1);
    memcpy(at, &ip, sizeof ip);
    ip.check = htons((uint16_t)~sum_of(at, sizeof ip, 0));
    memcpy(at, &ip, sizeof ip);
}

static void write_ip6(uint8_t *at, uint32_t from, uint32_t to, size_t bytes)
{
    static const uint8_t prefix[] = WAN_PREFIX_6;
    struct ip6_hdr ip = { .ip6_flow = htonl(6u << 28), .ip6_nxt = IPPROTO_TCP, .ip6_hlim = 64 };

    ip.ip6_plen = htons((uint16_t)(bytes - sizeof ip));
    memcpy(&ip.ip6_src, prefix, sizeof prefix);
    memcpy(&ip.ip6_dst, prefix, sizeof prefix);
    ip.ip6_src.s6_addr[15] = (uint8_t)(from + 1);
    ip.ip6_dst.s6_addr[15] = (uint8_t)(to + 1);
    memcpy(at, &ip, sizeof ip);
}

/* The pseudo-header's sum: addresses, length and protocol. */
static uint32_t pseudo_sum(const uint8_t *ip, bool is_six, size_t bytes)
{
    const uint32_t rest = IPPROTO_TCP + (uint32_t)bytes;

    return is_six ? sum_of(ip + 8, 32, rest) : sum_of(ip + 12, 8, rest);
}

size_t frame_make(uint8_t *frame, bool is_six, uint32_t from, uint32_t to, uint32_t payload,
                  uint32_t segment, uint64_t stamp)
{
    const size_t ip_bytes = is_six ? sizeof(struct ip6_hdr) : sizeof(struct iphdr);
    const size_t header = ip_bytes + sizeof(struct tcphdr);
    struct virtio_net_hdr vnet = { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_offset = 16 };
    struct tcphdr tcp = { .th_off = 5, .th_flags = TH_ACK | TH_PUSH | TH_FIN | CWR };
    uint8_t *ip = frame + WAN_VNET_BYTES;

    vnet.csum_start = (uint16_t)ip_bytes;
    vnet.hdr_len = (uint16_t)header;
    if (segment > 0 && payload > segment) {
        vnet.gso_type = is_six ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
        vnet.gso_size = (uint16_t)segment;
    }
    memcpy(frame, &vnet, sizeof vnet);
    if (is_six)
        write_ip6(ip, from, to, header + payload);
    else
        write_ip4(ip, from, to, header + payload);
    tcp.th_seq = htonl(FIRST_SEQUENCE);
    tcp.th_sum = htons((uint16_t)pseudo_sum(ip, is_six, sizeof tcp + payload));
    memcpy(ip + ip_bytes, &tcp, sizeof tcp);
    for (uint32_t i = 0; i < payload; i++)
        ip[header + i] = frame_byte(stamp, i);
    return WAN_VNET_BYTES + header + payload;
}

const uint8_t *frame_content(const uint8_t *frame, size_t bytes, uint32_t *payload,
                             uint32_t *offset)
{
    const uint8_t *ip = frame + WAN_VNET_BYTES;
    const size_t header = ip[0] >> 4 == 6 ? FRAME_HEADER_6 : FRAME_HEADER_4;
    struct tcphdr tcp;

    memcpy(&tcp, ip + header - sizeof tcp, sizeof tcp);
    *payload = (uint32_t)(bytes - WAN_VNET_BYTES - header);
    *offset = ntohl(tcp.th_seq) - FIRST_SEQUENCE;
    return ip + header;
}

void frame_check(const uint8_t *frame, size_t bytes)
{
    uint8_t tcp[WAN_FRAME_BYTES_MAX];
    const uint8_t *ip = frame + WAN_VNET_BYTES;
    const bool is_six = ip[0] >> 4 == 6;
    const size_t ip_bytes = is_six ? sizeof(struct ip6_hdr) : sizeof(struct iphdr);
    const size_t whole = bytes - WAN_VNET_BYTES, rest = whole - ip_bytes;
    uint32_t check;

    if (is_six) {
        assert_int_equal((ip[4] << 8 | ip[5]) + ip_bytes, whole);
    } else {
        assert_int_equal(ip[2] << 8 | ip[3], whole);
        assert_int_equal(sum_of(ip, ip_bytes, 0), 0xffff);
    }
    memcpy(tcp, ip + ip_bytes, rest);
    check = ~sum_of(tcp, rest, 0) & 0xffff;     /* as completed by a network card: including the
                                                   sum of the pseudo-header */
    tcp[16] = (uint8_t)(check >> 8);
    tcp[17] = (uint8_t)check;
    assert_int_equal(sum_of(tcp, rest, pseudo_sum(ip, is_six, rest)), 0xffff);
}
