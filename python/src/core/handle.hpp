// A communicator of the C library, shared by the Python objects that need it alive: the
// Communicator, its memory and its windows. The last one destroys it. All of this under the GIL.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "array.hpp"
#include "tutti/tutti.h"

namespace tutti_core
{

// What a call uses until it completes.
struct Buffers {
    Array src, dst, feedback;
    std::vector<size_t> counts[2], displs[2];
    std::vector<std::unique_ptr<Array>> more; // of a group

    // The memory stays valid after the calling method has returned.
    void hold()
    {
        src.hold();
        dst.hold();
        feedback.hold();
    }
};

// A non-blocking operation that has not completed.
struct Pending {
    tutti_request *request = nullptr;
    Buffers buffers;
};

class Handle
{
  public:
    explicit Handle(tutti_comm *comm) : comm(comm)
    {
    }
    Handle(const Handle &) = delete;
    ~Handle();

    // Takes over an operation whose Request is gone, with its buffers, until it completes.
    void adopt(std::unique_ptr<Pending> pending);
    // Frees adopted operations that have completed.
    void reap();

    tutti_comm *const comm;
    int calls = 0;      // calls in progress, of all threads
    size_t pending = 0; // operations that have not completed
    // Interrupted calls that create communicators from this one: whether each is over.
    std::vector<std::shared_ptr<std::atomic<bool>>> creations;
    bool is_creating(); // such a call is in progress, so the communicator must stay

  private:
    std::vector<std::unique_ptr<Pending>> adopted_;
};

// Memory that the buffer protocol exports: of tutti_mem_alloc, or of a window.
struct Region {
    Region(std::shared_ptr<Handle> handle, void *data, size_t bytes, bool owned)
        : handle(std::move(handle)), data(data), bytes(bytes), owned(owned)
    {
    }
    Region(const Region &) = delete;
    ~Region();
    void set_freed()
    {
        freed = true;
        data = nullptr;
        bytes = 0;
    }

    std::shared_ptr<Handle> handle;
    void *data;
    size_t bytes; // 0 once freed
    bool owned;   // by tutti_mem_free
    bool freed = false;
    size_t exports = 0;
};

} // namespace tutti_core
