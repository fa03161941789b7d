"""The common part of test programs of the c10d backend "tutti": one rank that runs cases, which are
functions with the name case_NAME. It prints "ok: CASE" for each, and "rank R is right".

    PROGRAM INIT_FILE RANK SIZE [CASE...]"""

import datetime
import sys
import threading

import torch.distributed as dist

RANK, SIZE = int(sys.argv[2]), int(sys.argv[3])


def init(timeout_s=120):
    if not hasattr(dist, "gather_single"):      # before PyTorch 2.15: no entry points for backends
        import tutti.torch      # pylint: disable=unused-import,import-outside-toplevel
    dist.init_process_group("tutti", init_method=f"file://{sys.argv[1]}", rank=RANK,
                            world_size=SIZE, timeout=datetime.timedelta(seconds=timeout_s))


def run(module):
    """Runs the cases of the command line, or all; module: globals() of the program. Ends the
    process group."""
    for name in sys.argv[4:] or [name[5:] for name in module if name.startswith("case_")]:
        module[f"case_{name}"]()
        if RANK == 0:
            print(f"ok: {name}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    assert not [t for t in threading.enumerate() if t.daemon and "tutti" in t.name]
    print(f"rank {RANK} is right", flush=True)
