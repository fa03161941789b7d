"""The backend "tutti" of torch.distributed.

    torch.distributed.init_process_group("tutti")       # or "cpu:tutti", "cpu:tutti,cuda:nccl"

PyTorch finds it without an import, by the entry point of the package.
"""


def _load():
    """Imports the compiled part. Raises ImportError with the cause if it does not fit the PyTorch that is there."""
    import torch

    try:
        from ._built_for import TORCH
    except ImportError:
        raise ImportError("tutti.torch: this installation of tutti was built without PyTorch (install torch first, then "
                          "reinstall tutti: pip install --force-reinstall ./python)") from None

    def minor(version):
        return version.split("+")[0].split(".")[:2]

    if minor(torch.__version__) != minor(TORCH):
        raise ImportError(f"tutti.torch: built for PyTorch {TORCH}, but PyTorch {torch.__version__} is installed (reinstall "
                          "tutti: pip install --force-reinstall ./python)")
    from . import _c

    return _c


def register():
    """Registers the backend with torch.distributed. Called by PyTorch through the entry point; may be called again."""
    from torch.distributed import Backend

    if "tutti" not in Backend.backend_list:
        Backend.register_backend("tutti", _load().create, extended_api=True, devices=["cpu"])


def __getattr__(name):
    """Options, the class of init_process_group's pg_options, is in the compiled part."""
    if name == "Options":
        return _load().Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
