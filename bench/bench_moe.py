"""Exchanges of a mixture of experts: dynamic sizes compared with known sizes and with padded
blocks, and the savings of a replay.

On shaped links (tests/support/testbed.py: one rank per host, one rail) every rank routes its tokens
to 1 or 4 experts, with a balanced or a Zipf distribution. All methods run the same exchange in turn
(`tutti perf a2av`). *padded* is the method of a program that must not wait for sizes: two
all-gathers, and an all-to-all with the maximum size that a rank may receive from another. *padded
to the largest* uses the largest actual size, which such a program cannot know in advance. The
target of these rows is 0.9 times the ratio of bytes on the busiest rank's link. The hosts share the
cores of this machine, and each would use all of them and spin. Therefore spinning is disabled for
all methods. With more hosts, the links are slower, so that the links determine the time and not the
cores (*cores*: their utilization during exchanges with dynamic sizes). Tc is the CPU time to start
a replay per other rank; those rows have 16 ranks on this machine and short pieces. Times are
medians over all rounds, of the slowest rank.

A complete layer of experts (examples/moe, which compares every result with a dense reference): one
kernel that computes tiles as they arrive, compared with the collectives with the same computation
between them, and with a proxy that drains before each signal (coupled). These collectives are also
compared with blocks padded in both directions to the maximum size. The rate of the links is chosen
so that the puts of the busiest rank take as long as its computation, which the program measures on
the same hosts before."""

import os
import statistics
import subprocess

from lib import build, jobs, quiet, say, shaped

SUMMARY = ("all-to-all with dynamic sizes, against known sizes and padded blocks; savings of a "
           "replay; "
           "a layer of experts in one kernel")

LATE_REACH = 1.1
TC_REACH = 2.0
SHARE = 0.9             # of the ratio of bytes
PORT = 18991
TURN_S = 150
ITERS, SLOW_ITERS = 7, 3       # iterations per repetition; on slow links
MBIT = {8: 400, 16: 100}        # largest number of ranks: rate of the links
ON_SHARED_CORES = ["env", "TUTTI_SPIN_US=0"]
LAYER_PAIRS = {         # form: (baseline form, target, label)
    "collective": ("full", 1.0, "one kernel, full"),        # not slower
    "coupled": ("full", 1.0, "one kernel, full"),
    "padded": ("collective", None, "dynamic sizes; the paper: 15 to 80 % end to end"),
}
LAYER_WIDE_MBIT = 20000         # rate for the first run, which measures the computation
LAYER_LIMIT_S = 300
SAVINGS = {"replay_without_chain": "chained posts",
           "replay_without_bypass": "the bypass for short messages",
           "replay_without_handles": "handles that are exchanged once",
           "replay_without_all": "all three"}


def add_options(parser):
    parser.add_argument("--mbit", type=int, help="rate of the links (default 400; 100 with more "
                                                 "than 8 ranks)")
    parser.add_argument("--ranks", default="4,8,16",
                        help="numbers of ranks, one per host (default 4,8,16)")
    parser.add_argument("--top", default="1,4", help="experts per token (default 1,4)")
    parser.add_argument("--skew", default="0,1", help="exponents of the Zipf distribution of "
                                                      "experts (default 0,1)")
    parser.add_argument("--tokens", type=int, default=256, help="per rank (default 256)")
    parser.add_argument("--bytes", type=int, default=4096, help="per token (default 4096)")
    parser.add_argument("--shapes", default="qwen3-30b,deepseek-v3,gpt-oss-120b",
                        help="shapes of expert layers (default all three)")
    parser.add_argument("--routes", default="balanced,0,0.5,1,1.5",
                        help="routes of their tokens: balanced, or a Zipf exponent (default "
                             "balanced,0,0.5,1,1.5)")
    parser.add_argument("--layer-ranks", type=int, default=4, help="ranks of a layer (default 4)")
    parser.add_argument("--layer-tokens", type=int, default=64,
                        help="tokens per rank of a layer (default 64)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--tutti", metavar="PATH", help="the command (default build/release/tutti)")
    quiet.add_option(parser)


def numbers(text, option, kind=int):
    try:
        return [kind(n) for n in text.split(",")]
    except ValueError:
        raise say.Problem(f"{option} {text}: it should be numbers with commas") from None


def cases_of(options):
    return [(n, top, skew) for n in numbers(options.ranks, "--ranks")
            for top in numbers(options.top, "--top")
            for skew in numbers(options.skew, "--skew", float)]


def mbit_of(options, nranks):
    return options.mbit or next((mbit for most, mbit in MBIT.items() if nranks <= most),
                                min(MBIT.values()))


def case_text(options, case):
    nranks, top, skew = case
    return (f"{options.tokens} tokens of {say.size(options.bytes)}, top-{top}, skew {skew:g}, "
            f"{nranks} ranks, {mbit_of(options, nranks)} Mbit/s")


def whats_of(options, case):
    text = case_text(options, case)
    return {"known": f"dynamic sizes, {text}: times as long as known sizes",
            "padded": f"padded, {text}: times as long as dynamic sizes",
            "padded_seen": f"padded to the largest, {text}: times as long as dynamic sizes"}


def tc_whats(wire):
    return {way: f"sender's cost per message, 16 ranks, {wire}: times as much without {saving}"
            for way, saving in SAVINGS.items()}


def is_wanted(options, what):
    return not options.only or options.only.search(what)


def layers_of(options):
    return [(shape, route) for shape in options.shapes.split(",")
            for route in options.routes.split(",")]


def layer_whats(options, layer):
    shape, route = layer
    text = (f"experts of {shape}, {'balanced' if route == 'balanced' else f'skew {route}'}, "
            f"{options.layer_ranks} ranks of {options.layer_tokens} tokens")
    return {"collective": f"{text}: collectives and computing between them, times as long as one "
                          f"kernel",
            "coupled": f"{text}: one kernel whose proxy is coupled, times as long as full",
            "padded": f"{text}: padded collectives and computing between them, times as long as "
                      f"with dynamic sizes"}


def listing(options):
    for what in [w for case in cases_of(options) for w in whats_of(options, case).values()] + \
            [w for layer in layers_of(options) for w in layer_whats(options, layer).values()] + \
            [w for wire in ("tcp", "shm") for w in tc_whats(wire).values()]:
        if is_wanted(options, what):
            yield what


def perf(options, program, args, nranks, bed=None):
    """The rows of one repetition, by method."""
    argv = [*(ON_SHARED_CORES if bed else []), program, "perf", "a2av", "--json", *map(str, args)]
    return {row["method"]: row for row in jobs.rows(argv, nranks, bed, options.lock, PORT, TURN_S)}


def rows_of(options, case, turns):
    """Builds the report rows of one case from its repetitions over shaped links."""
    def us(way):
        return [turn[way]["time_us"] for turn in turns]

    def row(what, over, under, reach, better, against):
        ratios = [a / b for a, b in zip(us(over), us(under))]
        return {"what": what, "value": round(statistics.median(ratios), 3), "reach": reach,
                "unit": "x", "better": better, "against": against,
                "spread": [round(min(ratios), 3), round(max(ratios), 3)],
                "samples": {f"{w} us": us(w) for w in (over, under)}}

    whats = whats_of(options, case)
    busy = statistics.median(case[0] * turn["dynamic"]["cpu_us"] / turn["dynamic"]["time_us"]
                             for turn in turns) / os.cpu_count()
    late_bytes = statistics.mean(turn["dynamic"]["busiest_bytes"] for turn in turns)
    if is_wanted(options, whats["known"]):
        yield {**row(whats["known"], "dynamic", "known", LATE_REACH, "lower", "tutti_alltoallv"),
               "cores_busy": round(busy, 2)}
    for way in ("padded", "padded_seen"):
        if is_wanted(options, whats[way]):
            less = statistics.mean(turn[way]["busiest_bytes"] for turn in turns) / late_bytes
            yield {**row(whats[way], way, "dynamic", round(SHARE * less, 2), "higher",
                         "two allgathers and an alltoall"), "bytes_ratio": round(less, 3)}


def on_links(options, program, case):
    nranks, top, skew = case
    with shaped.Testbed(nranks, 1, mbit_of(options, nranks)) as bed:
        turns = []
        for number in range(options.rounds):
            turns.append(perf(options, program, ["--tokens", options.tokens, "--bytes",
                                                 options.bytes, "--experts", 8 * nranks, "--top",
                                                 top, "--skew", skew,
                                                 "--seed", number + 1, "--iters",
                                                 ITERS if nranks <= 8 else SLOW_ITERS, "--methods",
                                                 "dynamic,known,padded,padded_seen"], nranks, bed))
            say.progress(f"round {number + 1} of {options.rounds}: {case_text(options, case)}")
    yield from rows_of(options, case, turns)


def layer_turn(options, program, layer, mbit, rounds):
    """The output of examples/moe for one layer on links of that rate."""
    shape, route = layer
    argv = [str(program), "--json", "--shape", shape, "--tokens", str(options.layer_tokens),
            "--rounds", str(rounds), "--forms", "collective,padded,full,coupled",
            *([] if route == "balanced" else ["--skew", route])]
    with shaped.Testbed(options.layer_ranks, 1, mbit) as bed:
        return jobs.rows(argv, options.layer_ranks, bed, options.lock, PORT, LAYER_LIMIT_S)[0]


def layer_rows(options, program, layer):
    wanted = {form: what for form, what in layer_whats(options, layer).items()
              if is_wanted(options, what)}
    if not wanted:
        return
    wide = layer_turn(options, program, layer, LAYER_WIDE_MBIT, 2)
    mbit = max(1, min(LAYER_WIDE_MBIT,
                      round(wide["put_bytes"] * 8e-3 / statistics.median(wide["compute_ms"]))))
    said = layer_turn(options, program, layer, mbit, max(2 * options.rounds, 3))
    say.progress(f"{layer[0]}, {layer[1]}: {mbit} Mbit/s")
    for form, what in wanted.items():
        under, reach, against = LAYER_PAIRS[form]
        ratios = [a / b for a, b in zip(said[f"{form}_ms"], said[f"{under}_ms"])]
        yield {"what": what, "value": round(statistics.median(ratios), 3), "reach": reach,
               "unit": "x", "better": "higher",
               "against": against, "spread": [round(min(ratios), 3), round(max(ratios), 3)],
               "link_mbit": mbit,
               "hidden": said["hidden"], "intermediate": said["intermediate"],
               "put_bytes": said["put_bytes"], "proxy": said["proxy"],
               "samples": {key: said[key] for key in (f"{form}_ms", f"{under}_ms", "compute_ms")}}


def senders_cost(options, program, wire):
    whats = {way: what for way, what in tc_whats(wire).items() if is_wanted(options, what)}
    turns = []
    for number in range(options.rounds if whats else 0):
        turns.append(perf(options, program, ["--wire", wire, "--tokens", 64, "--bytes", 64,
                                             "--experts", 64, "--top", 2, "--dealt", "--iters", 20,
                                             "--methods", ",".join(["replay", *SAVINGS])], 16))
        say.progress(f"round {number + 1} of {options.rounds}: sender's cost, {wire}")
    for way, what in whats.items():
        ratios = [turn[way]["tc_us"] / turn["replay"]["tc_us"] for turn in turns]
        yield {"what": what, "value": round(statistics.median(ratios), 3), "reach": TC_REACH
               if way == "replay_without_all" else None, "unit": "x",
               "better": "higher", "against": "a replay with all it saves",
               "spread": [round(min(ratios), 3), round(max(ratios), 3)],
               "samples": {f"{w} Tc us": [turn[w]["tc_us"] for turn in turns]
                           for w in (way, "replay")}}


def run(options):
    if options.rounds < 1:
        raise say.Problem(f"--rounds {options.rounds}: at least one is needed")
    program = str(build.tutti(options.tutti))
    why = shaped.why_not()
    for case in cases_of(options):
        wanted = [what for what in whats_of(options, case).values() if is_wanted(options, what)]
        if why:
            yield from ({"what": what, "skipped": why} for what in wanted)
            continue
        try:
            if wanted:
                yield from on_links(options, program, case)
        except (shaped.HostsError, subprocess.TimeoutExpired) as trouble:
            raise say.Problem(f"{case_text(options, case)}: {trouble}") from None
    layer_program = build.tutti(options.tutti).parent / "examples" / "moe"
    for layer in layers_of(options):
        wanted = [what for what in layer_whats(options, layer).values() if is_wanted(options, what)]
        if why or not layer_program.exists():
            yield from ({"what": what, "skipped": why
                         or f"{layer_program} does not exist: build the examples"}
                        for what in wanted)
            continue
        try:
            yield from layer_rows(options, layer_program, layer)
        except (shaped.HostsError, subprocess.TimeoutExpired) as trouble:
            raise say.Problem(f"experts of {layer[0]}: {trouble}") from None
    for wire in ("tcp", "shm"):
        try:
            yield from senders_cost(options, program, wire)
        except subprocess.TimeoutExpired as trouble:
            raise say.Problem(f"sender's cost, {wire}: {trouble}") from None
