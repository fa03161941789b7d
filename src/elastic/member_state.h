/* Internal to member.c and member_ops.c. */
#ifndef TT_ELASTIC_MEMBER_STATE_H
#define TT_ELASTIC_MEMBER_STATE_H

#include "elastic/member.h"

void tt_member_emit(struct tt_member *m, const struct tt_member_act *act);
/* Sends the scratch buffer to the coordinator. */
void tt_member_send(struct tt_member *m, size_t bytes);
void tt_member_send_msg(struct tt_member *m, const struct tt_elmsg *msg);
/* Ends this member's participation in the run. */
void tt_member_end(struct tt_member *m, tutti_status status, const char *text);
/* Returns whether an operation is open, other than tentative COMPLETE ones. */
bool tt_member_is_busy(const struct tt_member *m);
/* Returns whether a tentative COMPLETE operation is open. */
bool tt_member_is_tentative(const struct tt_member *m);
/* Returns a hash of the operations begun here. */
uint64_t tt_member_begun(const struct tt_member *m);
/* Notifies the coordinator that this member leaves; NOW: with its FINAL operations. */
void tt_member_send_leave(struct tt_member *m, uint8_t how);
/* All members have called `commit`, without a loss: tentative operations are FINAL. */
void tt_member_on_committed(struct tt_member *m);
/* Handles the query whether this member has begun an operation in which another one waits. */
void tt_member_on_begun(struct tt_member *m, const struct tt_elmsg *msg);
void tt_member_on_lost(struct tt_member *m, struct tt_elmsg *msg);
void tt_member_on_outcomes(struct tt_member *m, struct tt_elmsg *msg);

/* member_sync.c */
/* Returns whether the current call is a sync. */
bool tt_member_is_syncing(const struct tt_member *m);
/* Sends the current sync's offer, and its vote and cancellation if any; repeated on a new
 * connection. */
void tt_member_send_offer(struct tt_member *m);
void tt_member_send_withdraw(struct tt_member *m);
void tt_member_on_plan(struct tt_member *m, struct tt_elmsg *msg);
void tt_member_on_synced(struct tt_member *m, const struct tt_elmsg *msg);

#endif
