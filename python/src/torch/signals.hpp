// Waits that signals can end: Python runs its handlers in the main thread, between calls.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace tutti_torch
{

// How long a wait may keep a signal waiting.
constexpr std::chrono::milliseconds signal_slice{ 100 };

// Whether Python runs signal handlers in this thread.
bool handles_signals();

// Runs the pending signal handlers, and throws their exception, e.g. KeyboardInterrupt. Acquires
// the GIL: the caller must hold no other lock.
void check_signals();

// Runs the blocking what(), in another thread if signals can end the wait for it. what() then
// continues, so it must own the data that it uses.
template <class F> auto in_background(F what) -> decltype(what())
{
    if (!handles_signals())
        return what();
    auto task = std::make_shared<std::packaged_task<decltype(what())()>>(std::move(what));
    auto result = task->get_future();

    std::thread([task] { (*task)(); }).detach();
    while (result.wait_for(signal_slice) != std::future_status::ready)
        check_signals();
    return result.get();
}

} // namespace tutti_torch
