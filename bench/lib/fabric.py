"""The ofi transport compared with the tcp transport, and with libfabric's fi_pingpong, over the
same provider on loopback: ping-pongs between two processes, measured alternately."""

import socket
import statistics
import subprocess

from . import build, jobs, say

PROVIDER = "tcp;ofi_rxm"
SIZES = (8, 64 << 10, 1 << 20, 4 << 20)
ITERS = {8: 2000, 64 << 10: 500, 1 << 20: 100, 4 << 20: 30}
AGAINST = ("the tcp wire", "fi_pingpong")
TURN_S = 120


def what(nbytes, against):
    return f"ofi over {PROVIDER}, pingpong {say.size(nbytes)}: times as long as {against}"


def listing():
    return [what(nbytes, against) for nbytes in SIZES for against in AGAINST]


def of_tutti(tutti, wire, nbytes):
    """Half of a round trip, in us."""
    argv = ["env", f"TUTTI_OFI_PROVIDER={PROVIDER}", tutti, "perf", "pingpong", "--json", "--wire",
            wire, "--min", str(nbytes), "--max",
            str(nbytes), "--iters", str(ITERS[nbytes])]
    return statistics.median(row["time_us"] for row in jobs.rows(argv, 2, None, None, None, TURN_S))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def of_libfabric(nbytes):
    port = str(free_port())
    common = [build.program("fi_pingpong", "libfabric-bin"), "-e", "rdm", "-p", PROVIDER, "-I",
              str(ITERS[nbytes]), "-S", str(nbytes)]
    server = subprocess.Popen([*common, "-B", port], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(20):     # retry until the server listens
            client = subprocess.run([*common, "-P", port, "127.0.0.1"], capture_output=True,
                                    text=True, timeout=TURN_S, check=False)
            if client.returncode == 0:
                break
        else:
            raise say.Problem(f"fi_pingpong: {client.stderr.strip()[-200:]}")
        server.wait(timeout=TURN_S)
    except subprocess.TimeoutExpired:
        raise say.Problem(f"fi_pingpong of {nbytes} B did not end within {TURN_S} s") from None
    finally:
        server.kill()
        server.wait()
    head, line = [l.split() for l in client.stdout.splitlines() if l.strip()][-2:]
    return float(line[head.index("usec/xfer") - len(head)])


def rows(tutti, rounds, only):
    """Runs in turn, round by round; a row is the median of the rounds' ratios."""
    for nbytes in SIZES:
        wanted = [a for a in AGAINST if not only or only.search(what(nbytes, a))]
        times = {"ofi": [], **{a: [] for a in wanted}}
        try:
            for _ in range(rounds if wanted else 0):
                times["ofi"].append(of_tutti(tutti, "ofi", nbytes))
                for against in wanted:
                    times[against].append(of_tutti(tutti, "tcp", nbytes) if against
                                          == "the tcp wire" else of_libfabric(nbytes))
        except say.Problem as why:
            yield from ({"what": what(nbytes, a), "skipped": str(why)} for a in wanted)
            continue
        for against in wanted:
            ratios = [ours / theirs for ours, theirs in zip(times["ofi"], times[against])]
            yield {"what": what(nbytes, against), "value": statistics.median(ratios), "reach": None,
                   "unit": "x", "better": "lower",
                   "against": against, "spread": [min(ratios), max(ratios)],
                   "samples": {"ofi": times["ofi"], against: times[against]}}
