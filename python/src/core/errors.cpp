#include "errors.hpp"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace tutti_core
{

static PyObject *classes; // tuple of TUTTI_STATUS_COUNT classes; kept until the process ends

void errors_load()
{
    nb::object tuple = nb::module_::import_("tutti._errors").attr("BY_STATUS");

    if (!PyTuple_Check(tuple.ptr()) || PyTuple_GET_SIZE(tuple.ptr()) != TUTTI_STATUS_COUNT)
        throw std::runtime_error(
            "tutti._errors does not fit this build of tutti._core (install both together)");
    classes = tuple.release().ptr();
}

void fail(tutti_status status, const std::string &message)
{
    PyErr_SetString(
        PyTuple_GET_ITEM(classes, status < TUTTI_STATUS_COUNT ? status : TUTTI_ERR_SYSTEM),
        message.c_str());
    throw nb::python_error();
}

void fail_last(tutti_status status)
{
    fail(status, tutti_last_error());
}

} // namespace tutti_core
