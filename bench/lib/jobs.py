"""A Tutti command as one job: on this machine, or with a rank on each host of a testbed."""

import json
import subprocess
import tempfile

from lib import quiet, say


def rows(argv, nranks, bed, lock, port, turn_s):
    """Returns the --json output of rank 0. On this machine the command has -n; on a testbed (bed
    not None) its ranks use a rendezvous at `port` of the first host. Holds the lock meanwhile.
    Raises Problem if a rank fails, TimeoutExpired after turn_s."""
    with quiet.alone(lock), tempfile.TemporaryFile("w+") as said:
        if not bed:
            done = subprocess.run([*argv, "-n", str(nranks)], stdout=said, stderr=subprocess.PIPE,
                                  text=True, timeout=turn_s, check=False)
            jobs, told = [done], [done.stderr]
        else:
            env = {"TUTTI_SIZE": str(nranks), "TUTTI_RENDEZVOUS": f"tcp://{bed.address(0)}:{port}",
                   "TUTTI_TIMEOUT_MS": str(turn_s * 1000)}
            jobs = [subprocess.Popen(bed.inside(r, "env",
                                                *(f"{k}={v}"
                                                  for k, v in {**env, "TUTTI_RANK": r}.items()),
                                                *argv),
                                     stdin=subprocess.DEVNULL, stdout=said if r == 0
                                     else subprocess.DEVNULL, stderr=subprocess.PIPE,
                                     text=True) for r in range(nranks)]
            try:
                told = [job.communicate(timeout=turn_s)[1] for job in jobs]
            finally:
                for job in jobs:
                    job.kill()
                    job.wait()
        for rank, job in enumerate(jobs):
            if job.returncode:
                raise say.Problem(f"{' '.join(map(str, argv[:3]))} failed on rank {rank}: "
                                  f"{told[rank].strip()[-300:]}")
        said.seek(0)
        return [json.loads(line) for line in said]
