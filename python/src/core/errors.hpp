// Errors of Tutti as Python exceptions (tutti/_errors.py).
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti_core
{

// Loads the exception classes. Called once, when the module is imported.
void errors_load();

// Throws the exception of `status` with this message.
[[noreturn]] void fail(tutti_status status, const std::string &message);

// Throws the exception of `status` with tutti_last_error() of the calling thread.
[[noreturn]] void fail_last(tutti_status status);

inline void check(tutti_status status)
{
    if (status)
        fail_last(status);
}

} // namespace tutti_core
