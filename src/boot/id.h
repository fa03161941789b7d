/* Contents of a tutti_id: a listener's address and a secret token. Its text ("id:" and
 * hexadecimal digits) is also a rendezvous address, which is stored in files and launchers'
 * key-value spaces. */
#ifndef TT_BOOT_ID_H
#define TT_BOOT_ID_H

#include "boot/boot.h"
#include "boot/endpoint.h"

#define TT_ID_TOKEN_BYTES 16
#define TT_TOKEN_BYTES 128         /* of tt_launch.token */
#define TT_ID_TEXT_BYTES 256        /* of tt_launch.rendezvous */

/* Creates an id with a random token, for a listener at `endpoint`. */
void tt_id_init(tutti_id *out, const struct tt_endpoint *endpoint);
/* PROTOCOL if the bytes are not an id. */
tutti_status tt_id_parse(const tutti_id *id, struct tt_endpoint *endpoint,
                         uint8_t token[TT_ID_TOKEN_BYTES]);
void tt_id_text(const tutti_id *id, char out[TT_ID_TEXT_BYTES]);
/* Returns false if the text is not that of an id. */
bool tt_id_from_text(tutti_id *out, const char *text);
/* The token for start-up with an id: the user's, if any, followed by the id's. INVALID if too
 * long. */
tutti_status tt_id_join_token(char out[TT_TOKEN_BYTES], const char *users,
                              const uint8_t token[TT_ID_TOKEN_BYTES]);

#endif
