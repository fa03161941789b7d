"""Interleaved measurement: the contestants of one case run in turn, round by round.

First a heat: a few iterations of every contestant, to find the number of iterations that fill the
time of a measurement, and which of a contestant's own algorithms take part in the rounds. Long
operations get additional warm-up iterations, because a measurement has few of them and a job
thousands: during the first dozens, caches and page tables settle, and Tutti tries its methods and
moves buffers to huge pages (docs/memory.md). Then the rounds, each starting with another
contestant; more rounds follow until they determine on which side of the target the median is. The
value of a contestant in a round is the median of its iterations."""

import math
import statistics
import time
from dataclasses import dataclass, field

from .group import GroupError, Refused
from .say import Problem

ITERS_MIN, ITERS_MAX = 5, 20000
HEAT_US = 5e3
WARM_RUNS = 32          # iterations of every contestant before the rounds, within a time limit of
WARM_US = 4e6
# additional rounds begin only if the rounds of a case have taken less time than this
MORE_S = 60
# probability that random rounds appear this one-sided, per look; with up to 20 looks, about 5 % of
# such rows end on either side
DOUBT = 0.02
HEAT_LEVEL = 1.5        # algorithms within this factor of the best take part in the rounds


@dataclass(frozen=True)
class Case:
    """One point of the benchmark."""
    coll: str
    bytes: int
    wire: str
    ranks: int


@dataclass
class Entry:
    """A contestant in a case, with one of its algorithms and one kind of memory."""
    key: str
    algo: str = ""
    memory: str = "malloc"
    # takes part in the rounds even if far slower than the contestant's other algorithms
    stays: bool = False
    estimate_us: float = 0      # from the heat: the operation, and the iteration with its barrier
    iteration_us: float = 0
    turns_us: list = field(default_factory=list)    # one median per round
    loop_us: float | None = None

    @property
    def name(self):
        return self.key + (f"/{self.algo}" if self.algo else "") + \
            ("" if self.memory == "malloc" else f" {self.memory}")

    @property
    def median_us(self):
        return statistics.median(self.turns_us)


def _turn(stable, case, entry, iters, warmup, loops):
    group = stable.group(entry.key, case, entry.algo, entry.memory)
    coll = f"{case.coll}/{entry.algo}" if entry.algo else case.coll
    return group.command(coll, case.bytes, iters, warmup, loops, entry.memory)


def _heat(stable, case, entry):
    """Estimates the time of an operation, and of an iteration with its barrier: with more ranks
    than cores, a barrier may take a thousand times longer than the operation."""
    reply = _turn(stable, case, entry, 1, 1, 0)     # also allocates and checks
    entry.estimate_us = reply["samples_us"][0]
    entry.iteration_us = 2 * entry.estimate_us
    iters = 1
    while iters * entry.iteration_us < HEAT_US and iters < 1000:
        iters *= 10
        start = time.monotonic()
        reply = _turn(stable, case, entry, iters, 0, 0)
        entry.iteration_us = (time.monotonic() - start) * 1e6 / iters
        entry.estimate_us = statistics.median(reply["samples_us"])


def _warm(stable, case, entry, turn_us):
    if turn_us >= WARM_RUNS * entry.iteration_us:
        return      # a turn has as many iterations, after a tenth as many
    runs = int(min(WARM_RUNS, WARM_US / entry.iteration_us))
    if runs > 1:
        start = time.monotonic()
        _turn(stable, case, entry, 1, runs, 0)
        entry.iteration_us = (time.monotonic() - start) * 1e6 / (runs + 1)


def _is_worth_it(entry, entries):
    return entry.stays or not entry.algo or entry.estimate_us <= HEAT_LEVEL * min(
        e.estimate_us for e in entries if e.key == entry.key and e.memory == entry.memory)


def _round(stable, case, entry, turn_us, is_first):
    iters = int(min(ITERS_MAX, max(ITERS_MIN, turn_us / max(entry.iteration_us, 0.1))))
    warmup = max(1, iters // 10)
    reply = _turn(stable, case, entry, iters, warmup, iters if is_first else 0)
    entry.turns_us.append(statistics.median(reply["samples_us"]))
    if is_first:
        entry.loop_us = reply["time_us_loop"]


def side(values, limit):
    """Sign test. Returns 1 if the median of the distribution of the values is above the limit, -1
    if below, 0 if undecided."""
    above = sum(v >= limit for v in values)
    fewer = min(above, len(values) - above)
    if sum(math.comb(len(values), k) for k in range(fewer + 1)) > DOUBT * 2 ** len(values):
        return 0
    return 1 if above > fewer else -1


def turned(entries, by):
    """The same entries, starting with another one; always in the order of their names."""
    entries = sorted(entries, key=lambda e: e.name)
    at = by % len(entries) if entries else 0
    return entries[at:] + entries[:at]


def measure(stable, case, entries, nrounds, turn_us, most=0, settled=lambda entries: True):
    """Measures all entries of a case in nrounds rounds, and then in more (up to `most` in total)
    until the question is decided. Returns (entries that have all turns, {contestant: cause of
    failure})."""
    failed = {}

    def attempt(step, some):
        left = []
        for entry in some:
            try:
                step(entry)
                left.append(entry)
            except (Problem, Refused) as why:
                failed.setdefault(entry.name, str(why))
            except GroupError as why:
                failed.setdefault(entry.name, str(why))
                stable.drop(entry.key, case, entry.algo, str(why), entry.memory)
        return left

    most = max(nrounds, most)
    entries = attempt(lambda e: _heat(stable, case, e), entries)
    entries = attempt(lambda e: _warm(stable, case, e, turn_us),
                      [e for e in entries if _is_worth_it(e, entries)])
    begun = time.monotonic()
    for i in range(nrounds):
        entries = attempt(lambda e, first=i == 0: _round(stable, case, e, turn_us, first),
                          turned(entries, i))
    for i in range(nrounds, most):
        if not entries or time.monotonic() - begun > MORE_S or settled(entries):
            break
        if len(attempt(lambda e: _round(stable, case, e, turn_us, False),
                       turned(entries, i))) < len(entries):
            break       # a failed entry keeps its turns
    fewest = min((len(e.turns_us) for e in entries), default=0)
    for entry in entries:
        del entry.turns_us[fewest:]
    return entries, failed
