"""Messages for people while a benchmark runs, on standard error; standard output has only rows."""

import argparse
import re
import sys


class Problem(Exception):
    """An error that the user must fix, in one message."""


def pattern(text):
    """A regular expression, for argparse."""
    try:
        return re.compile(text)
    except re.error as why:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {why}") from None


def progress(text):
    print(text, file=sys.stderr, flush=True)


def size(nbytes):
    """1048576 -> '1 MiB'."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale and nbytes % scale == 0:
            return f"{nbytes // scale} {unit}"
    return f"{nbytes} B"


def number(value):
    """Three significant digits without an exponent."""
    if value is None:
        return "-"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{decimals}f}"


def outcome(row):
    """'ok', 'short' of the target, or nothing without a target."""
    if row.get("reach") is None or row.get("value") is None:
        return ""
    met = (row["value"] >= row["reach"] if row["better"] == "higher"
           else row["value"] <= row["reach"])
    return "ok" if met else "short"


def row(one):
    if "skipped" in one:
        progress(f"  {one['what']}: skipped, {one['skipped']}")
        return
    reach = "" if one["reach"] is None else f" (reach {number(one['reach'])}) {outcome(one)}"
    progress(f"  {one['what']}: {number(one['value'])} {one['unit']}{reach}")
