"""The shaped links of tests/support/testbed.py, for benchmarks."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))

import scratch                                                            # noqa: E402,F401
from hosts import HostsError                                              # noqa: E402,F401
from testbed import Testbed, add_size_options, visit, why_not           # noqa: E402,F401
