/* Status clients over TCP: both ends prove that they have the same token, without sending it. Each
 * later frame has a seal that only they can make (boot/auth.h). Frames are not encrypted. The
 * client must prove itself first: a stranger receives nothing with which it could test tokens.
 *
 *   process                            client
 *     | CHALLENGE nonce -------------> |
 *     | <----------- PROOF nonce, mac  |
 *     | ACCEPT mac ------------------> |
 *     | <-- sealed frames of talk.h -> |
 */
#ifndef TT_STATUS_SEAL_H
#define TT_STATUS_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/auth.h"
#include "boot/frame.h"

#define TT_SEAL_BYTES TT_MAC_BYTES      /* at the end of the body of each sealed frame */
#define TT_SEAL_FRAME_MAX (TT_FRAME_HEADER_BYTES + 64u)     /* of the handshake */

enum { TT_SEAL_CHALLENGE = 32, TT_SEAL_PROOF, TT_SEAL_ACCEPT };     /* frame types */

struct tt_seal_nonces {
    uint8_t process[TT_NONCE_BYTES], client[TT_NONCE_BYTES];
};

/* One end of a connection after the handshake. */
struct tt_seal {
    uint8_t key[TT_MAC_BYTES];
    uint64_t sent, received;            /* numbers of frames */
    bool is_process;
};

/* Each writes a whole frame to out[TT_SEAL_FRAME_MAX] and returns its size. */
size_t tt_seal_challenge_write(const struct tt_seal_nonces *n, uint8_t *out);
size_t tt_seal_proof_write(const struct tt_seal_nonces *n, const char *token, uint8_t *out);
size_t tt_seal_accept_write(const struct tt_seal_nonces *n, const char *token, uint8_t *out);
/* Each reads a frame of its type, and sets the other end's nonce. False: the frame is invalid or
 * has another version, or the other end has another token. */
bool tt_seal_challenge_read(const struct tt_frame *f, struct tt_seal_nonces *n);
bool tt_seal_proof_read(const struct tt_frame *f, const char *token, struct tt_seal_nonces *n);
bool tt_seal_accept_read(const struct tt_frame *f, const char *token,
                         const struct tt_seal_nonces *n);

void tt_seal_begin(struct tt_seal *s, const struct tt_seal_nonces *n, const char *token,
                   bool is_process);
/* Seals the next frame to send: frame[bytes], with room for TT_SEAL_BYTES more. Returns its new
 * size. */
size_t tt_seal_add(struct tt_seal *s, uint8_t *frame, size_t bytes);
/* Checks the next received frame, and removes its seal. False: it differs from the frame that the
 * other end sent. */
bool tt_seal_check(struct tt_seal *s, struct tt_frame *f);

#endif
