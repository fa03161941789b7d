#!/usr/bin/env python3
"""tutti plan: its output matches the algorithm; JSON plans follow docs/plan-format.md."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from share import SHARE, of_turn        # noqa: E402

TUTTI = Path(os.environ["TUTTI_BUILD_DIR"]) / "tutti"
SVG = "{http://www.w3.org/2000/svg}"
NO_JSON = ("allgatherv", "gatherv", "scatterv", "reduce_scatterv", "alltoallv", "send", "recv")


SOURCE = Path(os.environ.get("TUTTI_SOURCE_DIR", Path(__file__).resolve().parents[2]))
PLUGIN = TUTTI.parent / "examples" / "plugin" / "allgather_bothways.so"
PLAN = SOURCE / "examples" / "plugin" / "allgather_sockets4.json"
LINEAR = SOURCE / "examples" / "plugin" / "allgather_linear4.json"


def plan(*args, algorithms=""):
    return subprocess.run([TUTTI, "plan", *args], capture_output=True, text=True, timeout=60,
                          check=False,
                          env={**os.environ, "TUTTI_ALGORITHMS": str(algorithms)})


def done(test, *args):
    result = plan(*args)
    test.assertEqual(result.returncode, 0, result.stderr)
    test.assertEqual(result.stderr, "")
    return result.stdout


def listed():
    return json.loads(subprocess.run([TUTTI, "info", "--algos", "--json"], capture_output=True,
                                     text=True, check=True).stdout)


def algos():
    return [(a["coll"], a["name"]) for a in listed()]


# ---- a reader of plans, written from the document ----

class Rank:
    """Memory has one origin per byte: moved bytes keep it, a reduced byte has a sorted tuple of
    origins."""

    def __init__(self, steps, work_bytes, src, dst_bytes):
        self.memory = {"SRC": src, "DST": [None] * dst_bytes, "WORK": [None] * work_bytes}
        self.pipes = {}
        self.steps = steps

    def places(self, ref, count):
        block, stride = ref.get("block", count), ref.get("stride", 0)
        return [ref["offset"] + i // block * stride + i % block for i in range(count)]

    def load(self, ref, count):
        if ref["buf"] == "PIPE":
            return self.pipes.pop(ref["offset"])
        return [self.memory[ref["buf"]][i] for i in self.places(ref, count)]

    def store(self, ref, values):
        if ref["buf"] == "PIPE":
            self.pipes[ref["offset"]] = values
            return
        for i, value in zip(self.places(ref, len(values)), values):
            self.memory[ref["buf"]][i] = value


def combine(a, b):
    assert a[0] == b[0], "different elements"
    return (a[0], tuple(sorted(a[1] + b[1])))


def step_once(ranks, r, mail):
    """Runs the next step of rank r. Returns False if it must wait."""
    me, s = ranks[r], ranks[r].steps[0]
    if s["op"] == "put":
        mail[r, s["peer"], s["tag"]] = me.load(s["from"], s["bytes"]) if s["bytes"] else []
    elif s["op"] == "wait":
        if (s["peer"], r, s["tag"]) not in mail:
            return False
        values = mail.pop((s["peer"], r, s["tag"]))
        assert len(values) == s["bytes"]
        if values:
            me.store(s["to"], values)
    elif s["op"] == "copy":
        me.store(s["to"], me.load(s["from"], s["bytes"]))
    else:
        a, b = me.load(s["a"], s["bytes"]), me.load(s["b"], s["bytes"])
        me.store(s["to"], [combine(x, y) for x, y in zip(a, b)])
    me.steps.pop(0)
    return True


def buffers(doc):
    """(bytes of SRC, bytes of DST) of each rank."""
    n, b = doc["nranks"], doc["bytes"]
    at_root = [r == doc["root"] for r in range(n)]
    return {
        "allreduce": [(b, b)] * n, "allgather": [(b, n * b)] * n, "alltoall": [(n * b, n * b)] * n,
        "reduce_scatter": [(n * b, b)] * n, "barrier": [(0, 0)] * n,
        "reduce": [(b, b * root) for root in at_root],
        "broadcast": [(b * root, b) for root in at_root],
        "gather": [(b, n * b * root) for root in at_root],
        "scatter": [(n * b * root, b) for root in at_root],
    }[doc["coll"]]


def results(doc):
    ranks = [Rank([s for steps in rank["rounds"] for s in steps], rank["work_bytes"],
                  [(i, (rank["rank"],)) for i in range(src)], dst)
             for rank, (src, dst) in zip(doc["ranks"], buffers(doc))]
    mail = {}
    while any(rank.steps for rank in ranks):
        moved = [step_once(ranks, r, mail) for r in range(len(ranks)) if ranks[r].steps]
        assert any(moved), "deadlock"
    return [rank.memory["DST"] for rank in ranks]


def expected(doc):
    n, b, root = doc["nranks"], doc["bytes"], doc["root"]
    everybody = tuple(range(n))
    total = [(i, everybody) for i in range(n * b)]
    rows = [(i, (r,)) for r in range(n) for i in range(b)]
    return {
        "allreduce": [total[:b]] * n, "allgather": [rows] * n, "barrier": [[]] * n,
        "reduce_scatter": [total[r * b:(r + 1) * b] for r in range(n)],
        "reduce": [total[:b] if r == root else [] for r in range(n)],
        "broadcast": [[(i, (root,)) for i in range(b)]] * n,
        "gather": [rows if r == root else [] for r in range(n)],
        "scatter": [[(r * b + i, (root,)) for i in range(b)] for r in range(n)],
        "alltoall": [[(r * b + i, (from_,)) for from_ in range(n) for i in range(b)]
                     for r in range(n)],
    }[doc["coll"]]


class Json(unittest.TestCase):
    def test_every_plan_gives_its_result(self):
        seen = 0
        for coll, name in of_turn(algos()):
            if coll in NO_JSON:
                continue
            for ranks in ("4", "5"):
                root = ["--root", "2"] if coll in ("reduce", "broadcast", "gather",
                                                   "scatter") else []
                result = plan("show", coll, name, "--json", "--ranks", ranks, "--bytes", "12",
                              *root)
                if "does not support this call" in result.stderr:
                    continue
                self.assertEqual(result.returncode, 0, result.stderr)
                doc = json.loads(result.stdout)
                self.assertEqual((doc["format"], doc["name"], doc["coll"]),
                                 ("tutti-plan-1", name, coll))
                self.assertEqual({len(rank["rounds"]) for rank in doc["ranks"]},
                                 {len(doc["ranks"][0]["rounds"])})
                if coll != "barrier":       # the bytes that it reads have no meaning
                    self.assertEqual(results(doc), expected(doc), f"{name}, {ranks} ranks")
                seen += 1
        self.assertGreater(seen, 40 / SHARE)

    def test_missing_plan_is_reported(self):
        result = plan("show", "allgatherv", "ring", "--json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot print allgatherv as JSON", result.stderr)


class Show(unittest.TestCase):
    def test_program_of_rank_names_data_origins(self):
        text = done(self, "show", "allgather", "ring", "--ranks", "4", "--rank", "1", "--bytes",
                    "64")
        self.assertEqual(re.findall(r"put +\S+\[\d+, \d+\) +-> +2 .* 64 B  tag \d+ +from (\d)",
                                    text), ["1", "0", "3"])
        self.assertEqual(text.count("\nround "), 3)
        self.assertIn("sends 192 B in 3, receives 192 B in 3", text)

    def test_sums_are_described(self):
        text = done(self, "show", "allreduce", "doubling", "--ranks", "4")
        self.assertIn("from 0\n", text)
        self.assertIn("sum of 0-1\n", text)
        self.assertIn("finish", text)

    def test_few_rounds_of_131072_ranks_work(self):
        text = done(self, "show", "allgather", "ring", "--ranks", "131072", "--rank", "70000",
                    "--rounds", "2")
        self.assertIn("... 131069 of 131071 rounds are not shown", text)

    def test_every_algorithm_is_shown(self):
        for coll, name in of_turn(algos()):
            ranks = "2" if coll in ("send", "recv") else "8"
            result = plan("show", coll, name, "--ranks", ranks, "--ranks-per-host", ranks,
                          "--sockets", "2")
            if "does not support this call" not in result.stderr:
                self.assertEqual((result.returncode, result.stderr), (0, ""), name)


class Draw(unittest.TestCase):
    def test_each_transfer_has_an_arrow(self):
        for coll, algo, ranks, arrows in (("allgather", "doubling", 4, 8),
                                          ("allgather", "doubling", 8, 24),
                                          ("allgather", "ring", 16, 240),
                                          ("alltoall", "direct", 8, 56)):
            svg = xml.etree.ElementTree.fromstring(done(self, "draw", coll, algo, "--ranks",
                                                        str(ranks), "--ranks-per-host", "4"))
            drawn = [g for g in svg.iter(SVG + "g") if g.get("data-from") is not None]
            self.assertEqual(len(drawn), arrows)
            self.assertEqual({int(g.get("data-from")) for g in drawn}, set(range(ranks)))
            self.assertTrue(all(g.find(SVG + "title").text.startswith("round ") for g in drawn))
            self.assertEqual(len([t for t in svg.iter(SVG + "text") if t.get("class") == "r"]),
                             ranks)

    def test_colours_distinguish_links(self):
        svg = xml.etree.ElementTree.fromstring(
            done(self, "draw", "allgather", "doubling", "--ranks", "8", "--ranks-per-host", "4",
                 "--sockets", "2"))
        strokes = {}
        for g in svg.iter(SVG + "g"):
            if g.get("data-from") is not None:
                how = int(g.get("data-from")) ^ int(g.get("data-to"))
                strokes.setdefault(how, set()).add(g.find(SVG + "path").get("stroke"))
        self.assertEqual(set(strokes), {1, 2, 4})
        self.assertEqual([len(colours) for colours in strokes.values()], [1, 1, 1])
        self.assertEqual(len(set.union(*strokes.values())), 3)

    def test_everything_is_inside_the_picture(self):
        svg = xml.etree.ElementTree.fromstring(
            done(self, "draw", "allreduce", "rabenseifner", "--ranks", "16", "--hosts", "4"))
        width, height = float(svg.get("width")), float(svg.get("height"))
        for path in svg.iter(SVG + "path"):
            numbers = [float(x) for x in re.findall(r"-?[\d.]+", path.get("d"))]
            if path.get("marker-end") and "C" in path.get("d"):
                self.assertTrue(all(0 < x < width for x in numbers[0::2]), path.get("d"))
                self.assertTrue(all(0 < y < height for y in numbers[1::2]), path.get("d"))

    def test_a_page_holds_the_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "plan.html"
            self.assertEqual(done(self, "draw", "broadcast", "binomial", "-o", str(page)), "")
            text = page.read_text()
            self.assertTrue(text.startswith("<!doctype html>"))
            self.assertEqual(text.count('data-from="'), 3)
            self.assertNotIn("http", text.replace("http://www.w3.org/2000/svg", ""))

    def test_a_part_of_the_rounds(self):
        svg = xml.etree.ElementTree.fromstring(done(self, "draw", "allgather", "ring", "--ranks",
                                                    "8", "--rounds", "2-3"))
        titles = [t.text for t in svg.iter(SVG + "title")]
        self.assertEqual({t.split(":")[0] for t in titles}, {"round 2", "round 3"})


class Congestion(unittest.TestCase):
    def labels(self, *args):
        doc = json.loads(done(self, "congestion", *args, "--json"))
        return {(t["step"], t["from"], t["to"]): t["congestion"] for t in doc["transfers"]}

    def test_recursive_doubling_takes_blocks_across_twice(self):
        labels = self.labels("allgather", "doubling", "--ranks", "4", "--sockets", "2")
        self.assertEqual({k: v for k, v in labels.items() if k[0] == 1},
                         {(1, a, a ^ 2): "duplicate" for a in range(4)})
        self.assertEqual({k: v for k, v in labels.items() if k[0] == 0},
                         {(0, a, a ^ 1): "congestion-free" for a in range(4)})

    def test_text_is_equivalent(self):
        text = done(self, "congestion", "allgather", "doubling", "--ranks", "4", "--sockets", "2")
        self.assertEqual(len(re.findall(r"-> .*duplicate", text)), 4)
        self.assertIn("8 transfers: 4 congestion-free, 0 serialized, 0 incast, 4 duplicate", text)


    def test_four_gpus_run_three_phases(self):
        free = "congestion-free"
        pairs = [(a, a ^ 1) for a in range(4)]
        across = [(0, 2), (1, 3), (2, 1), (3, 0)]
        labels = self.labels("allgather", "parallel_rings_sockets", "--ranks", "4", "--sockets",
                             "2")
        self.assertEqual(labels,
                         {(step, *pair): free
                          for step, step_pairs in enumerate((pairs, across, pairs))
                          for pair in step_pairs})

    def test_socket_rings_are_free_of_congestion(self):
        for hosts in (2, 3, 8):
            for coll, algo in (("allgather", "parallel_rings_sockets"),
                               ("reduce_scatter", "parallel_rings")):
                labels = self.labels(coll, algo, "--hosts", str(hosts), "--ranks-per-host", "4",
                                     "--sockets", "2")
                self.assertEqual(set(labels.values()), {"congestion-free"}, (coll, hosts))


class Outside(unittest.TestCase):
    """Algorithms added by TUTTI_ALGORITHMS."""

    def test_json_plan_is_shown_and_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            shown = plan("show", "allgather", "sockets4", "--rank", "2", algorithms=PLAN)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("\nneeds 4 ranks", shown.stdout)
            self.assertRegex(shown.stdout, r"put +.* -> +1 .* from 2")
            looked = plan("congestion", "allgather", "sockets4", "--sockets", "2", algorithms=PLAN)
            self.assertIn("12 transfers: 12 congestion-free", looked.stdout)
            drawn = plan("draw", "allgather", "sockets4", "-o", f"{folder}/plan.svg",
                         algorithms=PLAN)
            self.assertEqual((drawn.returncode, drawn.stderr), (0, ""))
            self.assertEqual(Path(folder, "plan.svg").read_text().count('data-from="'), 12)
            written = plan("show", "allgather", "sockets4", "--json", algorithms=PLAN)
            Path(folder, "again.json").write_text(written.stdout)
            again = plan("show", "allgather", "sockets4", "--json",
                         algorithms=Path(folder, "again.json"))
            self.assertEqual(again.stdout, written.stdout)

    def test_linear_plan_floods_one_receiver(self):
        looked = plan("congestion", "allgather", "linear4", "--sockets", "2", "--json",
                      algorithms=LINEAR)
        self.assertEqual((looked.returncode, looked.stderr), (0, ""))
        free, incast = "congestion-free", "incast"
        self.assertEqual({(t["step"], t["from"], t["to"]): t["congestion"]
                          for t in json.loads(looked.stdout)["transfers"]}, {
            (0, 0, 1): free, (0, 1, 0): free, (0, 2, 0): incast, (0, 3, 0): incast,
            (1, 0, 2): incast, (1, 1, 2): incast, (1, 2, 1): incast, (1, 3, 1): incast,
            (2, 0, 3): incast, (2, 1, 3): incast, (2, 2, 3): free, (2, 3, 2): free})

    def test_plan_with_a_name_is_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "mine.json")
            file.write_text(plan("show", "allgather", "ring", "--ranks", "5", "--json").stdout)
            refused = plan("show", "allgather", "ring", "--ranks", "5", algorithms=file)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f'{file}: duplicate name of algorithm "allgather_ring"', refused.stderr)
            file.write_text(plan("show", "allgather", "ring", "--ranks", "5", "--json", "--name",
                                 "allgather_mine").stdout)
            ours, mine = (plan("show", "allgather", name, "--ranks", "5", "--json", "--name",
                               "allgather_x", algorithms=file)
                          for name in ("ring", "mine"))
            self.assertEqual((mine.returncode, mine.stdout), (0, ours.stdout))

    def test_shared_object_is_shown_and_drawn(self):
        for args in (("show", "allgather", "bothways"), ("draw", "allgather", "allgather_bothways"),
                     ("congestion", "allgather", "bothways", "--json")):
            result = plan(*args, "--ranks", "5", algorithms=PLUGIN)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("allgather_bothways", result.stdout)

    def test_invalid_plan_gets_the_finding(self):
        doc = json.loads(PLAN.read_text())
        doc["ranks"][1]["rounds"][0] = doc["ranks"][1]["rounds"][0][1:]
        with tempfile.TemporaryDirectory() as folder:
            wrong = Path(folder, "wrong.json")
            wrong.write_text(json.dumps(doc))
            result = plan("show", "allgather", "sockets4", algorithms=wrong)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"wrong\.json is invalid: rank \d")

    def test_plan_for_other_ranks_explains_itself(self):
        result = plan("show", "allgather", "sockets4", "--ranks", "3", algorithms=PLAN)
        self.assertEqual(result.returncode, 1)
        self.assertIn("it needs 4 ranks", result.stderr)


class Needs(unittest.TestCase):
    """Algorithms with requirements report the reason if they do not support a call."""

    def test_unsupported_call_explains_itself(self):
        result = plan("show", "barrier", "onestep", "--ranks", "16")
        self.assertEqual(result.returncode, 1)
        self.assertIn("(it needs 8 ranks or fewer)\n", result.stderr)

    def test_named_algorithm_supports_long_calls(self):
        named = [a for a in listed() if a["needs"].endswith("; any number of bytes if selected "
                                                            "by name")]
        self.assertGreater(len(named), 12)
        for algo in named:
            result = plan("show", algo["coll"], algo["name"], "--ranks", "16", "--bytes", "1M",
                          "--rounds", "1")
            self.assertEqual(result.returncode, 0, (algo["name"], result.stderr))

    def test_requirements_are_shown(self):
        for algo in listed():
            if algo["coll"] in ("send", "recv"):
                continue
            result = plan("show", algo["coll"], algo["name"], "--ranks", "4", "--bytes", "64")
            self.assertEqual(result.returncode, 0, (algo["name"], result.stderr))
            self.assertEqual([line[6:] for line in result.stdout.splitlines()
                              if line.startswith("needs ")],
                             [algo["needs"]] if algo["needs"] else [], algo["name"])

    def test_simulation_and_measurement_report_requirements(self):
        env = {**os.environ, "TUTTI_ALGORITHMS": str(PLAN)}     # of 4 ranks
        named = subprocess.run([TUTTI, "sim", "allgather", "--ranks", "3", "--quiet", "--algo",
                                "sockets4"], env=env,
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(named.returncode, 1)
        self.assertIn("it needs 4 ranks", named.stderr)
        perf = subprocess.run([TUTTI, "perf", "-n", "2", "allgather", "--algo", "sockets4", "--max",
                               "8"], env=env,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("does not support this call (it needs 4 ranks", perf.stdout)

    def test_named_algorithm_gets_its_memory(self):
        needs = {a["name"]: a["needs"] for a in listed()}["alltoall_bruck"]
        sim = [TUTTI, "sim", "alltoall", "--ranks", "16", "--bytes", "64M", "--quiet", "--algo"]
        named = subprocess.run([*sim, "bruck"], capture_output=True, text=True, timeout=60,
                               check=True)
        self.assertRegex(named.stdout, r"alltoall_bruck +\d")
        of_all = subprocess.run([*sim, "all"], capture_output=True, text=True, timeout=60,
                                check=True)
        self.assertIn(f"alltoall_bruck is omitted (it needs {needs}", of_all.stdout)
        for coll, algo in (("alltoall", "bruck"), ("reduce_scatter", "halving"),
                           ("reduce", "binomial")):
            perf = subprocess.run([TUTTI, "perf", "-n", "3", coll, "--algo", algo, "--min", "4M",
                                   "--max", "4M", "--iters", "1",
                                   "--warmup", "0", "--check"], capture_output=True, text=True,
                                  timeout=120, check=True)
            self.assertRegex(perf.stdout, rf"\n +41943\d\d .* {algo} ")
            self.assertIn("Out of bounds values : 0 OK", perf.stdout)

    def test_simulation_supports_plug_ins(self):
        result = subprocess.run([TUTTI, "sim", "allgather", "--ranks", "4", "--algo",
                                 "sockets4,bothways", "--quiet"],
                                env={**os.environ, "TUTTI_ALGORITHMS": f"{PLAN},{PLUGIN}"},
                                capture_output=True, text=True,
                                timeout=60, check=True)
        self.assertRegex(result.stdout, r"allgather_sockets4 +\d")
        self.assertRegex(result.stdout, r"allgather_bothways +\d")


class Mistakes(unittest.TestCase):
    def test_each_error_is_one_message(self):
        for args, status, sentence in (
            ((), 2, "Usage: tutti plan SUBCOMMAND"),
            (("paint",), 2, 'unknown subcommand "paint"'),
            (("show", "allgather"), 2, "a collective and an algorithm are needed"),
            (("show", "allgather", "ring", "x"), 2, 'unexpected argument "x"'),
            (("show", "allgathr", "ring"), 1, 'unknown collective "allgathr"'),
            (("show", "allgather", "rong"), 1, 'allgather: unknown algorithm "rong" (available:'),
            (("show", "allgather", "ring", "--ranks", "0"), 2, "an integer from 1"),
            (("show", "allgather", "ring", "--ranks", "4", "--rank", "4"), 1,
             "invalid rank: 4 (must be 0 to 3)"),
            (("show", "broadcast", "flat", "--root", "9"), 1,
             "invalid root: 9 (must be a rank from 0 to 3)"),
            (("show", "allgather", "ring", "--bytes", "6", "--elem-bytes", "4"), 1,
             "must be a multiple of the element size"),
            (("show", "allgather", "ring", "--elem-bytes", "3"), 2, "1, 2, 4 or 8"),
            (("show", "barrier", "dissemination", "--in-place"), 1, "no in-place form"),
            (("show", "send", "direct"), 1, "needs 2 ranks"),
            (("show", "allgather", "ring", "--json", "--rank", "1"), 2, "excludes --rank"),
            (("draw", "allgather", "ring", "--ranks", "100000"), 1, "the maximum is 128"),
            (("draw", "allgather", "ring", "--rounds", "9-12"), 1,
             "invalid round: 9 (the plan has"),
            (("draw", "allgather", "ring", "--rounds", "x"), 2, "two round numbers"),
            (("draw", "allgather", "ring", "-o", "/nowhere/plan.svg"), 1,
             "cannot write /nowhere/plan.svg"),
            (("draw", "allgather", "ring", "-o", "/nowhere/plan.png"), 2,
             "unknown file type .png (use .svg or .html)"),
            (("draw", "allgather", "ring", "-o", "/nowhere/plan.svg", "--html"), 2,
             "--html needs a .html file"),
            (("draw", "allreduce", "ring", "--ranks", "128"), 1, "too many arrows"),
            (("show", "allgather", "ring", "--name", "allgather_mine"), 2, "--name needs --json"),
            (("show", "allgather", "ring", "--json", "--name", "mine"), 1, 'must be "allgather_"'),
            (("draw", "alltoall", "direct", "--ranks", "8", "--ranks-per-host", "4", "--hosts",
              "3"), 1, "invalid number of hosts: 3 (8 ranks with 4 per host use 2 hosts)"),
            (("congestion", "allgather", "ring", "--ranks", "6", "--sockets", "4"), 1,
             "must be a multiple of the number of sockets, 4"),
            (("congestion", "allgather", "ring", "--topo", "x", "--hosts", "2"), 2,
             "excludes --hosts"),
            (("congestion", "allgather", "ring", "--topo", "/nowhere/topo.json"), 1,
             "/nowhere/topo.json"),
        ):
            result = plan(*args)
            self.assertEqual(result.returncode, status, (args, result.stderr))
            self.assertIn(sentence, result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
