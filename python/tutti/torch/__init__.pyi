"""The backend "tutti" of torch.distributed."""

from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend

from . import calls as calls
from . import hooks as hooks

class Options(Backend.Options):
    """Options of a process group: pg_options of init_process_group and new_group."""

    def __init__(self, timeout: timedelta = ...) -> None: ...
    algorithm: str
    lanes: int
    wires: str
    interfaces: str
    tune_file: str
    error_feedback: bool
    quantization: str

def register() -> None: ...
def empty(*size: int | Sequence[int], dtype: torch.dtype | None = None,
          group: dist.ProcessGroup | None = None) -> torch.Tensor: ...
def all_reduce(tensor: torch.Tensor, op: dist.ReduceOp.RedOpType | dist.ReduceOp = ...,
               group: dist.ProcessGroup | None = None, async_op: bool = False, *,
               algorithm: str | None = None, quantization: str | None = None,
               error_feedback: torch.Tensor | None = None,
               timeout: timedelta | None = None) -> dist.Work | None: ...
def broadcast(tensor: torch.Tensor, src: int | None = None,
              group: dist.ProcessGroup | None = None, async_op: bool = False,
              group_src: int | None = None, *,
              algorithm: str | None = None, quantization: str | None = None,
              error_feedback: torch.Tensor | None = None,
              timeout: timedelta | None = None) -> dist.Work | None: ...
def reduce(tensor: torch.Tensor, dst: int | None = None,
           op: dist.ReduceOp.RedOpType | dist.ReduceOp = ...,
           group: dist.ProcessGroup | None = None, async_op: bool = False,
           group_dst: int | None = None, *,
           algorithm: str | None = None, quantization: str | None = None,
           error_feedback: torch.Tensor | None = None,
           timeout: timedelta | None = None) -> dist.Work | None: ...
def all_gather(tensor_list: list[torch.Tensor], tensor: torch.Tensor,
               group: dist.ProcessGroup | None = None, async_op: bool = False, *,
               algorithm: str | None = None, quantization: str | None = None,
               error_feedback: torch.Tensor | None = None,
               timeout: timedelta | None = None) -> dist.Work | None: ...
def all_gather_single(output: torch.Tensor, input: torch.Tensor,
                      group: dist.ProcessGroup | None = None, async_op: bool = False, *,
                      algorithm: str | None = None, quantization: str | None = None,
                      error_feedback: torch.Tensor | None = None,
                      timeout: timedelta | None = None) -> dist.Work | None: ...
def reduce_scatter(output: torch.Tensor, input_list: list[torch.Tensor],
                   op: dist.ReduceOp.RedOpType | dist.ReduceOp = ...,
                   group: dist.ProcessGroup | None = None, async_op: bool = False, *,
                   algorithm: str | None = None, quantization: str | None = None,
                   error_feedback: torch.Tensor | None = None,
                   timeout: timedelta | None = None) -> dist.Work | None: ...
def reduce_scatter_single(output: torch.Tensor, input: torch.Tensor,
                          op: dist.ReduceOp.RedOpType | dist.ReduceOp = ...,
                          group: dist.ProcessGroup | None = None, async_op: bool = False, *,
                          algorithm: str | None = None, quantization: str | None = None,
                          error_feedback: torch.Tensor | None = None,
                          timeout: timedelta | None = None) -> dist.Work | None: ...
def all_to_all_single(output: torch.Tensor, input: torch.Tensor,
                      output_split_sizes: list[int] | None = None,
                      input_split_sizes: list[int] | None = None,
                      group: dist.ProcessGroup | None = None, async_op: bool = False, *,
                      algorithm: str | None = None,
                      timeout: timedelta | None = None) -> dist.Work | None: ...
def all_to_all(output_tensor_list: list[torch.Tensor], input_tensor_list: list[torch.Tensor],
               group: dist.ProcessGroup | None = None, async_op: bool = False, *,
               algorithm: str | None = None,
               timeout: timedelta | None = None) -> dist.Work | None: ...
def gather(tensor: torch.Tensor, gather_list: list[torch.Tensor] | None = None,
           dst: int | None = None, group: dist.ProcessGroup | None = None, async_op: bool = False,
           group_dst: int | None = None, *,
           algorithm: str | None = None,
           timeout: timedelta | None = None) -> dist.Work | None: ...
def gather_single(tensor: torch.Tensor, gather_tensor: torch.Tensor | None = None,
                  dst: int | None = None, group: dist.ProcessGroup | None = None,
                  async_op: bool = False, group_dst: int | None = None, *,
                  algorithm: str | None = None,
                  timeout: timedelta | None = None) -> dist.Work | None: ...
def scatter(tensor: torch.Tensor, scatter_list: list[torch.Tensor] | None = None,
            src: int | None = None, group: dist.ProcessGroup | None = None, async_op: bool = False,
            group_src: int | None = None, *,
            algorithm: str | None = None,
            timeout: timedelta | None = None) -> dist.Work | None: ...
def barrier(group: dist.ProcessGroup | None = None, async_op: bool = False, *,
            algorithm: str | None = None,
            timeout: timedelta | None = None) -> dist.Work | None: ...
