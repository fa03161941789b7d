"""The backend "tutti" of torch.distributed.

    torch.distributed.init_process_group("tutti")       # or "cpu:tutti", "cpu:tutti,cuda:nccl"

PyTorch 2.15 and later find it without an import, by the entry point of the package. For older ones
this import registers it.
"""


def _load():
    """Imports the compiled part. Raises ImportError with the cause if it does not fit the PyTorch
    that is there."""
    import torch

    try:
        from ._built_for import TORCH
    except ImportError:
        raise ImportError("tutti.torch: this installation of tutti was built without PyTorch "
                          "(install torch first, then "
                          "reinstall tutti: pip install --force-reinstall ./python)") from None

    if _minor(torch.__version__) != _minor(TORCH):
        raise ImportError(f"tutti.torch: built for PyTorch {TORCH}, but PyTorch "
                          f"{torch.__version__} is installed (reinstall "
                          "tutti: pip install --force-reinstall ./python)")
    from . import _c

    return _c


def _close_batch(group):
    """Ends a batch of a group that an exception has left, in PyTorch and in the backends of the
    group."""
    from torch.distributed import distributed_c10d as c10d

    group = group or c10d._get_default_group()
    c10d._world.pg_coalesce_state.pop(group, None)
    for device in group._device_types:
        backend = group._get_backend(device)
        backend = getattr(backend, "wrapped_pg", backend)       # TORCH_DISTRIBUTED_DEBUG=DETAIL
        if hasattr(backend, "_cancel_coalescing"):
            backend._cancel_coalescing()


def _mend_coalescing():
    """Lets an exception end a batch. Up to 2.15, PyTorch leaves the batch open: later operations
    are collected and never run."""
    import contextlib

    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d

    original = c10d._coalescing_manager

    @contextlib.contextmanager
    def _coalescing_manager(group=None, device=None, async_ops=False):
        try:
            with original(group, device, async_ops) as manager:
                yield manager
        except BaseException:
            _close_batch(group)
            raise

    c10d._coalescing_manager = dist._coalescing_manager = _coalescing_manager


def _minor(version):
    return tuple(int(word) for word in version.split("+")[0].split(".")[:2])


def register():
    """Registers the backend with torch.distributed. Called by PyTorch through the entry point; may
    be called again."""
    from torch.distributed import Backend

    if "tutti" not in Backend.backend_list:
        Backend.register_backend("tutti", _load().create, extended_api=True, devices=["cpu"])
        _mend_coalescing()


def _backend(group, call):
    """The compiled backend of a process group (None: the default one)."""
    import torch
    import torch.distributed as dist

    group = group or dist.group.WORLD
    if group is None:
        raise ValueError(f"tutti: {call}: there is no default process group (call "
                         f"init_process_group first)")
    backend = group._get_backend(torch.device("cpu"))
    backend = getattr(backend, "wrapped_pg", backend)       # TORCH_DISTRIBUTED_DEBUG=DETAIL
    if not isinstance(backend, _load().Backend):
        raise ValueError(f"tutti: {call}: the backend of the process group is {backend.name()!r}: "
                         f"must be 'tutti'")
    return backend


def empty(*size, dtype=None, group=None):
    """Returns a tensor in memory that the other ranks of this host can map. Values are zero.

    size     the shape, as integers or one sequence
    dtype    None: the default of PyTorch
    group    the process group (None: the default one); its job owns the memory

    Transfers to it need one copy less, and windows over it can be mapped by other ranks
    (map_remote_tensor). The memory is freed with the tensor. A process may have 256 of these
    tensors at a time. Raises: DistBackendError (NOMEM) beyond that.
    """
    import torch

    shape = torch.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
    if any(n < 0 for n in shape):
        raise ValueError(f"tutti: empty: negative size in {tuple(shape)}")
    backend = _backend(group, "empty")
    return backend.allocate_tensor(shape.numel(), dtype=dtype or torch.get_default_dtype(),
                                   device=torch.device("cpu")).reshape(shape)


_CALLS = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_single", "reduce_scatter",
          "reduce_scatter_single", "all_to_all_single", "all_to_all", "gather", "gather_single",
          "scatter", "barrier")


def __getattr__(name):
    """Options, the class of init_process_group's pg_options, is in the compiled part; hooks and
    calls need torch."""
    import importlib

    if name == "Options":
        return _load().Options
    if name in ("hooks", "calls"):
        return importlib.import_module("." + name, __name__)
    if name in _CALLS:
        return getattr(importlib.import_module(".calls", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register_with_old():
    try:
        import torch
    except ImportError:
        return
    if _minor(torch.__version__) < (2, 15):
        register()


_register_with_old()
