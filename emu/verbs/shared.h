/* Layout of the memory that the emulated RDMA devices of a process share with other processes.
 *
 * Each process has one *segment*, a memory file that process.c lists for others. It has fixed
 * tables of queue pairs, completion queues, shared receive queues and memory regions, then a heap
 * for the rings of the queues. The owner allocates; other processes of the same user execute their
 * work requests on it: they check keys, consume receives and add completions.
 *
 * A process may die at any instruction. Therefore each lock is a robust mutex, and each queue is
 * valid after every store: an entry is complete before the index that publishes it changes.
 *
 * Locks are taken in this order: the process (process.h), the send queue of a queue pair (private
 * to its process), `shm_qp.lock` of one queue pair, a receive queue, a completion queue. */
#ifndef TT_EMU_RDMA_SHARED_H
#define TT_EMU_RDMA_SHARED_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RDMA_MAGIC 0x7475747469726433ull
#define RDMA_DEVICES 8u             /* maximum; one port each */
#define RDMA_GIDS 32u               /* of a port */
#define RDMA_SLOTS 4096u            /* processes; slot 0 is unused */
#define RDMA_QPS 4096u              /* of a process */
#define RDMA_CQS 1024u
#define RDMA_SRQS 1024u
#define RDMA_MRS 32768u
#define RDMA_SGE 16u
#define RDMA_INLINE 1024u           /* bytes */
#define RDMA_WRS 16384u
#define RDMA_SRQ_WRS (1u << 17)
#define RDMA_CQES (1u << 18)
#define RDMA_HEAP_BYTES (512ull << 20)
#define RDMA_MESSAGE_BYTES (1u << 30)

/* A queue pair number: slot of the process, and index in its table. */
#define RDMA_QPN(slot, index) ((slot) << 12 | (index))
#define RDMA_QPN_SLOT(qpn) ((qpn) >> 12 & (RDMA_SLOTS - 1))
#define RDMA_QPN_INDEX(qpn) ((qpn) & (RDMA_QPS - 1))

struct shm_cqe {
    uint64_t wr_id;
    uint64_t sq_end;                /* requests of the send queue before it are complete; 0: a
                                       receive */
    uint32_t status, opcode, byte_len, qpn, src_qpn, flags;
    uint32_t imm;                   /* as in the work request */
};

struct shm_cq {
    pthread_mutex_t lock;
    uint64_t ring;                  /* offset of struct shm_cqe[depth] in the segment */
    uint32_t depth;
    uint32_t armed;                 /* 0: no; 1: for any completion; 2: for a solicited one */
    uint32_t events;                /* that the owner has not delivered to the channel yet */
    bool overrun;                   /* a completion was lost */
    uint64_t head, tail;
};

struct shm_receive {
    uint64_t wr_id;
    uint32_t nsge;
    struct ibv_sge sge[];           /* [sge_max] */
};

/* A receive queue: of a queue pair, or shared. */
struct shm_rq {
    pthread_mutex_t lock;
    uint64_t ring;                  /* offset of struct shm_receive[depth]; 0: none */
    uint32_t depth, sge_max, limit;
    uint64_t head, tail;
};

enum { RDMA_EVENT_ACCESS = 1, RDMA_EVENT_REQUEST = 2, RDMA_EVENT_LAST = 4, RDMA_EVENT_FATAL = 8 };

struct shm_qp {
    pthread_mutex_t lock;           /* held while another queue pair's request is executed here */
    bool locks_ready;               /* the mutexes were initialised, which happens once */
    uint32_t state;                 /* enum ibv_qp_state */
    uint32_t device, pd, access, dest_qpn;
    uint32_t rnr_timer;
    uint32_t recv_cq, srq;          /* indices; srq RDMA_SRQS: none, use rq */
    uint32_t events;                /* bits RDMA_EVENT_* that the owner has not raised yet */
    struct shm_rq rq;
};

struct shm_mr {
    uint32_t key;                   /* local and remote; 0: not valid */
    uint32_t pd, access;
    uint64_t address, iova, bytes;
};

struct shm_port {
    bool up;
    uint32_t ngids;
    union ibv_gid gid[RDMA_GIDS];
};

struct shm_segment {
    uint64_t magic;
    uint64_t bytes;
    int32_t pid;
    uint32_t slot;
    bool closed;
    pthread_mutex_t alive;          /* held by the device thread as long as the process lives */
    uint32_t wake;                  /* futex of the device thread */
    uint64_t qp_news[RDMA_QPS / 64];        /* queue pairs with events or a new error state */
    uint64_t cq_news[RDMA_CQS / 64];        /* completion queues with events */
    uint64_t srq_news[RDMA_SRQS / 64];      /* shared receive queues below their limit */
    pthread_mutex_t atomics[RDMA_DEVICES];  /* atomic operations of a device are serial */
    struct shm_port port[RDMA_DEVICES];
    struct shm_qp qp[RDMA_QPS];
    struct shm_cq cq[RDMA_CQS];
    struct shm_rq srq[RDMA_SRQS];
    struct shm_mr mr[RDMA_MRS];
};

#define RDMA_HEAP_AT ((sizeof(struct shm_segment) + 4095) / 4096 * 4096)
#define RDMA_SEGMENT_BYTES (RDMA_HEAP_AT + RDMA_HEAP_BYTES)

/* Prints one line to stderr, unless TUTTI_EMU_QUIET is set. */
void rdma_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Initialises a robust mutex shared by processes. */
void rdma_mutex_init(pthread_mutex_t *m);
/* Locks the mutex. If its holder has died, the data is still valid. */
void rdma_lock(pthread_mutex_t *m);
void rdma_unlock(pthread_mutex_t *m);

/* Wakes the device thread of the segment's process. */
void rdma_wake(struct shm_segment *s);
/* Sets a bit in one of the segment's *_news tables, and wakes its device thread. */
void rdma_notify(struct shm_segment *s, uint64_t *table, uint32_t index);

/* Adds a completion. Returns false if the queue is full: then the completion is lost, and the queue
 * cannot be used any more. A full ring or an invalid offset is an error of the owner. */
bool rdma_cq_push(struct shm_segment *s, uint32_t cq, const struct shm_cqe *e, bool solicited);

/* Returns receive `number` of the queue's ring, with *sge_max entries, or NULL if the ring is not
 * in the segment. */
struct shm_receive *rdma_receive_at(struct shm_segment *s, const struct shm_rq *rq, uint64_t number,
                                    uint32_t *sge_max);

/* Returns the valid region with that key, which covers bytes at `address` with these rights in this
 * protection domain, or NULL. bytes 0: the key is not used. */
const struct shm_mr *rdma_mr_find(const struct shm_segment *s, uint32_t key, uint64_t address,
                                  uint64_t bytes, uint32_t access, uint32_t pd);

#endif
