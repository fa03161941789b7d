#include "array.hpp"

#include <cstring>
#include <string>
#include <unordered_map>

#include "dlpack.hpp"
#include "errors.hpp"

namespace nb = nanobind;

namespace tutti_core
{

struct Array::Layout {
    void *data = nullptr;
    int ndim = 0;
    const int64_t *shape = nullptr;
    const int64_t *strides = nullptr; // NULL: contiguous
    size_t stride_unit = 1;           // bytes of 1 in strides
    size_t item_bytes = 1;
    bool read_only = false;
    tutti_dtype type = TUTTI_U8;
    Kind kind = Kind::opaque;
};

// Thrown where an object is an array that cannot be used; take adds the call and the argument.
struct Unusable {
    std::string why;
};

// ---- types ----

static void set_int(tutti_dtype &type, Kind &kind, bool is_signed, size_t bytes)
{
    static constexpr tutti_dtype types[2][4] = {
        { TUTTI_U8, TUTTI_U16, TUTTI_U32, TUTTI_U64 },
        { TUTTI_I8, TUTTI_I16, TUTTI_I32, TUTTI_I64 },
    };
    const int log2 = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : -1;

    if (log2 < 0)
        return;
    type = types[is_signed][log2];
    kind = Kind::number;
}

static void set_float(tutti_dtype &type, Kind &kind, size_t bytes)
{
    if (bytes != 2 && bytes != 4 && bytes != 8)
        return;
    type = bytes == 2 ? TUTTI_F16 : bytes == 4 ? TUTTI_F32 : TUTTI_F64;
    kind = Kind::number;
}

static void set_complex(tutti_dtype &type, Kind &kind, size_t bytes)
{
    if (bytes != 8 && bytes != 16)
        return;
    type = bytes == 8 ? TUTTI_F32 : TUTTI_F64;
    kind = Kind::complex;
}

// References to Python objects and pointers mean nothing to another process. Names of fields stand
// between colons.
static void refuse_pointers(const char *format)
{
    bool in_name = false;

    for (const char *f = format; f && *f; f++) {
        in_name ^= *f == ':';
        if (!in_name && strchr("O&PX", *f))
            throw Unusable{ "has pointers (format \"" + std::string(format) +
                            "\"), which are valid in one process only" };
    }
}

// By a format of the struct module. Others than numbers in this machine's byte order stay opaque.
static void set_format(tutti_dtype &type, Kind &kind, const char *format, size_t bytes)
{
    const char *f = format ? format : "B";

    if (*f == '@' || *f == '=' || *f == '<')
        f++;
    if (f[0] == 'Z' && f[1] && !f[2]) {
        if (f[1] == 'f' || f[1] == 'd')
            set_complex(type, kind, bytes);
        return;
    }
    if (!f[0] || f[1])
        return;
    switch (*f) {
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
        set_int(type, kind, true, bytes);
        break;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
    case 'c':
        set_int(type, kind, false, bytes);
        break;
    case 'e':
    case 'f':
    case 'd':
        set_float(type, kind, bytes);
        break;
    case 'F':
    case 'D':
        set_complex(type, kind, bytes);
        break;
    case '?':
        type = TUTTI_U8;
        kind = Kind::boolean;
        break;
    default:
        break;
    }
}

static void set_dlpack(tutti_dtype &type, Kind &kind, const dlpack::Tensor &t)
{
    const size_t bytes = t.bits / 8u;

    if (t.bits % 8 || t.lanes != 1)
        throw Unusable{ "has items of " + std::to_string(t.bits) + " bits x " +
                        std::to_string(t.lanes) + ", which are not whole bytes" };
    switch (t.code) {
    case dlpack::OPAQUE:
        throw Unusable{ "has opaque handles, which are valid in one process only" };
    case dlpack::INT:
        set_int(type, kind, true, bytes);
        break;
    case dlpack::UINT:
        set_int(type, kind, false, bytes);
        break;
    case dlpack::FLOAT:
        set_float(type, kind, bytes);
        break;
    case dlpack::COMPLEX:
        set_complex(type, kind, bytes);
        break;
    case dlpack::BOOL:
        type = TUTTI_U8;
        kind = bytes == 1 ? Kind::boolean : Kind::opaque;
        break;
    case dlpack::BFLOAT:
        type = TUTTI_BF16;
        kind = bytes == 2 ? Kind::number : Kind::opaque;
        break;
    case dlpack::F8_E4M3FN:
    case dlpack::F8_E5M2:
        type = t.code == dlpack::F8_E5M2 ? TUTTI_F8E5M2 : TUTTI_F8E4M3;
        kind = bytes == 1 ? Kind::number : Kind::opaque;
        break;
    default:
        break;
    }
}

// ---- four ways to memory ----

// The buffer protocol. False: the object does not offer it, or not for its type.
bool Array::take_buffer(nb::handle object, Layout &layout)
{
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));

    if (!PyObject_CheckBuffer(object.ptr()))
        return false;
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO)) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            throw nb::python_error();
        PyErr_Clear();
        return false;
    }
    layout.data = view_.buf;
    layout.ndim = view_.ndim;
    layout.shape = (const int64_t *)view_.shape;
    layout.strides = (const int64_t *)view_.strides;
    layout.item_bytes = (size_t)view_.itemsize;
    layout.read_only = view_.readonly;
    refuse_pointers(view_.format);
    set_format(layout.type, layout.kind, view_.format, layout.item_bytes);
    return true;
}

static void lay_out_tensor(const dlpack::Tensor &t, void *&data, int &ndim, size_t &item_bytes)
{
    if (t.device_type != dlpack::CPU && t.device_type != dlpack::CUDA_HOST &&
        t.device_type != dlpack::ROCM_HOST)
        throw Unusable{ "is on a device (DLPack device type " + std::to_string(t.device_type) +
                        "), but must be in host memory" };
    data = (char *)t.data + t.byte_offset;
    ndim = t.ndim;
    item_bytes = t.bits / 8u;
}

// The exchange API of an object's type, or NULL. Types are kept: there are few, and their addresses
// must stay theirs.
static const dlpack::ExchangeApi *exchange_api(PyTypeObject *type)
{
    static std::unordered_map<PyTypeObject *, const dlpack::ExchangeApi *> known;
    const auto found = known.find(type);

    if (found != known.end())
        return found->second;

    const dlpack::ExchangeApi *api = nullptr;
    nb::object capsule =
        nb::steal(PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__"));

    if (capsule.is_valid())
        api =
            (const dlpack::ExchangeApi *)PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api");
    PyErr_Clear();
    while (api && api->version.major > 1)
        api = api->previous;
    if (api && (api->version.major != 1 || !api->managed_of_object))
        api = nullptr;
    Py_INCREF(type);
    known[type] = api;
    return api;
}

// The first line of the error that a producer has set, which is cleared.
[[noreturn]] static void throw_unusable(nb::python_error &e)
{
    const std::string message = nb::str(e.value()).c_str();

    if (!e.matches(PyExc_Exception))
        throw e;
    throw Unusable{ "cannot be exported by DLPack: " + message.substr(0, message.find('\n')) };
}

// The exchange API of the object's type, which calls no Python. False: the type has none.
bool Array::take_exchange(nb::handle object, Layout &layout, bool hold)
{
    const dlpack::ExchangeApi *api = exchange_api(Py_TYPE(object.ptr()));
    dlpack::ManagedVersioned *managed;
    dlpack::Tensor lent;
    const dlpack::Tensor *t = &lent;

    if (!api)
        return false;
    if (!hold && api->tensor_of_object) {
        if (api->tensor_of_object(object.ptr(), &lent)) {
            nb::python_error e;
            throw_unusable(e);
        }
        object_ = object.inc_ref().ptr();
        is_lent_ = true;
    } else {
        if (api->managed_of_object(object.ptr(), &managed)) {
            nb::python_error e;
            throw_unusable(e);
        }
        versioned_ = managed;
        t = &managed->tensor;
        layout.read_only = managed->flags & dlpack::READ_ONLY;
    }
    if (t->code == dlpack::COMPLEX) { // only __dlpack__ refuses lazily conjugated tensors
        release();
        return false;
    }
    lay_out_tensor(*t, layout.data, layout.ndim, layout.item_bytes);
    layout.shape = t->shape;
    layout.strides = t->strides;
    layout.stride_unit = layout.item_bytes;
    set_dlpack(layout.type, layout.kind, *t);
    return true;
}

static nb::object dlpack_capsule(nb::handle object)
{
    static PyObject *const versions = Py_BuildValue("(ii)", 1, 1);
    nb::object method = nb::steal(PyObject_GetAttrString(object.ptr(), "__dlpack__"));

    if (!method.is_valid()) {
        PyErr_Clear();
        return nb::object();
    }
    try {
        return method(nb::arg("max_version") = nb::handle(versions));
    } catch (nb::python_error &e) {
        if (!e.matches(PyExc_TypeError)) // TypeError: older than DLPack 1.0
            throw;
    }
    return method();
}

// __dlpack__. False: the object has none, or cannot describe its type.
bool Array::take_dlpack(nb::handle object, Layout &layout)
{
    const dlpack::Tensor *t;
    nb::object capsule;

    try {
        capsule = dlpack_capsule(object);
    } catch (nb::python_error &e) {
        if (e.matches(PyExc_Exception) && nb::hasattr(object, "__array_interface__"))
            return false;
        throw_unusable(e);
    }
    if (!capsule.is_valid())
        return false;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        auto *managed =
            (dlpack::ManagedVersioned *)PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned");
        PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
        versioned_ = managed;
        if (managed->version.major != 1)
            throw Unusable{ "has DLPack version " + std::to_string(managed->version.major) +
                            ", but 1 is supported" };
        layout.read_only = managed->flags & dlpack::READ_ONLY;
        t = &managed->tensor;
    } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
        auto *managed = (dlpack::Managed *)PyCapsule_GetPointer(capsule.ptr(), "dltensor");
        PyCapsule_SetName(capsule.ptr(), "used_dltensor");
        managed_ = managed;
        t = &managed->tensor;
    } else {
        return false;
    }
    lay_out_tensor(*t, layout.data, layout.ndim, layout.item_bytes);
    layout.shape = t->shape;
    layout.strides = t->strides;
    layout.stride_unit = layout.item_bytes;
    set_dlpack(layout.type, layout.kind, *t);
    return true;
}

// NumPy arrays whose types neither the buffer protocol nor DLPack of NumPy has: ml_dtypes. Only
// contiguous ones have strides of None here.
bool Array::take_interface(nb::handle object, Layout &layout)
{
    if (!nb::hasattr(object, "__array_interface__"))
        return false;

    const nb::dict interface = nb::cast<nb::dict>(object.attr("__array_interface__"));
    const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
    const std::string name = nb::str(object.attr("dtype").attr("name")).c_str();

    if (!interface["strides"].is_none())
        throw Unusable{ "is not C-contiguous (copy it with numpy.ascontiguousarray)" };
    layout.data = (void *)nb::cast<uintptr_t>(data[0]);
    layout.read_only = nb::cast<bool>(data[1]);
    layout.item_bytes = nb::cast<size_t>(object.attr("dtype").attr("itemsize"));
    layout.ndim = 1;
    rows = nb::cast<size_t>(object.attr("size"));
    layout.shape = (const int64_t *)&rows;
    for (const auto &[known, type] :
         { std::pair("bfloat16", TUTTI_BF16), std::pair("float8_e4m3fn", TUTTI_F8E4M3),
           std::pair("float8_e5m2", TUTTI_F8E5M2) })
        if (name == known) {
            layout.type = type;
            layout.kind = Kind::number;
        }
    object_ = object.inc_ref().ptr();
    return true;
}

// ---- what is common ----

static bool is_contiguous(const int64_t *shape, const int64_t *strides, int ndim, int64_t innermost)
{
    int64_t expected = innermost;

    if (!strides)
        return true;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0)
            return true;
    for (int i = ndim - 1; i >= 0; i--) {
        if (shape[i] != 1 && strides[i] != expected)
            return false;
        expected *= shape[i];
    }
    return true;
}

static std::string dims_text(const int64_t *dims, int ndim)
{
    std::string text = "(";

    for (int i = 0; i < ndim; i++)
        text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + (ndim == 1 ? ",)" : ")");
}

void Array::find(nb::handle object, Layout &layout, const char *call, const char *name, bool hold)
{
    const std::string where = std::string(call) + ": " + name + " ";

    release();
    try {
        if (take_buffer(object, layout) || take_exchange(object, layout, hold) ||
            take_dlpack(object, layout) || take_interface(object, layout))
            return;
    } catch (Unusable &e) {
        release();
        throw nb::type_error((where + e.why).c_str());
    }
    throw nb::type_error(
        (where +
         "must be an array in host memory (an object with the buffer protocol or DLPack), not " +
         Py_TYPE(object.ptr())->tp_name)
            .c_str());
}

void Array::accept(const Layout &layout)
{
    size_t n = 1;

    for (int i = 0; i < layout.ndim; i++)
        n *= (size_t)layout.shape[i];
    data = layout.data;
    type = layout.type;
    kind = layout.kind;
    units = kind == Kind::complex ? 2 : kind == Kind::opaque ? layout.item_bytes : 1;
    count = n * units;
    bytes = n * layout.item_bytes;
}

void Array::take(ArrayLike object, const char *call, const char *name, bool writable, bool hold)
{
    Layout layout;

    find(object.object, layout, call, name, hold);
    if (!is_contiguous(layout.shape, layout.strides, layout.ndim,
                       (int64_t)(layout.item_bytes / layout.stride_unit))) {
        const std::string shape = dims_text(layout.shape, layout.ndim),
                          strides = dims_text(layout.strides, layout.ndim);

        release();
        fail(TUTTI_ERR_INVALID, std::string(call) + ": " + name + " is not C-contiguous: shape " +
                                    shape + ", strides " + strides +
                                    " (copy it with numpy.ascontiguousarray or .contiguous())");
    }
    if (writable && layout.read_only) {
        release();
        fail(TUTTI_ERR_INVALID,
             std::string(call) + ": " + name + " is read-only, but the call writes to it");
    }
    accept(layout);
}

void Array::take_rows(ArrayLike object, const char *call, const char *name, bool hold)
{
    Layout layout;
    int64_t row;

    find(object.object, layout, call, name, hold);
    row = layout.ndim == 2 ? layout.shape[1] * (int64_t)layout.item_bytes : 0;
    if (layout.ndim != 2 ||
        !is_contiguous(layout.shape + 1, layout.strides ? layout.strides + 1 : nullptr, 1,
                       (int64_t)(layout.item_bytes / layout.stride_unit)) ||
        (layout.strides && layout.shape[0] > 1 &&
         layout.strides[0] * (int64_t)layout.stride_unit < row)) {
        release();
        fail(TUTTI_ERR_INVALID,
             std::string(call) + ": " + name +
                 " must have two dimensions, contiguous rows and rows that do not overlap");
    }
    accept(layout);
    rows = (size_t)layout.shape[0];
    row_bytes = (size_t)row;
    row_stride =
        layout.strides && rows > 1 ? (size_t)layout.strides[0] * layout.stride_unit : row_bytes;
}

void Array::hold()
{
    dlpack::ManagedVersioned *managed;

    if (!is_lent_)
        return;
    is_lent_ = false;
    if (exchange_api(Py_TYPE(object_))->managed_of_object(object_, &managed))
        PyErr_Clear(); // out of memory: the object keeps its memory unless it is resized
    else
        versioned_ = managed;
}

void Array::release()
{
    if (view_.obj)
        PyBuffer_Release(&view_);
    if (auto *managed = (dlpack::ManagedVersioned *)versioned_; managed && managed->deleter)
        managed->deleter(managed);
    if (auto *managed = (dlpack::Managed *)managed_; managed && managed->deleter)
        managed->deleter(managed);
    versioned_ = managed_ = nullptr;
    is_lent_ = false;
    Py_CLEAR(object_);
}

} // namespace tutti_core
