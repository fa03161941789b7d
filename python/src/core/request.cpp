#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "communicator.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

Request::~Request()
{
    const std::shared_ptr<Handle> handle = handle_.lock();

    if (!pending_ || !pending_->request)
        return;
    if (handle)
        handle->adopt(std::move(pending_));
    else
        tutti_wait(pending_->request); // the communicator is destroyed: returns at once
}

void Request::refuse_second(const char *call) const
{
    if (waiting_)
        fail(TUTTI_ERR_INVALID, std::string(call) + ": another thread waits for this request");
}

void Request::complete(tutti_status status)
{
    const std::shared_ptr<Handle> handle = handle_.lock();

    status_ = status;
    if (status)
        message_ = tutti_last_error();
    pending_.reset();
    if (handle)
        handle->pending--;
}

void Request::raise() const
{
    if (status_)
        fail(status_, message_);
}

void wait_until_over(tutti_request *request)
{
    const int64_t limit_ms = handles_signals() ? signal_slice_ms : -1;

    for (;;) {
        {
            nb::gil_scoped_release release;

            if (tutti_test_for(request, limit_ms) != TUTTI_PENDING)
                return;
        }
        check_signals();
    }
}

void Request::wait()
{
    refuse_second("wait");
    if (pending_) {
        waiting_ = true;
        try {
            wait_until_over(pending_->request);
        } catch (...) {
            waiting_ = false;
            throw;
        }
        waiting_ = false;
        complete(tutti_wait(pending_->request));
    }
    raise();
}

bool Request::is_done()
{
    refuse_second("test");
    if (pending_) {
        if (tutti_test(pending_->request) == TUTTI_PENDING)
            return false;
        complete(tutti_wait(pending_->request));
    }
    return true;
}

bool Request::test()
{
    if (!is_done())
        return false;
    raise();
    return true;
}

void Request::wait_all(const std::vector<Request *> &requests)
{
    const Request *failed = nullptr;

    for (Request *r : requests) {
        try {
            r->wait();
        } catch (nb::python_error &) {
            if (r->status_ == TUTTI_PENDING) // not waited for, or interrupted
                throw;
            failed = failed ? failed : r;
        }
    }
    if (failed)
        failed->raise();
}

// Waits for one of the requests, as tutti_wait_any. In the main thread, a signal can end the wait.
static tutti_status wait_for_any(std::vector<tutti_request *> &requests, size_t &index)
{
    const bool interruptible = handles_signals();

    for (;;) {
        bool any = !interruptible;

        {
            nb::gil_scoped_release release;

            for (size_t i = 0; i < requests.size() && !any; i++)
                any = tutti_test(requests[i]) != TUTTI_PENDING;
            if (any)
                return tutti_wait_any(requests.data(), requests.size(), &index);
            // returns when data arrives for any of them, or soon
            tutti_test_for(requests[0], 1);
        }
        check_signals();
    }
}

size_t Request::wait_any(const std::vector<Request *> &requests)
{
    std::vector<tutti_request *> handles;
    size_t index = 0;
    tutti_status st;

    for (size_t i = 0; i < requests.size(); i++) {
        requests[i]->refuse_second("wait_any");
        if (!requests[i]->pending_) {
            requests[i]->raise();
            return i;
        }
        handles.push_back(requests[i]->pending_->request);
    }
    if (handles.empty())
        fail(TUTTI_ERR_INVALID, "wait_any: the list of requests is empty");
    std::vector<tutti_request *> sorted = handles;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
        fail(TUTTI_ERR_INVALID, "wait_any: a request is twice in the list");
    for (Request *r : requests)
        r->waiting_ = true;
    try {
        st = wait_for_any(handles, index);
    } catch (...) {
        for (Request *r : requests)
            r->waiting_ = false;
        throw;
    }
    for (Request *r : requests)
        r->waiting_ = false;
    if (!handles[index]) {
        requests[index]->complete(st);
        requests[index]->raise();
    } else {
        check(st);
    }
    return index;
}

static const char request_doc[] =
    R"(A non-blocking operation, returned by the methods of Communicator that begin with "i".

It keeps the arrays of the operation alive until the operation completes. They must not be read (destinations) or
changed (sources and destinations) before. A request that is dropped completes in the background.)";

void bind_request(nb::module_ &m)
{
    nb::class_<Request>(m, "Request", request_doc)
        .def(
            "wait", &Request::wait,
            R"(Blocks until the operation completes. Other Python threads run meanwhile. May be called again.

In the main thread, Ctrl-C ends the wait with KeyboardInterrupt; the operation continues.

Raises: the error of the operation.)")
        .def("test", &Request::test,
             R"(Makes progress. Returns whether the operation has completed, without blocking.

Raises: the error of the operation, if it has failed.)")
        .def_prop_ro("done", &Request::is_done,
                     "Whether the operation has completed, with any status. Makes progress, does "
                     "not block or raise.")
        .def("__repr__", [](Request &r) {
            return nb::str("<tutti.Request, {}>").format(r.is_done() ? "completed" : "pending");
        });

    m.def("wait_all", &Request::wait_all, "requests"_a,
          R"(Blocks until all requests have completed.

Raises: the error of the first one in the list that failed, after all have completed.)");
    m.def("wait_any", &Request::wait_any, "requests"_a,
          R"(Blocks until one of the requests has completed and returns its index.

A completed request counts at once: remove it from the list before the next call. In the main thread, Ctrl-C ends the
wait with KeyboardInterrupt; the operations continue. Raises: its error.)");
}

} // namespace tutti_core
