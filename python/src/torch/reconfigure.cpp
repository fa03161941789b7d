// reconfigure of PyTorch 2.15: a group continues with other members, in the same processes and in
// new ones.
#include "backend.hpp"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <numeric>
#include <algorithm>
#include <cstring>

namespace tutti_torch
{

namespace
{

[[noreturn]] void invalid(const std::string &message)
{
    C10_THROW_ERROR(ValueError, "tutti: reconfigure: " + message);
}

// The handles by rank: in the order of a list, sorted if they are a set.
std::vector<std::string> ordered(const c10d::ReconfigureOptions &how)
{
    std::vector<std::string> handles;

    std::visit([&](const auto &given) { handles.assign(given.begin(), given.end()); }, how.handles);
    if (handles.empty())
        invalid("no handles (pass one of each member)");
    std::vector<std::string> sorted = handles;

    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        invalid("a handle occurs twice: each member must be listed once");
    return std::holds_alternative<std::vector<std::string>>(how.handles) ? handles : sorted;
}

// FNV-1a, 64 bits, of what all members must pass alike.
uint64_t hash_of(int64_t uuid, const std::vector<std::string> &handles)
{
    uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&hash](const void *data, size_t bytes) {
        for (size_t i = 0; i < bytes; i++)
            hash = (hash ^ static_cast<const uint8_t *>(data)[i]) * 0x100000001b3;
    };

    add(&uuid, sizeof uuid);
    for (const auto &h : handles)
        add(h.data(), h.size());
    return hash;
}

void check_agreement(tutti_comm *comm, uint64_t mine, int size)
{
    std::vector<uint64_t> all(size);

    check(tutti_allgather(&mine, all.data(), 1, TUTTI_U64, comm, nullptr), "reconfigure");
    for (int r = 0; r < size; r++)
        if (all[r] != mine)
            invalid(
                c10::str("rank ", r,
                         " passed another uuid or other handles (all members must pass the same)"));
}

// The hints that this backend reads are options of a start-up.
void apply_hints(GroupOptions &options, const std::unordered_map<std::string, std::string> &hints)
{
    for (const auto &[name, value] : hints) {
        if (name == "wires")
            options.wires = value;
        else if (name == "interfaces")
            options.interfaces = value;
        else if (name == "tune_file")
            options.tune_files = value;
        else if (name == "lanes")
            try {
                options.lanes = std::stoi(value);
            } catch (const std::exception &) {
                invalid("hint lanes: \"" + value + "\" is not a number");
            }
        else
            TORCH_WARN("tutti: reconfigure: hint \"", name,
                       "\" is ignored (known: wires, interfaces, lanes, tune_file)");
    }
}

} // namespace

c10d::ReconfigureHandle Backend::get_reconfigure_handle() const
{
    return membership_.handle(options_->conf());
}

// Operations that have not completed are aborted. A failure has no effect, except that the handle
// of the new rank 0 cannot be used again.
c10::intrusive_ptr<c10d::Work> Backend::reconfigure(const c10d::ReconfigureOptions &how)
{
    const auto handles = ordered(how);
    const auto own = membership_.handle();
    auto options = c10::make_intrusive<GroupOptions>(*options_);
    std::vector<tutti_id> ids;

    for (const auto &h : handles)
        ids.push_back(Membership::parse(h));
    const auto at = own ? std::find(handles.begin(), handles.end(), *own) : handles.end();

    if (at == handles.end())
        invalid("the handle of this process is not among the members (exchange the handles of "
                "get_reconfigure_handle before each call)");
    apply_hints(*options, how.hints);
    if (how.timeout)
        options->timeout = *how.timeout;
    if (!membership_.use_uuid(how.uuid))
        invalid(c10::str("uuid ", how.uuid, " was used before: each call needs a new one"));
    join(ids[0], static_cast<int>(at - handles.begin()), static_cast<int>(handles.size()), *options,
         hash_of(how.uuid, handles));

    auto done = std::make_shared<Operation>(link_, observers_, c10d::OpType::UNKNOWN, sequence_,
                                            options->timeout);

    done->end(nullptr);
    return c10::make_intrusive<Work>(std::move(done), rank_, nullptr, std::vector<at::Tensor>{},
                                     false);
}

// Forms the communicator of the new members, and replaces that of the old ones.
void Backend::join(const tutti_id &id, int rank, int size, const GroupOptions &options,
                   uint64_t hash)
{
    const tutti_conf conf = options.conf();
    tutti_comm *comm = nullptr;

    if (rank == 0)
        membership_.use_handle();
    check(tutti_comm_create_id(&comm, &id, size, rank, &conf), "reconfigure");
    auto link = std::make_shared<Link>(comm);

    check_agreement(comm, hash, size);
    check(tutti_comm_dup(link->comm, &comm), "reconfigure");
    auto control = std::make_shared<Link>(comm);

    leave();
    link_ = std::move(link);
    control_ = std::move(control);
    rank_ = rank;
    size_ = size;
    members_.resize(size);
    std::iota(members_.begin(), members_.end(), 0);
    sequence_ = 0;
    observers_->error = c10d::ErrorType::SUCCESS;
    if (is_first_)
        set_job_control(control_);
}

// Operations in progress would wait for members that are gone.
void Backend::leave()
{
    cancel_coalescing();
    if (link_ && link_->open > 0)
        tutti_comm_abort(link_->comm);
    std::lock_guard lock(windows_lock_);

    windows_.clear();
}

} // namespace tutti_torch

#endif
