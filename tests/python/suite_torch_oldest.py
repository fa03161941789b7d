#!/usr/bin/env python3
"""The oldest PyTorch that the backend "tutti" supports: the tests of calls, bad input,
quantization, training and model parallelism. Windows, reconfigure and the lookup of backends by
entry points are of PyTorch 2.15.

    scripts/install-torch.sh --torch VERSION BUILD
    TUTTI_TEST_TORCH=build/torch-VERSION suite_torch_oldest.py [NAME...]
                                                    all, or test_torch_NAME.py

Run by `make test-torch`; it takes minutes. Exit status 77: that PyTorch is not installed."""

import os
import subprocess
import sys

from torch_ranks import HERE, PYTHON, environment

TESTS = ("", "bad", "hooks", "train", "parallel")
SKIPPED = 77        # some cases need a newer PyTorch; the output names them


def main():
    if "TUTTI_TEST_TORCH" not in os.environ:
        sys.exit("TUTTI_TEST_TORCH is not set: the environment of the oldest PyTorch")
    done = subprocess.run([PYTHON, "-c", "import torch, tutti; print(torch.__version__)"],
                          capture_output=True, text=True, check=False,
                          env=environment()) if PYTHON.exists() else None
    if not done or done.returncode:
        print(f"skipped: PyTorch with tutti is not installed in {PYTHON.parents[1]}")
        sys.exit(SKIPPED)
    print(f"PyTorch {done.stdout.strip()}", flush=True)
    failed = []
    for name in sys.argv[1:] or TESTS:
        script = HERE / ("test_torch" + (f"_{name}" if name else "") + ".py")
        print(f"---- {script.name}", flush=True)
        if subprocess.run([sys.executable, script], check=False).returncode not in (0, SKIPPED):
            failed.append(script.name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
