#!/usr/bin/env python3
"""PyTorch on the emulation: tensors are copied to devices and back, with streams, events and pinned
memory. The kernels of PyTorch cannot run, and fail with an error. Skipped without
scripts/install-torch.sh."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ["TUTTI_BUILD_DIR"])
PYTHON = ROOT / os.environ.get("TUTTI_TEST_TORCH", "build/torch") / "bin" / "python"


def run(program, **environment):
    """Returns the output of a program that uses the emulated instead of the real libraries."""
    libraries = " ".join(str(BUILD / "emu" / name) for name in ("libcuda.so.1", "libcudart.so.13"))
    variables = {**os.environ, "LD_PRELOAD": libraries, "TUTTI_EMU_QUIET": "1", **environment}
    result = subprocess.run([str(PYTHON), "-c", program], env=variables, capture_output=True,
                            text=True, timeout=250, check=False)
    return result.returncode, result.stdout, result.stderr


class Torch(unittest.TestCase):
    def check(self, program, **environment):
        status, out, err = run(program, **environment)
        self.assertEqual(status, 0, err)
        self.assertEqual(out.strip().splitlines()[-1:], ["good"], err)

    def test_tensors_move_between_host_and_devices(self):
        self.check("""
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 2
a = torch.arange(5000, dtype=torch.float32)
b = a.to("cuda:0")
c = b.to("cuda:1")
assert torch.equal(a, b.cpu()) and torch.equal(a, c.cpu())
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    d = a.pin_memory().to("cuda:0", non_blocking=True)
done = torch.cuda.Event()
done.record(side)
done.synchronize()
assert torch.equal(d.cpu(), a)
assert torch.cuda.memory_allocated(0) > 0
print("good")
""", TUTTI_EMU_DEVICES="2")

    def test_kernels_of_nvcc_fail_with_an_error(self):
        self.check("""
import torch
b = torch.arange(10.).to("cuda:0")
try:
    b + 1
except Exception as e:
    assert "no kernel image" in str(e), e
    print("good")
""")

    def test_without_devices_torch_finds_none(self):
        self.check("""
import torch
assert not torch.cuda.is_available()
print("good")
""", TUTTI_EMU_DEVICES="0")


if __name__ == "__main__":
    if not PYTHON.exists():
        print("skipped: PyTorch is not installed here (scripts/install-torch.sh)")
        sys.exit(77)
    if not (BUILD / "emu" / "libcudart.so.13").exists():
        print("skipped: the emulation is not built")
        sys.exit(77)
    unittest.main()
