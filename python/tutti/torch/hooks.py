"""A communication hook of DistributedDataParallel that sends gradients as 8 or 4 bits.

    from tutti.torch import hooks

    model = DistributedDataParallel(module)
    state = hooks.QuantizationState(module.named_parameters(), bits=4)
    model.register_comm_hook(state, hooks.quantize_hook)

Each rank keeps its own quantization errors and adds them to its next gradients (error feedback). A
checkpoint of training contains state.state_dict() of every rank.
"""

import torch
import torch.distributed as dist

from . import _load, calls

__all__ = ["QuantizationState", "quantize_hook"]


class QuantizationState:
    """The options of quantize_hook, and the quantization errors of this rank.

    named_parameters   of the module that DDP wraps. The errors belong to parameters, because DDP
                       changes its buckets after the first step
    process_group      the group of DDP; None: the default one
    bits               8 or 4 per gradient
    error_feedback     True: uses 4 bytes per parameter, and is needed with 4 bits. False:
                       quantization errors are lost
    quantization       the encoding, as in Options; None: "minmax8" or "minmax4"
    algorithm          of the all-reduce, as in Options; None: selected
    """

    def __init__(self, named_parameters, process_group=None, bits=8, error_feedback=True,
                 quantization=None, algorithm=None):
        if bits not in (4, 8):
            raise ValueError(f"tutti: QuantizationState: bits is {bits!r}: must be 8 or 4")
        known = _load().quantizations()[1:]
        self.quantization = quantization or f"minmax{bits}"
        if self.quantization not in known:
            raise ValueError(f"tutti: QuantizationState: unknown quantization {quantization!r} "
                             f"(known: {', '.join(known)})")
        self.process_group = process_group
        self.error_feedback = error_feedback
        self.algorithm = algorithm
        self._parameters = {id(p): (name, p) for name, p in named_parameters}
        if not self._parameters:
            raise ValueError("tutti: QuantizationState: no parameters (pass "
                             "module.named_parameters())")
        self._errors = {}       # parameter name -> its part of the errors of a bucket
        self._buckets = {}      # bucket index -> (names of its parameters, errors of all of them)

    def _name_of(self, parameter):
        try:
            return self._parameters[id(parameter)][0]
        except KeyError:
            raise ValueError(f"tutti: quantize_hook: a parameter of shape {tuple(parameter.shape)} "
                             f"is not one of those given to "
                             "QuantizationState (pass named_parameters() of the module that DDP "
                             "wraps)") from None

    def _errors_of(self, bucket):
        """The errors of a bucket, float32, in the order of its buffer. Those of its parameters
        move along if it has changed."""
        parameters = bucket.parameters()
        names = [self._name_of(p) for p in parameters]
        known = self._buckets.get(bucket.index())
        if known and known[0] == names:
            return known[1]
        errors = torch.zeros(bucket.buffer().numel(), dtype=torch.float32)
        if sum(p.numel() for p in parameters) != errors.numel():
            raise ValueError(f"tutti: quantize_hook: bucket {bucket.index()} has {errors.numel()} "
                             f"elements, its parameters "
                             f"{sum(p.numel() for p in parameters)}")
        for name, part in zip(names, errors.split([p.numel() for p in parameters])):
            if name in self._errors:
                part.copy_(self._errors[name])
            self._errors[name] = part
        moved = set(names)
        self._buckets = {i: b for i, b in self._buckets.items() if moved.isdisjoint(b[0])}
        self._buckets[bucket.index()] = (names, errors)
        return errors

    def state_dict(self):
        """The errors of this rank by parameter name, for a checkpoint. Ranks differ: save that of
        each."""
        shapes = {name: p.shape for name, p in self._parameters.values()}
        return {"quantization": self.quantization,
                "errors": {name: part.clone().reshape(shapes[name])
                           for name, part in self._errors.items()}}

    def load_state_dict(self, state):
        """Restores what state_dict returned. Between steps only.

        Raises: ValueError for another encoding, an unknown parameter, or another number of
        elements.
        """
        if state["quantization"] != self.quantization:
            raise ValueError(f"tutti: load_state_dict: the state is of {state['quantization']!r}, "
                             f"this hook of "
                             f"{self.quantization!r}")
        sizes = {name: p.numel() for name, p in self._parameters.values()}
        for name, part in state["errors"].items():
            if sizes.get(name) != part.numel():
                raise ValueError(f"tutti: load_state_dict: {name!r} has {part.numel()} elements, "
                                 f"here {sizes.get(name, 'none')}")
        self._errors = {name: part.detach().to(torch.float32).flatten().clone()
                        for name, part in state["errors"].items()}
        self._buckets = {}


def quantize_hook(state: QuantizationState,
                  bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Averages the gradients of a bucket over the ranks, quantized. For
    DistributedDataParallel.register_comm_hook."""
    errors = state._errors_of(bucket) if state.error_feedback else None
    work = calls.all_reduce(bucket.buffer(), dist.ReduceOp.AVG, state.process_group, async_op=True,
                            algorithm=state.algorithm,
                            quantization=state.quantization, error_feedback=errors)
    return work.get_future().then(lambda done: done.value()[0])
