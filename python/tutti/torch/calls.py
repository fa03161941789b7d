"""Collectives of torch.distributed with options of one call.

    tutti.torch.reduce_scatter_single(output, input, algorithm="ring", quantization="minmax8")

Each function is the one of torch.distributed with the same name and arguments, and these options in
addition. They replace the options of the group. All ranks must pass the same.

algorithm        name of the algorithm, as in `tutti info --algos`; None: selected. That of
                 all_to_all is one of alltoallv
quantization     the encoding, as in Options; None: not quantized. all_reduce, reduce,
                 reduce_scatter and reduce_scatter_single with SUM or AVG; broadcast, all_gather and
                 all_gather_single. Floats of 16 bits and more
error_feedback   with quantization only: float32 tensor with as many elements as the input, zero
                 before the first call and passed to all later ones. It receives the quantization
                 error of this rank, which the next call adds. On all ranks or none
timeout          datetime.timedelta; None: the group's

Returns: a Work if async_op, else None.
Raises: ValueError for wrong arguments, and for options that the collective does not support;
DistBackendError.
"""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from . import _backend, _load

__all__ = ["all_reduce", "broadcast", "reduce", "all_gather", "all_gather_single", "reduce_scatter",
           "reduce_scatter_single", "all_to_all_single", "all_to_all", "gather", "gather_single",
           "scatter", "barrier"]

SUM = dist.ReduceOp.SUM


@contextlib.contextmanager
def _options(call, group, inputs, algorithm=None, quantization=None, error_feedback=None,
             timeout=None):
    """Collectives that this thread calls inside have these options."""
    if group is not dist.GroupMember.NON_GROUP_MEMBER:      # which PyTorch reports
        _backend(group, call)
        if (group or dist.group.WORLD) in c10d._world.pg_coalesce_state:
            raise ValueError(f"tutti: {call}: options of one call are not supported in a batch "
                             "(_coalescing_manager)")
    if any(t.layout != torch.strided for t in inputs):
        raise ValueError(f"tutti: {call}: options of one call are not supported for sparse tensors")
    elements = sum(t.numel() * (2 if t.is_complex() else 1) for t in inputs)
    compiled = _load()
    compiled.set_call_options(call, elements, algorithm or "", quantization or "none",
                              error_feedback, timeout)
    try:
        yield
    finally:
        compiled.clear_call_options()


def all_reduce(tensor, op=SUM, group=None, async_op=False, **options):
    """torch.distributed.all_reduce with the options of this module."""
    with _options("all_reduce", group, [tensor], **options):
        return dist.all_reduce(tensor, SUM if op is None else op, group, async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None, **options):
    """torch.distributed.broadcast with the options of this module."""
    with _options("broadcast", group, [tensor], **options):
        return dist.broadcast(tensor, src, group, async_op, group_src)


def reduce(tensor, dst=None, op=SUM, group=None, async_op=False, group_dst=None, **options):
    """torch.distributed.reduce with the options of this module."""
    with _options("reduce", group, [tensor], **options):
        return dist.reduce(tensor, dst, op, group, async_op, group_dst)


def all_gather(tensor_list, tensor, group=None, async_op=False, **options):
    """torch.distributed.all_gather with the options of this module. Tensors of different sizes are
    not quantized: ValueError."""
    with _options("all_gather", group, [tensor], **options):
        return dist.all_gather(tensor_list, tensor, group, async_op)


def all_gather_single(output, input, group=None, async_op=False, **options):
    """torch.distributed.all_gather_single (all_gather_into_tensor before PyTorch 2.15) with the
    options of this module."""
    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    with _options("all_gather_single", group, [input], **options):
        return call(output, input, group, async_op)


def reduce_scatter(output, input_list, op=SUM, group=None, async_op=False, **options):
    """torch.distributed.reduce_scatter with the options of this module. Tensors of different sizes
    are not quantized: ValueError."""
    with _options("reduce_scatter", group, input_list, **options):
        return dist.reduce_scatter(output, input_list, op, group, async_op)


def reduce_scatter_single(output, input, op=SUM, group=None, async_op=False, **options):
    """torch.distributed.reduce_scatter_single (reduce_scatter_tensor before PyTorch 2.15) with the
    options of this module."""
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    with _options("reduce_scatter_single", group, [input], **options):
        return call(output, input, op, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None,
                      async_op=False, **options):
    """torch.distributed.all_to_all_single with the options of this module. It is never quantized:
    ValueError. `algorithm` is one of alltoallv if split sizes are passed, and they must be passed
    on all ranks or none; otherwise one of alltoall."""
    with _options("all_to_all_single", group, [input], **options):
        return dist.all_to_all_single(output, input, output_split_sizes, input_split_sizes, group,
                                      async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False, **options):
    """torch.distributed.all_to_all with the options of this module. It is never quantized:
    ValueError."""
    with _options("all_to_all", group, input_tensor_list, **options):
        return dist.all_to_all(output_tensor_list, input_tensor_list, group, async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None,
           **options):
    """torch.distributed.gather with the options of this module. It is never quantized:
    ValueError."""
    with _options("gather", group, [tensor], **options):
        return dist.gather(tensor, gather_list, dst, group, async_op, group_dst)


def gather_single(tensor, gather_tensor=None, dst=None, group=None, async_op=False, group_dst=None,
                  **options):
    """torch.distributed.gather_single (since PyTorch 2.15) with the options of this module. It is
    never quantized: ValueError."""
    with _options("gather_single", group, [tensor], **options):
        return dist.gather_single(tensor, gather_tensor, dst, group, async_op, group_dst)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None,
            **options):
    """torch.distributed.scatter with the options of this module. It is never quantized:
    ValueError."""
    with _options("scatter", group, [tensor], **options):
        return dist.scatter(tensor, scatter_list, src, group, async_op, group_src)


def barrier(group=None, async_op=False, **options):
    """torch.distributed.barrier with the options of this module: algorithm and timeout. Others:
    ValueError."""
    with _options("barrier", group, [], **options):
        return dist.barrier(group, async_op)
