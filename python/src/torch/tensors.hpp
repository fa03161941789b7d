// Tensors as Tutti sees them: contiguous memory of one element type.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch
{

// Throws c10::DistBackendError with Tutti's message unless `status` is TUTTI_OK. `what` names the
// call.
void check(tutti_status status, const char *what);
// As check, with a status and a message from another thread.
[[noreturn]] void fail(tutti_status status, const std::string &message, const std::string &what);

// An element type for calls that reduce, and how many of them make one of the tensor's.
struct Element {
    tutti_dtype type;
    size_t per_element; // complex numbers are pairs
};

// A reduction that Tutti can do.
struct Reduction {
    Element element;
    tutti_redop op;
    double scale; // PREMUL_SUM only
};

// Throws ValueError, naming the type and the operation, where the operation is not defined for the
// type.
Reduction reduction_of(const at::Tensor &tensor, const c10d::ReduceOp &op);

// Throws ValueError unless the tensor is a dense CPU tensor. `call` and `what` are for the message.
void check_tensor(const at::Tensor &tensor, const char *call, const char *what);
// The only tensor of a list, checked. Throws ValueError for another number of tensors.
at::Tensor &only(std::vector<at::Tensor> &tensors, const char *call, const char *what);

// Elements to move. They have the tensor's type where Tutti has it, so that ranks that pass
// different types get an error.
struct Moved {
    tutti_dtype type;
    size_t count;
};
Moved moved(const at::Tensor &tensor);

// An input as contiguous memory: the tensor itself, or a copy.
at::Tensor dense_input(const at::Tensor &tensor);

// Outputs that are not contiguous get memory of their own, which is copied back when the operation
// has completed.
class Outputs
{
  public:
    // Contiguous memory for `tensor`. Its present values are in it if `is_input`.
    at::Tensor add(const at::Tensor &tensor, bool is_input);
    // `from` (contiguous) is copied to `to` in the end. Both have the same number of elements.
    void copy_later(at::Tensor from, at::Tensor to);
    void copy_back();
    bool any() const
    {
        return !pairs_.empty();
    }

  private:
    std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

inline size_t bytes_of(const at::Tensor &tensor)
{
    return static_cast<size_t>(tensor.numel()) * tensor.element_size();
}

} // namespace tutti_torch
