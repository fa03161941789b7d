"""Interleaved measurement: the contestants of one case take turns, round by round.

First a heat: a few iterations of everyone, which tell how many iterations fill the time of a turn and which of
a contestant's own algorithms are worth a place in the rounds. Of long operations those run some more before anything counts, as a
turn has few of them, and a job thousands: caches and page tables settle, and Tutti tries its ways and moves buffers to huge pages in the first dozens
(docs/memory.md). Then the rounds, each starting with another contestant, and more of them while they don't tell on which side of what is asked
their median is. A turn's value is the median of its iterations.
"""

import math
import statistics
import time
from dataclasses import dataclass, field

from .group import GroupError, Refused
from .say import Problem

ITERS_MIN, ITERS_MAX = 5, 20000
HEAT_US = 5e3
WARM_RUNS = 32          # of everyone before the rounds, or as many as fit into
WARM_US = 4e6
MORE_S = 60             # more rounds than asked for begin as long as a case's have taken less
DOUBT = 0.02            # so seldom would rounds that know nothing lie as clearly on one side, at each look; of up to 20 looks, about 5 % of such rows end on either
HEAT_LEVEL = 1.5        # algorithms up to this factor behind the best stay in the rounds


@dataclass(frozen=True)
class Case:
    """One point of the benchmark."""
    coll: str
    bytes: int
    wire: str
    ranks: int
    malloc: str = "default"     # of the peers: default or tuned


@dataclass
class Entry:
    """One contestant in one case: who, with which of its algorithms, in which memory."""
    key: str
    algo: str = ""
    memory: str = "malloc"
    stays: bool = False         # in the rounds, however far behind its contestant's other algorithms it is
    estimate_us: float = 0      # of the heat: the operation, and the iteration with its barrier
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
    """Sets what one operation takes, and what one iteration takes with the barrier before it: where ranks
    outnumber cores a barrier may cost a thousand times more than the operation."""
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
        return      # a turn has as many, and a tenth before it
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
    """1 where the median of what the values are drawn from is above the limit, -1 where it is below, 0 where the values don't tell (a sign test)."""
    above = sum(v >= limit for v in values)
    fewer = min(above, len(values) - above)
    if sum(math.comb(len(values), k) for k in range(fewer + 1)) > DOUBT * 2 ** len(values):
        return 0
    return 1 if above > fewer else -1


def turned(entries, by):
    """The same, beginning with another one; in the order of their names, whatever the order they come in."""
    entries = sorted(entries, key=lambda e: e.name)
    at = by % len(entries) if entries else 0
    return entries[at:] + entries[:at]


def measure(stable, case, entries, nrounds, turn_us, most=0, settled=lambda entries: True):
    """Measures all entries of a case in nrounds rounds, and then in more (of up to most in all) while they have not settled what is asked.
    Returns (those that have all the turns, {contestant: why it has none})."""
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
    entries = attempt(lambda e: _warm(stable, case, e, turn_us), [e for e in entries if _is_worth_it(e, entries)])
    begun = time.monotonic()
    for i in range(nrounds):
        entries = attempt(lambda e, first=i == 0: _round(stable, case, e, turn_us, first), turned(entries, i))
    for i in range(nrounds, most):
        if not entries or time.monotonic() - begun > MORE_S or settled(entries):
            break
        if len(attempt(lambda e: _round(stable, case, e, turn_us, False), turned(entries, i))) < len(entries):
            break       # who failed keeps the turns it has
    fewest = min((len(e.turns_us) for e in entries), default=0)
    for entry in entries:
        del entry.turns_us[fewest:]
    return entries, failed
