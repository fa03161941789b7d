/* The shm transport with processes that connect to it and send anything, with any descriptors, and
 * that write anything to the shared memory. A stream of {op u8, fields}:
 *   KNOCK     a new connection, and a packet on it        PACKET   a packet on the newest
 *             connection
 *   KEY       a key is imported, and its mapping is used  SHRINK   memory that was sent is
 *             truncated
 *   ASK       a request is written and served             LEAVE    the newest connection ends
 *   SHARE     a long request is served, and its sender reports anything about its writes
 *   PERMIT    a region with write permission is revoked, and the peer reports anything about its
 *             writes
 * Bits of the op select what is made valid before its use, because otherwise hardly anything would
 * be processed. Accepted memory exists and stays mapped; a request changes nothing outside of the
 * regions. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"
#include "base/status.h"
#include "wire/shm/shm.h"

enum { NRANKS = 3, LINK_BYTES = 4096, REGION_BYTES = 200000, GUARD_BYTES = 4096, SENT_MAX = 64 };
enum op { KNOCK, PACKET, KEY, ASK, SHRINK, LEAVE, SHARE, PERMIT, OPS };
_Static_assert(OPS == 8, "an op is three bits");
enum { HONEST = 1 << 3, WITH_FDS = 1 << 4, OTHER_RANK = 1 << 5, SEALED = 1 << 6, GREAT = 1 << 7 };

/* As in shm_link.c. */
struct packet {
    uint32_t magic, kind, rank, nranks;
    uint8_t secret[16];
    uint64_t id, bytes;
    uint32_t fence, pad;
    uint64_t nonce_at, nonce;
};

struct scene {
    struct tt_shm *w;
    int fd;                     /* our end of the newest connection; -1 */
    int sent[SENT_MAX];         /* descriptors that were sent and that are not sealed */
    uint32_t nsent;
    struct tt_region *own, *shared;
};

static const uint8_t secret[16] = "fuzz";
static const uint64_t nonce = 4711;
static uint8_t memory[GUARD_BYTES + REGION_BYTES + GUARD_BYTES], source[REGION_BYTES + 4096];

static void scene_open(struct scene *s)
{
    static const struct tt_wire_conf conf = {
        .nranks = NRANKS, .secret = secret, .link_bytes = LINK_BYTES, .cma = true
    };
    struct tt_wire *w;

    *s = (struct scene){ .fd = -1 };
    tt_assert(tt_wire_shm.open(&w, &conf) == TUTTI_OK);
    s->w = tt_shm_of(w);
    if (tt_wire_shm.reg(w, memory + GUARD_BYTES, REGION_BYTES, &s->own) != TUTTI_OK)
        s->own = NULL;          /* on systems without access to other processes' memory */
    tt_assert(tt_wire_shm.reg(w, NULL, REGION_BYTES, &s->shared) == TUTTI_OK);
    memset(memory, 0xa5, sizeof memory);
}

static void leave(struct scene *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static void scene_close(struct scene *s)
{
    leave(s);
    tt_wire_shm.close(&s->w->base);
    for (uint32_t i = 0; i < s->nsent; i++)
        close(s->sent[i]);
}

static void knock(struct scene *s)
{
    struct sockaddr_un to;
    socklen_t bytes = sizeof to;

    leave(s);
    tt_assert(getsockname(s->w->acceptor.listener, (struct sockaddr *)&to, &bytes) == 0);
    s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    tt_assert(s->fd >= 0 && connect(s->fd, (struct sockaddr *)&to, bytes) == 0);
}

/* Creates memory as a peer would send it, sealed against shrinking or not. */
static int make_memory(struct scene *s, bool sealed, uint64_t bytes)
{
    const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    tt_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (sealed) {
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
    } else if (s->nsent < SENT_MAX) {
        s->sent[s->nsent++] = dup(fd);
    }
    return fd;
}

static void send_packet(struct scene *s, uint8_t op, const struct packet *p)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(3 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)p,
                         .iov_len = sizeof *p - (op & HONEST ? 0 : p->pad % 2) };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    const int nfds = op & WITH_FDS ? p->kind == 1 || p->pad & 2 ? 3 : 1 : 0;
    int fds[3];

    for (int i = 0; i < nfds; i++)
        fds[i] = make_memory(s, op & SEALED, op & GREAT ? 1 << 20 : 16384);
    if (nfds > 0) {
        struct cmsghdr *c;

        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    if (s->fd >= 0 && sendmsg(s->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        leave(s);
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
}

static void packet(struct scene *s, uint8_t op, struct tt_reader *r)
{
    struct packet p = { .magic = tt_read_u8(r),
                        .kind = tt_read_u8(r),
                        .rank = tt_read_u8(r),
                        .nranks = tt_read_u8(r) };

    p.id = tt_read_u16(r);
    p.bytes = tt_read_u32(r);
    p.pad = tt_read_u8(r);
    if (op & HONEST) {
        p.magic = TT_SHM_MAGIC;
        p.rank = op & OTHER_RANK ? 2 : 1;
        p.nranks = NRANKS;
        memcpy(p.secret, secret, sizeof secret);
        if (op % 8 == KNOCK) {
            p.kind = 1;
            p.bytes = LINK_BYTES;
            p.nonce_at = (uintptr_t)&nonce;
            p.nonce = nonce;
        } else {
            p.kind = 2 + p.kind % 3;
            p.bytes %= 32768;
        }
    }
    send_packet(s, op, &p);
}

static void import(struct scene *s, uint8_t op, struct tt_reader *r)
{
    const uint32_t rank = op & OTHER_RANK ? 2 : 1;
    struct tt_blob key = { 0 };
    struct tt_writer w;
    struct tt_rkey out;

    tt_writer_init(&w, key.data, sizeof key.data);
    tt_write_u32(&w, op & HONEST ? TT_SHM_MAGIC : tt_read_u32(r));
    tt_write_u64(&w, op & GREAT ? tt_read_u64(r) : tt_read_u16(r));
    tt_write_u64(&w, op & GREAT ? tt_read_u64(r) : tt_read_u16(r));
    key.bytes = (uint16_t)(op & HONEST ? tt_writer_bytes(&w) : tt_read_u8(r) % (TT_KEY_BYTES + 1));
    if (tt_wire_shm.import(&s->w->base, rank, &key, &out) != TUTTI_OK)
        return;
    tt_assert(out.peer == rank && out.wire == &s->w->base);
    if (out.mapped && out.bytes > 0) {
        volatile uint8_t *at = out.mapped;

        at[0] = at[out.bytes - 1] = 1;
    }
}

static void ask(struct scene *s, uint8_t op, struct tt_reader *r)
{
    struct tt_shm_peer *peer = tt_shm_peer_of(s->w, op & OTHER_RANK ? 2 : 1);
    const struct tt_shm_pull a = {
        .from = op & HONEST ? (uintptr_t)source + tt_read_u16(r) % 4096 : tt_read_u64(r),
        .bytes = op & GREAT ? tt_read_u64(r) : tt_read_u16(r),
        .region = op & WITH_FDS ? tt_read_u64(r) : tt_read_u8(r) % 3,
        .offset = op & GREAT ? tt_read_u64(r) : tt_read_u16(r),
        .signal_region = op & SEALED ? 0 : tt_read_u64(r),
        .signal = tt_read_u64(r),
        .signal_value = tt_read_u64(r),
    };
    struct tt_shm_pull_line *line;

    if (!peer || peer->state != TT_SHM_UP || !peer->mine.base)
        return;
    line = &tt_shm_pulls_in(s->w, &peer->mine)->line[peer->served % TT_SHM_PULLS];
    line->request = a;
    if (a.region == 2 && s->own)
        line->request.region =
            ((struct tt_shm_shared *)((char *)s->own - offsetof(struct tt_shm_shared, region)))->id;
    atomic_store(&line->state,
                 peer->served << 2 | (a.signal_value & 1 ? TT_SHM_REVOKED : TT_SHM_POSTED));
    tt_shm_serve(s->w);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        tt_assert(memory[i] == 0xa5 && memory[GUARD_BYTES + REGION_BYTES + i] == 0xa5);
}

/* Returns a word of a share; optionally valid in the fields that the peer cannot change. */
static uint64_t share_word(uint64_t now, uint8_t op, struct tt_reader *r)
{
    return op & HONEST ? (now & ~0xffffffull) | tt_read_u8(r) : now ^ tt_read_u64(r);
}

static void share(struct scene *s, uint8_t op, struct tt_reader *r)
{
    struct tt_shm_peer *peer = tt_shm_peer_of(s->w, op & OTHER_RANK ? 2 : 1);
    struct tt_shm_pull_line *line;
    struct tt_shm_share *shared;

    if (!peer || peer->state != TT_SHM_UP || !peer->mine.base || !s->own)
        return;
    shared = &tt_shm_pulls_in(s->w, &peer->mine)->share;
    line = &tt_shm_pulls_in(s->w, &peer->mine)->line[peer->served % TT_SHM_PULLS];
    line->request = (struct tt_shm_pull){
        .from = (uintptr_t)source + tt_read_u16(r) % 4096,
        .bytes = TT_SHM_SHARE_BYTES + tt_read_u32(r) % (REGION_BYTES - TT_SHM_SHARE_BYTES + 1),
        .region =
            ((struct tt_shm_shared *)((char *)s->own - offsetof(struct tt_shm_shared, region)))->id,
    };
    atomic_store(&line->state, peer->served << 2 | TT_SHM_POSTED);
    for (int turn = 0; turn < 3; turn++) {
        const uint64_t claim = atomic_load(&shared->claim);

        if (op & SEALED || turn > 0)
            atomic_store(&shared->claim, share_word(claim, op, r));
        atomic_store(&shared->written,
                     op & GREAT ? share_word(claim & 0xffffull << 48, op, r) : tt_read_u64(r));
        atomic_store(&shared->writer.tid, 1u << 30);      /* no thread of this process, which
                                                             would be waited for */
        tt_shm_serve(s->w);
    }
    for (size_t i = 0; i < GUARD_BYTES; i++)
        tt_assert(memory[i] == 0xa5 && memory[GUARD_BYTES + REGION_BYTES + i] == 0xa5);
}

static void permit(struct scene *s, uint8_t op, struct tt_reader *r)
{
    struct tt_shm_peer *peer = tt_shm_peer_of(s->w, op & OTHER_RANK ? 2 : 1);
    struct tt_shm_permit *p;

    if (!peer || peer->state != TT_SHM_UP || !s->own || !tt_shm_admit(s->own, peer->rank))
        return;
    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++) {
        p = &tt_shm_pulls_in(s->w, &peer->mine)->permit[i];
        atomic_store(&p->writing, op & HONEST ? tt_shm_shared_of(s->own)->id : tt_read_u64(r));
        atomic_store(&p->writer.tid, 1u << 30);    /* no thread of this process, as above */
        atomic_store(&p->writer.there[i % 2].iov_len, tt_read_u32(r));
        if (op & GREAT) {
            atomic_store(&p->region, tt_read_u64(r));
            atomic_store(&p->to, tt_read_u64(r));
        }
    }
    if (op & SEALED)
        tt_shm_permits_close_of(s->w, tt_shm_shared_of(s->own)->id);
    else
        tt_shm_permits_close(s->w, peer);
    for (uint32_t i = 0; i < TT_SHM_PERMITS; i++)
        tt_assert(!peer->permitted[i]);
}

static void step(struct scene *s, uint8_t op, struct tt_reader *r)
{
    switch ((enum op)(op % 8)) {
    case KNOCK:
        knock(s);
        packet(s, op, r);
        break;
    case PACKET:
        packet(s, op, r);
        break;
    case KEY:
        import(s, op, r);
        break;
    case ASK:
        ask(s, op, r);
        break;
    case SHARE:
        share(s, op, r);
        break;
    case PERMIT:
        permit(s, op, r);
        break;
    case SHRINK:
        for (uint32_t i = 0; i < s->nsent; i++)
            tt_assert(ftruncate(s->sent[i], 0) == 0);
        break;
    default:
        leave(s);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tt_done done[16];
    struct tt_reader r;
    struct scene s;

    tt_log_set(TT_LOG_NONE);
    scene_open(&s);
    tt_reader_init(&r, data, bytes);
    for (int steps = 0; steps < 64 && r.at < r.end; steps++) {
        step(&s, tt_read_u8(&r), &r);
        tt_shm_poll_sockets(s.w);
        tt_wire_shm.poll(&s.w->base, done, 16);
    }
    scene_close(&s);
    return 0;
}
