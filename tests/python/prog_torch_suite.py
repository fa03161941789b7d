"""Runs tests of PyTorch's suite for backends, which is part of the wheel, with one number of ranks.

    TUTTI_SUITE_BACKEND=BACKEND WORLD_SIZE=SIZE prog_torch_suite.py LOG [NAME...]

Without names: all tests. The start and the result of each are lines of JSON on stdout; all other
output goes to LOG.

PyTorch selects the tests of a backend by its name while the suite is imported. "tutti" takes the
tests of "gloo"."""

import json
import os
import sys
import tempfile
import time
import unittest

BACKEND, SIZE = (os.environ[name] for name in ("TUTTI_SUITE_BACKEND", "WORLD_SIZE"))
os.environ["BACKEND"] = "gloo"
os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "240")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal import common_distributed
from torch.testing._internal.distributed import distributed_test as suite


class Name(str):
    """The name of a backend that the suite treats as Gloo, also in the bodies of its tests."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__


class Renamed:
    """An object with other values of some attributes."""

    def __init__(self, origin, **values):
        self.__dict__.update(values, origin=origin)

    def __getattr__(self, name):
        return getattr(self.origin, name)

    def __call__(self, *arguments, **options):
        return self.origin(*arguments, **options)


def take_place_of_gloo(name):
    """Makes the suite use this backend in all places where it uses Gloo."""
    cases = common_distributed.DistTestCases
    for names in (*cases.skip_collective.values(), *cases.backend_feature.values()):
        if "gloo" in names:
            names.add(name)
    cases.backend_feature["plugin"].add(name)
    for names in (suite.PROFILING_SUPPORTED_BACKENDS, suite.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        names.append(name)
    suite.BACKEND = Name(name)
    suite.dist = Renamed(dist, Backend=Renamed(dist.Backend, GLOO=name))
    logging_data = DistributedDataParallel._get_ddp_logging_data

    def with_name(model):
        """PyTorch 2.15 names every backend that is not its own "custom" in these data."""
        data = logging_data(model)
        return {**data, "backend_name": name} if data.get("backend_name") == "custom" else data

    DistributedDataParallel._get_ddp_logging_data = with_name


if BACKEND != "gloo":
    take_place_of_gloo(BACKEND)


def run_rank(environment, target, arguments, options):
    os.environ.update(environment)
    target(*arguments, **options)


def rank_process(target, name, args, kwargs):
    """A process that is forked from one that has imported PyTorch, and that has the present
    environment."""
    context = torch.multiprocessing.get_context("forkserver")
    return context.Process(target=run_rank, name=name,
                           args=(dict(os.environ), target, args, kwargs))


class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(rank_process)


class Report(unittest.TestResult):
    def __init__(self, out):
        super().__init__()
        self.out = out

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()
        print(f"==== {test._testMethodName}, {SIZE} ranks", flush=True)
        print(json.dumps({"name": test._testMethodName}), file=self.out, flush=True)

    def tell(self, test, outcome, text=""):
        line = {"name": test._testMethodName, "outcome": outcome, "seconds": time.monotonic()
                - self.begin, "text": text}
        print(json.dumps(line), file=self.out, flush=True)

    def addSuccess(self, test):
        self.tell(test, "passed")

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)

    def addError(self, test, error):
        self.tell(test, "failed", self._exc_info_to_string(error, test))

    addFailure = addError


def main():
    names = sys.argv[2:] or unittest.defaultTestLoader.getTestCaseNames(Suite)
    out = os.fdopen(os.dup(1), "w")
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
    report = Report(out)
    for name in names:
        Suite(name).run(report)


if __name__ == "__main__":
    import prog_torch_suite     # under this name, which ranks can import

    prog_torch_suite.main()
