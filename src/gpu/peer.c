/* Cards, and mappings of the memory of other processes. */
#include "gpu/peer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/host.h"
#include "base/prng.h"

#define CARD_MAGIC 0x6472616374746774ull
#define MAPPINGS_MAX 64u

/* Opened memory of another process, the most recently used first. It is closed only with the
 * tutti_gpu, because closing waits for all streams, including those that wait for the worker. */
struct tt_gpu_mapping {
    struct tt_gpu_mapping *next;
    uint64_t process, base, allocation;
    tt_cuda_address mapped;
};

static uint64_t process_random;

static void draw_process_number(void)
{
    tt_random_bytes(&process_random, sizeof process_random);
}

uint64_t tt_gpu_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, draw_process_number);
    return tt_mix64(process_random ^ (uint64_t)getpid());
}

/* ---- cards ---- */

/* Adds the allocation and its handle. Memory of pools and of the host has no handle. */
static void add_handle(const struct tt_cuda *cu, struct tt_gpu_card *card)
{
    tt_cuda_address base = 0;
    unsigned long long allocation = 0;

    if (cu->pointer_attribute(&base, TT_CUDA_POINTER_RANGE_START, card->address) ||
        cu->pointer_attribute(&allocation, TT_CUDA_POINTER_BUFFER, card->address) ||
        cu->ipc_get(&card->handle, base))
        return;
    card->base = base;
    card->allocation = allocation;
    card->reach = TT_GPU_REACH_HOST;
}

void tt_gpu_card_make(struct tt_gpu_card *card, const tutti_gpu_op *op, const void *mem,
                      size_t bytes)
{
    *card = (struct tt_gpu_card){ .magic = CARD_MAGIC,
                                  .host = tt_host_hash(),
                                  .process = tt_gpu_process(),
                                  .address = tt_cuda_address_of(mem),
                                  .bytes = bytes,
                                  .count = op->count,
                                  .kind = (uint32_t)op->kind,
                                  .type = (uint32_t)op->type,
                                  .root = (uint32_t)op->root,
                                  .in_place = op->src == op->dst,
                                  .reach = bytes ? TT_GPU_REACH_PROCESS : TT_GPU_REACH_HOST };
    if (bytes)
        add_handle(op->gpu->cu, card);
}

bool tt_gpu_card_is_valid(const struct tt_gpu_card *card)
{
    return card->magic == CARD_MAGIC && card->reach <= TT_GPU_REACH_HOST &&
           card->base <= card->address;
}

/* Returns whether this rank might copy from the memory, according to the card. */
static bool card_is_near(const struct tt_gpu_card *card)
{
    return card->process == tt_gpu_process() ||
           (card->host == tt_host_hash() && card->reach == TT_GPU_REACH_HOST);
}

/* ---- mappings ---- */

/* Moves the mapping of the card's allocation to the head of the list, and returns it, or NULL. */
static struct tt_gpu_mapping *find_mapping(tutti_gpu *gpu, const struct tt_gpu_card *card)
{
    struct tt_gpu_mapping **at = &gpu->mappings, *m;

    while (*at && ((*at)->process != card->process || (*at)->base != card->base ||
                   (*at)->allocation != card->allocation))
        at = &(*at)->next;
    m = *at;
    if (m) {
        *at = m->next;
        m->next = gpu->mappings;
        gpu->mappings = m;
    }
    return m;
}

bool tt_gpu_peer_is_full(const tutti_gpu *gpu)
{
    return gpu->nmappings == MAPPINGS_MAX;
}

static struct tt_gpu_mapping *open_mapping(tutti_gpu *gpu, const struct tt_gpu_card *card)
{
    struct tt_gpu_mapping *m = tt_gpu_peer_is_full(gpu) ? NULL : calloc(1, sizeof *m);

    if (!m || gpu->cu->ipc_open(&m->mapped, card->handle, TT_CUDA_IPC_LAZY_PEER)) {
        free(m);
        return NULL;
    }
    m->process = card->process;
    m->base = card->base;
    m->allocation = card->allocation;
    m->next = gpu->mappings;
    gpu->mappings = m;
    gpu->nmappings++;
    return m;
}

tt_cuda_address tt_gpu_card_open(tutti_gpu *gpu, const struct tt_gpu_card *card)
{
    struct tt_gpu_mapping *m;

    if (!card_is_near(card))
        return 0;
    if (card->process == tt_gpu_process())
        return card->address;
    m = find_mapping(gpu, card);
    if (!m)
        m = open_mapping(gpu, card);
    return m ? m->mapped + (card->address - card->base) : 0;
}

void tt_gpu_peer_close(tutti_gpu *gpu)
{
    struct tt_gpu_mapping *m;

    while ((m = gpu->mappings)) {
        gpu->mappings = m->next;
        gpu->cu->ipc_close(m->mapped);
        free(m);
    }
}
