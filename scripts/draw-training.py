#!/usr/bin/env python3
"""Draws docs/training.svg, the loss curves of the built training examples, and
docs/training-churn.svg, that of a run with changing membership (scripts/demo-training.sh), all on
one text, and prints their differences from their references.

    scripts/draw-training.py [--build DIR] [--steps N]"""

import argparse
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
TEXT = HERE / "docs" / "algorithms.md"
OUT = HERE / "docs" / "training.svg"
OUT_CHURN = HERE / "docs" / "training-churn.svg"
# the same as in scripts/demo-training.sh
CHURN = ("--inner", 20, "--outer-rate", 0.5, "--outer-momentum", 0.3)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 380, 52, 16, 34, 46
RANKS, INNER, SMOOTH = 4, 20, 20
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def curve(argv):
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{argv[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return points_of(done.stdout.splitlines())


def points_of(lines):
    return [(int(step), float(loss)) for step, loss, *_ in (line.split() for line in lines)]


def on_ranks(build, n, program, *options):
    return curve([build / "tutti", "run", "-n", n, "--output", "plain", "--",
                  build / "examples" / program, TEXT, *options])


def curves_of(build, steps):
    """(name, points), and for some curves the reference."""
    plain = ("--steps", steps)
    apart = (*plain, "--inner", INNER)
    alone = build / "examples" / "train_alone"
    return [("one process", curve([alone, TEXT, *plain]), None),
            (f"DDP, {RANKS} ranks", on_ranks(build, RANKS, "train_ddp", *plain), 0),
            (f"DiLoCo, {RANKS} workers one after another",
             curve([alone, TEXT, *apart, "--workers", RANKS]), None),
            (f"DiLoCo, {RANKS} ranks", on_ranks(build, RANKS, "train_diloco", *apart), 2)]


def churn_of(build):
    """The curves of a run with changing membership and of its replay in one process, and its
    events: (step, what)."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        if subprocess.run([HERE / "scripts" / "demo-training.sh", build, run],
                          stdout=subprocess.DEVNULL, check=False).returncode:
            sys.exit("the run whose members come and go failed")
        lines = run.read_text(encoding="ascii").splitlines()
        played = curve([build / "examples" / "train_alone", TEXT, "--replay", run, "--delay",
                        *CHURN])
    events = [line[2:].split(maxsplit=1) for line in lines if line.startswith("#")]
    return ([("members that come and go", points_of(line for line in lines
                                                    if not line.startswith("#")), 1),
             ("one process that plays them", played, None)],
            [(int(step), what) for step, what in events])


def difference(points, reference):
    return max(abs(a[1] - b[1]) for a, b in zip(points, reference))


def smoothed(points):
    """Means over the number of steps between two points of DiLoCo, whose points are such means
    already."""
    if len(points) > 1 and points[1][0] - points[0][0] > 1:
        return points
    return [(points[i][0] + SMOOTH, sum(loss for _, loss in points[i:i + SMOOTH]) / SMOOTH)
            for i in range(0, len(points) - SMOOTH + 1, SMOOTH)]


def text(x, y, content, anchor="middle"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'font-size="12">{escape(content)}</text>')


def draw(curves, steps, events=()):
    shown = [smoothed(points) for _, points, _ in curves]
    low, high = min(min(v for _, v in c) for c in shown), max(max(v for _, v in c) for c in shown)

    def at(step, loss):
        return (LEFT + step / steps * (WIDTH - LEFT - RIGHT),
                TOP + (high - loss) / (high - low) * (HEIGHT - TOP - BOTTOM))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(WIDTH / 2, 18, "loss over steps, means of 20"),
             text(WIDTH / 2, HEIGHT - 10, "steps of each worker")]
    for i in range(5):
        loss = low + (high - low) * i / 4
        x, y = at(0, loss)
        parts += [f'<line x1="{x}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                  f'stroke="#dddddd"/>', text(x - 6, y + 4, f"{loss:.2f}", "end")]
        step = steps * i // 4
        parts.append(text(at(step, low)[0], HEIGHT - BOTTOM + 18, str(step)))
    for k, (step, what) in enumerate(events):
        x = at(step, low)[0]
        parts += [f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" '
                  f'stroke="#888888" stroke-dasharray="4 3"/>',
                  text(x + 5, TOP + 74 + 18 * k, what, "start")]
    for i, ((name, _, reference), points) in enumerate(zip(curves, shown)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in points))
        dash = (' stroke-dasharray="2 5" stroke-width="4"' if reference is not None
                else ' stroke-width="1.5"')
        parts += [f'<polyline points="{path}" fill="none" stroke="{COLOURS[i]}"{dash}/>',
                  f'<line x1="{WIDTH - 300}" y1="{TOP + 14 + 18 * i}" x2="{WIDTH - 270}" '
                  f'y2="{TOP + 14 + 18 * i}" stroke="{COLOURS[i]}"{dash}/>',
                  text(WIDTH - 262, TOP + 18 + 18 * i, name, "start")]
    return "\n".join([*parts, "</svg>", ""])


def print_differences(curves):
    for name, points, reference in curves:
        more = ("" if reference is None
                else f", at most {difference(points, curves[reference][1]):.1e} from its reference")
        print(f"{name}: {points[0][1]:.4f} to {points[-1][1]:.4f}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", metavar="DIR", type=Path, default=HERE / "build" / "release",
                        help="(default build/release)")
    parser.add_argument("--steps", metavar="N", type=int, default=1000,
                        help="steps of training, at least 40 (default 1000)")
    options = parser.parse_args()
    if options.steps < 2 * SMOOTH:
        parser.error(f"--steps {options.steps}: at least {2 * SMOOTH}")
    curves = curves_of(options.build, options.steps)
    OUT.write_text(draw(curves, options.steps), encoding="ascii")
    print_differences(curves)
    curves, events = churn_of(options.build.resolve())
    OUT_CHURN.write_text(draw(curves, curves[0][1][-1][0], events), encoding="ascii")
    print_differences(curves)


if __name__ == "__main__":
    main()
