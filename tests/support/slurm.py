"""A private Slurm on this machine, for tests: munged, slurmctld and slurmd of Debian, with their
own directory, key and ports, on loopback. They are no services of the machine, and end with their
parent."""

import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

READY_S = 60
SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAMS = (("munged", "munge"), ("slurmctld", "slurmctld"), ("slurmd", "slurmd"),
            ("srun", "slurm-client"))

CONF = """\
ClusterName=tutti
FirstJobId={first_job}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class SlurmError(Exception):
    """Slurm did not start; contains its output."""


def why_not():
    """Returns why Slurm cannot run here, or None."""
    for program, package in PROGRAMS:
        if not shutil.which(program, path=SYSTEM_PATH):
            return f"{program} is not installed (Debian: apt-get install {package})"
    if os.geteuid():
        return "a Slurm of one's own needs root"
    return None


class Slurm:
    """A context manager. `env` is for srun and similar commands; at most `cpus` ranks run at the
    same time."""

    def __init__(self, ports, cpus, env):
        self.env = dict(env, PATH=SYSTEM_PATH)
        self._ports, self._cpus, self._daemons = ports, cpus, []

    def __enter__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="tutti-slurm-"))
        try:
            self._configure()
            self._start("munged", "--foreground", "--force",
                        f"--key-file={self.directory}/munge.key",
                        f"--socket={self.directory}/munge.socket",
                        f"--pid-file={self.directory}/munged.pid",
                        f"--seed-file={self.directory}/munged.seed")
            self._await(lambda: (self.directory / "munge.socket").exists(), "munged")
            self._start("slurmctld", "-D", "-c", "-f", self.env["SLURM_CONF"])
            self._start("slurmd", "-D", "-f", self.env["SLURM_CONF"])
            self._await(lambda: self._output_of("sinfo", "--noheader", "--format=%T") == "idle",
                        "the node")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        """Ends the daemons in reverse order."""
        while self._daemons:
            daemon = self._daemons.pop()
            daemon.terminate()
            try:
                daemon.wait(READY_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _configure(self):
        self.directory.chmod(0o711)     # munged requires that its socket is reachable by all users
        for name in ("state", "spool"):
            (self.directory / name).mkdir(mode=0o755)
        key = self.directory / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))
        conf = self.directory / "slurm.conf"
        conf.write_text(CONF.format(host=socket.gethostname().split(".")[0],
                                    directory=self.directory,
                                    user=pwd.getpwuid(os.geteuid()).pw_name,
                                    controller=self._ports[0], daemon=self._ports[1],
                                    cpus=self._cpus,
                                    # unique among Slurms on this machine: ranks derive a port from
                                    # it
                                    first_job=random.randrange(1, 1 << 25)))
        self.env["SLURM_CONF"] = str(conf)

    def _start(self, *command):
        """Starts a daemon that ends even if this process is killed."""
        with open(self.directory / f"{command[0]}.out", "wb") as out:
            self._daemons.append(subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--",
                                                   *command], env=self.env,
                                                  stdin=subprocess.DEVNULL,
                                                  stdout=out, stderr=out))

    def _output_of(self, *command):
        return subprocess.run(command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=READY_S).stdout.strip()

    def _await(self, condition, what):
        end = time.monotonic() + READY_S
        while not condition():
            ended = [d.args[4] for d in self._daemons if d.poll() is not None]
            if ended or time.monotonic() > end:
                raise SlurmError(f"{' and '.join(ended) or what}: "
                                 f"{'ended' if ended else f'not ready within {READY_S} s'}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self):
        """The output of the daemons."""
        return "\n".join(f"{path.stem}: {line}" for path in sorted(self.directory.glob("*.out"))
                         for line in path.read_text(errors="replace").splitlines()[-20:])
