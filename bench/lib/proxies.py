"""The modes of the proxy over verbs, on the soft-RoCE of scripts/rdma-vm, and over ofi, on
loopback: `tutti perf putsignal` with one lane and with several lanes to a peer. Times are of an
emulated machine and of a software provider; only the comparison of modes is meaningful."""

import json
import os
import subprocess

from . import build, fabric, say

MODES = ("put-only", "coupled", "decoupled", "ordered", "full")
POLICIES = ("sequenced", "round-robin", "pinned")
LANES = {"verbs": (1, 4), "ofi": (1, 4)}
RANKS, TRANSFERS = 3, 12
SIZES = (4 << 10, 16 << 10, 64 << 10)
VM_S, HERE_S = 1350, 300


def what(wire, lanes, policy, mode):
    return (f"putsignal over {wire}, {lanes} lane{'s' if lanes > 1 else ''}, {policy}, {mode}: "
            f"alpha of a transfer")


def cases():
    return [(wire, lanes, policy, mode) for wire, counts in LANES.items() for lanes in counts
            for policy in POLICIES for mode in MODES]


def listing():
    return [what(*case) for case in cases()]


def arguments(rounds):
    return ["-n", str(RANKS), "--concurrency", str(TRANSFERS), "--bytes", ",".join(map(str, SIZES)),
            "--rounds", str(rounds), "--iters", "1"]


def json_lines_of(argv, timeout_s, **environment):
    try:
        done = subprocess.run([str(word) for word in argv], env={**os.environ, **environment},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise say.Problem(f"putsignal did not end within {timeout_s} s") from None
    if done.returncode:
        raise say.Problem(f"putsignal ended with status {done.returncode}: "
                          f"{(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout.splitlines()


def over_verbs(tutti, rounds):
    """{(lanes, policy): lines}."""
    out = {}
    argv = [build.ROOT / "scripts" / "rdma-vm", "--work", build.ROOT, "--timeout", str(VM_S), "--",
            build.BENCH / "peers" / "rdma_putsignal.sh", tutti,
            ",".join(map(str, LANES["verbs"])), ",".join(POLICIES), *arguments(rounds)]
    for line in json_lines_of(argv, VM_S + 60):
        lanes, policy, one = line.split(" ", 2)
        out.setdefault((int(lanes), policy), []).append(json.loads(one))
    return out


def over_ofi(tutti, rounds):
    argv = [tutti, "perf", "putsignal", "--wire", "ofi", "--json", "--check", *arguments(rounds),
            "--lanes"]
    setting = {"TUTTI_OFI_PROVIDER": fabric.PROVIDER}
    return {(lanes, policy): [json.loads(line)
                              for line in json_lines_of([*argv, policy], HERE_S,
                                                        TUTTI_LANES=str(lanes), **setting)]
            for lanes in LANES["ofi"] for policy in POLICIES}


def mode_row(case, lines):
    """alpha, with the other values of the mode."""
    wire, lanes, policy, mode = case
    bursts = [line for line in lines if line["what"] == "burst" and line["mode"] == mode]
    fit, = [line for line in lines if line["what"] == "fit" and line["mode"] == mode]
    if any(burst["wrong"] for burst in bursts):
        raise say.Problem(f"{what(*case)}: {sum(burst['wrong'] for burst in bursts)} bytes "
                          f"are wrong")
    return {"what": what(*case), "value": round(fit["alpha_us"], 2), "reach": None, "unit": "us",
            "better": "lower", "against": "", "wire": wire, "lanes": lanes,
            "policy": policy, "mode": mode, "error": fit["alpha_error_us"],
            "beta": fit["beta_us_per_byte"], "beta_error": fit["beta_error_us_per_byte"],
            "drains": bursts[0]["drains"], "fences": bursts[0]["fences"],
            "signals": bursts[0]["signals"], "destinations": bursts[0]["destinations"],
            "transfers": bursts[0]["transfers"],
            "samples": {f"us of a burst of {burst['bytes']} B": burst["samples_us"]
                        for burst in bursts}}


def rows(tutti, rounds, only):
    for wire, run in (("verbs", over_verbs), ("ofi", over_ofi)):
        wanted = [case for case in cases() if case[0] == wire
                  and (not only or only.search(what(*case)))]
        if not wanted:
            continue
        try:
            found = run(tutti, rounds)
            yield from [mode_row(case, found[case[1], case[2]]) for case in wanted]
        except say.Problem as why:
            yield from ({"what": what(*case), "skipped": str(why)} for case in wanted)
