/* What member.c and member_ops.c share; nobody else includes this. */
#ifndef TT_ELASTIC_MEMBER_STATE_H
#define TT_ELASTIC_MEMBER_STATE_H

#include "elastic/member.h"

void tt_member_emit(struct tt_member *m, const struct tt_member_act *act);
/* Sends what is in the scratch to the coordinator. */
void tt_member_send(struct tt_member *m, size_t bytes);
void tt_member_send_msg(struct tt_member *m, const struct tt_elmsg *msg);
/* This member is none any longer. */
void tt_member_end(struct tt_member *m, tutti_status status, const char *text);
/* Whether an operation is open, other than tentative ones that are COMPLETE. */
bool tt_member_is_busy(const struct tt_member *m);
/* Whether one of those is. */
bool tt_member_is_tentative(const struct tt_member *m);
/* Which operations have been begun here, as a number that is another one for others. */
uint64_t tt_member_begun(const struct tt_member *m);
/* That this one leaves; NOW: and what is FINAL here. */
void tt_member_send_leave(struct tt_member *m, uint8_t how);
/* All members have called `commit`, and nobody is lost: what is tentative is FINAL. */
void tt_member_on_committed(struct tt_member *m);
/* One that waits in an operation asks whether we have begun it, too. */
void tt_member_on_begun(struct tt_member *m, const struct tt_elmsg *msg);
void tt_member_on_lost(struct tt_member *m, struct tt_elmsg *msg);
void tt_member_on_verdicts(struct tt_member *m, struct tt_elmsg *msg);

/* member_sync.c */
/* Whether the call that is under way is a sync. */
bool tt_member_is_syncing(const struct tt_member *m);
/* Says all that the coordinator must know of it, as a connection begins. */
void tt_member_send_offer(struct tt_member *m);
void tt_member_send_vote(struct tt_member *m);
void tt_member_send_withdraw(struct tt_member *m);
void tt_member_on_plan(struct tt_member *m, struct tt_elmsg *msg);
void tt_member_on_synced(struct tt_member *m, const struct tt_elmsg *msg);

#endif
