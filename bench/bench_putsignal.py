"""Puts with signals from devices, in each mode of the proxy (docs/one-sided.md), between hosts with
high latency for one rack: network namespaces, connected by a relay that imposes latency and rate
(tests/support/wan.py).

One rank has `transfers` concurrent puts to the ranks of the other hosts, each with a signal; a
burst ends when all data has arrived. Modes run in turn, round by round, in the same processes. A
share is relative to puts without signals in the same round. The rows of the simulator are `tutti
sim putsignal` for a network with these parameters and unlimited processors. The latency row is
between two processes of this host.

Rows of "4 lanes" have 4 connections between any two ranks, used by one of the policies of
tutti_device_lanes: the lane that drains fastest, with sequence numbers; one lane for all traffic to
a peer; or all lanes in turn. Each policy has a separate run, and its shares are relative to puts
without signals over the same lanes.

Rows that begin with "relay" report the timing of the network: if packets were left unread, the
numbers were limited by this machine."""

import json
import re
import statistics
import subprocess

from lib import build, quiet, say, wan

SUMMARY = "puts with signals from devices, in each mode of the proxy"

MODES = ("put-only", "coupled", "decoupled", "ordered", "full")
HOSTS, PER_HOST = 8, 4
TRANSFERS, SMALL = 96, 4 << 10          # of the rows with targets
SIZES = [4 << 10 << 2 * k for k in range(6)]    # to 4 MiB
COUNTS = (1, 2, 4, 8, 16, 32, 64, 96, 128)
ONE_WAY_MS, MBIT = 1, 400
QUEUE_MS = 500          # holds all data that lanes send at once, so that no packet is lost
NODES = (2, 4, 8, 16)
LANES, POLICIES = 4, ("sequenced", "pinned", "round-robin")
LANES_MODES = ("put-only", "full")
SHORT_ROUNDS = 6        # factor for the number of rounds of short operations
PATIENCE_S = 3000
SHARE = "share of put-only"
RELAY_LATE, RELAY_UNREAD = "relay: packets came late by", "relay: packets left unread"
LATENCY = "latency of 8 B with a signal, shm, device to waiting device: times a bare flag's"
LATENCY_PROXY = "latency of 8 B with a signal, shm, through the proxy: times a bare flag's"


def add_options(parser):
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="repetitions of each mode (default 5)")
    parser.add_argument("--max", type=int, default=4096, metavar="KIB",
                        help="largest size, in KiB (default 4096: the large ones take minutes)")
    parser.add_argument("--mbit", type=int, default=MBIT, metavar="M",
                        help=f"rate of each host in Mbit/s (default {MBIT})")
    parser.add_argument("--delay-ms", type=float, default=ONE_WAY_MS, metavar="T",
                        help=f"one-way latency between hosts (default {ONE_WAY_MS})")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


# ---- names of rows ----

def sizes_of(options):
    return [nbytes for nbytes in SIZES if nbytes <= max(options.max << 10, SMALL)]


def share_what(mode, transfers, nbytes):
    return f"{mode}, {transfers} transfers of {say.size(nbytes)}: {SHARE}"


def sim_what(mode, nodes):
    return (f"simulated, {nodes} nodes of {PER_HOST}, {mode}, {TRANSFERS} transfers of "
            f"{say.size(SMALL)}: {SHARE}")


def share_reach(mode, transfers, nbytes):
    if mode != "full" or transfers != TRANSFERS:
        return None
    return 0.99 if nbytes >= 64 << 10 else 0.95 if nbytes == SMALL else None


SLOWER = f"coupled, {TRANSFERS} transfers of {say.size(SMALL)}: times slower than put-only"
DRAINS = f"full, {TRANSFERS} transfers: drains of a burst"
FENCES = f"full, {TRANSFERS} transfers: fences for each destination"


def fitted_what(mode, letter, simulated=None):
    where = f"simulated, {simulated} nodes of {PER_HOST}, " if simulated else ""
    return f"{where}{mode}, {TRANSFERS} transfers: {letter} of a transfer"


def lanes_what(policy, what):
    return f"{LANES} lanes, {policy}: {what}"


def beside_what(policy, nbytes):
    return lanes_what(policy, f"full, {TRANSFERS} transfers of {say.size(nbytes)}: times as long "
                              f"as {POLICIES[-1]}")


def lanes_names(options):
    out = {}
    for policy in POLICIES:
        out.update({lanes_what(policy, share_what("full", TRANSFERS, nbytes)): None
                    for nbytes in sizes_of(options)})
        out.update({lanes_what(policy, DRAINS): 0, lanes_what(policy, FENCES): 1})
        out.update({lanes_what(policy, fitted_what(mode, letter)): None for mode in LANES_MODES
                    for letter in ("alpha", "beta")})
        if policy != POLICIES[-1]:
            out.update({beside_what(policy, nbytes): None for nbytes in sizes_of(options)})
    return out


def names(options):
    """Returns {name: target} of all rows."""
    out = {}
    for transfers, nbytes in [(n, SMALL) for n in COUNTS] + [(TRANSFERS, nbytes)
                                                             for nbytes in sizes_of(options)[1:]]:
        out.update({share_what(mode, transfers, nbytes): share_reach(mode, transfers, nbytes)
                    for mode in MODES[1:]})
    out.update({SLOWER: 10, DRAINS: 0, FENCES: 1})
    out.update({fitted_what(mode, letter): None for mode in MODES for letter in ("alpha", "beta")})
    out.update(lanes_names(options))
    out.update({RELAY_LATE: None, RELAY_UNREAD: 0, LATENCY: 2, LATENCY_PROXY: None})
    out.update({sim_what(mode, nodes): None for nodes in NODES for mode in MODES[1:]})
    out.update({fitted_what(mode, letter, HOSTS): None for mode in MODES
                for letter in ("alpha", "beta")})
    return out


def wanted(options):
    return {what: reach for what, reach in names(options).items() if re.search(options.only, what)}


def listing(options):
    return (what + (f"  reach {reach}" if reach is not None else "")
            for what, reach in wanted(options).items())


# ---- running ----

def json_lines_of(argv, timeout_s=PATIENCE_S):
    """Runs a command and returns its JSON lines."""
    try:
        done = subprocess.run([str(word) for word in argv], capture_output=True, text=True,
                              check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise say.Problem(f"{' '.join(map(str, argv[:6]))} ... did not end within {timeout_s} s") from None
    if done.returncode:
        raise say.Problem((done.stderr.strip().splitlines()
                           or [f"exit status {done.returncode}"])[-1])
    return [json.loads(line) for line in done.stdout.splitlines()]


def on_hosts(options, net, *words, lanes=None):
    """Runs `tutti perf putsignal` with 4 ranks on each host."""
    tutti = build.tutti(options.tutti)
    hosts = ",".join(f"{name}:{PER_HOST}" for name in net.names)
    setting = ["-x", f"TUTTI_LANES={lanes}"] if lanes else []
    lines = json_lines_of(net.inside(0, tutti, "run", "-n", HOSTS * PER_HOST, "--hosts", hosts,
                                     "--rsh", net.on, "--output", "plain", *setting, "--", tutti,
                                     "perf",
                            "putsignal", "--json", "--check", *words))
    for line in lines:
        if line["what"] == "burst":
            if line["wrong"]:
                raise say.Problem(f"{line['mode']}: {line['wrong']} bytes are wrong")
            say.progress(f"    {line['mode']}, {line['transfers']} of {say.size(line['bytes'])}: "
                         f"{say.number(line['time_us'] / 1000)} ms, share "
                         f"{say.number(line['share'])}")
    return lines


def matrix(options):
    host = {"up_mbit": options.mbit, "down_mbit": options.mbit}
    return {"hosts": [{"name": f"node{h}", **host} for h in range(HOSTS)],
            "delay_ms": options.delay_ms, "queue_ms": QUEUE_MS}


def testbed(options):
    # Without slow start after idle: a source pauses between rounds, and TCP must not reopen its
    # windows each time.
    return wan.Wan(matrix(options), sysctls={"net/ipv4/tcp_slow_start_after_idle": 0})


def measured(options):
    """Runs everything; returns all lines of the real runs, and the statistics of the relay."""
    counts, sizes = ",".join(map(str, COUNTS)), ",".join(map(str, sizes_of(options)))
    with quiet.alone(options.lock), testbed(options) as net:
        before = wan.totals(net)
        by_count = on_hosts(options, net, "--concurrency", counts, "--bytes", SMALL, "--rounds",
                            options.rounds, "--iters", 3)
        # Short operations get more rounds, which are cheap, because they are noisier.
        short = on_hosts(options, net, "--concurrency", TRANSFERS, "--bytes", f"{SMALL},{64 << 10}",
                         "--mode", "put-only,full,ordered", "--rounds",
                         min(SHORT_ROUNDS * options.rounds, 63), "--iters", 3)
        by_size = on_hosts(options, net, "--concurrency", TRANSFERS, "--bytes", sizes, "--rounds",
                           options.rounds, "--iters", 1)
        after = wan.totals(net)
    return by_count, short, by_size, {"unread": after["unread"] - before["unread"],
                                      "dropped": after["dropped"] - before["dropped"],
                               "late_us": (after["late_us"]
                                           - before["late_us"]) / max(1, after["carried"] - before["carried"])}


def measured_by_policy(options):
    """Returns {policy: lines}."""
    sizes, out = ",".join(map(str, sizes_of(options))), {}
    with quiet.alone(options.lock), testbed(options) as net:
        for policy in POLICIES:
            say.progress(f"  {LANES} lanes, {policy}")
            out[policy] = on_hosts(options, net, "--concurrency", TRANSFERS, "--bytes", sizes,
                                   "--mode", ",".join(LANES_MODES), "--lanes", policy,
                                   "--rounds", options.rounds, "--iters", 1, lanes=LANES)
    return out


# ---- rows ----

def find(lines, **keys):
    return next((line for line in lines if all(line.get(key) == value
                                               for key, value in keys.items())), None)


def value_row(reaches, what, value, unit, better, **more):
    return {"what": what, "value": value, "reach": reaches[what], "unit": unit, "better": better,
            "against": more.pop("against", ""), **more}


def share_row(reaches, what, line, only, **more):
    shares = [o / m for o, m in zip(only["samples_us"], line["samples_us"])]
    return value_row(reaches, what, round(statistics.median(shares), 4), "x", "higher",
                     against="put-only in the same round",
                     spread=[round(min(shares), 4), round(max(shares), 4)], mode=line["mode"],
                     transfers=line["transfers"], bytes=line["bytes"],
                     nodes=line["hosts"], time_us=line["time_us"], drains=line["drains"],
                     fences=line["fences"], destinations=line["destinations"],
                     samples={line["mode"]: line["samples_us"], "put-only": only["samples_us"]},
                     **more)


def fitted_rows(reaches, fit, times, name, **more):
    """alpha and beta. times: [(bytes, microseconds per transfer)]; name(mode, letter) returns the
    name of a row."""
    for letter, unit, key, error in (("alpha", "us", "alpha_us", "alpha_error_us"),
                                     ("beta", "us/B", "beta_us_per_byte",
                                      "beta_error_us_per_byte")):
        what = name(fit["mode"], letter)
        if what in reaches:
            yield value_row(reaches, what, fit[key], unit, "lower", error=fit[error],
                            mode=fit["mode"], fitted=letter, nodes=fit["hosts"],
                            samples={"us of a transfer by bytes": times}, **more)


def times_of(lines, mode, **keys):
    return [[line["bytes"], line["time_us"] / line["transfers"]] for line in lines if line["what"]
            == "burst" and line["mode"] == mode
            and all(line[key] == value for key, value in keys.items())]


def count_rows(reaches, full, drains, fences, **more):
    if drains in reaches:
        yield value_row(reaches, drains, full["drains"], "", "lower",
                        samples={"drains": [full["drains"]]}, **more)
    if fences in reaches:
        yield value_row(reaches, fences, round(full["fences"] / full["destinations"], 4), "",
                        "lower",
                        against=f"{full['destinations']} destinations",
                        samples={"fences": [full["fences"]]}, **more)


def burst_rows(reaches, by_count, short, by_size):
    done = set()
    for lines in (short, by_count, by_size):        # the first of several measurements counts
        for line in lines:
            if line["what"] != "burst" or line["mode"] == "put-only":
                continue
            what = share_what(line["mode"], line["transfers"], line["bytes"])
            only = find(lines, what="burst", mode="put-only", transfers=line["transfers"],
                        bytes=line["bytes"])
            if what in reaches and what not in done:
                done.add(what)
                yield share_row(reaches, what, line, only)
    full, coupled, only = (find(by_count, what="burst", mode=mode, transfers=TRANSFERS)
                           for mode in ("full", "coupled", "put-only"))
    if SLOWER in reaches:
        times = [c / o for c, o in zip(coupled["samples_us"], only["samples_us"])]
        yield value_row(reaches, SLOWER, round(statistics.median(times), 2), "x", "higher",
                        against="put-only in the same round",
                        spread=[round(min(times), 2), round(max(times), 2)],
                        samples={"coupled": coupled["samples_us"], "put-only": only["samples_us"]})
    yield from count_rows(reaches, full, DRAINS, FENCES)
    for mode in MODES:
        fit = find(by_size, what="fit", mode=mode)
        if fit:
            yield from fitted_rows(reaches, fit, times_of(by_size, mode), fitted_what)


def real_rows(options, reaches):
    by_count, short, by_size, relay = measured(options)
    yield from burst_rows(reaches, by_count, short, by_size)
    if RELAY_LATE in reaches:
        yield value_row(reaches, RELAY_LATE, round(relay["late_us"], 1), "us", "lower",
                        samples={"late_us": [relay["late_us"]]},
                        network={"mbit": options.mbit, "one_way_ms": options.delay_ms})
    if RELAY_UNREAD in reaches:
        yield value_row(reaches, RELAY_UNREAD, relay["unread"], "", "lower",
                        dropped=relay["dropped"], samples={"unread": [relay["unread"]]})


def policy_rows(reaches, policy, lines, turn):
    """The rows of one policy; `turn` contains the lines of the policy that uses lanes in turn."""
    for nbytes in sorted({line["bytes"] for line in lines if line["what"] == "burst"}):
        full, only, other = (find(some, what="burst", mode=mode, bytes=nbytes)
                             for some, mode in ((lines, "full"), (lines, "put-only"),
                                                (turn, "full")))
        what = lanes_what(policy, share_what("full", TRANSFERS, nbytes))
        if what in reaches:
            yield {**share_row(reaches, what, full, only), "policy": policy}
        what = beside_what(policy, nbytes)
        if what in reaches:
            yield value_row(reaches, what, round(full["time_us"] / other["time_us"], 4), "x",
                            "lower", against=f"{POLICIES[-1]}, in a run of its own",
                            policy=policy, samples={policy: full["samples_us"],
                                                    POLICIES[-1]: other["samples_us"]})
    yield from count_rows(reaches, find(lines, what="burst", mode="full"),
                          lanes_what(policy, DRAINS), lanes_what(policy, FENCES), policy=policy)
    for mode in LANES_MODES:
        fit = find(lines, what="fit", mode=mode)
        if fit:
            yield from fitted_rows(reaches, fit, times_of(lines, mode),
                                   lambda mode,
                                   letter: lanes_what(policy, fitted_what(mode, letter)),
                                   policy=policy)


def lanes_rows(options, reaches):
    by_policy = measured_by_policy(options)
    for policy, lines in by_policy.items():
        yield from policy_rows(reaches, policy, lines, by_policy[POLICIES[-1]])


def simulated_rows(options, reaches):
    sizes = ",".join(map(str, sizes_of(options)))
    lines = json_lines_of([build.tutti(options.tutti), "sim", "putsignal", "--json", "--hosts",
                           ",".join(map(str, NODES)), "--ranks-per-host", PER_HOST, "--concurrency",
                  TRANSFERS, "--bytes", sizes, "--latency-us", options.delay_ms * 1000, "--gbit-s",
                           options.mbit / 1000])
    for nodes in NODES:
        only = find(lines, what="burst", mode="put-only", hosts=nodes, bytes=SMALL)
        for mode in MODES[1:]:
            what = sim_what(mode, nodes)
            if what in reaches:
                yield share_row(reaches, what, find(lines, what="burst", mode=mode, hosts=nodes,
                                                    bytes=SMALL), only, simulated=True)
    for mode in MODES:
        fit = find(lines, what="fit", mode=mode, hosts=HOSTS)
        if fit:
            yield from fitted_rows(reaches, fit, times_of(lines, mode, hosts=HOSTS),
                                   lambda mode, letter: fitted_what(mode, letter, HOSTS))


def latency_rows(options, reaches):
    with quiet.alone(options.lock):
        lines = json_lines_of([build.tutti(options.tutti), "perf", "putsignal", "--latency", "-n",
                               2, "--wire", "shm", "--rounds", 4 * options.rounds + 1, "--json"],
                              300)
    flag = find(lines, how="flag")
    for what, how in ((LATENCY, "direct"), (LATENCY_PROXY, "proxy")):
        line = find(lines, how=how)
        ratios = [a / b for a, b in zip(line["samples_us"], flag["samples_us"])]
        if what in reaches:
            yield value_row(reaches, what, round(statistics.median(ratios), 3), "x", "lower",
                            against=f"a bare flag, {flag['time_us']:.3f} us",
                            spread=[round(min(ratios), 3), round(max(ratios), 3)],
                            time_us=line["time_us"],
                            samples={how: line["samples_us"], "flag": flag["samples_us"]})


def part_rows(reaches, make, no_way=None):
    """The rows of a part, or rows with the reason why they are missing."""
    if not reaches:
        return
    left = dict(reaches)
    try:
        if no_way:
            raise say.Problem(no_way)
        for row in make(reaches):
            left.pop(row["what"])
            yield row
    except (say.Problem, wan.HostsError) as why:
        yield from ({"what": what, "skipped": str(why)} for what in left)


def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    build.tutti(options.tutti)
    reaches = wanted(options)
    simulated = {what: reach for what, reach in reaches.items() if what.startswith("simulated")}
    latency = {what: reach for what, reach in reaches.items() if what.startswith("latency")}
    lanes = {what: reach for what, reach in reaches.items() if what in lanes_names(options)}
    real = {what: reach for what, reach in reaches.items()
            if not any(what in some for some in (simulated, latency, lanes))}
    yield from part_rows(latency, lambda some: latency_rows(options, some))
    yield from part_rows(simulated, lambda some: simulated_rows(options, some))
    yield from part_rows(real, lambda some: real_rows(options, some), wan.why_not())
    yield from part_rows(lanes, lambda some: lanes_rows(options, some), wan.why_not())
