// The c10d backend "tutti". Sources: torch/csrc/distributed/c10d/Backend.hpp of PyTorch 2.9 to 2.15
// (the interface).
#pragma once

#include <c10/util/FunctionRef.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "membership.hpp"
#include "residuals.hpp"
#include "work.hpp"

namespace tutti_torch
{

// What init_process_group and new_group take as pg_options.
struct GroupOptions : c10d::Backend::Options {
    explicit GroupOptions(std::chrono::milliseconds timeout = kBackendDefaultTimeout)
        : c10d::Backend::Options("tutti", timeout)
    {
    }

    c10::intrusive_ptr<c10d::Backend::Options> clone() const
#ifdef C10D_BACKEND_HAS_HOOKS
        override
#endif
    {
        return c10::make_intrusive<GroupOptions>(*this);
    }

    std::string algorithm;                       // of calls that have it; empty: chosen
    tutti_quant quantization = TUTTI_QUANT_NONE; // of all-reduces of floats
    bool error_feedback = false;                 // of quantized all-reduces: see Residuals
    int32_t lanes = 0;                           // of the job's first group
    std::string wires, interfaces, tune_files;   // likewise

    // What a start-up takes of it. Valid as long as the options.
    tutti_conf conf() const;
};

// Options of the collectives that a thread calls, for which PyTorch's calls have no parameters.
struct CallOptions {
    std::string algorithm; // empty: chosen
    tutti_quant quantization = TUTTI_QUANT_NONE;
    at::Tensor error_feedback; // float32, as many elements as the input; undefined: none
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

// Sets the options of the following collectives of this thread. NULL: those of the group.
// Throws ValueError if the error feedback does not fit an input of so many elements.
void set_call_options(const char *call, int64_t elements, std::unique_ptr<CallOptions> options);

class Backend : public c10d::Backend
{
  public:
    Backend(std::shared_ptr<Link> link, int rank, int size,
            c10::intrusive_ptr<GroupOptions> options);
    ~Backend() override;

    // Connects to the other ranks: by an address in the store (one key) or, for a group of the
    // job's ranks, over the existing connections.
    static c10::intrusive_ptr<Backend> create(const c10d::DistributedBackendOptions &how,
                                              c10::intrusive_ptr<GroupOptions> options);

    const std::string getBackendName() const override
    {
        return "tutti";
    }
    c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
    bool supportsSplitting() const override
    {
        return true;
    }
    bool supportsCoalescing() const override
    {
        return true;
    }
    void setTimeout(std::chrono::milliseconds timeout) override;
    uint64_t getSequenceNumberForGroup() override;
    void setSequenceNumberForGroup() override
    {
    }
    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;
    c10::intrusive_ptr<c10d::Backend> split(
        const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
        const c10::intrusive_ptr<c10d::Backend::Options> &options) override;
    // Drops the batch that is open, for example because an exception left it.
    void cancel_coalescing();
    void startCoalescing() override;
    c10::intrusive_ptr<c10d::Work> endCoalescing() override;

    c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &tensors,
                                             const c10d::BroadcastOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &tensors,
                                             const c10d::AllreduceOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor> &tensors,
                                                    const c10d::AllreduceOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allreduce_coalesced(
        std::vector<at::Tensor> &tensors, const c10d::AllreduceCoalescedOptions &how) override;
    c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor> &tensors,
                                          const c10d::ReduceOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>> &outputs,
                                             std::vector<at::Tensor> &inputs,
                                             const c10d::AllgatherOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allgather_coalesced(
        std::vector<std::vector<at::Tensor>> &outputs, std::vector<at::Tensor> &inputs,
        const c10d::AllgatherOptions &how) override;
    // The names before PyTorch 2.15; newer ones forward to them.
    c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor &output, at::Tensor &input,
                                                   const c10d::AllgatherOptions &how) override;
    c10::intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(
        std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
        const c10d::AllgatherOptions &how) override;
    c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>> &outputs,
                                          std::vector<at::Tensor> &inputs,
                                          const c10d::GatherOptions &how) override;
    c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor> &outputs,
                                           std::vector<std::vector<at::Tensor>> &inputs,
                                           const c10d::ScatterOptions &how) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor> &outputs,
                                                  std::vector<std::vector<at::Tensor>> &inputs,
                                                  const c10d::ReduceScatterOptions &how) override;
    c10::intrusive_ptr<c10d::Work> _reduce_scatter_base(
        at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &how) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(
        std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
        const c10d::ReduceScatterOptions &how) override;
    c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor &output, at::Tensor &input,
                                                 std::vector<int64_t> &output_splits,
                                                 std::vector<int64_t> &input_splits,
                                                 const c10d::AllToAllOptions &how) override;
    c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor> &outputs,
                                            std::vector<at::Tensor> &inputs,
                                            const c10d::AllToAllOptions &how) override;
    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor> &tensors, int to, int tag) override;
    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor> &tensors, int from,
                                        int tag) override;
    c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor> &tensors,
                                                 int tag) override;
    c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &how) override;
    void monitoredBarrier(const c10d::BarrierOptions &how, bool wait_all_ranks) override;

    // Memory of tutti_mem_alloc, which other ranks of this host can map. It is freed with the
    // tensor.
    at::Tensor allocateTensor(long size, at::TensorOptions options) override;
    bool supportsTensorAlloc(c10::DeviceIndex) override
    {
        return true;
    }
    std::shared_ptr<c10::Allocator> getMemAllocator() override;

#ifdef C10D_BACKEND_HAS_WINDOW
    bool supportsWindow() const override
    {
        return true;
    }
    c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor> &tensor) override;
#endif

#ifdef C10D_BACKEND_HAS_RECONFIGURE
    bool supportsReconfigure() const override
    {
        return true;
    }
    bool isInitialized() override
    {
        return link_ != nullptr;
    }
    c10d::ReconfigureHandle get_reconfigure_handle() const override;
    c10::intrusive_ptr<c10d::Work> reconfigure(const c10d::ReconfigureOptions &how) override;
#endif

#ifdef C10D_BACKEND_HAS_HOOKS
    c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor &output, at::Tensor &input,
                                                     const c10d::AllgatherOptions &how) override
    {
        return _allgather_base(output, input, how);
    }
    c10::intrusive_ptr<c10d::Work> all_gather_single_coalesced(
        std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
        const c10d::AllgatherOptions &how) override
    {
        return allgather_into_tensor_coalesced(outputs, inputs, how);
    }
    c10::intrusive_ptr<c10d::Work> reduce_scatter_single(
        at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &how) override
    {
        return _reduce_scatter_base(output, input, how);
    }
    c10::intrusive_ptr<c10d::Work> reduce_scatter_single_coalesced(
        std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
        const c10d::ReduceScatterOptions &how) override
    {
        return reduce_scatter_tensor_coalesced(outputs, inputs, how);
    }
    c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor &output, at::Tensor &input,
                                                     std::vector<int64_t> &output_splits,
                                                     std::vector<int64_t> &input_splits,
                                                     const c10d::AllToAllOptions &how) override
    {
        return alltoall_base(output, input, output_splits, input_splits, how);
    }
    c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor &output, at::Tensor &input,
                                                 const c10d::GatherOptions &how) override;

    void addEphemeralTimeout(const std::chrono::milliseconds &timeout) override
    {
        observers_->extend(timeout);
    }
    bool supportsAbortHooks() const override
    {
        return true;
    }
    void registerAbortHook(int64_t id, c10d::AbortHook hook) override
    {
        observers_->add_abort(id, std::move(hook));
    }
    void unregisterAbortHook(int64_t id) override
    {
        observers_->remove_abort(id);
    }
    bool supportsCompletionHooks() const override
    {
        return true;
    }
    void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override
    {
        observers_->add_completion(id, std::move(hook));
    }
    void unregisterCompletionHook(int64_t id) override
    {
        observers_->remove_completion(id);
    }
#endif

  private:
    std::shared_ptr<Operation> operation(c10d::OpType type, std::chrono::milliseconds timeout);
    tutti_call call_of(const Operation &operation) const;
    // Starts one more part of an operation. Throws errors of the call as exceptions of PyTorch.
    void start(Operation &operation, const tutti_call &call,
               c10::function_ref<tutti_status(tutti_comm *, const tutti_call *)> what);
    c10::intrusive_ptr<c10d::Work> work(std::shared_ptr<Operation> operation, const char *title,
                                        const std::vector<at::Tensor> &inputs,
                                        bool is_async = true);
    void start_allreduce(Operation &operation, at::Tensor &tensor, const c10d::ReduceOp &op);
    // Sets the options of the group, for an all-reduce that is called without options.
    void set_group_options(Operation &operation, tutti_call &call, const at::Tensor &tensor,
                           tutti_redop op);
    void start_reduce_scatter(Operation &operation, const at::Tensor &output,
                              const at::Tensor &input, const c10d::ReduceOp &op, const char *call);
    void start_allgather(Operation &operation, const at::Tensor &output, const at::Tensor &input,
                         const char *call);
    void start_allgather_list(Operation &operation, std::vector<at::Tensor> &outputs,
                              const at::Tensor &input, const char *call);
    void start_p2p(Operation &operation, std::vector<tutti_p2p> ops);
    c10::intrusive_ptr<c10d::Work> receive(std::vector<at::Tensor> &tensors, int peer, int tag,
                                           c10d::OpType type);
    at::Tensor &check_p2p(std::vector<at::Tensor> &tensors, int64_t peer, const char *call);
    int check_rank(int64_t rank, const char *call) const;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
    void join(const tutti_id &id, int rank, int size, const GroupOptions &options, uint64_t hash);
    void leave();
#endif
    void name_communicator();
    static void set_job_control(const std::shared_ptr<Link> &control);
    std::shared_ptr<Link> link(const char *call) const; // throws where there is none

    std::shared_ptr<Link> link_;    // NULL: reconfigure must be called first, or it is shut down
    std::shared_ptr<Link>
        control_;              // groups are created over it; the first group's, where there is one
    std::vector<int> members_;      // the ranks of this group on control_
    std::shared_ptr<Observers> observers_ = std::make_shared<Observers>();
    c10::intrusive_ptr<GroupOptions> options_;
    std::atomic<int64_t> timeout_ms_;
    std::atomic<uint64_t> sequence_{ 0 };
    Residuals residuals_;
    mutable Membership membership_;
    bool is_first_ = false;     // the job's first group
    bool is_shut_down_ = false; // by destroy_process_group
    std::mutex windows_lock_;
    std::vector<std::weak_ptr<Link>> windows_; // communicators of windows, under windows_lock_

    // Between startCoalescing and endCoalescing, by one thread.
    bool coalescing_ = false;
    std::vector<tutti_p2p> coalesced_p2p_;
    std::shared_ptr<Operation> coalesced_;
};

} // namespace tutti_torch
