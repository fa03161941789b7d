// The Python face of the backend: tutti.torch._c.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "backend.hpp"

namespace py = pybind11;

namespace tutti_torch
{

namespace
{

tutti_quant quant_of(const std::string &name)
{
    std::string known;

    for (int q = 0; q < TUTTI_QUANT_COUNT; q++) {
        const char *one = tutti_quant_name(static_cast<tutti_quant>(q));

        if (name == one)
            return static_cast<tutti_quant>(q);
        known += (q ? ", " : "") + std::string(one);
    }
    throw py::value_error("tutti: unknown quantization \"" + name + "\" (known: " + known + ")");
}

void set_options(const std::string &call, int64_t elements, std::string algorithm,
                 const std::string &quantization, const std::optional<at::Tensor> &feedback,
                 std::optional<std::chrono::milliseconds> timeout)
{
    set_call_options(call.c_str(), elements,
                     std::make_unique<CallOptions>(CallOptions{
                         std::move(algorithm), quant_of(quantization),
                         feedback.value_or(at::Tensor()), timeout.value_or(c10d::kUnsetTimeout) }));
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.doc() = "The c10d backend \"tutti\", compiled for one minor version of PyTorch.";
    py::module_::import("torch._C._distributed_c10d");
    py::module_::import("atexit").attr("register")(py::cpp_function([] {
        py::gil_scoped_release unlocked;

        stop_completing();
    }));

    py::class_<GroupOptions, c10::intrusive_ptr<GroupOptions>, c10d::Backend::Options>(
        m, "Options",
        "Options of a process group: pg_options of init_process_group and new_group. wires,\n"
        "interfaces, lanes and tune_file are those of the job: its first group uses them.")
        .def(py::init([](std::chrono::milliseconds timeout) {
                 return c10::make_intrusive<GroupOptions>(timeout);
             }),
             py::arg("timeout") = kBackendDefaultTimeout)
        .def_readwrite("algorithm", &GroupOptions::algorithm,
                       "Name of the all-reduce algorithm, as in `tutti info --algos`; \"\":\n"
                       "selected. An unknown one is a ValueError of the call.")
        .def_readwrite("lanes", &GroupOptions::lanes,
                       "Number of connections per peer, 1 to 16; 0: TUTTI_LANES, else automatic.")
        .def_readwrite("wires", &GroupOptions::wires,
                       "Allowed transports, for example \"shm,tcp\"; \"\": TUTTI_WIRES, else all "
                       "usable.")
        .def_readwrite("interfaces", &GroupOptions::interfaces,
                       "Network interfaces: \"eth\" (prefix), \"=eth0\" (name) or \"^docker,lo\"\n"
                       "(all except these); \"\": TUTTI_INTERFACES, else selected.")
        .def_readwrite("tune_file", &GroupOptions::tune_files,
                       "Files of `tutti tune`, separated by commas, which rank 0 reads; \"\":\n"
                       "TUTTI_TUNE_FILE, else none.")
        .def_readwrite("error_feedback", &GroupOptions::error_feedback,
                       "Whether quantization errors are added to the next all-reduce of the same\n"
                       "memory. They take 4 bytes per element.")
        .def_property(
            "quantization", [](const GroupOptions &o) { return tutti_quant_name(o.quantization); },
            [](GroupOptions &o, const std::string &name) { o.quantization = quant_of(name); },
            "Encoding of all-reduces of floats with SUM and AVG; \"none\": not quantized. Raises\n"
            "ValueError for an unknown one.");

    py::class_<Backend, c10::intrusive_ptr<Backend>, c10d::Backend>(m, "Backend")
        // Groups of some ranks are created by these alone: other ranks have nothing to do.
        .def(
            "perform_nocolor_split", [](const Backend &, const py::object &) {}, py::arg("device"))
        .def("_cancel_coalescing", &Backend::cancel_coalescing);

    m.def("set_call_options", set_options, py::arg("call"), py::arg("elements"),
          py::arg("algorithm"), py::arg("quantization"), py::arg("error_feedback"),
          py::arg("timeout"));
    m.def("clear_call_options", [] { set_call_options("", 0, nullptr); });

    m.def("quantizations", [] {
        std::vector<std::string> names;

        for (int q = 0; q < TUTTI_QUANT_COUNT; q++)
            names.emplace_back(tutti_quant_name(static_cast<tutti_quant>(q)));
        return names;
    });

    m.def(
        "create",
        [](const c10d::DistributedBackendOptions &how,
           const c10::intrusive_ptr<GroupOptions> &options) {
            return Backend::create(how, options ? c10::make_intrusive<GroupOptions>(*options)
                                                : c10::make_intrusive<GroupOptions>());
        },
        py::arg("how"), py::arg("options") = py::none(), py::call_guard<py::gil_scoped_release>());
}

} // namespace tutti_torch
