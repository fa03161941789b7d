// Memory of Python objects, without a copy: the buffer protocol, DLPack, and NumPy arrays of
// ml_dtypes.
#pragma once

#include <nanobind/nanobind.h>

#include "tutti/tutti.h"

namespace tutti_core
{

// An argument that must be an array; what it is made of is found by Array::take.
struct ArrayLike {
    nanobind::handle object;
};

// A str or None, which is NULL; valid during the call.
struct OptionalText {
    const char *text;
    operator const char *() const
    {
        return text;
    }
};

enum class Kind : uint8_t {
    number,
    boolean,
    complex, // pairs of floats
    opaque,  // a type that Tutti only moves, as bytes
};

// The memory of one Python object. It keeps the object, and the export of its memory, until it is
// released, which needs the GIL. Not copied and not moved, because a Py_buffer may point into
// itself.
class Array
{
  public:
    Array() = default;
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array()
    {
        release();
    }

    // Takes the memory of `object`, which must be C-contiguous and, if `writable`, not read-only.
    // `call` and `name` (of the argument) are for messages. With `hold` the memory stays valid
    // after the calling method has returned. Throws TypeError (not an array, not in host memory)
    // and InvalidError.
    void take(ArrayLike object, const char *call, const char *name, bool writable, bool hold);
    // What take() without `hold` has omitted.
    void hold();
    void release();

    // As take(), for a 2-D array whose rows are contiguous but may be apart.
    void take_rows(ArrayLike object, const char *call, const char *name, bool hold);

    void *data = nullptr;
    size_t count = 0; // elements of `type`, of which an item of the array has `units`
    size_t bytes = 0;
    size_t units = 1;
    size_t rows = 0, row_bytes = 0, row_stride = 0; // take_rows only
    tutti_dtype type = TUTTI_U8;
    Kind kind = Kind::number;

  private:
    struct Layout; // of the memory, wherever it came from

    bool take_buffer(nanobind::handle object, Layout &layout);
    bool take_exchange(nanobind::handle object, Layout &layout, bool hold);
    bool take_dlpack(nanobind::handle object, Layout &layout);
    bool take_interface(nanobind::handle object, Layout &layout);
    void find(nanobind::handle object, Layout &layout, const char *call, const char *name,
              bool hold);
    void accept(const Layout &layout);

    Py_buffer view_{};           // in use if view_.obj
    void *versioned_ = nullptr;  // DLManagedTensorVersioned, owned
    void *managed_ = nullptr;    // DLManagedTensor, owned
    PyObject *object_ = nullptr; // owned
    bool is_lent_ = false;       // by object_: valid until the calling method returns
};

} // namespace tutti_core

namespace nanobind::detail
{

template <> struct type_caster<tutti_core::ArrayLike> {
    NB_TYPE_CASTER(tutti_core::ArrayLike, const_name("tutti._types.ArrayLike"))

    bool from_python(handle src, uint32_t, cleanup_list *) noexcept
    {
        value.object = src;
        return !src.is_none();
    }

    static handle from_cpp(tutti_core::ArrayLike src, rv_policy, cleanup_list *) noexcept
    {
        return src.object.inc_ref();
    }
};

template <> struct type_caster<tutti_core::OptionalText> {
    NB_TYPE_CASTER(tutti_core::OptionalText, const_name("str"))

    bool from_python(handle src, uint32_t, cleanup_list *) noexcept
    {
        value.text = nullptr;
        if (src.is_none())
            return true;
        if (!PyUnicode_Check(src.ptr()))
            return false;
        value.text = PyUnicode_AsUTF8(src.ptr());
        if (!value.text)
            PyErr_Clear();
        return value.text;
    }

    static handle from_cpp(tutti_core::OptionalText, rv_policy, cleanup_list *) noexcept
    {
        return none_ref();
    }
};

} // namespace nanobind::detail
