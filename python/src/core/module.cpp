#include <nanobind/nanobind.h>

#include "communicator.hpp"

namespace nb = nanobind;

namespace tutti_core
{
void bind_parts(nb::module_ &m);
void bind_trace(nb::module_ &m);
} // namespace tutti_core

NB_MODULE(_core, m)
{
    nb::set_leak_warnings(false); // objects of modules that end after this one are no leaks
    m.doc() = "The C API of Tutti for Python; use it through the package tutti.";
    tutti_core::errors_load();
    tutti_core::bind_request(m);
    tutti_core::bind_parts(m);
    tutti_core::bind_communicator(m);
    tutti_core::bind_trace(m);
    m.def(
        "version", [] { return nb::str(tutti_version()); },
        "The version of libtutti, e.g. \"0.1.0\".");
}
