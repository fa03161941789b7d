// Error feedback of quantized all-reduces, for groups whose options enable it.
#pragma once

#include <ATen/ATen.h>

#include <mutex>
#include <vector>

namespace tutti_torch
{

// The quantization errors of tensors, which the next all-reduce of the same memory adds. They last
// as long as the memory: a tensor that is allocated at the same address later starts without an
// error. Any thread.
class Residuals
{
  public:
    // float32, as many elements as the tensor; zero at first.
    at::Tensor of(const at::Tensor &tensor);

  private:
    struct Entry {
        c10::weak_intrusive_ptr<c10::StorageImpl> storage;
        int64_t offset, elements;
        at::ScalarType type;
        at::Tensor residual;
    };

    std::mutex lock_;
    std::vector<Entry> entries_;
};

} // namespace tutti_torch
