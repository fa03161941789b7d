#include "backend.hpp"
#include "tutti/trace.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>

namespace tutti_torch
{

namespace
{

#ifdef C10D_BACKEND_HAS_HOOKS
constexpr auto allgathers_coalesced = c10d::OpType::ALLGATHER_INTO_TENSOR_COALESCED;
constexpr auto reduce_scatters_coalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#else
constexpr auto allgathers_coalesced = c10d::OpType::COALESCED,
               reduce_scatters_coalesced = c10d::OpType::COALESCED;
#endif

[[noreturn]] void invalid(const std::string &message)
{
    C10_THROW_ERROR(ValueError, "tutti: " + message);
}

int64_t milliseconds(std::chrono::milliseconds timeout)
{
    return timeout.count() > 0 ? timeout.count() : -1;
}

// The process's first group, whose connections those of other groups share.
struct Job {
    std::mutex lock;
    std::weak_ptr<Link> control;
};

Job &job()
{
    static auto *job = new Job;

    return *job;
}

// The value of the store's key is the id that rank 0 created, or this prefix and its error.
constexpr std::string_view failed_prefix = "failed: ";

tutti_id create_id(const c10::intrusive_ptr<c10d::Store> &store, const tutti_conf &conf)
{
    tutti_id id{};
    const tutti_status status = tutti_id_create(&id, &conf);

    if (status != TUTTI_OK) {
        const std::string why = tutti_last_error();

        try { // the other ranks would wait for the key until their timeout
            store->set("tutti", c10::str(failed_prefix, tutti_status_name(status), ": ", why));
        } catch (const std::exception &) { // they report the store
        }
        fail(status, why, "init");
    }
    store->set("tutti", std::vector<uint8_t>(id.bytes, id.bytes + sizeof id.bytes));
    return id;
}

tutti_id id_in(const c10::intrusive_ptr<c10d::Store> &store)
{
    tutti_id id{};
    std::string value;

    try {
        value = store->get_to_str("tutti");
    } catch (c10::Error &error) {
        error.add_context("tutti: init: no address of rank 0 in the store (has rank 0 started, and "
                          "does the store run?)");
        throw;
    }
    if (value.starts_with(failed_prefix))
        TORCH_CHECK_WITH(DistBackendError, false, "tutti: init: rank 0 ", value);
    if (value.size() != sizeof id.bytes)
        TORCH_CHECK_WITH(DistBackendError, false, "tutti: init: the store has ", value.size(),
                         " bytes of rank 0: must be ", sizeof id.bytes,
                         " (is another version of Tutti in use there?)");
    std::memcpy(id.bytes, value.data(), sizeof id.bytes);
    return id;
}

std::shared_ptr<Link> meet(const c10::intrusive_ptr<c10d::Store> &store, int rank, int size,
                           const GroupOptions &options)
{
    const tutti_conf conf = options.conf();
    const tutti_id id = rank == 0 ? create_id(store, conf) : id_in(store);
    tutti_comm *comm = nullptr;

    check(tutti_comm_create_id(&comm, &id, size, rank, &conf), "init");
    if (rank == 0) // all have read it: another start-up with the same store begins anew
        try {
            store->deleteKey("tutti");
        } catch (const std::exception &) { // stores that cannot delete are not used twice
        }
    return std::make_shared<Link>(comm);
}

// The lists of ranks whose groups are being created. Creations with the same list wait for each
// other: they have the same tag.
struct Creations {
    std::mutex lock;
    std::condition_variable ended;
    std::set<std::vector<int>> lists;
};

// The tag of a list of ranks (FNV-1a), equal on all of them. Names of groups cannot be tags:
// threads of two processes may number their groups differently.
uint32_t tag_of(const std::vector<int> &ranks)
{
    uint32_t tag = 2166136261u;

    for (const int rank : ranks)
        tag = (tag ^ static_cast<uint32_t>(rank)) * 16777619u;
    return tag;
}

// Any threads, at once. `ranks` are those of the job.
std::shared_ptr<Link> create_group(const Link &control, const std::vector<int> &ranks,
                                   const char *call)
{
    static auto *creations = new Creations;
    tutti_comm *comm = nullptr;

    {
        std::unique_lock lock(creations->lock);

        creations->ended.wait(lock, [&] { return !creations->lists.contains(ranks); });
        creations->lists.insert(ranks);
    }
    const tutti_status status = tutti_comm_create_group(
        control.comm, ranks.data(), static_cast<int>(ranks.size()), tag_of(ranks), &comm);
    {
        std::lock_guard lock(creations->lock);

        creations->lists.erase(ranks);
    }
    creations->ended.notify_all();
    check(status, call);
    return std::make_shared<Link>(comm);
}

// NULL: the calls of this thread have no options of their own.
thread_local std::unique_ptr<CallOptions> call_options;

// The memory of `feedback` stays until the operation ends.
void set_feedback(Operation &operation, tutti_call &call, const at::Tensor &feedback)
{
    operation.held.push_back(feedback);
    call.error_feedback = feedback.data_ptr<float>();
}

std::vector<size_t> displacements(const std::vector<size_t> &counts)
{
    std::vector<size_t> displs(counts.size());

    std::exclusive_scan(counts.begin(), counts.end(), displs.begin(), size_t{ 0 });
    return displs;
}

// Counts, in bytes, of the rows that dimension 0 is split into. Empty splits: evenly.
std::vector<size_t> split_bytes(const at::Tensor &tensor, const std::vector<int64_t> &splits,
                                int size, const char *what)
{
    const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    std::vector<size_t> counts(size);

    if (splits.empty()) {
        if (tensor.numel() % size || (tensor.numel() && rows % size))
            invalid(c10::str("all_to_all_single: dimension 0 of ", what, " is ", rows,
                             ", not a multiple of the ", size, " ranks (pass ", what,
                             "_split_sizes)"));
        std::fill(counts.begin(), counts.end(), bytes_of(tensor) / size);
        return counts;
    }
    if (splits.size() != static_cast<size_t>(size))
        invalid(c10::str("all_to_all_single: ", splits.size(), " ", what, "_split_sizes for ", size,
                         " ranks"));
    if (std::accumulate(splits.begin(), splits.end(), int64_t{ 0 }) != rows ||
        std::any_of(splits.begin(), splits.end(), [](int64_t n) { return n < 0; }))
        invalid(c10::str("all_to_all_single: ", what, "_split_sizes ", splits,
                         " do not add up to dimension 0 of ", what, ", ", rows));
    const size_t row = rows ? bytes_of(tensor) / rows : 0;

    std::transform(splits.begin(), splits.end(), counts.begin(),
                   [row](int64_t n) { return static_cast<size_t>(n) * row; });
    return counts;
}

void check_same_type(const at::Tensor &a, const at::Tensor &b, const char *call)
{
    if (a.scalar_type() != b.scalar_type())
        invalid(c10::str(call, ": tensors of ", a.scalar_type(), " and ", b.scalar_type(),
                         " in one call"));
}

// Whether the tensors lie one after the other in memory.
bool are_adjacent(const std::vector<at::Tensor> &tensors)
{
    for (size_t i = 0; i < tensors.size(); i++) {
        if (!tensors[i].is_contiguous() || tensors[i].is_conj() || tensors[i].is_neg())
            return false;
        if (i && static_cast<char *>(tensors[i].data_ptr()) !=
                     static_cast<char *>(tensors[i - 1].data_ptr()) + bytes_of(tensors[i - 1]))
            return false;
    }
    return true;
}

// The tensors as one contiguous tensor: their own memory where they are adjacent, else a new one,
// which is filled if they are inputs and copied back if they are not.
at::Tensor as_one(Operation &operation, const std::vector<at::Tensor> &tensors, bool is_input)
{
    at::AutoDispatchBelowAutograd guard;
    int64_t elements = 0, at = 0;

    for (const auto &t : tensors)
        elements += t.numel();
    if (!tensors.empty() && are_adjacent(tensors))
        return at::from_blob(
            tensors[0].data_ptr(), { elements }, [tensors](void *) {}, tensors[0].options());
    at::Tensor one = at::empty({ elements }, tensors[0].options());

    for (const auto &t : tensors) {
        at::Tensor part = one.narrow(0, at, t.numel());

        at += t.numel();
        if (is_input)
            part.copy_(t.reshape({ -1 }));
        else
            operation.outputs.copy_later(part, t);
    }
    return one;
}

} // namespace

void set_call_options(const char *call, int64_t elements, std::unique_ptr<CallOptions> options)
{
    if (options && options->error_feedback.defined()) {
        const at::Tensor &feedback = options->error_feedback;

        if (feedback.scalar_type() != at::kFloat || !feedback.device().is_cpu() ||
            !feedback.is_contiguous() || feedback.numel() != elements)
            invalid(c10::str(call, ": error_feedback is ", feedback.scalar_type(), " with ",
                             feedback.numel(),
                             " elements: must be contiguous float32 on the CPU with ", elements));
        if (options->quantization == TUTTI_QUANT_NONE)
            invalid(c10::str(call, ": error_feedback without quantization"));
    }
    call_options = std::move(options);
}

tutti_conf GroupOptions::conf() const
{
    const auto text = [](const std::string &s) { return s.empty() ? nullptr : s.c_str(); };
    tutti_conf conf{};

    conf.size = sizeof conf;
    conf.timeout_ms = milliseconds(timeout);
    conf.lanes = lanes;
    conf.wires = text(wires);
    conf.interfaces = text(interfaces);
    conf.tune_files = text(tune_files);
    return conf;
}

// ---- start and end ----

Backend::Backend(std::shared_ptr<Link> link, int rank, int size,
                 c10::intrusive_ptr<GroupOptions> options)
    : c10d::Backend(rank, size), link_(std::move(link)), options_(std::move(options)),
      timeout_ms_(milliseconds(options_->timeout))
{
    init();
}

Backend::~Backend() = default;

c10::intrusive_ptr<Backend> Backend::create(const c10d::DistributedBackendOptions &how,
                                            c10::intrusive_ptr<GroupOptions> options)
{
    const bool is_first = how.global_ranks_in_group.empty();
    std::shared_ptr<Link> control, link;

    options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(how.timeout);
    options->group_name = how.group_id;
    options->global_ranks_in_group.assign(how.global_ranks_in_group.begin(),
                                          how.global_ranks_in_group.end());
    if (!is_first) {
        std::lock_guard lock(job().lock);

        control = job().control.lock();
    }
#ifdef C10D_BACKEND_HAS_RECONFIGURE
    options->enable_reconfigure |= how.enable_reconfigure;
    if (options->enable_reconfigure) {
        auto backend = c10::make_intrusive<Backend>(nullptr, how.group_rank, how.group_size,
                                                    std::move(options));

        backend->is_first_ = is_first;
        return backend;
    }
#endif
    std::vector<int> members(how.global_ranks_in_group.begin(), how.global_ranks_in_group.end());

    if (control) {
        link = in_background(
            [control, members] { return create_group(*control, members, "new_group"); });
    } else {
        tutti_comm *comm = nullptr;

        link = in_background([store = how.store, rank = how.group_rank, size = how.group_size,
                              settings = c10::make_intrusive<GroupOptions>(*options)] {
            return meet(store, rank, size, *settings);
        });
        check(tutti_comm_dup(link->comm, &comm), "init");
        control = std::make_shared<Link>(comm);
        members.resize(how.group_size);
        std::iota(members.begin(), members.end(), 0);
    }
    auto backend =
        c10::make_intrusive<Backend>(link, how.group_rank, how.group_size, std::move(options));

    backend->is_first_ = is_first;
    backend->control_ = control;
    backend->members_ = std::move(members);
    if (is_first)
        set_job_control(control);
    return backend;
}

void Backend::set_job_control(const std::shared_ptr<Link> &control)
{
    std::lock_guard lock(job().lock);

    job().control = control;
}

// Of a group with enable_reconfigure, there is none before the first reconfigure.
std::shared_ptr<Link> Backend::link(const char *call) const
{
    TORCH_CHECK(link_, "tutti: ", call,
                is_shut_down_ ? ": the process group is destroyed"
                              : ": the group has no members yet (call reconfigure first)");
    return link_;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(
    const c10::intrusive_ptr<c10d::Store> & /* store */, const std::vector<int> &ranks,
    const c10::intrusive_ptr<c10d::Backend::Options> &options)
{
    auto mine = c10::dynamic_intrusive_pointer_cast<GroupOptions>(options);
    const auto at = std::find(ranks.begin(), ranks.end(), rank_);

    if (at == ranks.end())
        return nullptr;
    if (!mine) {
        mine = c10::make_intrusive<GroupOptions>(*options_);
        if (options) {
            mine->timeout = options->timeout;
            mine->group_name = options->group_name;
        }
    }
    this->link("split_group"); // throws where there is none
    std::vector<int> members;

    for (const int rank : ranks)
        members.push_back(members_[check_rank(rank, "split_group")]);
    auto link = in_background(
        [control = control_, members] { return create_group(*control, members, "split_group"); });
    auto backend = c10::make_intrusive<Backend>(link, static_cast<int>(at - ranks.begin()),
                                                static_cast<int>(ranks.size()), mine);

    backend->control_ = control_;
    backend->members_ = std::move(members);
    return backend;
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions()
{
    return options_;
}

void Backend::setTimeout(std::chrono::milliseconds timeout)
{
    options_->timeout = timeout;
    timeout_ms_ = milliseconds(timeout);
}

uint64_t Backend::getSequenceNumberForGroup()
{
    return sequence_;
}

c10d::ErrorType Backend::getError()
{
    const c10d::ErrorType seen = observers_->error;

    if (seen != c10d::ErrorType::SUCCESS || !link_)
        return seen;
    switch (tutti_comm_status(link_->comm)) {
    case TUTTI_OK:
        return c10d::ErrorType::SUCCESS;
    case TUTTI_ERR_TIMEOUT:
        return c10d::ErrorType::TIMEOUT;
    case TUTTI_ERR_PEER_LOST:
    case TUTTI_ERR_ABORTED:
        return c10d::ErrorType::REMOTE_ERROR;
    default:
        return c10d::ErrorType::COMM_ERROR;
    }
}

void Backend::abort()
{
    std::lock_guard lock(windows_lock_);

    for (const auto &weak : windows_)
        if (const auto window = weak.lock())
            tutti_comm_abort(window->comm);
    if (link_)
        tutti_comm_abort(link_->comm);
}

// The communicator stays until the last operation on it is gone, but not as long as the program
// keeps the group: otherwise it would report ranks that have ended as lost.
void Backend::shutdown()
{
    cancel_coalescing();
    membership_.withdraw();
    is_shut_down_ = true;
    link_.reset();
    control_.reset();
}

// ---- operations ----

// PyTorch sets the description of a group after its backend was created, so the communicator gets
// its name in traces from the first operation.
void Backend::name_communicator()
{
    const std::string &description = getGroupDesc();
    const bool has_description = !description.empty() && description != "undefined";

    if (!link_->named.exchange(true))
        tutti_comm_set_name(link_->comm,
                            (has_description ? description : options_->group_name).c_str());
}

std::shared_ptr<Operation> Backend::operation(c10d::OpType type, std::chrono::milliseconds timeout)
{
    auto limit = timeout.count() > 0 ? timeout : std::chrono::milliseconds(timeout_ms_.load());

    if (call_options && call_options->timeout.count() > 0)
        limit = call_options->timeout;
    if (limit.count() > 0)
        limit += observers_->extension();
    if (C10_UNLIKELY(!link_))
        link(c10d::opTypeToString(type).c_str());
    if (C10_UNLIKELY(!link_->named.load(std::memory_order_relaxed)))
        name_communicator();
    return std::make_shared<Operation>(link_, observers_, type,
                                       c10d::isP2POp(type) ? sequence_.load() : ++sequence_, limit);
}

tutti_call Backend::call_of(const Operation &operation) const
{
    tutti_call call{};

    call.size = sizeof call;
    call.timeout_ms = operation.timeout.count();
    return call;
}

void Backend::start(Operation &operation, const tutti_call &call,
                    c10::function_ref<tutti_status(tutti_comm *, const tutti_call *)> what)
{
    tutti_request *request = nullptr;
    tutti_call mine = call;
    tutti_status st;

    mine.request = &request;
    if (call_options) {
        mine.algo = call_options->algorithm.empty() ? nullptr : call_options->algorithm.c_str();
        mine.quant = call_options->quantization;
        if (call_options->error_feedback.defined())
            set_feedback(operation, mine, call_options->error_feedback);
    }
    {
        std::lock_guard lock(operation.link->lock);

        st = what(operation.link->comm, &mine);
    }
    if (st == TUTTI_ERR_INVALID || st == TUTTI_ERR_UNSUPPORTED)
        invalid(c10::str(c10d::opTypeToString(operation.type), ": ", tutti_last_error()));
    check(st, c10d::opTypeToString(operation.type).c_str());
    operation.requests.push_back(request);
}

// A synchronous call waits here. It returns a Work only if an observer needs one, e.g. PyTorch's
// flight recorder.
c10::intrusive_ptr<c10d::Work> Backend::work(std::shared_ptr<Operation> operation,
                                             const char *title,
                                             const std::vector<at::Tensor> &inputs, bool is_async)
{
    const bool is_part = coalescing_ && operation != coalesced_;
    const bool is_waited = !is_async && !is_part;

    title = Work::recorded_title(title);
    if (operation->requests.empty() && operation->parts.empty())
        operation->end(nullptr);
    if (is_waited && !title && !observers_->any()) {
        operation->wait();
        if (const auto error = operation->error())
            std::rethrow_exception(error);
        return nullptr;
    }
    if (is_part)
        coalesced_->parts.push_back(operation);
    auto work = c10::make_intrusive<Work>(std::move(operation), rank_, title, inputs, !is_waited);

    if (is_waited)
        work->finish();
    return work;
}

int Backend::check_rank(int64_t rank, const char *call) const
{
    if (rank < 0 || rank >= size_)
        invalid(
            c10::str(call, ": rank ", rank, " is out of range: the group has ", size_, " ranks"));
    return static_cast<int>(rank);
}

// ---- coalescing ----

// Also what an exception left behind: PyTorch does not end a coalesced group then.
void Backend::cancel_coalescing()
{
    coalescing_ = false;
    coalesced_p2p_.clear();
    coalesced_.reset();
}

void Backend::startCoalescing()
{
    cancel_coalescing();
    coalesced_ = operation(c10d::OpType::COALESCED, c10d::kUnsetTimeout);
    coalescing_ = true;
}

c10::intrusive_ptr<c10d::Work> Backend::endCoalescing()
{
    if (!coalescing_)
        invalid("endCoalescing: without startCoalescing");
    coalescing_ = false;
    auto all = std::move(coalesced_);
    auto ops = std::move(coalesced_p2p_);

    coalesced_p2p_.clear();
    if (!ops.empty())
        start_p2p(*all, std::move(ops));
    return work(all, nullptr, {});
}

// ---- collectives ----

c10::intrusive_ptr<c10d::Work> Backend::broadcast(std::vector<at::Tensor> &tensors,
                                                  const c10d::BroadcastOptions &how)
{
    at::Tensor &tensor = only(tensors, "broadcast", "tensors");
    const int root = check_rank(how.rootRank, "broadcast");
    auto op = operation(c10d::OpType::BROADCAST, how.timeout);
    const bool is_root = root == rank_;
    const at::Tensor own = is_root ? dense_input(tensor) : op->outputs.add(tensor, false);

    op->held = { own };
    op->results = tensors;
    if (own.numel())
        start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
            const Moved m = moved(own);

            return tutti_broadcast(own.data_ptr(), own.data_ptr(), m.count, m.type, root, comm,
                                   call);
        });
    return work(op, "tutti:broadcast", tensors, how.asyncOp);
}

void Backend::set_group_options(Operation &op, tutti_call &call, const at::Tensor &tensor,
                                tutti_redop redop)
{
    if (!options_->algorithm.empty())
        call.algo = options_->algorithm.c_str();
    if (options_->quantization == TUTTI_QUANT_NONE || (redop != TUTTI_SUM && redop != TUTTI_AVG) ||
        !at::isFloatingType(tensor.scalar_type()) || tensor.element_size() == 1)
        return;
    call.quant = options_->quantization;
    if (options_->error_feedback) // follows the tensor's memory
        set_feedback(op, call, residuals_.of(tensor));
}

void Backend::start_allreduce(Operation &op, at::Tensor &tensor, const c10d::ReduceOp &reduce)
{
    const Reduction r = reduction_of(tensor, reduce);
    const at::Tensor own = op.outputs.add(tensor, true);
    tutti_call call = call_of(op);

    if (!own.is_same(tensor))
        op.held.push_back(own);
    op.results.push_back(tensor);
    if (!own.numel())
        return;
    call.scale = r.scale;
    if (!call_options)
        set_group_options(op, call, tensor, r.op);
    start(op, call, [&](tutti_comm *comm, const tutti_call *c) {
        return tutti_allreduce(own.data_ptr(), own.data_ptr(), own.numel() * r.element.per_element,
                               r.element.type, r.op, comm, c);
    });
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce(std::vector<at::Tensor> &tensors,
                                                  const c10d::AllreduceOptions &how)
{
    if (tensors.size() == 1 && tensors[0].is_sparse())
        return allreduce_sparse(tensors, how);
    at::Tensor &tensor = only(tensors, "all_reduce", "tensors");
    auto op = operation(c10d::OpType::ALLREDUCE, how.timeout);

    start_allreduce(*op, tensor, how.reduceOp);
    return work(op, "tutti:all_reduce", tensors, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allreduce_coalesced(
    std::vector<at::Tensor> &tensors, const c10d::AllreduceCoalescedOptions &how)
{
    constexpr size_t flat_bytes_max = 256 << 10;
    auto op = operation(c10d::OpType::ALLREDUCE_COALESCED, how.timeout);
    size_t bytes = 0;
    bool alike = true;

    for (auto &t : tensors) {
        check_tensor(t, "all_reduce_coalesced", "tensors");
        bytes += bytes_of(t);
        alike = alike && t.scalar_type() == tensors[0].scalar_type();
    }
    if (tensors.size() > 1 && alike && bytes <= flat_bytes_max) {
        at::Tensor one = as_one(*op, tensors, true);

        if (!are_adjacent(tensors)) {
            int64_t at = 0;

            for (const auto &t : tensors) {
                op->outputs.copy_later(one.narrow(0, at, t.numel()), t);
                at += t.numel();
            }
        }
        start_allreduce(*op, one, how.reduceOp);
        op->results = tensors;
    } else {
        for (auto &t : tensors)
            start_allreduce(*op, t, how.reduceOp);
    }
    return work(op, "tutti:all_reduce_coalesced", tensors, how.asyncOp);
}

// Coordinates and values are gathered from all ranks, and added here: each rank does the same
// additions in the same order.
c10::intrusive_ptr<c10d::Work> Backend::allreduce_sparse(std::vector<at::Tensor> &tensors,
                                                         const c10d::AllreduceOptions &how)
{
    if (tensors.size() != 1 || !tensors[0].is_sparse() || !tensors[0].device().is_cpu())
        invalid("all_reduce of sparse tensors: must be one sparse COO tensor on the CPU");
    if (how.reduceOp.op_ != c10d::ReduceOp::SUM)
        invalid("all_reduce of sparse tensors: only ReduceOp.SUM is supported");
    at::AutoDispatchBelowAutograd guard;
    const at::Tensor tensor = tensors[0], own = tensor.coalesce();
    const at::Tensor indices = own.indices().contiguous(), values = own.values().contiguous();
    auto op = operation(c10d::OpType::_ALLREDUCE_SPARSE, how.timeout);
    std::vector<int64_t> lengths(size_, 0);
    const int64_t mine = own._nnz();

    // How much each rank has must be known before the rest is gathered.
    {
        const at::Tensor from = at::full({ 1 }, mine, at::kLong),
                         to = at::empty({ size_ }, at::kLong);
        Parts sizes;

        sizes.list.push_back(
            std::make_shared<Operation>(op->link, observers_, op->type, op->sequence, op->timeout));
        sizes.list[0]->held = { from, to };
        start(*sizes.list[0], call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
            return tutti_allgather(from.data_ptr(), to.data_ptr(), 1, TUTTI_I64, comm, call);
        });
        sizes.list[0]->wait();
        if (const auto error = sizes.list[0]->error())
            std::rethrow_exception(error);
        std::copy_n(to.data_ptr<int64_t>(), size_, lengths.begin());
    }
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{ 0 });
    const size_t value_bytes =
        mine ? bytes_of(values) / mine
             : values.element_size() * std::accumulate(values.sizes().begin() + 1,
                                                       values.sizes().end(), size_t{ 1 },
                                                       std::multiplies<>());
    std::vector<int64_t> shape = values.sizes().vec();

    shape[0] = total;
    const at::Tensor all_indices = at::empty({ total, indices.size(0) }, indices.options());
    const at::Tensor all_values = at::empty(shape, values.options());
    const at::Tensor rows = indices.t().contiguous(); // one coordinate after the other
    const auto gather = [&](const at::Tensor &from, const at::Tensor &to, size_t row_bytes) {
        std::vector<size_t> counts(size_);

        std::transform(lengths.begin(), lengths.end(), counts.begin(),
                       [&](int64_t n) { return n * row_bytes; });
        op->held.insert(op->held.end(), { from, to });
        if (total && row_bytes)
            start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
                return tutti_allgatherv(from.data_ptr(), to.data_ptr(), counts.data(), nullptr,
                                        TUTTI_U8, comm, call);
            });
    };

    gather(rows, all_indices, indices.size(0) * sizeof(int64_t));
    gather(values, all_values, value_bytes);
    op->results = tensors;
    op->after.push_back([tensor, all_indices, all_values] {
        at::AutoDispatchBelowAutograd below;
        const at::Tensor sum =
            at::_sparse_coo_tensor_unsafe(all_indices.t().contiguous(), all_values, tensor.sizes(),
                                          tensor.options())
                .coalesce();

        tensor.copy_(sum);
    });
    return work(op, "tutti:all_reduce_sparse", tensors, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce(std::vector<at::Tensor> &tensors,
                                               const c10d::ReduceOptions &how)
{
    at::Tensor &tensor = only(tensors, "reduce", "tensors");
    const int root = check_rank(how.rootRank, "reduce");
    const Reduction r = reduction_of(tensor, how.reduceOp);
    auto op = operation(c10d::OpType::REDUCE, how.timeout);
    const at::Tensor own = root == rank_ ? op->outputs.add(tensor, true) : dense_input(tensor);
    tutti_call call = call_of(*op);

    call.scale = r.scale;
    op->held = { own };
    op->results = tensors;
    if (own.numel())
        start(*op, call, [&](tutti_comm *comm, const tutti_call *c) {
            return tutti_reduce(own.data_ptr(), own.data_ptr(), own.numel() * r.element.per_element,
                                r.element.type, r.op, root, comm, c);
        });
    return work(op, "tutti:reduce", tensors, how.asyncOp);
}

void Backend::start_allgather(Operation &op, const at::Tensor &output, const at::Tensor &input,
                              const char *call)
{
    check_tensor(output, call, "the output");
    check_tensor(input, call, "the input");
    check_same_type(output, input, call);
    if (output.numel() != input.numel() * size_)
        invalid(c10::str(call, ": the output has ", output.numel(), " elements: must be ", size_,
                         " times the input's ", input.numel()));
    const at::Tensor in = dense_input(input), out = op.outputs.add(output, false);

    op.held.insert(op.held.end(), { in, out });
    op.results.push_back(output);
    if (in.numel())
        start(op, call_of(op), [&](tutti_comm *comm, const tutti_call *c) {
            const Moved m = moved(in);

            return tutti_allgather(in.data_ptr(), out.data_ptr(), m.count, m.type, comm, c);
        });
}

void Backend::start_allgather_list(Operation &op, std::vector<at::Tensor> &outputs,
                                   const at::Tensor &input, const char *call)
{
    std::vector<size_t> counts(size_);
    bool even = true;

    check_tensor(input, call, "the input");
    if (outputs.size() != static_cast<size_t>(size_))
        invalid(c10::str(call, ": ", outputs.size(), " output tensors for ", size_, " ranks"));
    for (int r = 0; r < size_; r++) {
        check_tensor(outputs[r], call, "an output");
        check_same_type(outputs[r], input, call);
        counts[r] = bytes_of(outputs[r]);
        even = even && counts[r] == counts[0];
    }
    if (counts[rank_] != bytes_of(input))
        invalid(c10::str(call, ": output tensor ", rank_, " has ", outputs[rank_].numel(),
                         " elements: must be the input's ", input.numel()));
    const at::Tensor in = dense_input(input), out = as_one(op, outputs, false);

    op.held.insert(op.held.end(), { in, out });
    op.results.insert(op.results.end(), outputs.begin(), outputs.end());
    if (!out.numel())
        return;
    start(op, call_of(op), [&](tutti_comm *comm, const tutti_call *c) {
        const Moved m = moved(in);

        return even ? tutti_allgather(in.data_ptr(), out.data_ptr(), m.count, m.type, comm, c)
                    : tutti_allgatherv(in.data_ptr(), out.data_ptr(), counts.data(), nullptr,
                                       TUTTI_U8, comm, c);
    });
}

c10::intrusive_ptr<c10d::Work> Backend::allgather(std::vector<std::vector<at::Tensor>> &outputs,
                                                  std::vector<at::Tensor> &inputs,
                                                  const c10d::AllgatherOptions &how)
{
    at::Tensor &input = only(inputs, "all_gather", "input tensors");

    if (outputs.size() != 1)
        invalid(c10::str("all_gather: ", outputs.size(), " lists of outputs: must be 1"));
    auto op = operation(c10d::OpType::ALLGATHER, how.timeout);

    start_allgather_list(*op, outputs[0], input, "all_gather");
    return work(op, "tutti:all_gather", inputs, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather_coalesced(
    std::vector<std::vector<at::Tensor>> &outputs, std::vector<at::Tensor> &inputs,
    const c10d::AllgatherOptions &how)
{
    auto op = operation(c10d::OpType::ALLGATHER_COALESCED, how.timeout);

    if (outputs.size() != static_cast<size_t>(size_))
        invalid(c10::str("all_gather_coalesced: ", outputs.size(), " lists of outputs for ", size_,
                         " ranks"));
    for (const auto &list : outputs)
        if (list.size() != inputs.size())
            invalid(c10::str("all_gather_coalesced: a list of ", list.size(), " outputs for ",
                             inputs.size(), " inputs"));
    for (size_t i = 0; i < inputs.size(); i++) {
        std::vector<at::Tensor> of_ranks;

        for (const auto &list : outputs)
            of_ranks.push_back(list[i]);
        start_allgather_list(*op, of_ranks, inputs[i], "all_gather_coalesced");
    }
    return work(op, "tutti:all_gather_coalesced", inputs, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::_allgather_base(at::Tensor &output, at::Tensor &input,
                                                        const c10d::AllgatherOptions &how)
{
    auto op = operation(c10d::OpType::_ALLGATHER_BASE, how.timeout);

    start_allgather(*op, output, input, "all_gather_single");
    return work(op, "tutti:all_gather_single", { input }, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::allgather_into_tensor_coalesced(
    std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
    const c10d::AllgatherOptions &how)
{
    auto op = operation(allgathers_coalesced, how.timeout);

    if (outputs.size() != inputs.size())
        invalid(c10::str("all_gather_single_coalesced: ", outputs.size(), " outputs for ",
                         inputs.size(), " inputs"));
    for (size_t i = 0; i < inputs.size(); i++)
        start_allgather(*op, outputs[i], inputs[i], "all_gather_single_coalesced");
    return work(op, "tutti:all_gather_single_coalesced", inputs, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::gather(std::vector<std::vector<at::Tensor>> &outputs,
                                               std::vector<at::Tensor> &inputs,
                                               const c10d::GatherOptions &how)
{
    at::Tensor &input = only(inputs, "gather", "input tensors");
    const int root = check_rank(how.rootRank, "gather");
    auto op = operation(c10d::OpType::GATHER, how.timeout);
    const at::Tensor in = dense_input(input);
    at::Tensor out;

    if (root == rank_) {
        if (outputs.size() != 1 || outputs[0].size() != static_cast<size_t>(size_))
            invalid(c10::str("gather: the root needs one list of ", size_, " outputs"));
        for (const auto &t : outputs[0]) {
            check_tensor(t, "gather", "an output");
            check_same_type(t, input, "gather");
            if (t.numel() != input.numel())
                invalid(c10::str("gather: an output has ", t.numel(),
                                 " elements: must be the input's ", input.numel()));
        }
        out = as_one(*op, outputs[0], false);
        op->results = outputs[0];
    } else if (!outputs.empty()) {
        invalid("gather: only the root has outputs");
    }
    op->held = { in, out };
    if (in.numel())
        start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
            const Moved m = moved(in);

            return tutti_gather(in.data_ptr(), out.defined() ? out.data_ptr() : nullptr, m.count,
                                m.type, root, comm, call);
        });
    return work(op, "tutti:gather", inputs, how.asyncOp);
}

#ifdef C10D_BACKEND_HAS_HOOKS
c10::intrusive_ptr<c10d::Work> Backend::gather_single(at::Tensor &output, at::Tensor &input,
                                                      const c10d::GatherOptions &how)
{
    const int root = check_rank(how.rootRank, "gather_single");
    auto op = operation(c10d::OpType::GATHER, how.timeout);

    check_tensor(input, "gather_single", "the input");
    const at::Tensor in = dense_input(input);
    at::Tensor out;

    if (root == rank_) {
        check_tensor(output, "gather_single", "the output");
        check_same_type(output, input, "gather_single");
        if (output.numel() != input.numel() * size_)
            invalid(c10::str("gather_single: the output has ", output.numel(),
                             " elements: must be ", size_, " times the input's ", input.numel()));
        out = op->outputs.add(output, false);
        op->results = { output };
    }
    op->held = { in, out };
    if (in.numel())
        start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
            const Moved m = moved(in);

            return tutti_gather(in.data_ptr(), out.defined() ? out.data_ptr() : nullptr, m.count,
                                m.type, root, comm, call);
        });
    return work(op, "tutti:gather_single", { input }, how.asyncOp);
}
#endif

c10::intrusive_ptr<c10d::Work> Backend::scatter(std::vector<at::Tensor> &outputs,
                                                std::vector<std::vector<at::Tensor>> &inputs,
                                                const c10d::ScatterOptions &how)
{
    at::Tensor &output = only(outputs, "scatter", "output tensors");
    const int root = check_rank(how.rootRank, "scatter");
    auto op = operation(c10d::OpType::SCATTER, how.timeout);
    const at::Tensor out = op->outputs.add(output, false);
    at::Tensor in;

    if (root == rank_) {
        if (inputs.size() != 1 || inputs[0].size() != static_cast<size_t>(size_))
            invalid(c10::str("scatter: the root needs one list of ", size_, " inputs"));
        for (const auto &t : inputs[0]) {
            check_tensor(t, "scatter", "an input");
            check_same_type(t, output, "scatter");
            if (t.numel() != output.numel())
                invalid(c10::str("scatter: an input has ", t.numel(),
                                 " elements: must be the output's ", output.numel()));
        }
        in = as_one(*op, inputs[0], true);
    } else if (!inputs.empty()) {
        invalid("scatter: only the root has inputs");
    }
    op->held = { in, out };
    op->results = outputs;
    if (out.numel())
        start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
            const Moved m = moved(out);

            return tutti_scatter(in.defined() ? in.data_ptr() : nullptr, out.data_ptr(), m.count,
                                 m.type, root, comm, call);
        });
    return work(op, "tutti:scatter", outputs, how.asyncOp);
}

void Backend::start_reduce_scatter(Operation &op, const at::Tensor &output, const at::Tensor &input,
                                   const c10d::ReduceOp &reduce, const char *name)
{
    check_tensor(output, name, "the output");
    check_tensor(input, name, "the input");
    check_same_type(output, input, name);
    if (input.numel() != output.numel() * size_)
        invalid(c10::str(name, ": the input has ", input.numel(), " elements: must be ", size_,
                         " times the output's ", output.numel()));
    const Reduction r = reduction_of(input, reduce);
    const at::Tensor in = dense_input(input), out = op.outputs.add(output, false);
    tutti_call call = call_of(op);

    call.scale = r.scale;
    op.held.insert(op.held.end(), { in, out });
    op.results.push_back(output);
    if (out.numel())
        start(op, call, [&](tutti_comm *comm, const tutti_call *c) {
            return tutti_reduce_scatter(in.data_ptr(), out.data_ptr(),
                                        out.numel() * r.element.per_element, r.element.type, r.op,
                                        comm, c);
        });
}

c10::intrusive_ptr<c10d::Work> Backend::reduce_scatter(std::vector<at::Tensor> &outputs,
                                                       std::vector<std::vector<at::Tensor>> &inputs,
                                                       const c10d::ReduceScatterOptions &how)
{
    at::Tensor &output = only(outputs, "reduce_scatter", "output tensors");

    if (inputs.size() != 1 || inputs[0].size() != static_cast<size_t>(size_))
        invalid(c10::str("reduce_scatter: must have one list of ", size_, " inputs"));
    const Reduction r = reduction_of(output, how.reduceOp);
    auto op = operation(c10d::OpType::REDUCE_SCATTER, how.timeout);
    std::vector<size_t> counts(size_);
    tutti_call call = call_of(*op);
    bool even = true;

    for (int i = 0; i < size_; i++) {
        check_tensor(inputs[0][i], "reduce_scatter", "an input");
        check_same_type(inputs[0][i], output, "reduce_scatter");
        counts[i] = inputs[0][i].numel() * r.element.per_element;
        even = even && counts[i] == counts[0];
    }
    if (inputs[0][rank_].numel() != output.numel())
        invalid(c10::str("reduce_scatter: input ", rank_, " has ", inputs[0][rank_].numel(),
                         " elements: must be the output's ", output.numel()));
    const at::Tensor in = as_one(*op, inputs[0], true), out = op->outputs.add(output, false);

    call.scale = r.scale;
    op->held = { in, out };
    op->results = outputs;
    if (in.numel())
        start(*op, call, [&](tutti_comm *comm, const tutti_call *c) {
            return even ? tutti_reduce_scatter(in.data_ptr(), out.data_ptr(), counts[0],
                                               r.element.type, r.op, comm, c)
                        : tutti_reduce_scatterv(in.data_ptr(), out.data_ptr(), counts.data(),
                                                r.element.type, r.op, comm, c);
        });
    return work(op, "tutti:reduce_scatter", inputs[0], how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                             const c10d::ReduceScatterOptions &how)
{
    auto op = operation(c10d::OpType::_REDUCE_SCATTER_BASE, how.timeout);

    start_reduce_scatter(*op, output, input, how.reduceOp, "reduce_scatter_single");
    return work(op, "tutti:reduce_scatter_single", { input }, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::reduce_scatter_tensor_coalesced(
    std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
    const c10d::ReduceScatterOptions &how)
{
    auto op = operation(reduce_scatters_coalesced, how.timeout);

    if (outputs.size() != inputs.size())
        invalid(c10::str("reduce_scatter_single_coalesced: ", outputs.size(), " outputs for ",
                         inputs.size(), " inputs"));
    for (size_t i = 0; i < inputs.size(); i++)
        start_reduce_scatter(*op, outputs[i], inputs[i], how.reduceOp,
                             "reduce_scatter_single_coalesced");
    return work(op, "tutti:reduce_scatter_single_coalesced", inputs, how.asyncOp);
}

c10::intrusive_ptr<c10d::Work> Backend::alltoall_base(at::Tensor &output, at::Tensor &input,
                                                      std::vector<int64_t> &output_splits,
                                                      std::vector<int64_t> &input_splits,
                                                      const c10d::AllToAllOptions &how)
{
    check_tensor(output, "all_to_all_single", "the output");
    check_tensor(input, "all_to_all_single", "the input");
    check_same_type(output, input, "all_to_all_single");
    auto op = operation(c10d::OpType::ALLTOALL_BASE, how.timeout);
    const auto to = split_bytes(input, input_splits, size_, "input"),
               from = split_bytes(output, output_splits, size_, "output");
    const auto to_at = displacements(to), from_at = displacements(from);
    const at::Tensor in = dense_input(input), out = op->outputs.add(output, false);

    op->held = { in, out };
    op->results = { output };
    if (input_splits.empty() && output_splits.empty() && in.numel() != out.numel())
        invalid(c10::str("all_to_all_single: the input has ", in.numel(),
                         " elements and the output ", out.numel()));
    // Equal sizes may be passed as lists or omitted, with the same result. A named algorithm is one
    // of tutti_alltoall if no lists are passed.
    const bool is_plain = call_options && input_splits.empty() && output_splits.empty();

    start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
        if (is_plain)
            return tutti_alltoall(in.data_ptr(), out.data_ptr(), to[0], TUTTI_U8, comm, call);
        return tutti_alltoallv(in.data_ptr(), to.data(), to_at.data(), out.data_ptr(), from.data(),
                               from_at.data(), TUTTI_U8, comm, call);
    });
    return work(op, "tutti:all_to_all_single", { input }, how.asyncOp);
}

// Each pair of tensors is a message: nothing has to be put together.
c10::intrusive_ptr<c10d::Work> Backend::alltoall(std::vector<at::Tensor> &outputs,
                                                 std::vector<at::Tensor> &inputs,
                                                 const c10d::AllToAllOptions &how)
{
    if (outputs.size() != static_cast<size_t>(size_) || inputs.size() != static_cast<size_t>(size_))
        invalid(c10::str("all_to_all: ", inputs.size(), " inputs and ", outputs.size(),
                         " outputs for ", size_, " ranks"));
    auto op = operation(c10d::OpType::ALLTOALL, how.timeout);
    std::vector<size_t> to(size_), from(size_);

    for (int r = 0; r < size_; r++) {
        check_tensor(inputs[r], "all_to_all", "an input");
        check_tensor(outputs[r], "all_to_all", "an output");
        check_same_type(inputs[r], inputs[0], "all_to_all");
        check_same_type(outputs[r], inputs[0], "all_to_all");
        to[r] = bytes_of(inputs[r]);
        from[r] = bytes_of(outputs[r]);
    }
    const at::Tensor in = as_one(*op, inputs, true), out = as_one(*op, outputs, false);
    const auto to_at = displacements(to), from_at = displacements(from);

    op->held = { in, out };
    op->results = outputs;
    start(*op, call_of(*op), [&](tutti_comm *comm, const tutti_call *call) {
        return tutti_alltoallv(in.data_ptr(), to.data(), to_at.data(), out.data_ptr(), from.data(),
                               from_at.data(), TUTTI_U8, comm, call);
    });
    return work(op, "tutti:all_to_all", inputs, how.asyncOp);
}

// ---- point to point ----

// An error in a coalesced group is the end of the group.
at::Tensor &Backend::check_p2p(std::vector<at::Tensor> &tensors, int64_t peer, const char *call)
{
    try {
        if (peer != TUTTI_ANY_RANK)
            check_rank(peer, call);
        return only(tensors, call, "tensors");
    } catch (...) {
        cancel_coalescing();
        throw;
    }
}

void Backend::start_p2p(Operation &op, std::vector<tutti_p2p> ops)
{
    start(op, call_of(op), [&](tutti_comm *comm, const tutti_call *call) {
        return tutti_group(ops.data(), ops.size(), comm, call);
    });
}

c10::intrusive_ptr<c10d::Work> Backend::send(std::vector<at::Tensor> &tensors, int to, int tag)
{
    at::Tensor &tensor = check_p2p(tensors, to, "send");
    const int peer = to;
    const at::Tensor in = dense_input(tensor);

    if (coalescing_) {
        coalesced_->held.push_back(in);
        coalesced_p2p_.push_back(
            { 0, peer, in.data_ptr(), bytes_of(in), TUTTI_U8, static_cast<uint32_t>(tag) });
        return nullptr;
    }
    auto op = operation(c10d::OpType::SEND, c10d::kUnsetTimeout);
    tutti_call call = call_of(*op);

    op->held = { in };
    call.tag = static_cast<uint32_t>(tag);
    start(*op, call, [&](tutti_comm *comm, const tutti_call *c) {
        return tutti_send(in.data_ptr(), bytes_of(in), TUTTI_U8, peer, comm, c);
    });
    return work(op, "tutti:send", tensors);
}

c10::intrusive_ptr<c10d::Work> Backend::recv(std::vector<at::Tensor> &tensors, int from, int tag)
{
    check_p2p(tensors, from < 0 ? size_ : from, "recv");
    return receive(tensors, from, tag, c10d::OpType::RECV);
}

c10::intrusive_ptr<c10d::Work> Backend::recvAnysource(std::vector<at::Tensor> &tensors, int tag)
{
    return receive(tensors, TUTTI_ANY_RANK, tag, c10d::OpType::RECVANYSOURCE);
}

c10::intrusive_ptr<c10d::Work> Backend::receive(std::vector<at::Tensor> &tensors, int peer, int tag,
                                                c10d::OpType type)
{
    at::Tensor &tensor = check_p2p(tensors, peer, "recv");

    if (coalescing_) {
        const at::Tensor out = coalesced_->outputs.add(tensor, false);

        coalesced_->held.push_back(out);
        coalesced_->results.push_back(tensor);
        coalesced_p2p_.push_back(
            { 1, peer, out.data_ptr(), bytes_of(out), TUTTI_U8, static_cast<uint32_t>(tag) });
        return nullptr;
    }
    auto op = operation(type, c10d::kUnsetTimeout);
    const at::Tensor out = op->outputs.add(tensor, false);
    tutti_call call = call_of(*op);

    op->held = { out };
    op->results = tensors;
    op->source = peer;
    call.source = &op->source;
    call.tag = static_cast<uint32_t>(tag);
    start(*op, call, [&](tutti_comm *comm, const tutti_call *c) {
        return tutti_recv(out.data_ptr(), bytes_of(out), TUTTI_U8, peer, comm, c);
    });
    return work(op, type == c10d::OpType::RECVANYSOURCE ? "tutti:recvAnySource" : "tutti:recv",
                tensors);
}

// ---- barriers ----

c10::intrusive_ptr<c10d::Work> Backend::barrier(const c10d::BarrierOptions &how)
{
    auto op = operation(c10d::OpType::BARRIER, how.timeout);

    start(*op, call_of(*op),
          [&](tutti_comm *comm, const tutti_call *call) { return tutti_barrier(comm, call); });
    return work(op, "tutti:barrier", {}, how.asyncOp);
}

// Rank 0 receives a message from every other rank, and then replies to all. It reports the missing
// ranks: each message is awaited separately, so that one missing rank does not hide another.
void Backend::monitoredBarrier(const c10d::BarrierOptions &how, bool wait_all_ranks)
{
    constexpr uint32_t tag = 0xfffffffe;

    TORCH_CHECK(rank_ != 0 || size_ == 1 || how.timeout.count() != 0,
                "Rank 0 timed out in monitoredBarrier: the timeout is 0 ms");
    auto op = operation(c10d::OpType::BARRIER, how.timeout);
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int> missing;
    Parts parts;
    const auto one = [&](bool is_send, int peer) {
        const at::Tensor byte = at::zeros({ 1 }, at::kByte);
        tutti_call call = call_of(*op);

        parts.list.push_back(
            std::make_shared<Operation>(op->link, observers_, op->type, op->sequence, op->timeout));
        parts.list.back()->held = { byte };
        call.tag = tag;
        start(*parts.list.back(), call, [&](tutti_comm *comm, const tutti_call *c) {
            return is_send ? tutti_send(byte.data_ptr(), 1, TUTTI_U8, peer, comm, c)
                           : tutti_recv(byte.data_ptr(), 1, TUTTI_U8, peer, comm, c);
        });
    };
    const auto elapsed = [&] {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
                   std::chrono::steady_clock::now() - begin)
            .count();
    };

    if (rank_ != 0) {
        one(true, 0);
        one(false, 0);
        for (auto &part : parts.list)
            part->wait();
        for (auto &part : parts.list)
            if (part->error())
                TORCH_CHECK(
                    false, "Rank ", rank_,
                    " successfully reached monitoredBarrier, but received errors while waiting for "
                    "send/recv from rank 0. Please check rank 0 logs for faulty rank.");
        return;
    }
    for (int r = 1; r < size_; r++)
        one(false, r);
    for (int r = 1; r < size_; r++) {
        parts.list[r - 1]->wait();
        if (!parts.list[r - 1]->error())
            continue;
        missing.push_back(r);
        if (!wait_all_ranks)
            break;
    }
    for (auto &part : parts.list)
        part->wait();
    if (!missing.empty())
        TORCH_CHECK(false, "[Rank 0]: ", missing.size() > 1 ? "Ranks " : "Rank ",
                    c10::Join(", ", missing), " failed to pass monitoredBarrier in ", elapsed(),
                    " ms");
    parts.list.clear();
    for (int r = 1; r < size_; r++)
        one(true, r);
    for (auto &part : parts.list) {
        part->wait();
        if (const auto error = part->error())
            std::rethrow_exception(error);
    }
}

} // namespace tutti_torch
