// One-sided windows of PyTorch 2.15 (c10d::Window) over those of Tutti.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#ifdef C10D_BACKEND_HAS_WINDOW

#include <torch/csrc/distributed/c10d/Window.hpp>

#include "tutti/rma.h"
#include "work.hpp"

namespace tutti_torch
{

// The tensor of each rank in a window, from its registration to its end.
struct Exposed;
class Use;

// What must outlive the window's communicator, if the window is dropped with a tensor.
struct Kept {
    std::mutex lock;                  // protects `exposed`
    std::shared_ptr<Exposed> exposed; // NULL: no tensor is registered
};

// The window has a separate communicator, so that its failures do not affect that of the group.
// tensor_register and tensor_deregister are collective; all other calls may be made by any thread.
class Window : public c10d::Window
{
  public:
    // Collective over the group of `parent`. `timeout`: of calls that pass none.
    static c10::intrusive_ptr<Window> create(Link &parent, std::chrono::milliseconds timeout);
    Window(std::shared_ptr<Link> link, std::shared_ptr<Kept> kept,
           std::chrono::milliseconds timeout);

    void tensor_register(const at::Tensor &tensor, bool owning) override;
    void tensor_deregister() override;
    c10::intrusive_ptr<c10d::Work> put(const at::Tensor &tensor, int64_t rank, int64_t offset,
                                       bool async, const c10d::PutOptions &how) override;
    at::Tensor map_remote_tensor(int64_t rank) override;
    c10::intrusive_ptr<c10d::Work> signal(int64_t rank, bool async,
                                          const c10d::SignalOptions &how) override;
    c10::intrusive_ptr<c10d::Work> wait_signal(int64_t rank, bool async,
                                               const c10d::WaitSignalOptions &how) override;
    c10d::WindowAttr get_attr(int64_t rank) override;

    const std::shared_ptr<Link> &link() const
    {
        return link_;
    }

  private:
    // The tensors, for a call. Throws ValueError without a tensor, or if there is no such rank.
    Use exposed(const char *call, int64_t rank) const;
    std::shared_ptr<Operation> operation(std::chrono::milliseconds timeout) const;
    c10::intrusive_ptr<c10d::Work> work(std::shared_ptr<Operation> operation, bool async,
                                        const char *title,
                                        const std::vector<at::Tensor> &inputs) const;

    const std::shared_ptr<Link> link_;
    const std::shared_ptr<Kept> kept_;
    const std::shared_ptr<Observers> observers_ = std::make_shared<Observers>();
    const std::chrono::milliseconds timeout_;
    const int rank_, size_;
};

} // namespace tutti_torch

#endif
