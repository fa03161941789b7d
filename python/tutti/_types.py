"""Types of arguments, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Union


class SupportsDLPack(Protocol):
    """An object with DLPack: torch tensors, JAX arrays, NumPy arrays and others."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...     # noqa: D105


if TYPE_CHECKING:
    from typing_extensions import Buffer

    ArrayLike = Union[Buffer, SupportsDLPack]
    """An array in host memory: an object with the buffer protocol or DLPack."""
else:
    ArrayLike = Any
