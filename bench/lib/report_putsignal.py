"""The measured part of docs/one-sided.md, and its figure, out of the rows of bench/run putsignal."""

import math
import re
from html import escape

from plot import COLOURS, Scale, line, text

from . import report_ratios, report_sim, results, say

HEAD = """\
By `bench/run putsignal`, which documents the rows, and written by `bench/report.py build/bench/putsignal.json`. Eight hosts
of four ranks, each with its own link: {network}. All hosts, and the relay between them, are on one machine. {rounds} rounds of each case that is not simulated. TCP uses `cubic`, independent of the system's default."""

MODES = ("coupled", "decoupled", "ordered", "full")
MODE_COLOURS = dict(zip(("put-only", *MODES), ("#000000", *COLOURS)))
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 330, 280, 56, 14, 30, 42


# ---- tables ----

def shares(rows, key, by="mode", **only):
    """{key's value: {mode: row}} of the share rows that are alike in the rest."""
    out = {}
    for row in rows:
        if by in row and "time_us" in row and "value" in row and all(row.get(k) == v for k, v in only.items()):
            out.setdefault(row[key], {})[row[by]] = row
    return dict(sorted(out.items()))


def with_spread(row, simulated):
    if row is None:
        return "-"
    if simulated:
        return f"{row['value']:.3f}"
    return f"{row['value']:.3f} ({row['spread'][0]:.3f} to {row['spread'][1]:.3f})"


def share_table(head, by_key, name, simulated=False):
    return results.aligned([head, *MODES], [[name(key), *(with_spread(by_mode.get(mode), simulated) for mode in MODES)]
                                            for key, by_mode in by_key.items()])


def cost_table(by_mode):
    """Drains and fences of a burst, as they were counted."""
    return results.aligned(["mode", "drains", "fences"], [[mode, str(by_mode[mode]["drains"]), str(by_mode[mode]["fences"])] for mode in MODES if mode in by_mode])


def counted(by_count):
    """The part of the page that tells them, of 96 transfers at once. Results from before they were kept have none."""
    by_mode = by_count.get(96, {})
    if not by_mode or any("drains" not in row for row in by_mode.values()):
        return []
    destinations = next(iter(by_mode.values()))["destinations"]
    return [f"Drains and fences of a burst of 96 transfers to {destinations} ranks:", cost_table(by_mode)]


def fit_cells(rows, mode, simulated, policy=None):
    """alpha and beta with their errors."""
    for letter, digits in (("alpha", 1), ("beta", 5)):
        row = next((r for r in rows if r.get("fitted") == letter and r["mode"] == mode and r.get("policy") == policy
                    and r["what"].startswith("simulated") == simulated), None)
        yield "-" if row is None else f"{row['value']:.{digits}f}" + ("" if simulated else f" +- {row['error'] or 0:.{digits}f}")


def fit_table(rows):
    head = ["mode", "alpha, us", "beta, us/byte", "simulated alpha, us", "simulated beta, us/byte"]
    return results.aligned(head, [[mode, *fit_cells(rows, mode, False), *fit_cells(rows, mode, True)] for mode in ("put-only", *MODES)])


def lanes_tables(rows):
    """What the policies of lanes come to."""
    of = {}
    for row in rows:
        if "policy" in row and "value" in row:
            of.setdefault(row["policy"], []).append(row)
    if not of:
        return []
    by_size = shares([row for some in of.values() for row in some if "mode" in row], "bytes", by="policy")
    shares_of = results.aligned(["bytes", *of], [[say.size(nbytes), *(with_spread(by_policy.get(policy), False) for policy in of)]
                                                 for nbytes, by_policy in by_size.items()])

    def one(some, end):
        return next((f"{row['value']:g}" for row in some if row["what"].endswith(end)), "-")

    costs = results.aligned(["lanes", "drains", "fences of a destination", "alpha, us", "beta, us/byte", "put-only alpha, us", "put-only beta, us/byte"],
                            [[policy, one(some, "drains of a burst"), one(some, "fences for each destination"), *fit_cells(some, "full", False, policy),
                              *fit_cells(some, "put-only", False, policy)] for policy, some in of.items()])
    return ["Four lanes between any two ranks, mode full: share of the speed of puts without signals over the same lanes, 96 transfers at a time:", shares_of,
            "Drains and fences of a burst of 96 transfers of the smallest size, and alpha and beta, by lane policy:", costs]


def goal_table(rows):
    return results.ratio_table([row for row in rows if row.get("reach") is not None or "skipped" in row])


# ---- the figure ----

def panel(at_x, title, x_title, y_title, series, y_range, y_ticks, x_name=str):
    """series: {mode: [(x, y, low, high)]}, both axes logarithmic."""
    points = [point for line_of in series.values() for point in line_of]
    if not points:
        return []
    xs = sorted({point[0] for point in points})
    x = Scale(xs[0] / 1.3, xs[-1] * 1.3, LEFT, WIDTH - RIGHT)
    y = Scale(*y_range, HEIGHT - BOTTOM, TOP)
    out = [f'<g transform="translate({at_x},30)">', text(WIDTH / 2, 16, title, size=13), text(WIDTH / 2, HEIGHT - 6, x_title),
           f'<text transform="translate(12,{HEIGHT / 2}) rotate(-90)" text-anchor="middle" font-size="11">{escape(y_title)}</text>']
    for tick, name in y_ticks:
        out += [line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "#ddd"), text(LEFT - 6, y(tick) + 4, name, "end")]
    last = -100
    for value in xs:
        out.append(line(x(value), HEIGHT - BOTTOM, x(value), HEIGHT - BOTTOM + 4, "#444"))
        if x(value) - last >= 18:       # else it would run into its neighbour
            out.append(text(x(value), HEIGHT - BOTTOM + 16, x_name(value), size=9))
            last = x(value)
    for mode, line_of in series.items():
        colour = MODE_COLOURS[mode]
        path = " ".join(f"{x(p[0])},{y(p[1])}" for p in line_of)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        for px, py, low, high in line_of:
            out += [line(x(px), y(low), x(px), y(high), colour, 1, 'opacity="0.5"'),
                    f'<circle cx="{x(px)}" cy="{y(py)}" r="2.6" fill="{colour}"><title>{mode}, {px}: {py:.4g} ({low:.4g} to {high:.4g})</title></circle>']
    return [*out, "</g>"]


def share_series(by_key):
    return {mode: [(key, row["value"], *row["spread"]) for key, by_mode in by_key.items() if (row := by_mode.get(mode))] for mode in MODES}


def time_series(rows):
    """Microseconds of a transfer over its bytes, as alpha and beta were fitted to them."""
    out = {}
    for row in rows:
        if row.get("fitted") == "alpha" and not row["what"].startswith("simulated") and "policy" not in row:
            out[row["mode"]] = [(nbytes, us, us, us) for nbytes, us in row["samples"]["us of a transfer by bytes"]]
    return out


def svg(rows, by_count, by_nodes):
    ticks = [(share, f"{share:g}") for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)]
    spreads = [edge for by in (by_count, by_nodes) for modes in by.values() for row in modes.values() for edge in row["spread"]]
    share_range = (min([0.01, *spreads]) / 1.1, max([1, *spreads]) * 1.1)
    times = time_series(rows)
    us = [point[1] for some in times.values() for point in some] or [1, 10]
    decades = range(math.floor(math.log10(min(us))), math.ceil(math.log10(max(us))) + 1)
    panels = [panel(0, "96 transfers, 8 hosts of 4 ranks", "bytes of a transfer", "us of a transfer", times, (min(us) / 1.5, max(us) * 1.5),
                    [(10.0 ** d, f"{10.0 ** d:g}") for d in decades if min(us) / 1.5 <= 10.0 ** d <= max(us) * 1.5], say.size),
              panel(WIDTH, "4 KiB, 8 hosts of 4 ranks", "transfers at once", "share of put-only", share_series(by_count), share_range, ticks),
              panel(2 * WIDTH, "4 KiB, 96 transfers, simulated", "nodes of 4 ranks", "share of put-only", share_series(by_nodes), share_range, ticks)]
    legend = []
    for i, (mode, colour) in enumerate(MODE_COLOURS.items()):
        legend += [line(LEFT + 110 * i, 16, LEFT + 110 * i + 20, 16, colour, 2.5), text(LEFT + 110 * i + 26, 20, mode, "start")]
    width, height = 3 * WIDTH, HEIGHT + 40
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                      'fill="#222">', f'<rect width="{width}" height="{height}" fill="white"/>', *legend, *(part for one in panels for part in one),
                      "</svg>"]) + "\n"


# ---- the page ----

def parts_of(data):
    """(rows of the other parts: by number of transfers, by size, by nodes)."""
    measured = [row for row in data["rows"] if not row["what"].startswith("simulated") and "policy" not in row]
    small = min([row["bytes"] for row in measured if "bytes" in row], default=0)
    most = max([row["transfers"] for row in measured if row.get("reach") is not None and "transfers" in row], default=96)
    return (shares(measured, "transfers", bytes=small), shares(measured, "bytes", transfers=most),
            shares([row for row in data["rows"] if row.get("simulated")], "nodes"))


def network_of(rows):
    told = next((row["network"] for row in rows if "network" in row), None)
    return f"{told['mbit']} Mbit/s each way, and {told['one_way_ms']:g} ms from host to host" if told else "none was made"


def noise_of(data):
    """What must be said of a machine that was not quiet."""
    busy = data["machine"].get("busy_cores_before", 0)
    if busy > 0.1:
        yield f"**Other work kept {busy:.1f} of {data['machine']['cores']} cores busy when this run began**: what was measured is noise to that extent; what was simulated is not."


def markdown(data, machine_table, old, figure):
    """The old page with the part between the marks made anew."""
    rows = data["rows"]
    by_count, by_size, by_nodes = parts_of(data)
    begin, end = report_sim.marks("putsignal")
    parts = [HEAD.format(network=network_of(rows), rounds=report_ratios.rounds_of(rows)), machine_table, *noise_of(data), goal_table(rows), f"![comparison of the modes of the proxy]({figure})"]
    if by_size:
        parts += ["Share of put-only over the size of a transfer, 96 at a time; the range over rounds in parentheses:",
                  share_table("bytes", by_size, say.size)]
    if by_count:
        parts += ["The same over the number of concurrent transfers of 4 KiB:", share_table("transfers", by_count, str), *counted(by_count)]
    if by_nodes:
        parts += ["Simulated, 96 transfers of 4 KiB, over the number of nodes:", share_table("nodes", by_nodes, str, simulated=True)]
    if any("fitted" in row for row in rows):
        parts += ["The time of one of 96 transfers, fitted as alpha + beta * bytes over the sizes (least squares of relative distances; +- is the standard error):",
                  fit_table(rows)]
    parts += lanes_tables(rows)
    new = "\n\n".join(parts).join((begin, end))
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(old):
        raise say.Problem(f"the page has no place for this: it should have {begin.strip()} and {end.strip()}")
    return pattern.sub(lambda _: new, old)


def write(data, machine_table, page):
    drawing = page.with_name("putsignal.svg")
    by_count, _, by_nodes = parts_of(data)
    text_of_page = markdown(data, machine_table, page.read_text(), drawing.name)
    drawing.write_text(svg(data["rows"], by_count, by_nodes))
    page.write_text(text_of_page)
