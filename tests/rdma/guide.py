#!/usr/bin/env python3
"""docs/emulation.md lists the calls of the emulated libibverbs, as emulated or as refused; and the
library has all symbols of rdma-core's library that other libraries need."""

import ctypes
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIBRARY = Path(os.environ["TUTTI_BUILD_DIR"]) / "emu" / "verbs" / "libibverbs.so.1"
# Inline functions of the header, which call the function table of a context.
INLINE = {"ibv_poll_cq", "ibv_req_notify_cq", "ibv_post_send", "ibv_post_recv", "ibv_post_srq_recv"}


def exported():
    """Returns the calls of programs, without those between libibverbs and drivers or librdmacm."""
    command = ["nm", "-D", "--defined-only", str(LIBRARY)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    private = (ROOT / "emu" / "verbs" / "private.c").read_text()
    return {name for name in names if "ibv_" in name} - set(re.findall(r"\b\w*ibv_\w+\b", private))


class Guide(unittest.TestCase):
    def test_the_guide_lists_all_calls(self):
        text = (ROOT / "docs" / "emulation.md").read_text().split("### libibverbs.so.1\n")[1]
        done, refused = (set(re.findall(r"`(\w*ibv_\w+)`", part)) for part in text.split("Not emulated:"))
        done.discard("ibv_create_cq_ex")    # the example of a call that is refused
        source = (ROOT / "emu" / "verbs" / "refused.c").read_text().split("/* ---- fork")[0]
        in_source = set(re.findall(r"\b(ibv_\w+)\([a-z]", source)) | {"ibv_resize_cq"}
        self.assertGreater(len(in_source), 15)
        self.assertEqual(sorted(refused ^ in_source), [])
        self.assertEqual(sorted(done ^ (exported() - in_source | INLINE)), [])

    def test_libraries_that_need_libibverbs_can_be_loaded(self):
        for name in "librdmacm.so.1", "libmlx5.so.1", "libefa.so.1", "libfabric.so.1":
            with self.subTest(library=name):
                try:
                    ctypes.CDLL(name, mode=os.RTLD_NOW)
                except OSError as e:
                    if f"{name}: cannot open shared object file" not in str(e):
                        raise


if __name__ == "__main__":
    sys.exit(unittest.main())
