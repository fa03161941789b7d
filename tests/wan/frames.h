/* Frames to send through a net, as a TUN device would return them. */
#ifndef TESTS_WAN_FRAMES_H
#define TESTS_WAN_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_4 40       /* IPv4 and TCP, without options */
#define FRAME_HEADER_6 60

/* Creates a TCP packet between two hosts, IPv4 or IPv6, with `payload` bytes of content determined
 * by `stamp`, to be segmented by `segment` bytes (0: never). Returns its length. */
size_t frame_make(uint8_t *frame, bool is_six, uint32_t from, uint32_t to, uint32_t payload,
                  uint32_t segment, uint64_t stamp);

/* Returns byte `at` of the content determined by a stamp. */
uint8_t frame_byte(uint64_t stamp, uint32_t at);

/* For a frame of frame_make, or a piece of one: returns the content, its length, and its offset in
 * the whole. */
const uint8_t *frame_content(const uint8_t *frame, size_t bytes, uint32_t *payload,
                             uint32_t *offset);

/* Fails the test unless all lengths and checksums are correct: IP's, and TCP's after completion
 * over the content. */
void frame_check(const uint8_t *frame, size_t bytes);

#endif
