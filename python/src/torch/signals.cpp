#include "signals.hpp"

#include <pybind11/pybind11.h>

#include <sys/syscall.h>
#include <unistd.h>

namespace tutti_torch
{

bool handles_signals()
{
    static thread_local const bool is_main = getpid() == static_cast<pid_t>(syscall(SYS_gettid));

    return is_main;
}

void check_signals()
{
    pybind11::gil_scoped_acquire gil;

    if (PyErr_CheckSignals() != 0)
        throw pybind11::error_already_set();
}

} // namespace tutti_torch
