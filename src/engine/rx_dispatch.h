/* Dispatch of arriving messages. The caller holds the progress lock. */
#ifndef TT_ENGINE_RX_DISPATCH_H
#define TT_ENGINE_RX_DISPATCH_H

#include "engine/state.h"

/* Handles one message from a peer. False: a protocol error (logged); the link must be closed. */
bool tt_rx_dispatch(struct tt_engine *e, struct tt_peer *p, const struct tt_mail *mail);

#endif
