// The Python face of the backend: tutti.torch._c.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "backend.hpp"

namespace py = pybind11;

namespace tutti_torch
{

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.doc() = "The c10d backend \"tutti\", compiled for one minor version of PyTorch.";
    py::module_::import("torch._C._distributed_c10d");

    py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options>(m, "Options")
        .def(py::init([](std::chrono::milliseconds timeout) { return c10::make_intrusive<GroupOptions>(timeout); }),
             py::arg("timeout") = kBackendDefaultTimeout)
        .def_readwrite("algorithm", &GroupOptions::algorithm)
        .def_readwrite("lanes", &GroupOptions::lanes)
        .def_readwrite("wires", &GroupOptions::wires)
        .def_readwrite("interfaces", &GroupOptions::interfaces)
        .def_property(
            "quantization", [](const GroupOptions &o) { return tutti_quant_name(o.quantization); },
            [](GroupOptions &o, const std::string &name) {
                for (int q = 0; q < TUTTI_QUANT_COUNT; q++)
                    if (name == tutti_quant_name(static_cast<tutti_quant>(q))) {
                        o.quantization = static_cast<tutti_quant>(q);
                        return;
                    }
                throw py::value_error("unknown quantization \"" + name + "\"");
            });

    py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(m, "Backend")
        // Groups of some ranks are created by these alone: other ranks have nothing to do.
        .def(
            "perform_nocolor_split", [](const Backend &, const py::object &) {}, py::arg("device"));

    m.def(
        "create",
        [](const c10d::DistributedBackendOptions &how, const c10::intrusive_ptr<GroupOptions> &options) {
            return Backend::create(how, options ? c10::make_intrusive<GroupOptions>(*options)
                                                : c10::make_intrusive<GroupOptions>());
        },
        py::arg("how"), py::arg("options") = py::none(), py::call_guard<py::gil_scoped_release>());
}

} // namespace tutti_torch
