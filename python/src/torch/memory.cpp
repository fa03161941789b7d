// Tensors in memory of tutti_mem_alloc.
#include "backend.hpp"

#include <cstring>

namespace tutti_torch
{

namespace
{

// The memory keeps the communicator alive.
struct Block {
    std::shared_ptr<Link> link;
    void *data = nullptr;

    static void free(void *block)
    {
        std::unique_ptr<Block> mine(static_cast<Block *>(block));
        std::lock_guard lock(mine->link->lock);

        tutti_mem_free(mine->link->comm, mine->data);
    }
};

class Allocator : public c10::Allocator
{
  public:
    explicit Allocator(std::shared_ptr<Link> link) : link_(std::move(link))
    {
    }

    c10::DataPtr allocate(size_t bytes) override
    {
        auto block = std::make_unique<Block>();
        {
            std::lock_guard lock(link_->lock);

            check(tutti_mem_alloc(link_->comm, bytes, &block->data), "allocate_tensor");
        }
        block->link = link_;
        void *data = block->data;

        return { data, block.release(), Block::free, c10::Device(c10::kCPU) };
    }

    void copy_data(void *to, const void *from, size_t bytes) const override
    {
        default_copy_data(to, from, bytes);
    }

  private:
    const std::shared_ptr<Link> link_;
};

} // namespace

std::shared_ptr<c10::Allocator> Backend::getMemAllocator()
{
    return std::make_shared<Allocator>(link("mem_allocator"));
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options)
{
    if (size < 0)
        C10_THROW_ERROR(ValueError, c10::str("tutti: allocate_tensor: the size is ", size,
                                             ": must be at least 0"));
    if (options.has_device() && !options.device().is_cpu())
        C10_THROW_ERROR(ValueError,
                        c10::str("tutti: allocate_tensor: the device is ", options.device(),
                                 ": memory of this backend is on the CPU"));
    const auto own = options.device(c10::kCPU);
    const auto type = c10::typeMetaToScalarType(own.dtype());
    auto data = std::make_shared<c10::DataPtr>(
        Allocator(link("allocate_tensor"))
            .allocate(static_cast<size_t>(size) * c10::elementSize(type)));
    void *memory = data->get();

    return at::from_blob(
        memory, { size }, [data](void *) mutable { data.reset(); }, own);
}

} // namespace tutti_torch
