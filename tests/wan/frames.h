/* Frames to send through a net: what a TUN device would hand over. */
#ifndef TESTS_WAN_FRAMES_H
#define TESTS_WAN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_4 40       /* IPv4 and TCP, without options */
#define FRAME_HEADER_6 60

/* A TCP packet from one host to another, of IPv4 or IPv6, with `payload` bytes of content that `stamp` decides, to be cut into segments of
 * `segment` bytes where it is longer (0: never). Returns its length. */
size_t frame_make(uint8_t *frame, bool is_six, uint32_t from, uint32_t to, uint32_t payload, uint32_t segment,
                  uint64_t stamp);

/* Byte `at` of the content that a stamp decides. */
uint8_t frame_byte(uint64_t stamp, uint32_t at);

/* Of a frame that frame_make made, or a piece of one: where its content is, how long it is, and from which byte of the whole on. */
const uint8_t *frame_content(const uint8_t *frame, size_t bytes, uint32_t *payload, uint32_t *offset);

/* Fails the test unless all lengths and checksums are right, whoever computed them: IP's, and TCP's once its content is summed up. */
void frame_check(const uint8_t *frame, size_t bytes);

#endif
