"""Peers that are far from each other, on a network that we make up (tests/support/wan.py draws it; docs/wan-testbed.md).

The rows that begin with "net" are about that network itself: which share of a line iperf3's TCP streams reach, and what one relay process
carries where no line has a limit. A row's value is the median over rounds. Each says how late the relay brought packets (late_us) and
how many it did not come to read (unread): where these are more than none, this machine set the number.
"""

import statistics

from lib import quiet, say, wan

SUMMARY = "peers all over the world: what the network between them carries"

LINE_MBIT, ONE_WAY_MS = 200, 50
SECONDS, WARM_S = 12, 4
FAST_SECONDS, FAST_WARM_S = 5, 1


def two(**more):
    return {"hosts": [{"name": "near"}, {"name": "far"}], **more}


def line(**more):
    return two(delay_ms=ONE_WAY_MS, rate_mbit=LINE_MBIT, **more)


def ring(n):
    return {"hosts": [{"name": f"peer{h}"} for h in range(n)]}


# (what, matrix, congestion, cuts, ways, reach); shares of the line.
LINES = [(f"net, {2 * ONE_WAY_MS} ms there and back, {LINE_MBIT} Mbit/s, queue of {bdp} round trips: {how}", line(queue_bdp=bdp), congestion,
          False, ways, reach)
         for congestion in ("cubic", "bbr")
         for bdp, how, ways, reach in ((1, f"one {congestion} stream", [(0, 1)], 0.9 if congestion == "cubic" else None),
                                       (1, f"two {congestion} streams at once, together", [(0, 1), (0, 1)], None),
                                       (0.2, f"one {congestion} stream", [(0, 1)], None))]
# The same, in Mbit/s.
FAST = [("net, no limits: one stream", two(), "cubic", False, [(0, 1)], None),
        ("net, no limits: one stream each way", two(), "cubic", False, [(0, 1), (1, 0)], None),
        ("net, no limits: a ring of 18 streams, together", ring(18), "cubic", False, [(h, (h + 1) % 18) for h in range(18)], None),
        ("net, no limits: one stream, packets cut by the kernel", two(), "cubic", True, [(0, 1)], None)]


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds (default 3)")
    quiet.add_option(parser)


def wanted(options):
    return [case for case in LINES + FAST if not options.only or options.only.search(case[0])]


def listing(options):
    for case in wanted(options):
        yield case[0] + (f"  reach {case[5]}" if case[5] else "")


def measure(options, case):
    what, matrix, congestion, cuts, ways, _ = case
    seconds, warm_s = (SECONDS, WARM_S) if case in LINES else (FAST_SECONDS, FAST_WARM_S)
    with quiet.alone(options.lock), wan.Wan(matrix, congestion, cuts=cuts) as net:
        carried = wan.streams(net, ways, seconds, warm_s)
    say.progress(f"    {what}: {say.number(sum(carried.mbit))} Mbit/s, {say.number(carried.packets_s / 1e3)} thousand packets/s, "
                 f"{say.number(carried.late_us)} us late")
    return carried


def row_of(case, rounds):
    is_share = case in LINES
    whole = LINE_MBIT * wan.PAYLOAD if is_share else 1
    values = [sum(r.mbit) / whole for r in rounds]
    return {"what": case[0], "value": round(statistics.median(values), 3), "reach": case[5], "unit": "x" if is_share else "Mbit/s",
            "better": "higher", "against": "what the line carries, less headers" if is_share else "",
            "spread": [round(min(values), 3), round(max(values), 3)], "samples": {"iperf3 Mbit/s": [r.mbit for r in rounds]},
            "packets_s": [round(r.packets_s) for r in rounds], "segments_s": [round(r.segments_s) for r in rounds],
            "dropped": [r.dropped for r in rounds], "unread": [r.unread for r in rounds], "late_us": [round(r.late_us, 1) for r in rounds],
            "queue_peak_bytes": [r.queue_peak_bytes for r in rounds]}


def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    why = wan.why_not()
    cases = wanted(options)
    if why:
        yield from ({"what": case[0], "skipped": why} for case in cases)
        return
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
