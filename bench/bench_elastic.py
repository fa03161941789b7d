"""Elastic runs: the cost of outcomes, partial operations and scopes compared with plain collectives
and with PCCL, and the cost of losing a member.

Rows against plain collectives and PCCL are interleaved like those of `bench/run peers`
(lib/rounds.py). Their members are processes of this machine, connected over loopback. The rows of
`ftar` (except shaped links) and of `coordinator` (except 1,000 members) are included. A loss:
members repeat an all-reduce in mode retry; one member is killed, or stopped, during an operation.
The row is the difference between the duration of that operation, on the slowest survivor, and the
median of the earlier ones."""

import random
import re
import signal
import statistics
import subprocess
import time

import bench_coordinator
import bench_ftar
from lib import build, pccl, quiet, rounds, say
from lib.contestants import PCCL, Elastic, Stable
from lib.rounds import Case, Entry

SUMMARY = "elastic runs compared with plain collectives and PCCL, and the cost of a loss"

KIB, MIB = 1 << 10, 1 << 20
TURN_US = {False: 0.3e6, True: 0.1e6}
LEASE_MS = 1000

# (what, case, entry over entry, factor, reach, unit, better)
PLAIN = [(f"elastic over plain allreduce {say.size(n)}, {ranks} members",
          Case("allreduce", n, "tcp", ranks), 2.2 if n <= 64 * KIB else 1.1)
         for ranks in (2, 3, 4) for n in (8, KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB)]
TENTATIVE = [(f"tentative over plain allreduce {say.size(n)}, {ranks} members",
              Case("allreduce", n, "tcp", ranks), 1.3)
             for ranks in (2, 3, 4) for n in (8, KIB, 64 * KIB, MIB, 16 * MIB, 128 * MIB)]
PARTIAL = [(f"partial, to which all contribute, over elastic allreduce {say.size(n)}, {ranks} "
            f"members", Case("allreduce", n, "tcp", ranks), None)
           for ranks in (2, 4) for n in (8, 64 * KIB, MIB)]
ROLES = 2
SCOPES = [(f"elastic in the scope of a {scope} over plain allreduce {say.size(n)} among it, 2 "
           f"groups of {ROLES}", Case("allreduce", n, "tcp", 2 * ROLES), None,
           scope) for scope in ("role", "group") for n in (8, 64 * KIB, MIB, 16 * MIB)]
# Lower bound of an outcome: an exchange that begins when the operation has ended.
TWICE = [(f"two plain allreduces over one, {say.size(n)}, {ranks} members",
          Case("allreduce", n, "tcp", ranks), None) for ranks in (2, 3, 4) for n in (8, KIB)]
# As called by a program without other work: no barrier in between, so operations do not start
# simultaneously on all members, which would favour the plain ones.
ROWS = [(f"16 elastic in a row over 16 plain allreduces {say.size(n)}, {ranks} members",
         Case("allreduce", n, "tcp", ranks), 2.2)
        for ranks in (2, 3, 4) for n in (8, KIB, 64 * KIB)]
RINGS = 4
FTAR = [(f"FTAR over the ring in the scope of a role, allreduce {say.size(n)}, {RINGS} replica "
         f"groups of {ROLES}", Case("allreduce", n, "tcp", RINGS * ROLES),
         bench_ftar.REACH) for n in (16 * MIB, 64 * MIB)]
BESIDE = [(f"PCCL over elastic allreduce {say.size(n)}, 2 members", Case("allreduce", n, "tcp", 2),
           reach)
          for n, reach in ((8, None), (16 * MIB, 1.5), (128 * MIB, 1.5))]
EPOCH = ("epoch with nothing pending, 8 members", Case("barrier", 0, "tcp", 8), 1000)
LOSSES = [(f"a member is {how}, allreduce {say.size(16 * MIB)}, {members} members", how, members,
           16 * MIB, reach)
          for how, reach in (("killed", 100), ("stopped", LEASE_MS + 500)) for members in (3, 4)]


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="rounds, and number of losses (default 5)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of shorter measurements")
    parser.add_argument("--runs", type=int, default=3,
                        help="runs with 1,000 members; the median counts (default 3)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


def others():
    """Rows of other benchmarks, with their names."""
    ftar = [bench_ftar.ratio_what(where, mib) for where, mib, *_ in bench_ftar.RATIOS
            if where != "shaped links"]
    return [*ftar, *(bench_ftar.flight_what(*case) for case in bench_ftar.FLIGHTS),
            *(what for case in bench_coordinator.CASES if case[0] == 1000
              for what in bench_coordinator.names(*case))]


def names():
    return [*(what for what, *_ in [*PLAIN, *TWICE, *ROWS, *TENTATIVE, *PARTIAL, *SCOPES, *FTAR,
                                    *BESIDE, EPOCH, *LOSSES]), *others()]


def wanted(options, what):
    return not options.only or options.only.search(what)


def listing(options):
    return (what for what in names() if wanted(options, what))


def _nrounds(options):
    return min(3, options.rounds) if options.quick else options.rounds


def _measure(options, stable, case, entries):
    return rounds.measure(stable, case, entries, _nrounds(options), TURN_US[options.quick])


def _ratio(options, stable, row, over, under, better):
    """The ratio of entry `over` to the best of `under`, per round."""
    what, case, reach = row
    say.progress(what)
    left, failed = _measure(options, stable, case, [*over, *under])
    tops, bottoms = [e for e in left if e.key == over[0].key
                     and e.algo in [o.algo for o in over]], \
        [e for e in left if e.key == under[0].key and e.algo in [u.algo for u in under]]
    if not tops or not bottoms:
        return {"what": what, "skipped": "; ".join(f"{name}: {why}"
                                                   for name, why in failed.items())}
    top, bottom = (min(side, key=lambda e: e.median_us) for side in (tops, bottoms))
    ratios = [a / b for a, b in zip(top.turns_us, bottom.turns_us)]
    return {"what": what, "value": statistics.median(ratios), "reach": reach, "unit": "x",
            "better": better,
            "against": bottom.name, "spread": [min(ratios), max(ratios)],
            "samples": {top.name: top.turns_us, bottom.name: bottom.turns_us}}


class Members:
    """Members that repeat an all-reduce (peers/elastic_loss.c), and their coordinator."""

    def __init__(self, options, members, nbytes):
        self._at = f"127.0.0.1:{pccl.free_port()}"
        program = build.elastic("elastic_loss", ["elastic_loss.c"])
        self.coordinator = subprocess.Popen([str(build.tutti(options.tutti)), "coordinator",
                                             "--listen", self._at, "--journal", "none",
                                             "--lease", str(LEASE_MS)], stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
        self.members = [subprocess.Popen([str(program), self._at, str(members), str(nbytes)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
                        for _ in range(members)]

    def lines(self, member, n):
        """Reads n operations of a member: (contributors, attempts, us)."""
        out = []
        for line in self.members[member].stdout:
            contributors, attempts, us = line.split()
            out.append((int(contributors), int(attempts), float(us)))
            if len(out) == n:
                return out
        raise say.Problem(f"member {member} ended after {len(out)} of {n} operations")

    def close(self):
        for member in self.members:
            member.stdin.close()
        for process in [*self.members, self.coordinator]:
            process.kill()
            process.wait()


def _loss(options, how, members, nbytes):
    """The additional time (ms) of the operation during which a member was lost, on the slowest
    survivor."""
    run = Members(options, members, nbytes)
    try:
        usual = statistics.median(us for _, _, us in run.lines(0, 12)[2:])
        time.sleep(random.uniform(0, usual * 1e-6))
        victim = run.members[-1]
        victim.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        worst = 0
        for member in range(members - 1):
            while True:
                contributors, _, us = run.lines(member, 1)[0]
                worst = max(worst, us)
                if contributors == members - 1:
                    break
        return (worst - usual) * 1e-3, usual * 1e-3
    finally:
        run.close()


def _losses(options, row):
    what, how, members, nbytes, reach = row
    samples, usual = [], []
    for i in range(_nrounds(options)):
        say.progress(f"{what}: {i + 1} of {_nrounds(options)}")
        beyond, plain = _loss(options, how, members, nbytes)
        samples.append(beyond)
        usual.append(plain)
    return {"what": what, "value": statistics.median(samples), "reach": reach, "unit": "ms",
            "better": "lower",
            "against": f"a failure-free one, {statistics.median(usual):.1f} ms",
            "spread": [min(samples), max(samples)],
            "samples": {"beyond": samples, "failure-free": usual}}


def run(options):
    contestants = {"elastic": Elastic(options.tutti), "groups": Elastic(options.tutti, ROLES),
                   "pccl": PCCL()}
    # of one group: another may select other algorithms
    elastic, plain = Entry("elastic", "elastic"), Entry("elastic", "plain")

    def again(*entries):
        return [Entry(e.key, e.algo, stays=e.key != "pccl") for e in entries]
    with Stable(contestants) as stable:
        for row in PLAIN:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(elastic), again(plain), "lower")
        for row in TWICE:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("elastic", "twice")), again(plain),
                             "lower")
        for row in ROWS:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("elastic", "elastic_row")),
                             again(Entry("elastic", "plain_row")), "lower")
        for row in TENTATIVE:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("elastic", "tentative")),
                             again(plain), "lower")
        for row in PARTIAL:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("elastic", "partial")),
                             again(elastic), "lower")
        for *row, scope in SCOPES:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("groups", scope)),
                             again(Entry("groups", f"plain_{scope}")), "lower")
        for row in FTAR:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("groups", "role_ftar")),
                             again(Entry("groups", "role_ring")), "lower")
        for row in BESIDE:
            if wanted(options, row[0]):
                yield _ratio(options, stable, row, again(Entry("pccl", "one"),
                                                         Entry("pccl", "eight")), again(elastic),
                             "higher")
        what, case, reach = EPOCH
        if wanted(options, what):
            say.progress(what)
            left, failed = _measure(options, stable, case, [Entry("elastic", "epoch")])
            yield {"what": what, "value": left[0].median_us, "reach": reach, "unit": "us",
                   "better": "lower", "against": "",
                   "samples": {"epoch": left[0].turns_us}} if left else {"what": what, "skipped": str(failed)}
    for row in LOSSES:
        if wanted(options, row[0]):
            try:
                yield _losses(options, row)
            except say.Problem as why:
                yield {"what": row[0], "skipped": str(why)}
    rest = [what for what in others() if wanted(options, what)]
    if rest:
        options.only = re.compile("^(" + "|".join(re.escape(what) for what in rest) + ")$")
        yield from bench_ftar.run(options)
        yield from bench_coordinator.run(options)
