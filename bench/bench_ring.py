"""The order of a ring: the time of the search, and the distance of its result from a lower bound
for any ring.

Matrices are drawn from a seed, as in tests/elastic: peers at sites (fast within a site, slower
between sites by distance), peers at homes (uplinks slower than downlinks), and independent random
links. Each row is from `tutti ring order --json`: the time of the default search for one ring; its
slowest link over the bound of any ring; and the predicted all-reduce over the lower bound of any
ring. The latter bound is loose for few peers with very different latencies (docs/ring-order.md), so
it is only reported."""

import json
import math
import os
import random
import subprocess

from lib import build, say

SUMMARY = "the search for a ring's order: its time, and its distance from a lower bound"

SIZES = [(12, None), (18, None), (64, 1.0), (256, 10.0)]
NEAR = 1.05


def sites(draw, n):
    places = [(draw.random() * 9000, draw.random() * 5000) for _ in range(8)]
    at = [draw.randrange(8) for _ in range(n)]

    def link(i, k):
        km = math.dist(places[at[i]], places[at[k]])
        return (5000 if at[i] == at[k]
                else 2000 / (1 + km / 1000)) * draw.uniform(0.8, 1.2), 0.2 + km * 0.0075
    return link, {}


def homes(draw, n):
    up = [draw.uniform(10, 100) for _ in range(n)]
    down = [u * draw.uniform(1, 10) for u in up]
    return lambda i, k: (min(up[i], down[k]) * draw.uniform(0.4, 1),
                         draw.uniform(5, 80)), {"up_mbit_s": up, "down_mbit_s": down}


def alone(draw, n):
    return lambda i, k: (draw.uniform(20, 1000), draw.uniform(1, 150)), {}


KINDS = {"sites": sites, "homes": homes, "random": alone}


def matrix(kind, n, seed):
    draw = random.Random(seed)
    link, more = KINDS[kind](draw, n)
    links = [[(0, 0) if i == k else link(i, k) for k in range(n)] for i in range(n)]
    return {"bandwidth_mbit_s": [[rate for rate, _ in row] for row in links],
            "latency_ms": [[ms for _, ms in row] for row in links], **more}


def add_options(parser):
    parser.add_argument("--tutti", metavar="PATH",
                        help="the tutti to run (default build/release/tutti)")
    parser.add_argument("--seeds", type=int, default=3,
                        help="matrices of each kind and size; the worst counts (default 3)")


def names(kind, n):
    return tuple(f"{kind}, {n} peers: {what}" for what in ("search", "slowest link over bound",
                                                           "predicted over bound"))


def listing(options):
    for kind in KINDS:
        for n, _ in SIZES:
            yield from names(kind, n)


def run(options):
    program = str(build.tutti(options.tutti))
    if not os.access(program, os.X_OK):
        raise say.Problem(f"{program} cannot be run: build it first (cmake --build --preset "
                          f"release)")
    for kind in KINDS:
        for n, reach in SIZES:
            name, slowest, near = names(kind, n)
            if options.only and not any(options.only.search(what)
                                        for what in (name, slowest, near)):
                continue
            say.progress(name)
            found = []
            for seed in range(options.seeds):
                done = subprocess.run([program, "ring", "order", "--matrix", "-", "--json",
                                       "--quiet"],
                                      input=json.dumps(matrix(kind, n, seed)), capture_output=True,
                                      text=True, check=False)
                if done.returncode:
                    yield {"what": name, "skipped": done.stderr.strip()
                           or f"exit status {done.returncode}"}
                    break
                found.append(json.loads(done.stdout))
            else:
                times = [f["search_s"] for f in found]
                slow = [f["slowest_block_ns"] / f["slowest_block_bound_ns"] for f in found]
                ratios = [f["one_ring_ns"] / f["bound_ns"] for f in found]
                yield {"what": name, "value": max(times), "reach": reach, "unit": "s",
                       "better": "lower", "against": "one thread",
                       "samples": times}
                yield {"what": slowest, "value": max(slow), "reach": NEAR, "unit": "x",
                       "better": "lower", "against": "lower bound",
                       "samples": slow}
                yield {"what": near, "value": max(ratios), "reach": None, "unit": "x",
                       "better": "lower",
                       "against": "lower bound", "samples": ratios}
