#include "handle.hpp"

namespace nb = nanobind;

namespace tutti_core
{

Handle::~Handle()
{
    nb::gil_scoped_release release;

    tutti_comm_destroy(comm); // aborts what is pending: the waits return at once
    for (auto &p : adopted_)
        tutti_wait(p->request);
    nb::gil_scoped_acquire acquire;
    adopted_.clear();
}

void Handle::adopt(std::unique_ptr<Pending> pending)
{
    adopted_.push_back(std::move(pending));
}

void Handle::reap()
{
    std::erase_if(adopted_, [this](std::unique_ptr<Pending> &p) {
        if (tutti_test(p->request) == TUTTI_PENDING)
            return false;
        tutti_wait(p->request);
        pending--;
        return true;
    });
}

bool Handle::is_creating()
{
    std::erase_if(creations, [](const auto &is_over) { return is_over->load(); });
    return !creations.empty();
}

Region::~Region()
{
    if (owned && !freed)
        tutti_mem_free(handle->comm, data);
}

} // namespace tutti_core
