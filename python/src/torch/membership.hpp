// The handles and generations of a process group whose members change (reconfigure of PyTorch
// 2.15).
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch
{

// A handle is the rendezvous id of a process, as text. Rank 0 of a new communicator serves its
// start-up under its own id. The members therefore need no store, and no particular member must
// survive. Any thread.
class Membership
{
  public:
    ~Membership()
    {
        withdraw();
    }

    // This process's handle. The same one until the process has been rank 0 of a reconfiguration.
    // `conf` selects the interfaces of the rendezvous.
    std::string handle(const tutti_conf &conf);
    // This process's handle, if it was queried.
    std::optional<std::string> handle() const;
    // The id of a handle. Throws ValueError for other text.
    static tutti_id parse(const std::string &handle);
    // Uses up the handle and ends its validity, whether or not the reconfiguration succeeds.
    void use_handle();
    // False: the uuid was used before.
    bool use_uuid(int64_t uuid);
    // Ends the rendezvous of a handle that was not used.
    void withdraw() noexcept;

  private:
    mutable std::mutex lock_;
    std::optional<tutti_id> offer_;
    std::set<int64_t> uuids_;
};

} // namespace tutti_torch
