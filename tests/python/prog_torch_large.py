"""One of two ranks of tests of more than 2^31 elements on the c10d backend "tutti".

    prog_torch_large.py INIT_FILE RANK SIZE [CASE...]       (torch_cases.py)"""

import torch
import torch.distributed as dist

import torch_cases
from torch_cases import RANK, SIZE

PERIOD = 999_983        # a prime: no power of two is a multiple of it
N = 2**31 + 11


def pattern(rank):
    g = torch.Generator().manual_seed(rank)
    return torch.randint(0, 120, (PERIOD,), dtype=torch.uint8, generator=g)


def fill(tensor, one):
    for part in tensor.split(PERIOD):
        part.copy_(one[:part.numel()])


def check(tensor, one):
    for i, part in enumerate(tensor.split(PERIOD)):
        assert torch.equal(part, one[:part.numel()]), f"wrong in the elements from {i * PERIOD} on"


def case_all_reduce_and_broadcast():
    t = torch.empty(N, dtype=torch.uint8)
    fill(t, pattern(RANK))
    dist.all_reduce(t)
    check(t, pattern(0) + pattern(1))
    if RANK == 0:
        fill(t, pattern(2))
    dist.broadcast(t, 0)
    check(t, pattern(2))


def case_all_to_all_single():
    """Rank `sender` has N elements for the other rank, and few for itself. The second part of the
    input or of the output is behind them."""
    for sender in (0, 1):
        to = [[1000, N], [70, 50]] if sender == 0 else [[70, 50], [N, 1000]]
        input_, output = (torch.empty(sum(sizes), dtype=torch.uint8)
                          for sizes in (to[RANK], [to[r][RANK] for r in range(SIZE)]))
        for r, part in enumerate(input_.split(to[RANK])):
            fill(part, pattern(10 * RANK + r))
        dist.all_to_all_single(output, input_, [to[r][RANK] for r in range(SIZE)], to[RANK])
        for r, part in enumerate(output.split([to[r][RANK] for r in range(SIZE)])):
            check(part, pattern(10 * r + RANK))


def main():
    torch.set_num_threads(1)
    torch_cases.init(1500)
    torch_cases.run(globals())


if __name__ == "__main__":
    main()
