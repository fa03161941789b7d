// Operations under way, as PyTorch holds them.
#pragma once

#include <c10/util/SmallVector.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "signals.hpp"
#include "tensors.hpp"

namespace tutti_torch
{

// A communicator. A thread must hold `lock` during a call on it, and must not wait for a peer while
// holding the lock.
struct Link {
    explicit Link(tutti_comm *comm) : comm(comm)
    {
    }
    ~Link()
    {
        tutti_comm_destroy(comm);
    }
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    tutti_comm *const comm;
    std::mutex lock;
    std::atomic<int64_t> open{ 0 }; // operations that have not ended
    std::atomic<bool> named{ false };
};

// What is reported of operations of one process group, and to whom.
class Observers
{
  public:
#ifdef C10D_BACKEND_HAS_HOOKS
    void add_completion(int64_t id, c10d::CompletionHook hook);
    void remove_completion(int64_t id);
    void add_abort(int64_t id, c10d::AbortHook hook);
    void remove_abort(int64_t id);
#endif
    bool any() const
    {
        return any_.load(std::memory_order_relaxed);
    }
    void completed(uint64_t key, float duration_ms);
    // An operation failed: runs the abort hooks.
    void failed();

    // The error of the first failed operation, as Backend::getError returns it.
    std::atomic<c10d::ErrorType> error{ c10d::ErrorType::SUCCESS };
    // Timeout extensions that hold until the first operation after them completes.
    std::chrono::milliseconds extension();
    void extend(std::chrono::milliseconds by);

  private:
    std::mutex mutex_;
    std::atomic<bool> any_{ false };
#ifdef C10D_BACKEND_HAS_HOOKS
    using CompletionHooks = std::unordered_map<int64_t, c10d::CompletionHook>;

    // Replaced as a whole: hooks run without the lock, as they take locks that are held when they
    // are removed.
    std::shared_ptr<const CompletionHooks> completion_ = std::make_shared<CompletionHooks>();
    std::unordered_map<int64_t, c10d::AbortHook> abort_;
#endif
    std::vector<std::pair<uint64_t, std::chrono::milliseconds>>
        extensions_; // (operation that ends it, 0: not known yet)
    std::atomic<bool> extended_{ false };
};

// Operations that continue in the background if the caller leaves early.
struct Parts {
    Parts() = default;
    Parts(const Parts &) = delete;
    Parts &operator=(const Parts &) = delete;
    ~Parts();

    std::vector<std::shared_ptr<class Operation>> list;
};

// An operation from its start to its completion. It may outlive its Work, because it owns the
// memory that Tutti uses.
class Operation : public std::enable_shared_from_this<Operation>
{
  public:
    Operation(std::shared_ptr<Link> link, std::shared_ptr<Observers> observers, c10d::OpType type,
              uint64_t sequence, std::chrono::milliseconds timeout);
    ~Operation();

    std::shared_ptr<Link> link;
    std::shared_ptr<Observers> observers;
    const c10d::OpType type;
    const uint64_t sequence;
    const std::chrono::milliseconds timeout;
    const uint64_t key; // unique in this process
    c10::SmallVector<tutti_request *, 1> requests;
    c10::SmallVector<at::Tensor, 2> held; // memory in use, besides the results
    std::vector<at::Tensor> results;
    Outputs outputs;
    std::vector<std::shared_ptr<Operation>> parts; // operations that end before it does
    std::vector<std::function<void()>> after;      // run once all requests have completed well
    // NULL, or waits at most so long until `after` would not block. False: it still would.
    std::function<bool(std::chrono::milliseconds limit)> is_ready;
    int source = -1;                               // of a receive from any rank

    // Returns when it has ended. Any thread. In Python's main thread, an exception of a signal
    // handler (KeyboardInterrupt) ends the wait and is thrown. The operation continues: it can be
    // waited for again.
    void wait();
    // Whether it has ended; makes a little progress.
    bool poll();
    bool is_over() const
    {
        return over_.load(std::memory_order_acquire);
    }
    // NULL unless it has ended with an error.
    std::exception_ptr error() const
    {
        return is_over() ? error_ : nullptr;
    }
    // Waits at most so long. False: it has not ended. Signals as in wait().
    bool wait_for(std::chrono::milliseconds limit);
    // It ends without anybody waiting for it.
    void end_by_itself();
    // The caller has left, and the operation has no effect any more: it never ends. Only for an
    // operation without requests that no other thread has.
    void give_up()
    {
        given_up_ = true;
    }
    c10::intrusive_ptr<c10::ivalue::Future> future();
    float duration_ms() const;
    // For an operation that failed to start, or that had nothing to do.
    void end(std::exception_ptr error);

  private:
    bool leave_pending(std::unique_lock<std::timed_mutex> &lock);
    bool wait_slice();
    void conclude(); // requests have completed
    static void notified(void *ticket);

    std::timed_mutex running_; // whoever waits for the requests, and ends it
    mutable std::mutex state_;
    std::condition_variable ended_;
    std::atomic<bool> over_{ false };
    std::exception_ptr error_;
    bool ends_by_itself_ = false;       // under running_
    bool given_up_ = false;
    std::atomic<bool> wanted_{ false }; // end_by_itself was called
    std::atomic<size_t> notifications_{ 0 };
    c10::intrusive_ptr<c10::ivalue::Future> future_; // under state_
    std::chrono::steady_clock::time_point begin_, finish_;
};

// Operations that end later are not completed. Called before Python ends: the threads that complete
// operations may then not release tensors any more, because this needs Python's lock.
void stop_completing();

class Work : public c10d::Work
{
  public:
    // The title under which profilers record an operation; NULL: none records.
    static const char *recorded_title(const char *title);
    // title: as recorded. is_watched: it is reported to observers even if no thread waits for it.
    Work(std::shared_ptr<Operation> operation, int rank, const char *title,
         const std::vector<at::Tensor> &inputs, bool is_watched);
    ~Work() override;

    // Returns when the operation has ended. Its error is thrown by wait.
    void finish();

    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override;
    std::vector<at::Tensor> result() override;
    void synchronize() override;
    bool wait(std::chrono::milliseconds timeout) override;
    void abort() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
    float getDuration() const override;
    uint64_t getSequencenumber() const override;
#ifdef C10D_BACKEND_HAS_HOOKS
    std::chrono::milliseconds getTimeout() const override;
    uint64_t getCompletionKey() const override;
#endif

  private:
    void end_recording();

    std::shared_ptr<Operation> operation_;
    const bool is_recorded_;
};

} // namespace tutti_torch
