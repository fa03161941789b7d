/* The hash of tutti/hash.h for kernels. The thread blocks of a device each hash a part of the
 * content.
 *
 * The same source compiles for CUDA and for the CPU device (tutti/device.h). On a GPU, each warp
 * processes whole blocks of the content. Each thread processes one lane, and the warp reads a row
 * of 128 bytes with one access. The warp accumulates its blocks in registers, and at the end adds
 * the result to the common sum once. On the CPU device, a thread block is one thread, which
 * processes all lanes in turn. The hash is the same as on the host, for any alignment and any
 * number of thread blocks. */
#ifndef TUTTI_HASH_DEVICE_H
#define TUTTI_HASH_DEVICE_H

#include "tutti/device.h"
#include "tutti/hash.h"

/* ---- for kernels ----------------------------------------------------------------------------- */

/* A word that may alias any type of content. */
typedef uint32_t tutti_hash_aligned __attribute__((may_alias));

/* Returns the word at byte offset `at` of data[bytes], padded with zeros after the end. data may
 * have any alignment. Does not read outside data[bytes]. */
TUTTI_DEVICE uint32_t tutti_hash_word(const uint8_t *data, uint64_t bytes, uint64_t at)
{
    const uint32_t odd = (uint32_t)((uintptr_t)(data + at) % 4);
    uint32_t word = 0;

    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && at >= odd &&
        at - odd + (odd ? 8 : 4) <= bytes) {
        const tutti_hash_aligned *lower =
            (const tutti_hash_aligned *)(const void *)(data + at - odd);

        return odd ? lower[0] >> 8 * odd | lower[1] << (32 - 8 * odd) : lower[0];
    }
    for (uint64_t i = 0; i < 4 && at + i < bytes; i++)
        word |= (uint32_t)data[at + i] << 8 * i;
    return word;
}

/* Number of words that a lane loads before it uses the first one, to hide memory latency. */
#define TUTTI_HASH_AHEAD 16

/* Adds all words of lane `lane` of a full block to *a and *b, the state of the lane. The block is
 * 4-byte aligned. */
TUTTI_DEVICE void tutti_hash_lane_take_all(uint32_t *a, uint32_t *b, const uint8_t *block,
                                           uint32_t lane)
{
    const tutti_hash_aligned *at = (const tutti_hash_aligned *)(const void *)block + lane;
    uint32_t words[TUTTI_HASH_AHEAD];

    for (uint32_t row = 0; row < TUTTI_HASH_BLOCK_BYTES / TUTTI_HASH_ROW_BYTES;
         row += TUTTI_HASH_AHEAD) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (uint32_t i = 0; i < TUTTI_HASH_AHEAD; i++)
            words[i] = at[(row + i) * TUTTI_HASH_LANES];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
        for (uint32_t i = 0; i < TUTTI_HASH_AHEAD; i++)
            tutti_hash_lane_take(a, b, words[i]);
    }
}

/* Hashes lane `lane` of block[bytes], and adds the result to the digest of the block. */
TUTTI_DEVICE void tutti_hash_lane(uint32_t digest[4], const uint8_t *block, uint64_t bytes,
                                  uint32_t lane)
{
    uint32_t a, b;

    tutti_hash_lane_begin(lane, &a, &b);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && bytes == TUTTI_HASH_BLOCK_BYTES &&
        (uintptr_t)block % 4 == 0) {
        tutti_hash_lane_take_all(&a, &b, block, lane);
        tutti_hash_lane_end(digest, a, b);
        return;
    }
    for (uint64_t row = 0; row < bytes; row += TUTTI_HASH_ROW_BYTES)
        tutti_hash_lane_take(
            &a, &b, row + 4 * lane < bytes ? tutti_hash_word(block, bytes, row + 4 * lane) : 0);
    tutti_hash_lane_end(digest, a, b);
}

/* Adds the digests of all lanes of a warp. Each thread of the warp gets the sum. */
TUTTI_DEVICE void tutti_hash_warp_sum(uint32_t digest[4])
{
#if defined(__CUDA_ARCH__)
    for (int step = TUTTI_HASH_LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < 4; i++)
            digest[i] += __shfl_xor_sync(0xffffffffu, digest[i], step);
#else
    (void)digest;
#endif
}

/* Adds value to *at atomically. */
TUTTI_DEVICE void tutti_hash_add(uint32_t *at, uint32_t value)
{
#if defined(__CUDA_ARCH__)
    atomicAdd(at, value);
#else
    __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

/* Hashes the part of data[bytes] that belongs to thread block `block` of `nblocks`, and adds the
 * result to sum[4], which is initially zero. All threads of all thread blocks make this call. A
 * thread block consists of one thread, or of full warps. After all calls have returned,
 * tutti_hash_end(value, sum, bytes) computes the hash. data may have any alignment.
 * data may also be a range of longer content. The range begins at block `first_block` of the
 * content, and ends with a block or with the content. The sums of several ranges are added word by
 * word.
 * INVALID: a thread block has more than one thread and a partial warp, block is not below nblocks,
 * or data[bytes] exceeds the address space; sum is unchanged. */
TUTTI_DEVICE tutti_status tutti_hash_blocks(uint32_t block, uint32_t nblocks, const void *data,
                                            uint64_t bytes, uint64_t first_block, uint32_t sum[4])
{
    const uint32_t threads = tutti_device_threads(), width = threads == 1 ? 1 : TUTTI_HASH_LANES;
    const uint32_t team = tutti_device_thread() / width, nteams = threads / width;
    const uint32_t first_lane = tutti_device_thread() % width;
    const uint64_t n = bytes / TUTTI_HASH_BLOCK_BYTES + (bytes % TUTTI_HASH_BLOCK_BYTES != 0);
    uint32_t mine[4] = { 0, 0, 0, 0 };

    if (threads % width != 0 || block >= nblocks || (uint64_t)(uintptr_t)data > UINT64_MAX - bytes)
        return TUTTI_ERR_INVALID;
    for (uint64_t k = (uint64_t)block * nteams + team; k < n; k += (uint64_t)nblocks * nteams) {
        const uint64_t from = k * TUTTI_HASH_BLOCK_BYTES, left = bytes - from;
        uint32_t digest[4] = { 0, 0, 0, 0 };

        for (uint32_t lane = first_lane; lane < TUTTI_HASH_LANES; lane += width)
            tutti_hash_lane(digest, (const uint8_t *)data + from,
                            left < TUTTI_HASH_BLOCK_BYTES ? left : TUTTI_HASH_BLOCK_BYTES, lane);
        if (width > 1)
            tutti_hash_warp_sum(digest);
        tutti_hash_block_end(mine, digest, first_block + k);
    }
    for (int i = 0; i < 4 && first_lane == 0; i++)
        tutti_hash_add(&sum[i], mine[i]);
    return TUTTI_OK;
}

/* ---- CUDA: in stream order ------------------------------------------------------------------- */

#if defined(__CUDACC__)
/* A template, so that the kernel is compiled only in sources that use it. */
template <int threads>
__global__ void tutti_hash_kernel(const void *data, uint64_t bytes, uint64_t first_block,
                                  uint32_t *sum)
{
    tutti_hash_blocks(blockIdx.x, gridDim.x, data, bytes, first_block, sum);
}

/* Adds the hash of a range to sum[4] in device memory, in stream order. The arguments are those of
 * tutti_hash_blocks. */
static inline cudaError_t tutti_hash_on(cudaStream_t stream, const void *data, uint64_t bytes,
                                        uint64_t first_block, uint32_t *sum)
{
    const int threads = 256;
    const uint64_t bytes_at_once = threads / TUTTI_HASH_LANES * (uint64_t)TUTTI_HASH_BLOCK_BYTES;
    const uint64_t most = 4096, wanted = bytes / bytes_at_once + (bytes % bytes_at_once != 0);

    if (bytes == 0)
        return cudaSuccess;
    tutti_hash_kernel<threads><<<(unsigned)(wanted < most ? wanted : most), threads, 0, stream>>>(
        data, bytes, first_block, sum);
    return cudaGetLastError();
}

/* Hashes data[bytes] in device memory, in stream order, and waits for the result. Writes value only
 * on success. */
static inline cudaError_t tutti_hash_cuda(cudaStream_t stream, const void *data, uint64_t bytes,
                                          uint32_t value[4])
{
    uint32_t *sum = NULL, here[4];
    cudaError_t err, freed;

    err = cudaMallocAsync((void **)&sum, sizeof here, stream);
    if (err != cudaSuccess)
        return err;
    err = cudaMemsetAsync(sum, 0, sizeof here, stream);
    if (err == cudaSuccess)
        err = tutti_hash_on(stream, data, bytes, 0, sum);
    if (err == cudaSuccess)
        err = cudaMemcpyAsync(here, sum, sizeof here, cudaMemcpyDeviceToHost, stream);
    if (err == cudaSuccess)
        err = cudaStreamSynchronize(stream);
    freed = cudaFreeAsync(sum, stream);
    if (err == cudaSuccess)
        err = freed;
    if (err == cudaSuccess)
        tutti_hash_end(value, here, bytes);
    return err;
}
#endif

#endif
