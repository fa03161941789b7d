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

// Runs them, and throws the exception of one, for example KeyboardInterrupt. Takes Python's lock:
// the caller holds no other.
void check_signals();

// what(), which blocks, in a thread of its own if signals shall end the wait for it. It continues
// then, so it must own what it uses.
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
