"""Products that overlap their communication (examples/tensor), compared with the same without
overlap.

Two hosts of four ranks are connected by a shaped link (tests/support/testbed.py). Its rate is
chosen so that communication takes as long as computation, which the program measures on the same
network before. The products are large, so that the copies of eight ranks on two cores are
negligible. A lane may have a rank's chunk outstanding (TUTTI_LANE_BYTES), so that puts do not wait.
The baselines are the same puts and the library's collective, without overlap. The value of a row is
the median over rounds of the faster baseline's time over the overlapped time. The program compares
every result with a dense reference."""

import ctypes
import json
import os
import statistics
import subprocess

from lib import build, quiet, rails, say, shaped

SUMMARY = ("allgather-GEMM and GEMM-reduce_scatter over windows, overlapped and not, on a "
           "shaped link")

HOSTS, PER_HOST = 2, 4
CONGESTION = "cubic"
WIDE_MBIT = 20000           # rate for the first run, which measures the computation
MBIT_MAX = 100000
TRIES = 4                   # for each rate
EVEN = 1.08                 # acceptable ratio of communication and computation, in either direction
LIMIT_S = 300
FLOAT_BYTES = 4
LANE_BYTES_LEAST = 4 << 20
SIZES = {True: 4096, False: 1024}       # of the product, with and without OpenBLAS
LAYERS = {"allgather-GEMM": "allgather", "GEMM-reduce_scatter": "reduce_scatter"}
REACH = 1.3
# (panels, target): with one panel, chunks can overlap at most half of the product, a factor of at
# most 1.33
PANELS = ((4, REACH), (1, None))


def add_options(parser):
    parser.add_argument("--size", type=int, metavar="N",
                        help="rows, columns and inner size of the product (default 4096 with "
                             "OpenBLAS, else 1024)")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds (default 7)")
    parser.add_argument("--gemm", default="auto", metavar="NAME",
                        help="openblas, own, or auto (default)")
    parser.add_argument("--quick", action="store_true", help="3 rounds")
    parser.add_argument("--tutti", metavar="PATH", help="the command; its folder contains "
                                                        "examples/ (default build/release/tutti)")
    quiet.add_option(parser)


def has_openblas():
    try:
        return bool(ctypes.CDLL("libopenblas.so.0"))
    except OSError:
        return False


def size_of(options):
    return options.size or SIZES[options.gemm != "own" and has_openblas()]


def what(layer, panels):
    cut = f"{panels} panels" if panels > 1 else "chunks in one piece"
    return f"{layer}, overlapped: faster than apart, {HOSTS} hosts x {PER_HOST} ranks, {cut}"


def listing(options):
    for layer in LAYERS:
        for panels, reach in PANELS:
            if not options.only or options.only.search(what(layer, panels)):
                yield what(layer, panels) + (f"  reach {reach}" if reach else "")


def turn(options, program, mbit, layer, panels, rounds):
    """Runs the program once on links of that rate; returns its output for the layer, and the
    implementation of the product."""
    size = size_of(options)
    lane_bytes = max(LANE_BYTES_LEAST, size * size // (HOSTS * PER_HOST) * FLOAT_BYTES)
    argv = [program, "--rows", size, "--inner", size, "--columns", size, "--panels", panels,
            "--rounds", rounds, "--gemm", options.gemm,
            "--layer", LAYERS[layer]]
    with quiet.alone(options.lock), rails.Bed(rails.Shape(HOSTS, PER_HOST, 1, mbit, CONGESTION),
                                              False) as bed:
        ranks = [subprocess.Popen(command, env={**os.environ, **env,
                                                "TUTTI_LANE_BYTES": str(lane_bytes)},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
                 for command, env in bed.tutti_launches(*argv)]
        try:
            said = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
        except subprocess.TimeoutExpired:
            raise say.Problem(f"tensor_parallel did not end within {LIMIT_S} s") from None
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    if any(rank.returncode for rank in ranks):
        raise say.Problem(next((err.strip() for _, err in said if err.strip()),
                               "tensor_parallel failed"))
    reply = json.loads(said[0][0])
    return {**reply["layers"][0], "gemm": reply["gemm"]}


def evenness(reply):
    """The ratio of communication time to computation time."""
    return statistics.median(reply["communicate_ms"]) / statistics.median(reply["compute_ms"])


def even_mbit(options, program, layer, panels):
    """The rate of the link at which both times are equal."""
    reply = turn(options, program, WIDE_MBIT, layer, panels, 2)
    # with headers
    mbit = 1.06 * reply["link_bytes"] * 8e-3 / statistics.median(reply["compute_ms"])
    for _ in range(TRIES):
        mbit = min(MBIT_MAX, max(1, round(mbit)))
        ratio = evenness(turn(options, program, mbit, layer, panels, 3))
        say.progress(f"    {layer}: at {mbit} Mbit/s communication takes {ratio:.2f} of the "
                     f"computation's time")
        if 1 / EVEN < ratio < EVEN:
            break
        mbit *= ratio
    return min(MBIT_MAX, max(1, round(mbit)))


def row(options, program, layer, panels, reach):
    mbit = even_mbit(options, program, layer, panels)
    reply = turn(options, program, mbit, layer, panels, options.rounds
                 or (3 if options.quick else 7))
    forms = ("puts_apart_ms", "collective_apart_ms")
    best = min(forms, key=lambda form: statistics.median(reply[form]))
    ratios = [apart / together for apart, together in zip(reply[best], reply["overlapped_ms"])]
    return {"what": what(layer, panels), "value": round(statistics.median(ratios), 3),
            "reach": reach, "unit": "x", "better": "higher",
            "against": "the same puts, not overlapped" if best == forms[0]
            else "the library's collective, not overlapped",
            "spread": [round(min(ratios), 3), round(max(ratios), 3)], "link_mbit": mbit,
            "communication_over_computation": round(evenness(reply), 3),
            "gemm": reply["gemm"], "product": size_of(options),
            "samples": {form: reply[form] for form in reply if form.endswith("_ms")}}


def run(options):
    program = build.tutti(options.tutti).parent / "examples" / "tensor_parallel"
    if not program.exists():
        raise say.Problem(f"{program} does not exist: build the examples")
    why = shaped.why_not()
    for layer in LAYERS:
        for panels, reach in PANELS:
            name = what(layer, panels)
            if options.only and not options.only.search(name):
                continue
            try:
                if why:
                    raise say.Problem(why)
                yield row(options, program, layer, panels, reach)
            except (say.Problem, shaped.HostsError) as trouble:
                yield {"what": name, "skipped": str(trouble)}
