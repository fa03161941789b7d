"""Peers at large distances, on an emulated network (tests/support/wan.py; docs/wan-testbed.md).

Rows that begin with "net" are about that network itself: the share of a line that iperf3's TCP
streams reach, and the throughput of one relay process without rate limits. "one line" is an
all-reduce of two peers over a long line, as a share of the line's rate: cold is the first one of a
new group on a new network, warm are the following ones. "europe-6" is the deployment of that name,
in the order of its file, which is a bad order: with the ring that each contestant finds, and
compared with the prediction of `tutti ring order` for the best ring. "north-america-12" and
"both-18" are the larger deployments, without PCCL. "near pairs" is a network in which two
concurrent rings are predicted to be faster than one, because the paths between pairs are slower
than the hosts' interfaces.

"50 ms round trip" is one line with losses, on which one TCP connection reaches a tenth of the
rate: many all-reduces at once or one by one, against the best number of iperf3 streams, and against
PCCL with 16 and 64 connections.

The value of a row is the median over rounds. Each row shows the delay of packets in the relay
(late_us) and the number of unread packets (unread): if this is not 0, the number was limited by
this machine."""

import json
import statistics
import subprocess
import time

from lib import build, distant, parts, quiet, say, wan
from lib.group import GroupError, Refused

SUMMARY = "peers at large distances: throughput of the network, and all-reduces over it"

LINE_MBIT, ONE_WAY_MS = 200, 50
SECONDS, WARM_S = 12, 4
FAST_SECONDS, FAST_WARM_S = 5, 1


def two(**more):
    return {"hosts": [{"name": "near"}, {"name": "far"}], **more}


def line(**more):
    return two(delay_ms=ONE_WAY_MS, rate_mbit=LINE_MBIT, **more)


def ring(n):
    return {"hosts": [{"name": f"peer{h}"} for h in range(n)]}


# (what, matrix, congestion control, cuts, paths, target); shares of the line's rate.
LINES = [(f"net, {2 * ONE_WAY_MS} ms round trip, {LINE_MBIT} Mbit/s, queue of {bdp} round "
          f"trips: {how}", line(queue_bdp=bdp), congestion,
          False, ways, reach)
         for congestion in ("cubic", "bbr")
         for bdp, how, ways, reach in ((1, f"one {congestion} stream", [(0, 1)],
                                        0.9 if congestion == "cubic" else None),
                                       (1, f"two {congestion} streams at once, together",
                                        [(0, 1), (0, 1)], None),
                                       (1,
                                        f"one {congestion} stream each way at once, of both ways",
                                        [(0, 1), (1, 0)], None),
                                       (0.2, f"one {congestion} stream", [(0, 1)], None))]
# The same, in Mbit/s.
FAST = [("net, no limits: one stream", two(), "cubic", False, [(0, 1)], None),
        ("net, no limits: one stream each way", two(), "cubic", False, [(0, 1), (1, 0)], None),
        ("net, no limits: a ring of 18 streams, together", ring(18), "cubic", False,
         [(h, (h + 1) % 18) for h in range(18)], None),
        ("net, no limits: one stream, packets cut by the kernel", two(), "cubic", True, [(0, 1)],
         None)]

# All-reduces.
BYTES = 64 << 20
WARM = 3                # per round
PATIENCE_S = 600
OPTIMIZE_S = 240        # PCCL measures 30 links, 10 s each, at most six concurrently
PCCL_PORT, PCCL_LOOK_BYTES = 29411, 1 << 20
ONE_LINE = (f"one line, {2 * ONE_WAY_MS} ms round trip, {LINE_MBIT} Mbit/s: allreduce "
            f"{say.size(BYTES)}, 2 peers, ")
STARTS = {"plain": distant.plain, "elastic": distant.elastic}
EUROPE = f"europe-6, allreduce {say.size(BYTES)}, "
BEATS_PCCL, OF_BEST = EUROPE + "PCCL over Tutti after optimize", EUROPE + "Tutti after optimize"
BY_HAND, AS_LISTED = (EUROPE + "Tutti in the best order, given by hand",
                      EUROPE + "Tutti in the order of the file")
PCCL_OF_ITS_RING = EUROPE + "PCCL, of what the ring that it uses allows"
OPTIMIZES, PCCL_OPTIMIZES = ("europe-6, what Tutti's optimize takes",
                             "europe-6, what PCCL's optimize takes")
EUROPES = {BEATS_PCCL: 1.15, OF_BEST: 0.9, BY_HAND: None, AS_LISTED: None, PCCL_OF_ITS_RING: None,
           OPTIMIZES: None, PCCL_OPTIMIZES: None}
# Hosts 0 and 2 are near each other, and so are 1 and 3. Of the paths between pairs, those of 1 with
# 2 and of 3 with 0 are faster.
NEAR, THERE, BACK, FAR = 100, 30, 25, 5
NEAR_PAIRS = {"hosts": [{"name": f"town{h}"} for h in range(4)], "delay_ms": 5,
              "rate_mbit": [[0, FAR, NEAR, BACK], [FAR, 0, BACK, NEAR], [NEAR, THERE, 0, FAR],
                            [THERE, NEAR, FAR, 0]]}
TWO_RINGS = f"near pairs, allreduce {say.size(BYTES)}, 4 peers: Tutti after optimize"
LARGER = ("north-america-12", "both-18")


def larger_names(name):
    """In the listed order; after optimize; the time of optimize."""
    return (f"{name}, allreduce {say.size(BYTES)}, Tutti in the order of the file",
            f"{name}, allreduce {say.size(BYTES)}, Tutti after optimize",
            f"{name}, what Tutti's optimize takes")


SHARES = [(ONE_LINE + f"{who}, {state}", who, state, reach) for who in STARTS
          for state, reach in (("warm", 0.9), ("cold", None))]


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default 3)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


def is_wanted(options, what):
    return not options.only or options.only.search(what)


def wanted(options):
    return [case for case in LINES + FAST if is_wanted(options, case[0])]


def reaches(options):
    """{name: target} of all selected rows."""
    known = {**{case[0]: case[5] for case in LINES + FAST},
             **{share[0]: share[3] for share in SHARES}, TWO_RINGS: None, **EUROPES,
             **{what: None for name in LARGER for what in larger_names(name)}, **parts.names()}
    return {what: reach for what, reach in known.items() if is_wanted(options, what)}


def listing(options):
    return (what + (f"  reach {reach}" if reach else "")
            for what, reach in reaches(options).items())


def kept(before, after):
    """The relay's statistics between two totals, for the columns of a row."""
    return {"unread": after["unread"] - before["unread"],
            "late_us": round((after["late_us"] - before["late_us"]) / max(1, after["carried"] - before["carried"]), 1)}


def measure(options, case):
    what, matrix, congestion, cuts, ways, _ = case
    seconds, warm_s = (SECONDS, WARM_S) if case in LINES else (FAST_SECONDS, FAST_WARM_S)
    with quiet.alone(options.lock), wan.Wan(matrix, congestion, cuts=cuts) as net:
        carried = wan.streams(net, ways, seconds, warm_s)
    say.progress(f"    {what}: {say.number(sum(carried.mbit))} Mbit/s, "
                 f"{say.number(carried.packets_s / 1e3)} thousand packets/s, "
                 f"{say.number(carried.late_us)} us late")
    return carried


def row_of(case, rounds):
    is_share = case in LINES
    whole = LINE_MBIT * wan.PAYLOAD * len(set(case[4])) if is_share else 1
    values = [sum(r.mbit) / whole for r in rounds]
    return {"what": case[0], "value": round(statistics.median(values), 3), "reach": case[5],
            "unit": "x" if is_share else "Mbit/s",
            "better": "higher", "against": "what the line carries, less headers" if is_share
            else "",
            "spread": [round(min(values), 3), round(max(values), 3)],
            "samples": {"iperf3 Mbit/s": [r.mbit for r in rounds]},
            "packets_s": [round(r.packets_s) for r in rounds],
            "segments_s": [round(r.segments_s) for r in rounds],
            "dropped": [r.dropped for r in rounds], "unread": [r.unread for r in rounds],
            "late_us": [round(r.late_us, 1) for r in rounds],
            "queue_peak_bytes": [r.queue_peak_bytes for r in rounds]}


# ---- one line ----

def share_of(us):
    """The share of the line's rate less headers. Each of two peers sends as many bytes as are
    reduced."""
    return BYTES * 8 / us / (LINE_MBIT * wan.PAYLOAD)


def one_line(options, who):
    """One round: the share of each state, and the statistics of the relay."""
    with quiet.alone(options.lock), wan.Wan(line()) as net, STARTS[who](net, [0, 1], options.tutti) as group:
        before = wan.totals(net)
        reply = group.command("allreduce", BYTES, WARM, timeout_s=PATIENCE_S)
        after = wan.totals(net)
    shares = {"warm": [share_of(us) for us in reply["samples_us"]],
              "cold": [share_of(reply["first_us"])]}
    say.progress(f"    {who}: warm {say.number(statistics.median(shares['warm']))}, cold "
                 f"{say.number(shares['cold'][0])} of the line")
    return shares, kept(before, after)


def share_rows(options):
    rows = [row for row in SHARES if is_wanted(options, row[0])]
    rounds, failed = {who: [] for _, who, *_ in rows}, {}
    for number in range(options.rounds if rows else 0):
        say.progress(f"one line, round {number + 1} of {options.rounds}")
        for who in rounds:
            try:
                rounds[who].append(one_line(options, who))
            except (GroupError, Refused, say.Problem, wan.HostsError) as why:
                failed[who] = str(why)
    for what, who, state, reach in rows:
        if who in failed:
            yield {"what": what, "skipped": failed[who]}
            continue
        values = [statistics.median(shares[state]) for shares, _ in rounds[who]]
        yield {"what": what, "value": round(statistics.median(values), 3), "reach": reach,
               "unit": "x", "better": "higher",
               "against": "what the line carries, less headers",
               "spread": [round(min(values), 3), round(max(values), 3)],
               "samples": {who: [[round(one, 4) for one in shares[state]]
                                 for shares, _ in rounds[who]]},
               **{key: [relay[key] for _, relay in rounds[who]] for key in ("unread", "late_us")}}


# ---- europe-6 ----

def best_ring(options, net, listed=None):
    """The order with the fastest predicted ring, its predicted time, and the time for the order
    `listed` (that of the file); in microseconds. The returned order consists of indices into
    `listed`."""
    listed = listed or list(range(net.nhosts))
    pairs, hosts = net.matrix["pairs"], [net.matrix["hosts"][h] for h in listed]

    def cells(key, scale):
        return [[pairs[source][target][key] * scale if source != target else None
                 for target in listed] for source in listed]

    def limits(key):        # None: no limit, which a ring treats as the fastest link
        return [host[key] and host[key] * wan.PAYLOAD for host in hosts]

    matrix = {"peers": [host["name"] for host in hosts],
              "bandwidth_mbit_s": cells("rate_mbit", wan.PAYLOAD),
              "latency_ms": cells("delay_ms", 1),
              "up_mbit_s": limits("up_mbit"), "down_mbit_s": limits("down_mbit")}
    done = subprocess.run([build.tutti(options.tutti), "ring", "order", "--matrix", "-", "--bytes",
                           str(BYTES), "--json", "--quiet"],
                          input=json.dumps(matrix), capture_output=True, text=True, check=False)
    if done.returncode:
        raise say.Problem(f"tutti ring order: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return found["order"], found["one_ring_ns"] / 1e3, found["listed_ns"] / 1e3


class Europe:
    """The groups on europe-6, which run in turn on one network. Times are of an all-reduce, in
    microseconds; failed: {key: cause}."""

    def __init__(self, options, net):
        self.options, self.net = options, net
        self.order, self.best_us, self.listed_us = best_ring(options, net)
        self.groups, self.failed, self.times, self.relay = {}, {}, {}, {}
        self.pccl, self.pccl_ring, self.cannot_optimize = "PCCL", None, ""

    def close(self):
        for group in self.groups.values():
            group.close()

    def attempt(self, key, step):
        """Calls step(), unless the group of this key has failed; records its failure."""
        if key in self.failed:
            return None
        try:
            return step()
        except (GroupError, Refused, say.Problem, wan.HostsError) as why:
            self.failed[key] = str(why)
            return None

    def start(self, key, make):
        self.attempt(key, lambda: self.groups.update({key: make()}))

    def reduce(self, key, algo="", iters=1):
        """Times of iters all-reduces, after a checked one."""
        before = wan.totals(self.net)
        reply = self.groups[key].command("allreduce" + (f"/{algo}" if algo else ""), BYTES, iters,
                                         timeout_s=PATIENCE_S)
        told = kept(before, wan.totals(self.net))
        say.progress(f"    {key}{'/' + algo if algo else ''}: "
                     f"{say.number(statistics.median(reply['samples_us']) / 1e6)} s")
        return reply["samples_us"], told

    def turn(self, key, name, algo=""):
        def step():
            times, relay = self.reduce(key, algo)
            self.times.setdefault(name, []).extend(times)
            self.relay.setdefault(name, []).append(relay)
        self.attempt(key, step)

    def optimize(self, key, name):
        def step():
            began = time.monotonic()
            self.groups[key].command("barrier/optimize", 0, 1, timeout_s=OPTIMIZE_S)
            took_s = time.monotonic() - began
            say.progress(f"    {key}: optimize took {say.number(took_s)} s")
            self.times[name] = [took_s * 1e6]
        self.attempt(key, step)

    def ring_of_pccl(self):
        """The ring of PCCL's all-reduces: it orders its peers itself, whatever the launch order."""
        before = self.net.stats()
        self.groups["PCCL"].command("allreduce/one", PCCL_LOOK_BYTES, 1, timeout_s=PATIENCE_S)
        return wan.ring_between(before, self.net.stats())

    def start_pccl(self, listed):
        """Starts PCCL's peers. They may crash in their own optimize (version 1.0.0:
        std::terminate). They are tried with defaults, then with one measuring connection, then
        without optimize."""
        for number, probes in enumerate(distant.PCCL_PROBES):
            self.failed.pop("PCCL", None)
            self.start("PCCL", lambda port=PCCL_PORT + number,
                       probes=probes: distant.pccl_peers(self.net, listed, port, probes))
            first = self.attempt("PCCL", self.ring_of_pccl)
            self.optimize("PCCL", PCCL_OPTIMIZES)
            self.pccl_ring = self.attempt("PCCL", self.ring_of_pccl)
            if "PCCL" not in self.failed:
                self.pccl = (f"PCCL after its own optimize by {probes} connections"
                             + (", which left its ring as it was" if self.pccl_ring == first
                                else ""))
                return
            say.progress(f"    PCCL: optimize by {probes} connections failed: {self.failed['PCCL']}")
            if "PCCL" in self.groups:
                self.groups.pop("PCCL").close()
        self.cannot_optimize = self.failed.pop("PCCL")
        self.pccl = "PCCL without its own optimize, which ended its peers"
        self.start("PCCL", lambda: distant.pccl_peers(self.net, listed, PCCL_PORT - 1))
        self.pccl_ring = self.attempt("PCCL", self.ring_of_pccl)

    def pccl_row(self, theirs):
        """The share of the predicted rate of its ring, if that ring is known."""
        if theirs and not self.pccl_ring:
            return {"what": PCCL_OF_ITS_RING, "skipped": "its peers did not send in one ring"}
        allowed_s = best_ring(self.options, self.net, self.pccl_ring)[2] / 1e6
        names = " - ".join(self.net.names[host] for host in self.pccl_ring or [])
        return self.row(PCCL_OF_ITS_RING, [allowed_s / s for s in theirs], "PCCL", unit="x",
                        samples={"s": theirs},
                        against=f"what its ring ({names}) allows by prediction, "
                                f"{say.number(allowed_s)} s")

    def better_of(self, key, algos):
        """The fastest of its algorithms, each run once."""
        found = {algo: self.attempt(key,
                                    lambda algo=algo: statistics.median(self.reduce(key, algo)[0]))
                 for algo in algos}
        return min(algos, key=lambda algo: found[algo] or float("inf"))

    def measure(self):
        listed, pccl_algos = list(range(self.net.nhosts)), ("one", "eight")
        self.start("Tutti", lambda: distant.elastic(self.net, listed, self.options.tutti))
        self.turn("Tutti", AS_LISTED)
        self.optimize("Tutti", OPTIMIZES)
        self.start_pccl(listed)
        algo = self.better_of("PCCL", pccl_algos)
        self.start("by hand", lambda: distant.elastic(self.net, self.order, self.options.tutti,
                                                      distant.PORT + 2))
        for number in range(self.options.rounds):
            say.progress(f"europe-6, round {number + 1} of {self.options.rounds}")
            self.turn("Tutti", OF_BEST)
            self.turn("PCCL", "PCCL", algo)
            self.turn("by hand", BY_HAND)

    def row(self, what, values, key, **more):
        if not values:
            return {"what": what, "skipped": self.failed.get(key) or self.cannot_optimize
                    or "nothing was measured"}
        relay = self.relay.get(key if what in (BEATS_PCCL, PCCL_OF_ITS_RING) else what, [])
        return {"what": what, "value": round(statistics.median(values), 3), "reach": EUROPES[what],
                "better": "higher",
                "spread": [round(min(values), 3), round(max(values), 3)], **more,
                **({name: [told[name] for told in relay] for name in ("unread", "late_us")} if relay
                   else {})}

    def rows(self):
        times = {name: [us / 1e6 for us in some] for name, some in self.times.items()}
        best_s, listed_s = self.best_us / 1e6, self.listed_us / 1e6
        ours, theirs = times.get(OF_BEST, []), times.get("PCCL", [])
        yield self.row(BEATS_PCCL, [p / t for p, t in zip(theirs, ours)],
                       "PCCL" if "Tutti" not in self.failed else "Tutti", unit="x",
                       against=self.pccl, samples={"Tutti s": ours, "PCCL s": theirs})
        for what, key, allowed_s, ring in ((OF_BEST, "Tutti", best_s, "best"),
                                           (BY_HAND, "by hand", best_s, "best"),
                                           (AS_LISTED, "Tutti", listed_s, "file's")):
            some = times.get(what, [])
            yield self.row(what, [allowed_s / s for s in some], key, unit="x",
                           against=f"what the {ring} ring allows by prediction, "
                                   f"{say.number(allowed_s)} s", samples={"s": some})
        yield self.pccl_row(theirs)
        for what, key in ((OPTIMIZES, "Tutti"), (PCCL_OPTIMIZES, "PCCL")):
            yield self.row(what, times.get(what, []), key, unit="s", better="lower", against="",
                           samples={"s": times.get(what, [])})


def europe_rows(options):
    say.progress("europe-6")
    with quiet.alone(options.lock), wan.Wan(wan.deployment("europe-6")) as net:
        europe = Europe(options, net)
        try:
            europe.measure()
        finally:
            europe.close()
    yield from (row for row in europe.rows() if is_wanted(options, row["what"]))


# ---- the larger deployments ----

def larger_rows(options, name):
    """Shares of the predictions for the file's ring and for the best ring."""
    say.progress(name)
    as_listed, optimized, takes = larger_names(name)
    try:
        with quiet.alone(options.lock), wan.Wan(wan.deployment(name)) as net, \
                distant.elastic(net, list(range(net.nhosts)), options.tutti) as group:
            _, best_us, listed_us = best_ring(options, net)
            before = wan.totals(net)
            first = group.command("allreduce", BYTES, 1, timeout_s=PATIENCE_S)["samples_us"]
            began = time.monotonic()
            group.command("barrier/optimize", 0, 1, timeout_s=OPTIMIZE_S)
            took_s = time.monotonic() - began
            times = group.command("allreduce", BYTES, options.rounds,
                                  timeout_s=PATIENCE_S)["samples_us"]
            relay = kept(before, wan.totals(net))
    except (GroupError, Refused, say.Problem, wan.HostsError) as why:
        yield from ({"what": what, "skipped": str(why)} for what in larger_names(name))
        return
    for what, some, allowed_us, ring in ((as_listed, first, listed_us, "file's"),
                                         (optimized, times, best_us, "best")):
        values = [allowed_us / us for us in some]
        yield {"what": what, "value": round(statistics.median(values), 3), "reach": None,
               "unit": "x", "better": "higher",
               "against": f"what the {ring} ring allows by prediction, "
                          f"{say.number(allowed_us / 1e6)} s",
               "spread": [round(min(values), 3), round(max(values), 3)],
               "samples": {"s": [us / 1e6 for us in some]},
               **{key: [told] for key, told in relay.items()}}
    yield {"what": takes, "value": round(took_s, 3), "reach": None, "unit": "s", "better": "lower",
           "against": "", "samples": {"s": [took_s]}}


# ---- near pairs ----

def two_rings_row(options):
    """The speed-up over the prediction for the best single ring."""
    say.progress("near pairs")
    try:
        with quiet.alone(options.lock), wan.Wan(NEAR_PAIRS) as net, distant.elastic(net, list(range(4)), options.tutti) as group:
            _, best_us, _ = best_ring(options, net)
            group.command("barrier/optimize", 0, 1, timeout_s=OPTIMIZE_S)
            before = wan.totals(net)
            times = group.command("allreduce", BYTES, options.rounds,
                                  timeout_s=PATIENCE_S)["samples_us"]
            relay = kept(before, wan.totals(net))
    except (GroupError, Refused, say.Problem, wan.HostsError) as why:
        return {"what": TWO_RINGS, "skipped": str(why)}
    values = [best_us / us for us in times]
    return {"what": TWO_RINGS, "value": round(statistics.median(values), 3), "reach": None,
            "unit": "x", "better": "higher",
            "against": f"what the best single ring allows by prediction, "
                       f"{say.number(best_us / 1e6)} s",
            "spread": [round(min(values), 3), round(max(values), 3)],
            "samples": {"s": [us / 1e6 for us in times]},
            **{key: [told] for key, told in relay.items()}}


# ---- all ----

def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    why = wan.why_not()
    if why:
        yield from ({"what": what, "skipped": why} for what in reaches(options))
        return
    yield from net_rows(options)
    yield from share_rows(options)
    yield from parts.rows(options, is_wanted)
    if is_wanted(options, TWO_RINGS):
        yield two_rings_row(options)
    if any(is_wanted(options, what) for what in EUROPES):
        yield from europe_rows(options)
    for name in LARGER:
        if any(is_wanted(options, what) for what in larger_names(name)):
            yield from (row for row in larger_rows(options, name)
                        if is_wanted(options, row["what"]))


def net_rows(options):
    cases = wanted(options)
    rounds = {case[0]: [] for case in cases}
    for number in range(options.rounds):
        say.progress(f"round {number + 1} of {options.rounds}")
        for case in cases:
            try:
                rounds[case[0]].append(measure(options, case))
            except wan.HostsError as trouble:
                raise say.Problem(f"{case[0]}: {trouble}") from None
    for case in cases:
        yield row_of(case, rounds[case[0]])
