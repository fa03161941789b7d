// tutti.Communicator and tutti.Request.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>

#include "errors.hpp"
#include "handle.hpp"
#include "signals.hpp"

namespace tutti_core
{

// Seconds of Python as milliseconds of the C library: None is 0 (the default), infinity is -1
// (none).
int64_t timeout_ms(const std::optional<double> &seconds, const char *call);

class Communicator
{
  public:
    explicit Communicator(tutti_comm *comm) : handle_(std::make_shared<Handle>(comm))
    {
    }

    Communicator(const Communicator &) = delete;
    ~Communicator();

    // The handle, for a call that is named; InvalidError after destroy.
    const std::shared_ptr<Handle> &handle(const char *call) const;
    void destroy();
    bool is_destroyed() const
    {
        return !handle_;
    }

  private:
    void release();

    std::shared_ptr<Handle> handle_;
};

// Runs f(comm) without the GIL, and throws its error.
template <class F> void run_blocking(Handle &handle, F &&f)
{
    tutti_status st;

    handle.calls++;
    {
        nanobind::gil_scoped_release release;

        st = f(handle.comm);
    }
    handle.calls--;
    check(st);
}

// A call in progress.
struct InCall {
    explicit InCall(Handle &handle) : handle(handle)
    {
        handle.calls++;
    }
    ~InCall()
    {
        handle.calls--;
    }
    Handle &handle;
};

// Waits for the request without the GIL, but does not free it. In the main thread, an exception of
// a signal handler (KeyboardInterrupt) ends the wait and is thrown; the operation continues.
void wait_until_over(tutti_request *request);

// Calls f(comm, options), as wait_until_over. If a signal ends the call, the handle keeps the
// buffers in `pending` until the operation completes.
template <class F>
void run_interruptible(Handle &handle, std::unique_ptr<Pending> &pending, tutti_call &options,
                       F &&f)
{
    tutti_status st;

    if (!handles_signals()) {
        run_blocking(handle, [&](tutti_comm *comm) { return f(comm, &options); });
        return;
    }
    handle.reap();
    options.request = &pending->request;
    const InCall in_call(handle);
    {
        nanobind::gil_scoped_release release;

        st = f(handle.comm, &options);
        if (!st)
            st = tutti_test_for(pending->request, signal_slice_ms);
        if (pending->request && st != TUTTI_PENDING)
            st = tutti_wait(pending->request);
    }
    if (st != TUTTI_PENDING) {
        check(st);
        return;
    }
    try {
        wait_until_over(pending->request);
    } catch (...) {
        pending->buffers.hold();
        handle.adopt(std::move(pending));
        handle.pending++;
        throw;
    }
    check(tutti_wait(pending->request));
}

class Request
{
  public:
    explicit Request(const std::shared_ptr<Handle> &handle)
        : handle_(handle), pending_(std::make_unique<Pending>())
    {
    }
    Request(const Request &) = delete;
    ~Request();

    // Starts the operation by f(comm, &request) without the GIL, and throws its error.
    template <class F> void start(F &&f)
    {
        const std::shared_ptr<Handle> handle = handle_.lock();

        handle->reap();
        try {
            run_blocking(*handle, [&](tutti_comm *comm) { return f(comm, &pending_->request); });
        } catch (...) {
            pending_->request = nullptr;
            throw;
        }
        handle->pending++;
    }

    void wait();
    bool test();    // throws the operation's error
    bool is_done(); // does not
    Buffers &buffers()
    {
        return pending_->buffers;
    }

    static void wait_all(const std::vector<Request *> &requests);
    static size_t wait_any(const std::vector<Request *> &requests);

  private:
    void refuse_second(const char *call) const;
    void complete(tutti_status status);
    void raise() const;

    std::weak_ptr<Handle> handle_;
    std::unique_ptr<Pending> pending_; // NULL: completed
    bool waiting_ = false;             // a thread waits
    tutti_status status_ = TUTTI_PENDING;
    std::string message_;
};

void bind_communicator(nanobind::module_ &m);
void bind_collectives(nanobind::class_<Communicator> &c);
void bind_request(nanobind::module_ &m);
void bind_memory(nanobind::module_ &m, nanobind::class_<Communicator> &c);
void bind_window(nanobind::module_ &m, nanobind::class_<Communicator> &c);

// A Python object of memory that is exported; `keep` is alive as long as it is.
nanobind::object memory_of(std::shared_ptr<Region> region);

} // namespace tutti_core
