// Gloo as a contestant: TCP, with a file store as rendezvous, and all of its algorithms.
//
// allreduce  ring, bcube                    gloo::allreduce; out of place
//            old_ring, ring_chunked,
//            halving_doubling, old_bcube    the older classes; in place, so the source is copied first
// others     Gloo's only algorithm. Its reduce_scatter (halving_doubling) is also an older class.
//
// Older and newer ones must not run in one group: see lib/contestants.py.
#include "peer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

namespace {

using Op = std::function<void()>;

struct Peer {
    std::shared_ptr<gloo::rendezvous::Context> context;
    Op op;      // the prepared operation; owns its resources
};

void add(void *c, const void *a, const void *b, size_t n)
{
    gloo::sum<float>(c, a, b, n);
}

// The older algorithms are objects bound to one buffer, which they reduce in place.
template <typename Algorithm> Op in_place(std::shared_ptr<Algorithm> algorithm, const peer_job &job)
{
    float *const src = job.src, *const dst = job.dst;
    const size_t bytes = job.bytes;

    return [=] {
        memcpy(dst, src, bytes);
        algorithm->run();
    };
}

template <typename Algorithm> Op old_allreduce(Peer &p, const peer_job &job)
{
    const std::vector<float *> buffers{ job.dst };

    return in_place(std::make_shared<Algorithm>(p.context, buffers, (int)job.count), job);
}

Op new_allreduce(Peer &p, const peer_job &job, gloo::AllreduceOptions::Algorithm algorithm)
{
    auto o = std::make_shared<gloo::AllreduceOptions>(p.context);

    o->setAlgorithm(algorithm);
    o->setInput(job.src, job.count);
    o->setOutput(job.dst, job.count);
    o->setReduceFunction(add);
    return [o] { gloo::allreduce(*o); };
}

Op allreduce(Peer &p, const peer_job &job)
{
    const std::string algo = job.algo;

    if (algo.empty() || algo == "ring")
        return new_allreduce(p, job, gloo::AllreduceOptions::Algorithm::RING);
    if (algo == "bcube")
        return new_allreduce(p, job, gloo::AllreduceOptions::Algorithm::BCUBE);
    if (algo == "old_ring")
        return old_allreduce<gloo::AllreduceRing<float>>(p, job);
    if (algo == "ring_chunked")
        return old_allreduce<gloo::AllreduceRingChunked<float>>(p, job);
    if (algo == "halving_doubling")
        return old_allreduce<gloo::AllreduceHalvingDoubling<float>>(p, job);
    if (algo == "old_bcube")
        return old_allreduce<gloo::AllreduceBcube<float>>(p, job);
    return nullptr;
}

Op reduce_scatter(Peer &p, const peer_job &job)
{
    const std::vector<float *> buffers{ job.dst };
    const std::vector<int> shares(p.context->size, (int)job.block);

    return in_place(std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
                        p.context, buffers, (int)job.count, shares), job);
}

Op reduce(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::ReduceOptions>(p.context);

    o->setInput(job.src, job.count);
    o->setOutput(job.dst, job.count);
    o->setRoot(0);
    o->setReduceFunction(add);
    return [o] { gloo::reduce(*o); };
}

Op allgather(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::AllgatherOptions>(p.context);

    o->setInput(job.src, job.block);
    o->setOutput(job.dst, job.count);
    return [o] { gloo::allgather(*o); };
}

Op alltoall(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::AlltoallOptions>(p.context);

    o->setInput(job.src, job.count);
    o->setOutput(job.dst, job.count);
    return [o] { gloo::alltoall(*o); };
}

Op broadcast(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::BroadcastOptions>(p.context);

    o->setOutput(job.dst, job.count);
    o->setRoot(0);
    return [o] { gloo::broadcast(*o); };
}

Op gather(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::GatherOptions>(p.context);

    o->setInput(job.src, job.block);
    if (p.context->rank == 0)
        o->setOutput(job.dst, job.count);
    o->setRoot(0);
    return [o] { gloo::gather(*o); };
}

Op scatter(Peer &p, const peer_job &job)
{
    auto o = std::make_shared<gloo::ScatterOptions>(p.context);
    std::vector<float *> blocks;

    for (int r = 0; r < p.context->size; r++)
        blocks.push_back(job.src + r * job.block);
    if (p.context->rank == 0)
        o->setInputs(blocks, job.block);
    o->setOutput(job.dst, job.block);
    o->setRoot(0);
    return [o] { gloo::scatter(*o); };
}

Op pingpong(Peer &p, const peer_job &job)
{
    constexpr uint64_t slot = 0x70696e67;
    const int rank = p.context->rank, partner = rank ^ 1;
    std::shared_ptr<gloo::transport::UnboundBuffer> out, in;

    if (partner >= p.context->size)
        return [] {};
    out = p.context->createUnboundBuffer(job.src, job.bytes);
    in = p.context->createUnboundBuffer(job.dst, job.bytes);
    const auto send = [=] { out->send(partner, slot); out->waitSend(); };
    const auto receive = [=] { in->recv(partner, slot); in->waitRecv(); };
    if (rank % 2 == 0)
        return [=] { send(); receive(); };
    return [=] { receive(); send(); };
}

Op sendrecv(Peer &p, const peer_job &job)
{
    constexpr uint64_t slot = 0x73657264;
    const int rank = p.context->rank, n = p.context->size;
    std::shared_ptr<gloo::transport::UnboundBuffer> out, in;

    out = p.context->createUnboundBuffer(job.src, job.bytes);
    in = p.context->createUnboundBuffer(job.dst, job.bytes);
    return [=] {
        in->recv((rank + n - 1) % n, slot);
        out->send((rank + 1) % n, slot);
        out->waitSend();
        in->waitRecv();
    };
}

void barrier(void *ctx)
{
    gloo::BarrierOptions o(static_cast<Peer *>(ctx)->context);

    gloo::barrier(o);
}

Op operation(Peer &p, const peer_job &job)
{
    if (job.coll != PEER_ALLREDUCE && job.algo[0])
        return nullptr;
    switch (job.coll) {
    case PEER_ALLREDUCE:      return allreduce(p, job);
    case PEER_REDUCE:         return reduce(p, job);
    case PEER_REDUCE_SCATTER: return reduce_scatter(p, job);
    case PEER_ALLGATHER:      return allgather(p, job);
    case PEER_BROADCAST:      return broadcast(p, job);
    case PEER_GATHER:         return gather(p, job);
    case PEER_SCATTER:        return scatter(p, job);
    case PEER_ALLTOALL:       return alltoall(p, job);
    case PEER_PINGPONG:       return pingpong(p, job);
    case PEER_SENDRECV:       return sendrecv(p, job);
    case PEER_BARRIER:        return [&p] { barrier(&p); };
    case PEER_OVERLAP:
    case PEER_COMPUTE:
    case PEER_NCOLLS:         break;
    }
    return nullptr;
}

// A peer may write to an old algorithm object until the peer has finished, too. Therefore there
// are barriers before it is destroyed and after the next one is created.
const char *prepare(void *ctx, const peer_job *job, int fresh)
{
    Peer &p = *static_cast<Peer *>(ctx);

    if (!fresh)
        return nullptr;
    barrier(ctx);
    p.op = nullptr;
    p.op = operation(p, *job);
    barrier(ctx);
    return p.op ? nullptr : "gloo has no such collective or algorithm";
}

void run(void *ctx, const peer_job *)
{
    static_cast<Peer *>(ctx)->op();
}

void max(void *ctx, double *values, size_t n)
{
    gloo::AllreduceOptions o(static_cast<Peer *>(ctx)->context);

    o.setOutput(values, n);
    o.setReduceFunction([](void *c, const void *a, const void *b, size_t m) {
        gloo::max<double>(c, a, b, m);
    });
    gloo::allreduce(o);
}

} // namespace

int main(int argc, char **argv)
try {
    if (argc != 5) {
        fprintf(stderr, "usage: gloo_peer DIR RANK SIZE HOST (see PROTOCOL.md)\n");
        return 2;
    }
    const std::string dir = argv[1];
    const int rank = atoi(argv[2]), size = atoi(argv[3]);
    const std::string version = std::to_string(GLOO_VERSION_MAJOR) + "." +
                                std::to_string(GLOO_VERSION_MINOR) + "." +
                                std::to_string(GLOO_VERSION_PATCH);
    gloo::transport::tcp::attr attr(argv[4]);
    auto device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(dir);
    Peer peer;
    peer_ops ops{};

    peer.context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    peer.context->setTimeout(std::chrono::minutes(2));
    peer.context->connectFullMesh(store, device);
    ops.name = "Gloo";
    ops.version = version.c_str();
    ops.rank = rank;
    ops.nranks = size;
    ops.prepare = prepare;
    ops.run = run;
    ops.barrier = barrier;
    ops.max = max;
    return peer_serve(argv[1], &ops, &peer);
} catch (const std::exception &e) {
    fprintf(stderr, "gloo_peer: %s\n", e.what());
    return 1;
}
