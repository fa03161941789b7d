#include "work.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/util/thread_name.h>

#include <deque>
#include <thread>

namespace tutti_torch
{

namespace
{

std::atomic<uint64_t> last_key{ 0 };

// Completes operations that no thread waits for: those that have notified and, if there are
// observers, those that have finished. Callbacks of futures run here and may wait for other
// operations. Therefore one thread is always outside of callbacks.
class Completer
{
  public:
    // Never destroyed: operations may complete while the process exits. A forked child has none of
    // its threads, and its lock may be held. The child therefore creates a new Completer.
    static Completer &get()
    {
        static Completer *completer = [] {
            pthread_atfork(nullptr, nullptr, [] { completer = new Completer; });
            return new Completer;
        }();

        return *completer;
    }

    // Before anything is pushed: a thread cannot be started under Tutti's locks.
    void prepare()
    {
        std::lock_guard lock(mutex_);

        if (threads_ == 0)
            start_thread();
    }

    void push(std::shared_ptr<Operation> operation)
    {
        {
            std::lock_guard lock(mutex_);
            over_.push_back(std::move(operation));
        }
        wake_.notify_one();
    }

    void watch(std::weak_ptr<Operation> operation)
    {
        prepare();
        std::lock_guard lock(mutex_);

        if (watched_.empty())
            wake_.notify_one();
        watched_.push_back(std::move(operation));
    }

    // Ends nothing more, and waits until all threads are idle, for a while at most.
    void stop()
    {
        std::unique_lock lock(mutex_);

        stopped_ = true;
        became_idle_.wait_for(lock, stop_within, [this] { return idle_ == threads_; });
    }

  private:
    static constexpr auto look_every = std::chrono::milliseconds(50);
    static constexpr auto stop_within = std::chrono::seconds(10);
    static constexpr int threads_max = 64;

    void start_thread()
    {
        threads_++;
        idle_++;
        std::thread([this] { run(); }).detach();
    }

    void run()
    {
        c10::setThreadName("tutti-complete");
        std::unique_lock lock(mutex_);

        for (;;) {
            if (watched_.empty() || stopped_)
                wake_.wait(lock,
                           [this] { return !stopped_ && (!over_.empty() || !watched_.empty()); });
            else
                wake_.wait_for(lock, look_every, [this] { return !over_.empty(); });
            if (stopped_)
                continue;
            if (--idle_ == 0 && threads_ < threads_max)
                start_thread();
            if (over_.empty())
                look(lock);
            while (!over_.empty() && !stopped_) {
                auto operation = std::move(over_.front());

                over_.pop_front();
                lock.unlock();
                operation->wait();
                operation.reset();
                lock.lock();
            }
            idle_++;
            became_idle_.notify_all();
        }
    }

    void look(std::unique_lock<std::mutex> &lock)
    {
        std::vector<std::weak_ptr<Operation>> watched;

        watched.swap(watched_);
        lock.unlock();
        std::erase_if(watched, [](const std::weak_ptr<Operation> &weak) {
            const auto operation = weak.lock();

            return !operation || operation->poll();
        });
        lock.lock();
        watched_.insert(watched_.end(), watched.begin(), watched.end());
    }

    std::mutex mutex_;
    std::condition_variable wake_, became_idle_;
    std::deque<std::shared_ptr<Operation>> over_;
    std::vector<std::weak_ptr<Operation>> watched_;
    int threads_ = 0, idle_ = 0;
    bool stopped_ = false;
};

} // namespace

void stop_completing()
{
    Completer::get().stop();
}

// ---- observers ----

#ifdef C10D_BACKEND_HAS_HOOKS
void Observers::add_completion(int64_t id, c10d::CompletionHook hook)
{
    std::lock_guard lock(mutex_);
    auto hooks = std::make_shared<CompletionHooks>(*completion_);

    (*hooks)[id] = std::move(hook);
    completion_ = std::move(hooks);
    any_ = true;
}

void Observers::remove_completion(int64_t id)
{
    std::lock_guard lock(mutex_);
    auto hooks = std::make_shared<CompletionHooks>(*completion_);

    hooks->erase(id);
    any_ = !hooks->empty();
    completion_ = std::move(hooks);
}

void Observers::add_abort(int64_t id, c10d::AbortHook hook)
{
    std::lock_guard lock(mutex_);

    abort_[id] = std::move(hook);
}

void Observers::remove_abort(int64_t id)
{
    std::lock_guard lock(mutex_);

    abort_.erase(id);
}
#endif

void Observers::completed(uint64_t key, [[maybe_unused]] float duration_ms)
{
    if (extended_.load(std::memory_order_relaxed)) {
        std::lock_guard lock(mutex_);

        std::erase_if(extensions_, [key](const auto &e) { return e.first <= key; });
        extended_ = !extensions_.empty();
    }
#ifdef C10D_BACKEND_HAS_HOOKS
    if (!any())
        return;
    std::shared_ptr<const CompletionHooks> hooks;
    {
        std::lock_guard lock(mutex_);

        hooks = completion_;
    }
    for (const auto &[id, hook] : *hooks)
        hook({ key, duration_ms });
#endif
}

void Observers::failed()
{
#ifdef C10D_BACKEND_HAS_HOOKS
    std::vector<c10d::AbortHook> hooks;
    {
        std::lock_guard lock(mutex_);

        for (const auto &[id, hook] : abort_)
            hooks.push_back(hook);
    }
    for (const auto &hook : hooks) {
        try {
            hook();
        } catch (const std::exception &e) {
            TORCH_WARN("tutti: an abort hook failed: ", e.what());
        }
    }
#endif
}

std::chrono::milliseconds Observers::extension()
{
    std::chrono::milliseconds sum{ 0 };

    if (!extended_.load(std::memory_order_relaxed))
        return sum;
    std::lock_guard lock(mutex_);

    for (const auto &e : extensions_)
        sum += e.second;
    return sum;
}

void Observers::extend(std::chrono::milliseconds by)
{
    std::lock_guard lock(mutex_);

    extensions_.emplace_back(last_key + 1, by);
    extended_ = true;
}

// ---- operations ----

Operation::Operation(std::shared_ptr<Link> link, std::shared_ptr<Observers> observers,
                     c10d::OpType type, uint64_t sequence, std::chrono::milliseconds timeout)
    : link(std::move(link)), observers(std::move(observers)), type(type), sequence(sequence),
      timeout(timeout), key(++last_key), begin_(std::chrono::steady_clock::now())
{
    this->link->open++;
}

Parts::~Parts()
{
    for (const auto &part : list)
        part->end_by_itself();
}

Operation::~Operation()
{
    if (!is_over())
        link->open--;
    for (auto *request : requests) // only where it failed to start
        tutti_wait(request);
}

// True: it has ended. Holds no lock afterwards, so that the caller can take Python's.
bool Operation::wait_slice()
{
    std::unique_lock lock(running_, std::try_to_lock);

    if (!lock && !lock.try_lock_for(signal_slice))
        return is_over();
    if (is_over())
        return true;
    for (auto *request : requests)
        if (tutti_test_for(request, signal_slice.count()) == TUTTI_PENDING)
            return leave_pending(lock);
    for (const auto &part : parts)
        if (!part->wait_slice())
            return leave_pending(lock);
    if (is_ready && !is_ready(signal_slice))
        return leave_pending(lock);
    conclude();
    return true;
}

void Operation::wait()
{
    if (is_over())
        return;
    if (handles_signals()) {
        while (!wait_slice())
            check_signals();
        return;
    }
    std::lock_guard lock(running_);

    if (!is_over())
        conclude();
}

bool Operation::poll()
{
    if (is_over())
        return true;
    std::unique_lock lock(running_, std::try_to_lock);

    if (!lock)
        return false;
    if (is_over())
        return true;
    for (auto *request : requests)
        if (tutti_test(request) == TUTTI_PENDING)
            return leave_pending(lock);
    for (const auto &part : parts)
        if (!part->poll())
            return leave_pending(lock);
    if (is_ready && !is_ready(std::chrono::milliseconds(0)))
        return leave_pending(lock);
    conclude();
    return true;
}

// Returns false. Starts the background completion that a caller requested while the lock was held.
bool Operation::leave_pending(std::unique_lock<std::timed_mutex> &lock)
{
    const bool is_due = wanted_ && !ends_by_itself_;

    lock.unlock();
    if (is_due)
        end_by_itself();
    return false;
}

// Waits for the requests, and ends the operation.
void Operation::conclude()
{
    tutti_status first = TUTTI_OK;
    std::string why;
    std::exception_ptr error;

    for (auto *request : requests) {
        const tutti_status st = tutti_wait(request);

        if (st != TUTTI_OK && first == TUTTI_OK) {
            first = st;
            why = tutti_last_error();
        }
    }
    if (first ==
        TUTTI_ERR_TIMEOUT) // programs look for these words, which all backends of PyTorch use
        why = c10::str("Timed out waiting ", timeout.count(), "ms: ", why);
    requests.clear();
    try {
        for (const auto &part : parts)
            part->wait();
        for (const auto &part : parts)
            if (const auto failed = part->error())
                std::rethrow_exception(failed);
        if (first != TUTTI_OK)
            fail(first, why, c10d::opTypeToString(type));
        for (const auto &step : after)
            step();
        outputs.copy_back();
    } catch (...) {
        error = std::current_exception();
    }
    if (first != TUTTI_OK) {
        auto none = c10d::ErrorType::SUCCESS;

        observers->error.compare_exchange_strong(
            none, first == TUTTI_ERR_TIMEOUT ? c10d::ErrorType::TIMEOUT
                  : first == TUTTI_ERR_PEER_LOST || first == TUTTI_ERR_ABORTED
                      ? c10d::ErrorType::REMOTE_ERROR
                      : c10d::ErrorType::COMM_ERROR);
    }
    end(error);
}

void Operation::end(std::exception_ptr error)
{
    c10::intrusive_ptr<c10::ivalue::Future> future;

    held.clear();
    after.clear();
    is_ready = nullptr;
    parts.clear();
    finish_ = std::chrono::steady_clock::now();
    link->open--;
    {
        std::lock_guard lock(state_);

        error_ = error;
        over_.store(true, std::memory_order_release);
        future = future_;
    }
    ended_.notify_all();
    if (error)
        observers->failed();
    else
        observers->completed(key, duration_ms());
    if (!future)
        return;
    if (error)
        future->setError(error);
    else
        future->markCompleted(results);
}

bool Operation::wait_for(std::chrono::milliseconds limit)
{
    const auto due = std::chrono::steady_clock::now() + limit;
    const bool slices = handles_signals();

    end_by_itself();
    for (;;) {
        const auto until =
            slices ? std::min(due, std::chrono::steady_clock::now() + signal_slice) : due;
        {
            std::unique_lock lock(state_);

            if (ended_.wait_until(lock, until, [this] { return over_.load(); }))
                return true;
        }
        if (until == due)
            return false;
        check_signals();
    }
}

namespace
{
using Ticket = std::shared_ptr<Operation>;
}

// Under Tutti's locks: hands the operation to the completer, no more.
void Operation::notified(void *arg)
{
    std::unique_ptr<Ticket> ticket(static_cast<Ticket *>(arg));

    if ((*ticket)->notifications_.fetch_sub(1) == 1)
        Completer::get().push(std::move(*ticket));
}

void Operation::end_by_itself()
{
    if (is_over() || given_up_)
        return;
    wanted_ = true;
    std::unique_lock lock(running_, std::try_to_lock); // else somebody waits for it, or polls it

    if (!lock || is_over() || ends_by_itself_)
        return;
    ends_by_itself_ = true;
    Completer::get().prepare();
    if (requests.empty()) {
        lock.unlock();
        Completer::get().push(shared_from_this());
        return;
    }
    notifications_ = requests.size();
    for (auto *request : requests) {
        auto ticket = std::make_unique<Ticket>(shared_from_this());

        if (tutti_request_notify(request, notified, ticket.get()) == TUTTI_OK)
            ticket.release();
    }
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::future()
{
    c10::intrusive_ptr<c10::ivalue::Future> future;
    bool over;

    {
        std::lock_guard lock(state_);

        if (future_)
            return future_;
        future_ =
            c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
        future = future_;
        over = over_;
    }
    if (!over) {
        end_by_itself();
        return future;
    }
    if (error_)
        future->setError(error_);
    else
        future->markCompleted(results);
    return future;
}

float Operation::duration_ms() const
{
    return std::chrono::duration<float, std::milli>(finish_ - begin_).count();
}

// ---- work ----

namespace
{

std::optional<std::vector<at::Tensor>> inputs_if(bool wanted, const std::vector<at::Tensor> &inputs)
{
    return wanted ? std::make_optional(inputs) : std::nullopt;
}

} // namespace

// One check for active profilers is cheaper than a call to each.
const char *Work::recorded_title(const char *title)
{
    return title && at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE) ? title : nullptr;
}

Work::Work(std::shared_ptr<Operation> operation, int rank, const char *title,
           const std::vector<at::Tensor> &inputs, bool is_watched)
    : c10d::Work(rank, operation->type, title, inputs_if(title != nullptr, inputs)),
      operation_(std::move(operation)), is_recorded_(title != nullptr)
{
    if (is_watched && operation_->observers->any() && !operation_->is_over())
        Completer::get().watch(operation_);
}

Work::~Work()
{
    if (!operation_->is_over())
        operation_->end_by_itself();
    end_recording();
}

void Work::finish()
{
    operation_->wait();
    end_recording();
}

void Work::end_recording()
{
    std::function<void()> callback;

    if (!is_recorded_)
        return;
    {
        std::lock_guard lock(mutex_);

        std::swap(callback, recordFunctionEndCallback_);
    }
    if (callback)
        callback();
}

bool Work::isCompleted()
{
    return operation_->poll();
}

bool Work::isSuccess() const
{
    return operation_->is_over() && !operation_->error();
}

std::exception_ptr Work::exception() const
{
    return operation_->error();
}

int Work::sourceRank() const
{
    return operation_->source;
}

std::vector<at::Tensor> Work::result()
{
    TORCH_CHECK(operation_->is_over(), "tutti: the result of an operation that has not completed");
    return operation_->results;
}

void Work::synchronize()
{
    wait(kNoTimeout);
}

bool Work::wait(std::chrono::milliseconds timeout)
{
    if (operation_->is_over())
        ;
    else if (timeout == kNoTimeout || timeout.count() < 0)
        operation_->wait();
    else if (!operation_->wait_for(timeout))
        TORCH_CHECK_WITH(DistBackendError, false, "tutti: ", c10d::opTypeToString(operation_->type),
                         " (operation ", operation_->sequence, ") has not completed within the ",
                         timeout.count(), " ms of wait()");
    end_recording();
    if (const auto error = operation_->error())
        std::rethrow_exception(error);
    return true;
}

void Work::abort()
{
    tutti_comm_abort(operation_->link->comm);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture()
{
    return operation_->future();
}

// 0: success; see c10d::WorkResult.
c10::intrusive_ptr<c10::ivalue::Future> Work::getFutureResult()
{
    auto result = c10::make_intrusive<c10::ivalue::Future>(c10::AnyEnumType::get());

    operation_->future()->addCallback([result](c10::ivalue::Future &future) {
        result->markCompleted(c10::IValue(static_cast<uint8_t>(
            future.hasError() ? c10d::WorkResult::COMM_ERROR : c10d::WorkResult::SUCCESS)));
    });
    return result;
}

float Work::getDuration() const
{
    TORCH_CHECK(operation_->is_over(),
                "tutti: the duration of an operation that has not completed");
    return operation_->duration_ms();
}

uint64_t Work::getSequencenumber() const
{
    return operation_->sequence;
}

#ifdef C10D_BACKEND_HAS_HOOKS
std::chrono::milliseconds Work::getTimeout() const
{
    return operation_->timeout;
}

uint64_t Work::getCompletionKey() const
{
    return operation_->key;
}
#endif

} // namespace tutti_torch
