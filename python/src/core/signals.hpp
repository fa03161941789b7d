// Waits that signals can end: Python runs its handlers in the main thread, between calls.
#pragma once

#include <nanobind/nanobind.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tutti/tutti.h"

namespace tutti_core
{

// How long a wait may delay a signal.
constexpr int64_t signal_slice_ms = 100;

// Whether Python runs signal handlers in this thread.
inline bool handles_signals()
{
    static thread_local const bool is_main = getpid() == (pid_t)syscall(SYS_gettid);

    return is_main;
}

// Runs them, and throws the exception of one, for example KeyboardInterrupt. Needs the GIL.
inline void check_signals()
{
    if (PyErr_CheckSignals())
        throw nanobind::python_error();
}

// A status with its message, from another thread.
struct Outcome {
    tutti_status status = TUTTI_OK;
    std::string message;
};

// Runs create(&comm), which blocks, in a thread of its own, and returns its outcome. A signal can
// end the wait for it: then the thread continues, and destroys the communicator. `create` must own
// what it uses. Needs the GIL, which other threads get meanwhile.
template <class F> Outcome create_in_background(tutti_comm **comm, F create)
{
    struct Task {
        F create;
        std::mutex lock;
        std::condition_variable ended;
        bool is_over = false, is_abandoned = false;
        tutti_comm *comm = nullptr;
        Outcome outcome;

        void run()
        {
            tutti_comm *made = nullptr;
            const tutti_status status = create(&made);
            std::unique_lock held(lock);

            outcome.status = status;
            if (status)
                outcome.message = tutti_last_error();
            comm = made;
            is_over = true;
            ended.notify_all();
            if (is_abandoned && !status) {
                held.unlock();
                tutti_comm_destroy(made);
            }
        }
        bool is_over_soon()
        {
            nanobind::gil_scoped_release release;
            std::unique_lock held(lock);

            return ended.wait_for(held, std::chrono::milliseconds(signal_slice_ms),
                                  [this] { return is_over; });
        }
        // The thread ends without a caller.
        void abandon()
        {
            std::lock_guard held(lock);

            is_abandoned = true;
            if (is_over && !outcome.status)
                tutti_comm_destroy(comm);
        }
    };
    auto task = std::make_shared<Task>(std::move(create));

    std::thread([task] { task->run(); }).detach();
    while (!task->is_over_soon()) {
        try {
            check_signals();
        } catch (...) {
            task->abandon();
            throw;
        }
    }
    if (!task->outcome.status)
        *comm = task->comm;
    return task->outcome;
}

} // namespace tutti_core
