#include <nanobind/stl/optional.h>

#include "communicator.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti_core
{

// tutti.Memory: a Region as the buffer protocol exports it.
struct Memory {
    std::shared_ptr<Region> region;
};

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    Region &region = *nb::inst_ptr<Memory>(self)->region;

    if (region.freed) {
        PyErr_SetString(PyExc_BufferError, "the memory is freed");
        view->obj = nullptr;
        return -1;
    }
    if (PyBuffer_FillInfo(view, self, region.data, (Py_ssize_t)region.bytes, 0, flags))
        return -1;
    region.exports++;
    return 0;
}

static void release_buffer(PyObject *self, Py_buffer *)
{
    nb::inst_ptr<Memory>(self)->region->exports--;
}

static PyType_Slot memory_slots[] = {
    { Py_bf_getbuffer, (void *)get_buffer },
    { Py_bf_releasebuffer, (void *)release_buffer },
    { 0, nullptr },
};

nb::object memory_of(std::shared_ptr<Region> region)
{
    return nb::cast(Memory{ std::move(region) });
}

static Memory alloc(Communicator &self, size_t bytes)
{
    const std::shared_ptr<Handle> handle = self.handle("alloc");
    void *data;

    run_blocking(*handle, [&](tutti_comm *comm) { return tutti_mem_alloc(comm, bytes, &data); });
    return { std::make_shared<Region>(handle, data, bytes, true) };
}

static void free_memory(Memory &self)
{
    Region &region = *self.region;

    if (!region.owned)
        fail(TUTTI_ERR_INVALID, "free: the memory belongs to a window");
    if (region.freed)
        return;
    if (region.exports)
        throw nb::buffer_error(
            ("free: " + std::to_string(region.exports) + " arrays use the memory").c_str());
    check(tutti_mem_free(region.handle->comm, region.data));
    region.set_freed();
}

// tutti.Registration: memory of an array, registered until it is ended.
struct Registration {
    std::shared_ptr<Handle> handle;
    std::unique_ptr<Array> array;

    void end()
    {
        if (!array)
            return;
        check(tutti_mem_deregister(handle->comm, array->data));
        array.reset();
        handle.reset();
    }
    Registration(std::shared_ptr<Handle> handle, std::unique_ptr<Array> array)
        : handle(std::move(handle)), array(std::move(array))
    {
    }
    Registration(Registration &&) = default;
    ~Registration()
    {
        if (array && tutti_mem_deregister(handle->comm, array->data))
            (void)array.release(); // in use: the memory must stay
    }
};

static Registration register_array(Communicator &self, ArrayLike object)
{
    const std::shared_ptr<Handle> handle = self.handle("register");
    auto array = std::make_unique<Array>();

    array->take(object, "register", "array", false, true);
    run_blocking(*handle, [&](tutti_comm *comm) {
        return tutti_mem_register(comm, array->data, array->bytes);
    });
    return Registration(handle, std::move(array));
}

static const char memory_doc[] =
    R"(Memory that exports the buffer protocol, as writable bytes: numpy.frombuffer(memory, dtype), memoryview(memory).

It is freed when the object and all arrays on it are gone.)";

void bind_memory(nb::module_ &m, nb::class_<Communicator> &c)
{
    nb::class_<Memory>(m, "Memory", memory_doc, nb::type_slots(memory_slots))
        .def("free", free_memory,
             R"(Frees memory of Communicator.alloc now.

Raises: BufferError while an array uses it. InvalidError for memory of a window.)")
        .def("__len__", [](Memory &self) { return self.region->bytes; })
        .def_prop_ro(
            "nbytes", [](Memory &self) { return self.region->bytes; }, "Size in bytes.")
        .def_prop_ro(
            "address", [](Memory &self) { return (uintptr_t)self.region->data; },
            "Address; 0 once freed.");

    nb::class_<Registration>(
        m, "Registration", "Memory that is registered for frequent use; see Communicator.register.")
        .def("deregister", &Registration::end,
             "Ends the registration. Raises: InvalidError while an operation uses the memory.")
        .def(
            "__enter__", [](nb::handle self) { return nb::borrow(self); },
            nb::sig("def __enter__(self) -> Registration"))
        .def(
            "__exit__", [](Registration &self, nb::args) { self.end(); },
            nb::sig("def __exit__(self, *args: object) -> None"));

    c.def(
        "alloc", alloc, "nbytes"_a,
        R"(Allocates zeroed, page-aligned memory that other ranks of this host can map: transfers to it need one copy.

At most 256 allocations at a time for all communicators of one start-up. Raises: NoMemoryError beyond.)");
    c.def(
        "register", register_array, "array"_a,
        R"(Registers the memory of an array for frequent use by RDMA devices, until the result is ended or gone.

It keeps the array. Other transports gain nothing from it.)");
}

} // namespace tutti_core
