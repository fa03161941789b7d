#include "window.hpp"

#include "backend.hpp"

#ifdef C10D_BACKEND_HAS_WINDOW

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <condition_variable>

namespace tutti_torch
{

namespace
{

[[noreturn]] void invalid(const std::string &message)
{
    C10_THROW_ERROR(ValueError, "tutti: " + message);
}

// What a rank sends of its tensor. All ranks receive it, also if the tensor is unusable, so that
// all report the error.
struct Card {
    int64_t usable, type, elements, dims;
};

// A put whose source is still in use.
struct Source {
    uint64_t counter = 0; // Tutti adds 1 at local completion
    at::Tensor tensor;

    bool is_free() const
    {
        return __atomic_load_n(&counter, __ATOMIC_ACQUIRE) != 0;
    }
};

// The time that is left of a timeout, in milliseconds as Tutti takes it: at least 1; negative:
// none.
int64_t left_ms(std::chrono::steady_clock::time_point deadline)
{
    if (deadline == std::chrono::steady_clock::time_point::max())
        return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());

    return std::max<int64_t>(left.count(), 1);
}

bool is_past(std::chrono::steady_clock::time_point deadline)
{
    return std::chrono::steady_clock::now() >= deadline;
}

std::chrono::steady_clock::time_point deadline_of(const Operation &operation)
{
    return operation.timeout.count() > 0 ? std::chrono::steady_clock::now() + operation.timeout
                                         : std::chrono::steady_clock::time_point::max();
}

void check_call(tutti_status status, const char *call)
{
    if (status == TUTTI_ERR_INVALID || status == TUTTI_ERR_UNSUPPORTED)
        invalid(std::string(call) + ": " + tutti_last_error());
    check(status, call);
}

} // namespace

struct Exposed {
    explicit Exposed(int size) : cards(size), shapes(size), signals_taken(size)
    {
    }

    tutti_window *data = nullptr,
                 *signals = nullptr; // they end with the communicator at the latest
    at::Tensor tensor; // undefined: registered without owning it
    void *memory = nullptr;
    at::ScalarType type = at::ScalarType::Undefined;
    std::vector<Card> cards;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<std::atomic<uint64_t>> signals_taken; // of those that each rank has sent
    std::atomic<int> maps{ 0 };                       // tensors over the memory of other ranks

    void keep(std::shared_ptr<Source> source)
    {
        std::lock_guard guard(lock);

        std::erase_if(sources, [](const auto &s) { return s->is_free(); });
        sources.push_back(std::move(source));
    }

    at::ScalarType type_of(int64_t rank) const
    {
        return static_cast<at::ScalarType>(cards[rank].type);
    }

    // A word of `signals` counts the signals of each rank. Every call that returns OK takes one of
    // them. limit 0: does not wait. PENDING: no signal within the limit.
    tutti_status take_signal(int rank, std::chrono::steady_clock::time_point deadline);
    tutti_status take_signal_within(int rank, std::chrono::milliseconds limit);

    // The end of the windows. begin_end throws ValueError if a wait_signal has not ended. Otherwise
    // later calls are refused, and await_calls returns when no earlier one is in progress. end: the
    // windows are freed, so that every put has completed or failed.
    void begin_end();
    void await_calls();
    void end();
    // After begin_end: returns whether `end` was called by then.
    bool await_end(std::chrono::steady_clock::time_point deadline);

  private:
    friend class Use;

    template <class F> tutti_status take(int rank, F &&wait);

    std::mutex lock; // protects the following
    std::condition_variable left;
    std::vector<std::shared_ptr<Source>>
        sources; // freed when their puts are complete, or with the windows
    int calls = 0, waits = 0;
    bool is_ending = false, is_ended = false;
};

// A call on the windows, or a wait_signal: they are not freed before it ends.
class Use
{
  public:
    explicit Use(std::shared_ptr<Exposed> exposed, int Exposed::*count = &Exposed::calls)
        : exposed_(std::move(exposed)), count_(count)
    {
        std::lock_guard guard(exposed_->lock);

        is_valid_ = !exposed_->is_ending;
        if (is_valid_)
            (exposed_.get()->*count_)++;
    }
    ~Use()
    {
        if (!is_valid_)
            return;
        std::lock_guard guard(exposed_->lock);

        (exposed_.get()->*count_)--;
        exposed_->left.notify_all();
    }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;

    static std::shared_ptr<Use> wait(const Use &call)
    {
        return std::make_shared<Use>(call.exposed_, &Exposed::waits);
    }
    // False: the tensor is being deregistered, or no longer registered.
    bool is_valid() const
    {
        return is_valid_;
    }
    const std::shared_ptr<Exposed> &operator->() const
    {
        return exposed_;
    }
    const std::shared_ptr<Exposed> &operator*() const
    {
        return exposed_;
    }

  private:
    const std::shared_ptr<Exposed> exposed_;
    int Exposed::*const count_;
    bool is_valid_;
};

// wait(offset, value) waits until the word has at least the value.
template <class F> tutti_status Exposed::take(int rank, F &&wait)
{
    auto &taken = signals_taken[rank];

    for (;;) {
        uint64_t seen = taken.load();
        const tutti_status st = wait(sizeof(uint64_t) * rank, seen + 1);

        if (st != TUTTI_OK || taken.compare_exchange_strong(seen, seen + 1))
            return st;
    }
}

tutti_status Exposed::take_signal(int rank, std::chrono::steady_clock::time_point deadline)
{
    return take(rank, [&](size_t offset, uint64_t value) {
        return tutti_window_wait(signals, offset, TUTTI_AT_LEAST, value, left_ms(deadline),
                                 nullptr);
    });
}

tutti_status Exposed::take_signal_within(int rank, std::chrono::milliseconds limit)
{
    return take(rank, [&](size_t offset, uint64_t value) {
        return limit.count() == 0
                   ? tutti_window_test(signals, offset, TUTTI_AT_LEAST, value, nullptr)
                   : tutti_window_test_for(signals, offset, TUTTI_AT_LEAST, value, limit.count(),
                                           nullptr);
    });
}

void Exposed::begin_end()
{
    std::lock_guard guard(lock);

    if (waits)
        invalid(c10::str("tensor_deregister: ", waits,
                         " calls of wait_signal have not ended (wait for them first)"));
    is_ending = true;
}

void Exposed::await_calls()
{
    std::unique_lock guard(lock);

    left.wait(guard, [this] { return calls == 0; });
}

void Exposed::end()
{
    std::lock_guard guard(lock);

    is_ended = true;
    left.notify_all();
}

bool Exposed::await_end(std::chrono::steady_clock::time_point deadline)
{
    std::unique_lock guard(lock);
    const auto ended = [this] { return is_ended; };

    if (deadline != std::chrono::steady_clock::time_point::max())
        return left.wait_until(guard, deadline, ended);
    left.wait(guard, ended);
    return true;
}

// ---- start and end ----

c10::intrusive_ptr<Window> Window::create(Link &parent, std::chrono::milliseconds timeout)
{
    tutti_comm *comm = nullptr;
    std::lock_guard guard(parent.lock);

    check(tutti_comm_dup(parent.comm, &comm), "new_window");
    auto kept = std::make_shared<Kept>();
    std::shared_ptr<Link> link(new Link(comm), [kept](Link *l) { delete l; });

    return c10::make_intrusive<Window>(std::move(link), std::move(kept), timeout);
}

Window::Window(std::shared_ptr<Link> link, std::shared_ptr<Kept> kept,
               std::chrono::milliseconds timeout)
    : link_(std::move(link)), kept_(std::move(kept)), timeout_(timeout),
      rank_(tutti_comm_rank(link_->comm)), size_(tutti_comm_size(link_->comm))
{
}

namespace
{

// NULL, or why the tensor cannot be registered.
std::exception_ptr problem_of(const at::Tensor &tensor)
{
    try {
        if (!tensor.defined())
            invalid("tensor_register: the tensor is undefined");
        check_tensor(tensor, "tensor_register", "the tensor");
        if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg())
            invalid("tensor_register: the tensor is not contiguous (pass tensor.contiguous())");
        return nullptr;
    } catch (...) {
        return std::current_exception();
    }
}

tutti_call call_of(std::chrono::milliseconds timeout)
{
    tutti_call call{};

    call.size = sizeof call;
    call.timeout_ms = timeout.count() > 0 ? timeout.count() : -1;
    return call;
}

// Fills the cards and shapes of all ranks. `tensor` is read only if there is no problem with it.
// Under the link's lock.
void exchange(Exposed &e, tutti_comm *comm, const at::Tensor &tensor, std::exception_ptr problem,
              const tutti_call &call)
{
    Card mine{};

    if (!problem)
        mine = { 1, static_cast<int64_t>(tensor.scalar_type()), tensor.numel(), tensor.dim() };
    check(tutti_allgather(&mine, e.cards.data(), sizeof mine, TUTTI_U8, comm, &call),
          "tensor_register");
    if (problem)
        std::rethrow_exception(problem);
    for (size_t r = 0; r < e.cards.size(); r++)
        if (!e.cards[r].usable)
            invalid(c10::str("tensor_register: rank ", r,
                             " passed an unusable tensor (see the error of that rank)"));

    const int64_t most = std::max_element(e.cards.begin(), e.cards.end(), [](auto &a, auto &b) {
                             return a.dims < b.dims;
                         })->dims;
    std::vector<int64_t> shape(most), all(most * e.cards.size());

    std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.begin());
    if (most)
        check(tutti_allgather(shape.data(), all.data(), shape.size(), TUTTI_I64, comm, &call),
              "tensor_register");
    for (size_t r = 0; r < e.cards.size(); r++)
        e.shapes[r].assign(all.begin() + r * most, all.begin() + r * most + e.cards[r].dims);
}

} // namespace

void Window::tensor_register(const at::Tensor &tensor, bool owning)
{
    auto e = std::make_shared<Exposed>(size_);
    {
        std::lock_guard guard(kept_->lock);

        if (kept_->exposed)
            invalid("tensor_register: the window has a tensor (call tensor_deregister first)");
    }
    const auto problem = problem_of(tensor);
    std::lock_guard guard(link_->lock);

    exchange(*e, link_->comm, tensor, problem, call_of(timeout_));
    e->memory = tensor.data_ptr();
    e->type = tensor.scalar_type();
    if (owning)
        e->tensor = tensor;
    check(tutti_window_create(link_->comm, tensor.numel() ? e->memory : nullptr, bytes_of(tensor),
                              &e->data),
          "tensor_register");
    const tutti_status st =
        tutti_window_create(link_->comm, nullptr, sizeof(uint64_t) * size_, &e->signals);

    if (st != TUTTI_OK) {
        const std::string why = tutti_last_error();

        tutti_window_free(e->data);
        fail(st, why, "tensor_register");
    }
    std::lock_guard mine(kept_->lock);

    kept_->exposed = std::move(e);
}

void Window::tensor_deregister()
{
    std::shared_ptr<Exposed> e;
    {
        std::lock_guard guard(kept_->lock);

        if (!kept_->exposed)
            invalid("tensor_deregister: the window has no tensor (call tensor_register first)");
        if (const int maps = kept_->exposed->maps)
            invalid(c10::str("tensor_deregister: ", maps,
                             " tensors of map_remote_tensor are in use (delete them first)"));
        kept_->exposed->begin_end();
        e = std::move(kept_->exposed);
    }
    e->await_calls();
    std::lock_guard guard(link_->lock);
    const tutti_status data = tutti_window_free(e->data);
    const std::string why = data != TUTTI_OK ? tutti_last_error() : "";

    e->end();
    check(tutti_window_free(e->signals), "tensor_deregister");
    if (data != TUTTI_OK)
        fail(data, why, "tensor_deregister");
}

Use Window::exposed(const char *call, int64_t rank) const
{
    std::lock_guard guard(kept_->lock);

    if (!kept_->exposed)
        invalid(std::string(call) + ": the window has no tensor (call tensor_register first)");
    if (rank < 0 || rank >= size_)
        invalid(
            c10::str(call, ": rank ", rank, " is out of range: the window has ", size_, " ranks"));
    return Use(kept_->exposed);
}

// ---- operations ----

std::shared_ptr<Operation> Window::operation(std::chrono::milliseconds timeout) const
{
    return std::make_shared<Operation>(link_, observers_, c10d::OpType::UNKNOWN, 0,
                                       timeout.count() > 0 ? timeout : timeout_);
}

// The operation ends here unless it is asynchronous; its error is thrown.
c10::intrusive_ptr<c10d::Work> Window::work(std::shared_ptr<Operation> operation, bool async,
                                            const char *title,
                                            const std::vector<at::Tensor> &inputs) const
{
    auto work = c10::make_intrusive<Work>(operation, rank_, title, inputs, async);

    if (async)
        return work;
    try {
        work->wait(kNoTimeout);
    } catch (...) { // of a signal handler, if it has not ended
        if (!operation->is_over())
            operation->give_up();
        throw;
    }
    return work;
}

namespace
{

// Returns when the source of a put is reusable. tensor_deregister completes all puts, but begins
// before it does: until its end, the put is pending.
void await_source(const std::shared_ptr<Exposed> &e, const Source &source,
                  std::chrono::steady_clock::time_point deadline)
{
    if (source.is_free())
        return;
    {
        const Use use(e);

        if (use.is_valid()) {
            check(tutti_window_wait_counter(e->data, &source.counter, 1, left_ms(deadline)), "put");
            return;
        }
    }
    const bool is_ended = e->await_end(deadline);

    if (source.is_free())
        return;
    if (!is_ended)
        fail(TUTTI_ERR_TIMEOUT, "the put has not completed, and the tensor is being deregistered",
             "put");
    fail(TUTTI_ERR_ABORTED, "the tensor was deregistered with an error", "put");
}

} // namespace

c10::intrusive_ptr<c10d::Work> Window::put(const at::Tensor &tensor, int64_t rank, int64_t offset,
                                           bool async, const c10d::PutOptions &how)
{
    const auto e = exposed("put", rank);

    check_tensor(tensor, "put", "the tensor");
    if (tensor.scalar_type() != e->type_of(rank))
        invalid(c10::str("put: the tensor is of ", tensor.scalar_type(), ", that of rank ", rank,
                         " of ", e->type_of(rank)));
    if (offset < 0 || offset > e->cards[rank].elements ||
        tensor.numel() > e->cards[rank].elements - offset)
        invalid(c10::str("put: ", tensor.numel(), " elements at offset ", offset,
                         " exceed the tensor of rank ", rank, ", which has ",
                         e->cards[rank].elements));
    auto op = operation(how.timeout);
    const auto deadline = deadline_of(*op);
    auto source = std::make_shared<Source>();
    tutti_rma rma{};

    source->tensor = dense_input(tensor);
    rma.size = sizeof rma;
    rma.counter = &source->counter;
    rma.timeout_ms = left_ms(deadline);
    e->keep(source); // even if the put fails: it may have begun
    check_call(tutti_window_put(e->data, static_cast<int>(rank), offset * tensor.element_size(),
                                source->tensor.data_ptr(), bytes_of(tensor), &rma),
               "put");
    op->is_ready = [e = *e, source, deadline](std::chrono::milliseconds limit) {
        if (source->is_free() || limit.count() == 0)
            return source->is_free();
        {
            const Use use(e);

            if (use.is_valid())
                return is_past(deadline) ||
                       tutti_window_test_counter_for(e->data, &source->counter, 1, limit.count()) !=
                           TUTTI_PENDING;
        }
        return e->await_end(std::chrono::steady_clock::now() + limit) || is_past(deadline);
    };
    op->after.push_back([e = *e, source, deadline] { await_source(e, *source, deadline); });
    return work(std::move(op), async, "tutti:put", { tensor });
}

// Behind earlier puts to that rank: they are visible where the signal is.
c10::intrusive_ptr<c10d::Work> Window::signal(int64_t rank, bool async,
                                              const c10d::SignalOptions &how)
{
    const auto e = exposed("signal", rank);
    auto op = operation(how.timeout);
    const int peer = static_cast<int>(rank);
    tutti_rma rma{};

    rma.size = sizeof rma;
    rma.signal_op = TUTTI_SIGNAL_ADD;
    rma.signal_value = 1;
    rma.signal_offset = sizeof(uint64_t) * rank_;
    rma.timeout_ms = left_ms(deadline_of(*op));
    check_call(tutti_window_fence(e->signals, peer), "signal");
    check_call(tutti_window_put(e->signals, peer, 0, nullptr, 0, &rma), "signal");
    op->end(nullptr);
    return work(std::move(op), async, "tutti:signal", {});
}

c10::intrusive_ptr<c10d::Work> Window::wait_signal(int64_t rank, bool async,
                                                   const c10d::WaitSignalOptions &how)
{
    const auto e = exposed("wait_signal", rank);
    auto op = operation(how.timeout);
    const int peer = static_cast<int>(rank);
    const auto deadline = deadline_of(*op);
    const auto use = Use::wait(e);
    const auto taken = std::make_shared<bool>(false);

    op->is_ready = [use, taken, peer, deadline](std::chrono::milliseconds limit) {
        const tutti_status st = (*use)->take_signal_within(peer, limit);

        *taken = st == TUTTI_OK;
        return st != TUTTI_PENDING || is_past(deadline);
    };
    op->after.push_back([use, taken, peer, deadline] {
        if (!*taken)
            check((*use)->take_signal(peer, deadline), "wait_signal");
    });
    return work(std::move(op), async, "tutti:wait_signal", {});
}

// ---- memory of other ranks ----

at::Tensor Window::map_remote_tensor(int64_t rank)
{
    const auto e = exposed("map_remote_tensor", rank);
    const auto options = at::TensorOptions().dtype(e->type_of(rank)).device(at::kCPU);
    void *memory = e->memory;

    at::AutoDispatchBelowAutograd guard;
    if (!e->cards[rank].elements)
        return at::empty(e->shapes[rank], options);
    if (rank == rank_)
        return e->tensor.defined() ? e->tensor : at::from_blob(memory, e->shapes[rank], options);
    check_call(tutti_window_pointer(e->data, static_cast<int>(rank), &memory), "map_remote_tensor");
    TORCH_CHECK(memory, "tutti: map_remote_tensor: the tensor of rank ", rank,
                " is not mapped: it is on another host, or in memory of its process alone "
                "(allocate it with tutti.torch.empty)");
    e->maps++;
    return at::from_blob(
        memory, e->shapes[rank], [e = *e, link = link_](void *) { e->maps--; }, options);
}

// UNIFIED: map_remote_tensor gives the memory itself. SEPARATE: it is reached by put.
c10d::WindowAttr Window::get_attr(int64_t rank)
{
    const auto e = exposed("get_attr", rank);
    void *memory = e->memory;

    if (rank != rank_ && e->cards[rank].elements)
        check_call(tutti_window_pointer(e->data, static_cast<int>(rank), &memory), "get_attr");
    return { memory || rank == rank_ || !e->cards[rank].elements
                 ? c10d::WindowAccessType::UNIFIED
                 : c10d::WindowAccessType::SEPARATE };
}

// ---- of a group ----

c10::intrusive_ptr<c10d::Window> Backend::new_window(const std::optional<at::Tensor> &tensor)
{
    auto window =
        Window::create(*link("new_window"), std::chrono::milliseconds(timeout_ms_.load()));
    {
        std::lock_guard lock(windows_lock_);

        std::erase_if(windows_, [](const auto &w) { return w.expired(); });
        windows_.push_back(window->link());
    }
    if (tensor)
        window->tensor_register(*tensor, true);
    return window;
}

} // namespace tutti_torch

#endif
