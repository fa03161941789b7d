#!/usr/bin/env python3
"""Ranks that find rank 0 through a key of etcd: with a real server (Debian's etcd-server) on the
loopback address, and with servers that respond with something else."""

import base64
import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from cluster import BUILD, MEET, PATIENCE_S, environment, free_port, marked, wait_until

ETCD = shutil.which("etcd")
START = str(BUILD / "tests" / "boot" / "prog_start")
HUGE = 1 << 20


def call(address, method, **fields):
    request = urllib.request.Request(f"http://{address}/v3/{method}", json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def encoded(text):
    return base64.b64encode(text.encode()).decode()


class Ranks(unittest.TestCase):
    def start(self, url, ranks, size, timeout_ms=60000, env=None):
        """Starts these ranks of a job, without a launcher."""
        env = env or environment()
        jobs = []
        for rank in ranks:
            jobs.append(subprocess.Popen(
                [MEET], env={**env, "TUTTI_RANK": str(rank), "TUTTI_SIZE": str(size),
                             "TUTTI_RENDEZVOUS": url, "TUTTI_TIMEOUT_MS": str(timeout_ms)},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True))
            self.addCleanup(jobs[-1].stdout.close)
            self.addCleanup(jobs[-1].wait)
            self.addCleanup(jobs[-1].kill)
        return jobs

    def end(self, jobs):
        out = [job.communicate(timeout=PATIENCE_S)[0] for job in jobs]
        return [job.returncode for job in jobs], out

    def run_failing(self, url, rank, timeout_ms=60000):
        """Returns the output of a rank that must fail."""
        (status,), (out,) = self.end(self.start(url, [rank], 2, timeout_ms))
        self.assertNotEqual(status, 0)
        return out


@unittest.skipUnless(ETCD, "etcd is not installed (Debian: apt-get install etcd-server)")
class RealServer(Ranks):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.address, peer = f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        cls.log = open(os.path.join(cls.folder.name, "log"), "w+")
        cls.server = subprocess.Popen(
            [ETCD, "--data-dir", os.path.join(cls.folder.name, "data"),
             "--listen-client-urls", f"http://{cls.address}",
             "--advertise-client-urls", f"http://{cls.address}", "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"],
            stdin=subprocess.DEVNULL, stdout=cls.log, stderr=subprocess.STDOUT)
        wait_until(cls.responds, "etcd does not respond")

    @classmethod
    def responds(cls):
        if cls.server.poll() is not None:
            cls.log.seek(0)
            raise AssertionError(f"etcd has ended: {cls.log.read()[-2000:]}")
        try:
            call(cls.address, "kv/range", key=encoded("x"))
        except OSError:
            return False
        return True

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.server.wait()
        cls.log.close()
        cls.folder.cleanup()

    def keys(self, prefix):
        return call(self.address, "kv/range", key=encoded(prefix),
                    range_end=encoded(prefix + "~")).get("kvs", [])

    def nreads(self):
        """The number of requests that have read keys, from the server's own metrics."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.address}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        found = re.search(r'grpc_server_started_total\{grpc_method="Range",.*\} (\S+)', text)
        return int(float(found[1]))

    def meet(self, url, n=4):
        statuses, out = self.end(self.start(url, range(n), n))
        self.assertEqual(statuses, [0] * n, out)
        for text in out:
            self.assertIn(f"of {n} met", text)

    def test_ranks_meet_and_leave_no_key(self):
        self.meet(f"etcd://{self.address}/jobs/1")
        self.assertEqual(self.keys("jobs/1"), [])

    def test_one_rank_of_a_host_reads_the_key(self):
        """Processes of one host. A rank that starts more than a second after the last request
        causes another one, so a slow machine has some more."""
        n = 24
        first = self.start(f"etcd://{self.address}/jobs/7", [0], n)
        wait_until(lambda: self.keys("jobs/7"), "no key appears")
        before, begin = self.nreads(), time.monotonic()
        statuses, out = self.end(
            first + self.start(f"etcd://{self.address}/jobs/7", range(1, n), n))
        self.assertEqual(statuses, [0] * n, out)
        self.assertLessEqual(self.nreads() - before, 1 + time.monotonic() - begin)

    def test_requests_grow_with_hosts_not_ranks(self):
        """Rank 0 publishes its address before all others read, or while they do."""
        for hosts, per_host in ((2, 8), (2, 64), (8, 16)):
            before, begin = self.nreads(), time.monotonic()
            subprocess.run(
                [START, str(hosts * per_host), "2", "64", str(per_host),
                 f"etcd://{self.address}/jobs/8.{hosts}.{per_host}"],
                check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
            # at first with pauses of 5, 10, 20 ms and so on, then 4 a second
            limit = hosts * (8 + 4 * (time.monotonic() - begin))
            self.assertLess(self.nreads() - before, limit, (hosts, per_host))

    def test_dead_server_is_skipped(self):
        self.meet(f"etcd://127.0.0.1:{free_port()},{self.address}/jobs/2", n=2)

    def test_job_has_one_key_with_a_lease(self):
        env = environment()
        jobs = self.start(f"etcd://{self.address}/jobs/3", [0], 3, env=env)
        wait_until(lambda: self.keys("jobs/3"), "no key appears")
        jobs += self.start(f"etcd://{self.address}/jobs/3", [1], 3, env=env)
        key, = self.keys("jobs/3")
        self.assertEqual(base64.b64decode(key["key"]), b"jobs/3/root")
        life = call(self.address, "lease/timetolive", ID=key["lease"])
        self.assertLessEqual(0, int(life["TTL"]))
        self.assertLessEqual(int(life["grantedTTL"]), 70)
        for job in jobs:
            job.kill()
        call(self.address, "lease/revoke", ID=key["lease"])
        self.assertEqual(self.keys("jobs/3"), [])
        wait_until(lambda: not marked(env), "processes are left")

    def test_stale_key_is_replaced(self):
        """The key of an earlier run, whose rank 0 was killed."""
        url = f"etcd://{self.address}/jobs/4"
        old, = self.start(url, [0], 2)
        wait_until(lambda: self.keys("jobs/4"), "no key appears")
        old.kill()
        old.wait()
        early = self.start(url, [1], 2)
        late = self.start(url, [0], 2)
        statuses, out = self.end(early + late)
        self.assertEqual(statuses, [0, 0], out)
        self.assertEqual(self.keys("jobs/4"), [])

    def test_missing_rank_0_is_named_with_the_key(self):
        out = self.run_failing(f"etcd://{self.address}/jobs/5", 1, timeout_ms=1000)
        self.assertIn(f"rank 1: rank 0 is missing: no rendezvous server at "
                      f"etcd://{self.address}/jobs/5", out)
        self.assertIn(f'etcd at {self.address}, key "jobs/5/root": rank 0 has not published its '
                      "address yet", out)

    def test_foreign_value_is_an_error(self):
        for i, value in enumerate(("", "hello", "id:zz", "id:" + "00" * 100, "x" * 20000)):
            call(self.address, "kv/put", key=encoded(f"jobs/6.{i}/root"), value=encoded(value))
            out = self.run_failing(f"etcd://{self.address}/jobs/6.{i}", 1, timeout_ms=1000)
            self.assertIn(f'key "jobs/6.{i}/root": its value is not the address of a rank 0', out)


class OtherServer(Ranks):
    """Invalid addresses, and servers that are not etcd."""

    def test_invalid_addresses_are_named(self):
        for url, says in (("etcd://h:1", "must be etcd://host:port[,host:port...]/prefix"),
                          ("etcd://h:1/", "must be etcd://host:port[,host:port...]/prefix"),
                          ("etcd:///prefix", "must be etcd://host:port[,host:port...]/prefix"),
                          ("etcd://h:1/a b", "must be etcd://host:port[,host:port...]/prefix"),
                          ("etcd://h:1,/p", 'invalid server address ""'),
                          ("etcd://h@x:1/p", 'invalid server address "h@x:1"'),
                          ("etcd://h:70000/p", 'invalid server address "h:70000"'),
                          ("ETCD://h:1/p", "etcd://host:port/prefix or id:HEX")):
            with self.subTest(url=url):
                self.assertIn(says, self.run_failing(url, 0))

    def test_refused_connection_is_named(self):
        address = f"127.0.0.1:{free_port()}"
        for rank, says in ((0, 'cannot publish the address of rank 0 in etcd, key "p/root"'),
                           (1, "rank 1: rank 0 is missing")):
            out = self.run_failing(f"etcd://{address}/p", rank, timeout_ms=1000)
            self.assertIn(says, out)
            self.assertIn(f"etcd at {address} does not respond: ", out)

    def serve(self, status, body):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass        # the client may stop reading

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return "127.0.0.1:%d" % server.server_address[1]

    def test_other_responses_are_errors(self):
        for status, body, says in (
                (200, b"<html>hello</html>", "with 18 bytes that are not a JSON object"),
                (200, b"", "with 0 bytes that are not a JSON object"),
                (200, b"[1]", "with 3 bytes that are not a JSON object"),
                (404, b"not found", "no reason given (HTTP status 404)"),
                (400, b'{"error": "auth: revision is old", "code": 3}',
                 "auth: revision is old (HTTP status 400)"),
                (200, b"x" * HUGE, "with too many bytes: the maximum is 65536")):
            address = self.serve(status, body)
            for rank, what in ((0, "publish"), (1, "read")):
                with self.subTest(body=body[:40], rank=rank):
                    out = self.run_failing(f"etcd://{address}/p", rank)
                    self.assertIn(f"rendezvous: cannot {what} the address of rank 0", out)
                    self.assertIn(f'key "p/root": etcd at {address} ', out)
                    self.assertIn(says, out)

    def test_lease_without_number_is_an_error(self):
        out = self.run_failing(f"etcd://{self.serve(200, b'{}')}/p", 0)
        self.assertIn("the server granted a lease without a number", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
