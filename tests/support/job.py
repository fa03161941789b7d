"""A process of a test, with its output in pipes. It ends with the test at the latest."""

import subprocess


def start(case, command, environment):
    """Starts command for the unittest.TestCase `case`, with stdout and stderr as pipes of text."""
    job = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    case.addCleanup(end, job)
    return job


def end(job):
    if job.poll() is None:
        job.kill()
        job.wait()
    job.stdout.close()
    job.stderr.close()
