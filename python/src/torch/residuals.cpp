#include "residuals.hpp"

#include <ATen/core/LegacyTypeDispatch.h>

namespace tutti_torch
{

at::Tensor Residuals::of(const at::Tensor &tensor)
{
    at::AutoDispatchBelowAutograd guard;
    std::lock_guard lock(lock_);
    auto *storage = tensor.storage().unsafeGetStorageImpl();

    std::erase_if(entries_, [](const Entry &e) { return e.storage.expired(); });
    for (const auto &e : entries_)
        if (e.storage._unsafe_get_target() == storage && e.offset == tensor.storage_offset() &&
            e.elements == tensor.numel() && e.type == tensor.scalar_type())
            return e.residual;
    auto owner = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);

    entries_.push_back(
        { c10::weak_intrusive_ptr<c10::StorageImpl>(owner), tensor.storage_offset(), tensor.numel(),
          tensor.scalar_type(),
          at::zeros({ tensor.numel() }, tensor.options().dtype(at::kFloat).requires_grad(false)) });
    return entries_.back().residual;
}

} // namespace tutti_torch
