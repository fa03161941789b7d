"""Many operations over one distant line with losses, where one TCP connection is far from enough:
the rate of the contribution, as a share of the best number of iperf3 streams, and against PCCL.

Each contestant is started again for each round, since connections that Tutti opens on demand stay
open, and would favour later cells."""

import statistics

from . import distant, quiet, say, wan
from .group import GroupError, Refused

ONE_WAY_MS, LINE_MBIT, LOSS = 25, 400, 2e-4
MATRIX = {"hosts": [{"name": "near"}, {"name": "far"}], "delay_ms": ONE_WAY_MS,
          "rate_mbit": LINE_MBIT, "loss": LOSS}
STREAMS = (1, 16, 64)
SECONDS, WARM_S = 8, 3
ITERS, WARMUP = 5, 3
PATIENCE_S = 600
POOLS = (16, 64)        # PCCL's connections
PORT = 29451
MIB = 1 << 20
NAME = f"{2 * ONE_WAY_MS} ms round trip, {LINE_MBIT} Mbit/s, loss {LOSS:g}: "
FAILURES = (GroupError, Refused, say.Problem, wan.HostsError)
OF_STREAMS, OVER_PCCL = "of iperf3", "over PCCL"
# (what, bytes, algorithm of the peers, target against iperf3, target against PCCL)
CELLS = [("16 of 1 MiB one by one", 16 * MIB, "16_in_row", None, 1.5),
         ("16 of 1 MiB at once", 16 * MIB, "16_at_once", 0.9, 2.5),
         ("16 of 4 MiB at once", 64 * MIB, "16_at_once", 0.9, 2.5),
         ("64 of 1 MiB at once", 64 * MIB, "64_at_once", 0.9, 2.5)]


def names():
    """{name of a row: target}."""
    return {**{row_name(cell, OF_STREAMS): cell[3] for cell in CELLS},
            **{row_name(cell, OVER_PCCL): cell[4] for cell in CELLS}}


def best_streams():
    """The total rate of the best number of streams, in Mbit/s."""
    found = {}
    for n in STREAMS:
        with wan.Wan(MATRIX) as net:
            found[n] = sum(wan.streams(net, [(0, 1)] * n, SECONDS, WARM_S).mbit)
        say.progress(f"    iperf3, {n} streams: {say.number(found[n])} Mbit/s")
    return max(found.values())


def rates(start, cell):
    """The rates of the iterations of a cell, in Mbit/s."""
    what, nbytes, algo, *_ = cell
    with wan.Wan(MATRIX) as net, start(net) as group:
        reply = group.command(f"allreduce/{algo}", nbytes, ITERS, WARMUP, timeout_s=PATIENCE_S)
    found = [nbytes * 8 / us for us in reply["samples_us"]]
    say.progress(f"    {group.name}, {what}: {say.number(statistics.median(found))} Mbit/s")
    return found


def pccl_rates(cell):
    """PCCL's best pool."""
    best = []
    for number, pool in enumerate(POOLS):
        some = rates(lambda net, pool=pool, port=PORT + number: distant.pccl_peers(
            net, [0, 1], port, pool=pool), cell)
        if not best or statistics.median(some) > statistics.median(best):
            best = some
    return best


def row(what, reach, values, against, samples):
    return {"what": what, "value": round(statistics.median(values), 3), "reach": reach,
            "unit": "x", "better": "higher", "against": against,
            "spread": [round(min(values), 3), round(max(values), 3)], "samples": samples}


def row_name(cell, suffix):
    return f"{NAME}{cell[0]}, {suffix}"


def medians(options, measure, cell):
    """One median rate per round."""
    found = []
    for _ in range(options.rounds):
        with quiet.alone(options.lock):
            found.append(statistics.median(measure(cell)))
    return found


def cell_rows(options, cell, streams, with_pccl):
    _, _, _, of_streams, over_pccl = cell
    try:
        ours = medians(options, lambda one: rates(
            lambda net: distant.elastic(net, [0, 1], options.tutti), one), cell)
    except FAILURES as why:
        yield from ({"what": row_name(cell, suffix), "skipped": str(why)}
                    for suffix in (OF_STREAMS, OVER_PCCL))
        return
    yield row(row_name(cell, OF_STREAMS), of_streams, [mbit / streams for mbit in ours],
              f"the best of {', '.join(map(str, STREAMS))} streams, {say.number(streams)} Mbit/s",
              {"Mbit/s": ours})
    if not with_pccl:
        return
    try:
        theirs = medians(options, pccl_rates, cell)
    except FAILURES as why:
        yield {"what": row_name(cell, OVER_PCCL), "skipped": str(why)}
        return
    yield row(row_name(cell, OVER_PCCL), over_pccl, [a / b for a, b in zip(ours, theirs)],
              f"PCCL's better pool of {' and '.join(map(str, POOLS))}",
              {"Tutti Mbit/s": ours, "PCCL Mbit/s": theirs})


def rows(options, is_wanted):
    cells = [cell for cell in CELLS if any(is_wanted(options, row_name(cell, suffix))
                                           for suffix in (OF_STREAMS, OVER_PCCL))]
    if not cells:
        return
    say.progress("many operations over one line")
    try:
        with quiet.alone(options.lock):
            streams = best_streams()
    except FAILURES as why:
        yield from ({"what": name, "skipped": str(why)} for cell in cells
                    for name in (row_name(cell, suffix) for suffix in (OF_STREAMS, OVER_PCCL))
                    if is_wanted(options, name))
        return
    for cell in cells:
        yield from (one for one in cell_rows(options, cell, streams,
                                             is_wanted(options, row_name(cell, OVER_PCCL)))
                    if is_wanted(options, one["what"]))
