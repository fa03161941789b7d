/* Private declarations of the emulated libibverbs.
 *
 *  shared.c      memory shared by processes: locks, completions, keys
 *  process.c     directory of the segments, this process's segment, mappings of others
 *  thread.c      device thread and watcher of interfaces
 *  device.c      devices, ports, GIDs
 *  memory.c      protection domains and memory regions
 *  queue.c       completion queues and channels, shared receive queues
 *  pair.c        queue pairs
 *  send.c        execution of work requests
 *  fault.c       faults on demand
 *  text.c        names of constants, rates
 *  refused.c     what is not emulated
 *
 * A work request is executed by the thread that posts it: it checks the remote key, copies the
 * bytes by process_vm_writev or process_vm_readv, consumes the receive and adds the completions. A
 * request that cannot be executed now (no receive, no connected peer, port down) stays in its
 * queue, and the device thread repeats it until its timers expire. */
#ifndef TT_EMU_RDMA_PROCESS_H
#define TT_EMU_RDMA_PROCESS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "shared.h"

#define RDMA_EXPORT __attribute__((visibility("default")))
#define RDMA_MS 1000000ull          /* ns */

struct rdma_device {
    struct ibv_device public;
    char interface[16];
    uint32_t index;
};

/* An event that the program has not received yet. */
struct rdma_event {
    struct ibv_async_event public;
    struct rdma_event *next;
};

struct rdma_context {
    struct verbs_context verbs;     /* the program has &verbs.context */
    struct rdma_device *device;
    struct rdma_context *next;
    struct rdma_event *events, **events_end;    /* one count of async_fd each */
    uint32_t objects;               /* objects that must be destroyed before the context */
};

struct rdma_channel {
    struct ibv_comp_channel public;
    struct rdma_cq *ready;          /* queues with events, linked by next_ready */
};

struct rdma_cq {
    struct ibv_cq public;
    struct shm_cq *shared;
    uint32_t index, users;
    uint64_t ring;
    uint64_t ring_bytes;
    uint32_t ready;                 /* events that the program can get from the channel */
    bool listed, failed;
    uint32_t events_got, async_got;
    struct rdma_cq *next_ready;
    pthread_mutex_t poll;           /* threads that poll take turns */
};

struct rdma_srq {
    struct ibv_srq public;
    struct shm_rq *shared;
    uint32_t index, users, async_got;
    uint64_t ring_bytes;
};

struct rdma_pd {
    struct ibv_pd public;
    uint32_t number, users;
};

struct rdma_mr {
    struct ibv_mr public;
    uint32_t index;
    uint8_t *alias;                 /* second mapping of shared memory; NULL: none */
    size_t alias_bytes;
    uint8_t *gpu;                   /* memory of an emulated GPU; NULL: of the host */
};

/* A work request in a send queue. */
struct rdma_send {
    uint64_t wr_id;
    uint32_t opcode, flags, imm, nsge;
    uint64_t remote, compare_add, swap;
    uint32_t rkey;
    uint32_t status;                /* set when the request was executed */
    uint32_t bytes;
    uint64_t due_ns;                /* when its completion is due; 0: at once */
    uint8_t *copy;                  /* owned inline data of a queued request; else NULL */
    struct ibv_sge sge[RDMA_SGE];
};

/* A segment of another process, or ours. */
struct rdma_peer {
    struct rdma_peer *next;
    struct shm_segment *segment;
    uint32_t slot, users;
    bool own;
};

struct rdma_qp {
    struct ibv_qp public;
    struct rdma_context *context;
    struct shm_qp *shared;
    uint32_t index;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;        /* as last set */
    uint32_t async_got;
    uint64_t rq_bytes;
    struct rdma_peer *peer;         /* NULL: none, or unreachable */
    pthread_mutex_t lock;           /* protects the fields below */
    struct rdma_send *ring;         /* [depth] */
    uint32_t depth;
    uint64_t done, executed, tail;  /* counts: completed <= executed <= posted. They continue those
                                       of an earlier queue pair with this index */
    uint64_t again_ns;              /* earliest time of the next attempt */
    uint64_t lost_ns, wait_ns;      /* time of the first failure to reach the peer; retry delay */
    uint32_t rnr_tries;
    uint64_t rnr_left;              /* remaining refusals by an injected fault */
    uint64_t fault_count, late_count, rnr_count;
};

/* The process's state. Protected by its lock, except for the segment's contents. */
struct rdma_process {
    pthread_mutex_t lifecycle;      /* held while the state opens or closes; acquired before lock */
    pthread_mutex_t lock;
    bool open;
    int dir_fd, slots_fd, segment_fd;
    uint32_t slot;
    struct shm_segment *own;
    uint64_t kept[RDMA_SEGMENT_BYTES / 4096 / 64 + 1];      /* pages with memory */
    uint64_t used[RDMA_HEAP_BYTES / 4096 / 64];             /* pages of the heap in use */
    uint32_t qp_next, mr_next, pd_next;
    struct rdma_context *contexts;
    struct rdma_qp *qp[RDMA_QPS];
    uint64_t sq_head[RDMA_QPS];     /* number of requests that have left the send queue; atomic */
    struct rdma_cq *cq[RDMA_CQS];
    struct rdma_srq *srq[RDMA_SRQS];
    uint8_t mr_tag[RDMA_MRS];
    bool mr_used[RDMA_MRS];
    struct rdma_peer *peers;
    uint64_t stalled[RDMA_QPS / 64];        /* queue pairs that the device thread repeats; atomic */
    bool up[RDMA_DEVICES];                  /* state of the ports, as last reported */
    uint64_t down_until_ns[RDMA_DEVICES];   /* by an injected fault; atomic */
    pthread_t device_thread, watcher;
    int watcher_fd;                 /* of netlink; -1: none */
    int stop_fd;
    bool stop;                      /* atomic */
};

extern struct rdma_process rdma;

/* ---- process.c ---- */
uint64_t rdma_now_ns(void);
/* Creates the segment and the threads with the first context; ends them with the last one. Call
 * with the lock held. Returns an errno value. */
int rdma_process_open(void);
void rdma_process_close(void);
/* Allocates zeroed bytes of the segment's heap; 0: none left. Call with the lock held. */
uint64_t rdma_heap_take(uint64_t bytes);
void rdma_heap_give(uint64_t at, uint64_t bytes);
/* Ensures that these bytes of our segment have memory. Returns an errno value. Lock held. */
int rdma_keep(const void *at, size_t bytes);
/* Returns the process with that slot, or NULL. Lock held. */
struct rdma_peer *rdma_peer_get(uint32_t slot);
void rdma_peer_put(struct rdma_peer *p);
bool rdma_peer_is_alive(const struct rdma_peer *p);

/* ---- thread.c ---- */
int rdma_threads_begin(void);
void rdma_threads_end(void);
/* Queues an event for the program. Lock held. */
void rdma_event_raise(struct rdma_context *c, const struct ibv_async_event *e);
/* Makes the device thread repeat the queue pair's requests. */
void rdma_stall(struct rdma_qp *qp);
/* Compares the ports with their interfaces, and raises events. Lock held. */
void rdma_ports_update(bool addresses);

/* ---- device.c ---- */
/* Returns the devices, and their number. */
struct rdma_device *rdma_devices(uint32_t *n);
/* Returns whether the port is up: its interface is up, and no fault is active. */
bool rdma_port_is_up(const struct rdma_device *d);
/* Reads the addresses of the interface. Returns their number. */
uint32_t rdma_gids(const struct rdma_device *d, union ibv_gid gid[RDMA_GIDS]);
struct rdma_context *rdma_context_of(struct ibv_context *c);

/* ---- memory.c ---- */
/* Waits until no queue pair of this process, nor one connected to it, executes a request that began
 * before. Lock held. */
void rdma_quiesce(void);

/* ---- queue.c ---- */
/* Delivers the events of a queue to its channel. Lock held. */
void rdma_cq_deliver(struct rdma_cq *cq);
void rdma_srq_deliver(struct rdma_srq *srq);
int rdma_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int rdma_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int rdma_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Adds a list of receives to a queue of our segment. Returns an errno value. */
int rdma_receives_add(struct shm_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Waits until the program has acknowledged the events that it received. */
void rdma_wait_acked(pthread_mutex_t *m, pthread_cond_t *c, const uint32_t *acked,
                     const uint32_t *got);
/* Removes the pending events of an object. Lock held. */
void rdma_events_drop(struct rdma_context *c, const void *object);

/* ---- pair.c ---- */
int rdma_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Handles the events that other processes have set. Lock held. */
void rdma_qp_news(struct rdma_qp *qp);
/* Puts a queue pair of any process into the error state, with an event. */
void rdma_qp_fail(struct shm_segment *s, uint32_t index, uint32_t event);

/* ---- send.c ---- */
int rdma_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Executes and completes requests as far as possible, with the queue pair's lock held. Returns the
 * time of the next call in ns; 0: none is needed. */
uint64_t rdma_pump(struct rdma_qp *qp);
/* Completes all receives of the queue pair's own queue with errors. qp->lock held. */
void rdma_receives_flush(struct rdma_qp *qp);

/* ---- fault.c ---- */
enum rdma_fault {
    RDMA_FAULT_QP,
    RDMA_FAULT_LATE,
    RDMA_FAULT_RNR,
    RDMA_FAULT_PORT,
    RDMA_FAULT_REG,
    RDMA_FAULTS
};
struct rdma_fault_setting {
    uint64_t every;                 /* 0: never */
    uint64_t amount;                /* microseconds, or a count */
};
/* Parses settings like "late=10:500,rnr=50". Returns false if the text is invalid; *wrong is then
 * the position of the error. */
bool rdma_faults_parse(const char *text, struct rdma_fault_setting out[RDMA_FAULTS],
                       const char **wrong);
/* Returns whether the settings in the environment are valid; otherwise devices cannot be opened. */
bool rdma_faults_are_valid(void);
/* Returns a setting of the environment, which is read once. */
const struct rdma_fault_setting *rdma_fault(enum rdma_fault f);
/* Counts an event in *count. Returns whether the fault happens now. */
bool rdma_fault_is_due(enum rdma_fault f, uint64_t *count);
/* Ends the process if TUTTI_EMU_RDMA_STRICT is set: a missing receive is then an error. */
void rdma_not_ready(uint32_t qpn);

#endif
