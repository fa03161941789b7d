/* Messages to the coordinator, and the end of a member's participation. */
#include "base/status.h"
#include "elastic/member_state.h"

void tt_member_emit(struct tt_member *m, const struct tt_member_act *act)
{
    m->conf.emit(m->conf.context, act);
}

void tt_member_send(struct tt_member *m, size_t bytes)
{
    tt_assert(bytes > 0);
    if (m->connected)
        tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_SEND,
                                                   .data = m->conf.scratch,
                                                   .bytes = bytes });
}

void tt_member_send_msg(struct tt_member *m, const struct tt_elmsg *msg)
{
    tt_member_send(m, tt_elmsg_write(m->conf.scratch, TT_ELMSG_BYTES_MAX, msg));
}

void tt_member_end(struct tt_member *m, tutti_status status, const char *text)
{
    m->over = true;
    m->stopped = true;
    if (m->connected)
        tt_member_emit(m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_DISCONNECT });
    m->connected = false;
    tt_member_emit(
        m, &(struct tt_member_act){ .kind = TT_MEMBER_ACT_OVER, .status = status, .text = text });
}
