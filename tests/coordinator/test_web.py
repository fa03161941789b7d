#!/usr/bin/env python3
"""The HTTP output of a coordinator: all pages, read by real parsers; and hostile requests."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
import unittest
from pathlib import Path

# Debian's prometheus_client, if another Python runs this
sys.path.append("/usr/lib/python3/dist-packages")

PROGRAM = Path(os.environ["TUTTI_BUILD_DIR"]) / "tests/coordinator/prog_status"
PATIENCE_S = 60
CONNECTIONS = 64        # TT_HTTP_CONNECTIONS
CONNECTION_S = 10       # TT_HTTP_CONNECTION_NS
SANITIZED = "sanitize" in os.environ.get("CFLAGS", "")      # freed memory is kept for a while


class Server:
    """prog_status, with `lines` sent to it first."""

    def __init__(self, *lines, arguments=()):
        self.process = subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self.host, self.port = self.address.rsplit(":", 1)
        for line in lines:
            self.say(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        if self.process.wait(timeout=PATIENCE_S) != 0:
            raise AssertionError(f"the server ended with {self.process.returncode}")

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", line

    def connect(self):
        return socket.create_connection((self.host.strip("[]"), int(self.port)), timeout=PATIENCE_S)

    def ask(self, path, method="GET", headers=None, body=None):
        connection = http.client.HTTPConnection(self.host.strip("[]"), int(self.port),
                                                timeout=PATIENCE_S)
        connection.request(method, path, headers=headers or {}, body=body)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer, text

    def raw(self, *pieces):
        """All data returned for these bytes."""
        with self.connect() as s:
            got = b""
            try:
                for piece in pieces:
                    s.sendall(piece)
                s.shutdown(socket.SHUT_WR)
                while more := s.recv(65536):
                    got += more
            except OSError:     # it has closed already
                pass
            return got

    def resident_kib(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Pages(unittest.TestCase):
    def test_pages_have_types_and_restrictions(self):
        types = {"/": "text/html; charset=utf-8", "/status.json": "application/json",
                 "/ring.svg": "image/svg+xml",
                 "/metrics": "text/plain; version=0.0.4; charset=utf-8",
                 "/healthz": "text/plain; charset=utf-8"}
        with Server() as server:
            for path, kind in types.items():
                answer, text = server.ask(path)
                self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, kind), path)
                self.assertTrue(text)
                self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(answer.headers["Cache-Control"], "no-store")
            self.assertNotIn("unsafe", server.ask("/")[0].headers["Content-Security-Policy"])

    def test_json_has_the_latest_state(self):
        with Server("run 3 first", "measured 4") as server:
            got = json.loads(server.ask("/status.json")[1])
            self.assertEqual((got["run"], len(got["members"]), len(got["links"]["order"])),
                             ("char-lm", 4, 4))
            server.say("run 2 another")
            deadline = time.monotonic() + PATIENCE_S
            while json.loads(server.ask("/status.json?x=1")[1])["run"] != "another":
                self.assertLess(time.monotonic(), deadline)

    def test_head_has_the_headers_alone(self):
        with Server() as server:
            answer, text = server.ask("/", "HEAD")
            self.assertEqual((answer.status, text), (200, b""))
            self.assertGreater(int(answer.headers["Content-Length"]), 1000)

    def test_empty_state_is_reported(self):
        with Server(arguments=["--empty"]) as server:
            for path in ("/", "/status.json", "/metrics", "/healthz", "/ring.svg"):
                answer, text = server.ask(path)
                self.assertEqual((answer.status, text),
                                 (503, b"the coordinator has no status yet\n"))
            server.say("run 1 a")
            deadline = time.monotonic() + PATIENCE_S
            while server.ask("/healthz")[0].status != 200:
                self.assertLess(time.monotonic(), deadline)

    def test_prometheus_reads_the_metrics(self):
        try:
            from prometheus_client.parser import text_string_to_metric_families as parse
        except ImportError:
            self.skipTest("python3-prometheus-client is not installed")
        for line in ("run 9 a", "hostile 2", "measured 8"):
            with Server(line) as server:
                families = {f.name: f for f in parse(server.ask("/metrics")[1].decode())}
            values = lambda name: {tuple(sorted(s.labels.items())): s.value
                                   for s in families[name].samples}
            self.assertEqual(values("tutti_epoch"), {(): 7})
            self.assertTrue(all(f.documentation and f.type in ("gauge", "counter", "histogram")
                                for f in families.values()))
            self.assertEqual(values("tutti_messages")[(("direction", "taken"),
                                                       ("kind", "HEARTBEAT"))], 3e12)
            self.assertEqual(values("tutti_members")[(("state", "lost"),)], 1)
            self.assertEqual(values("tutti_members")[(("state", "left"),)],
                             0 if line.startswith("hostile") else 1)
            self.assertEqual(values("tutti_members_lost")[(("reason", "silent"),)], 4)
            self.assertEqual(values("tutti_members_left"), {(): 5})
            self.assertIn("tutti_journal_commit_seconds", families)
            self.assertEqual("tutti_ring_slowest_link_bytes_per_second" in families,
                             line.startswith("measured"))
            if line.startswith("hostile"):
                (labels,) = values("tutti_coordinator_info")
                self.assertIn("onerror=alert(1)>\"'&amp;\\\ufffdtutti_epoch 666",
                              dict(labels)["run"])

    def test_invalid_address_is_reported(self):
        for address, word in (("nowhere", "must be like host:29401"),
                              ("127.0.0.1:99999999", "99999999"), ("[::1:80", "[::1:80"),
                              ("no.such.host.invalid:80", "no.such.host.invalid"),
                              ("192.0.2.1:80", "192.0.2.1:80")):
            done = subprocess.run([PROGRAM, "--run", address], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(word, done.stderr)

    def test_used_port_is_reported(self):
        with Server() as server:
            done = subprocess.run([PROGRAM, "--run", server.address], stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("Address already in use", done.stderr)

    def test_ipv6_serves_too(self):
        try:
            with socket.socket(socket.AF_INET6) as s:
                s.bind(("::1", 0))
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        with Server(arguments=["--run", "[::1]:0"]) as server:
            self.assertTrue(server.address.startswith("[::1]:"))
            self.assertEqual(server.ask("/healthz")[1], b"ok\n")


class Hostile(unittest.TestCase):
    def assert_serves(self, server):
        self.assertEqual(server.ask("/healthz")[1], b"ok\n")

    def test_other_methods_and_paths_are_refused(self):
        with Server() as server:
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "QUATSCH"):
                answer, _ = server.ask("/", method, body=b"x" * 100)
                self.assertEqual((answer.status, answer.headers["Allow"]), (405, "GET, HEAD"),
                                 method)
            for path in ("/nothing", "//", "/../etc/passwd", "/%2e%2e/etc/passwd", "/status.json/",
                         "/metrics%00", "/?/metrics/../x", "*"):
                self.assertIn(server.ask(path)[0].status, (200, 404) if path.startswith("/?")
                              else (404, 400), path)
            self.assert_serves(server)

    def test_foreign_host_name_is_refused(self):
        with Server() as server:
            for name, status in (("evil.example", 421), ("evil.example:80", 421),
                                 ("localhost.evil.example", 421), ("localhost", 200),
                                 ("LOCALHOST:9090", 200), ("127.0.0.1", 200), ("[::1]:80", 200),
                                 ("192.0.2.7:1", 200)):
                self.assertEqual(server.ask("/", headers={"Host": name})[0].status, status, name)

    def test_bad_requests_end_their_connection(self):
        junk = [b"\0" * 70000, b"\xff\xfe\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
                b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 50000 + b"\r\n",
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 10000000 + b"\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
                b"99999999999999999999\r\n\r\n",
                b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: "
                b"chunked\r\n\r\nfffffffffffffffff\r\n" + b"x" * 100000]
        with Server() as server:
            self.assert_serves(server)
            before_kib, before = server.resident_kib(), server.descriptors()
            for piece in junk * 3:
                got = server.raw(piece)
                self.assertFalse(got.startswith(b"HTTP/1.1 200"), piece[:80])
                self.assertLess(len(got), 4000)
            self.assert_serves(server)
            self.assertLess(server.resident_kib(), before_kib + (65536 if SANITIZED else 4096))
            self.assertLessEqual(server.descriptors(), before + 1)

    def test_endless_request_times_out(self):
        with Server() as server:
            begin, held = time.monotonic(), [server.connect() for _ in range(4)]
            for s, piece in zip(held, (b"", b"GET", b"\x16\x03\x01\x02\x00" * 100,
                                       b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")):
                s.sendall(piece)
            for s in held:
                self.assertEqual(s.recv(1), b"")
                s.close()
            self.assertGreater(time.monotonic() - begin, CONNECTION_S - 1)
            self.assert_serves(server)

    def test_held_connections_block_nobody(self):
        with Server() as server:
            before = server.descriptors()
            held = [server.connect() for _ in range(3 * CONNECTIONS)]
            for i, s in enumerate(held[::2]):
                try:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: " + b"x" * (i % 3))
                except (ConnectionResetError, BrokenPipeError):
                    pass
            for _ in range(10):
                self.assert_serves(server)
            self.assertLessEqual(server.descriptors(), before + CONNECTIONS + 2)
            for s in held:
                s.close()
            self.assert_serves(server)

    def test_non_readers_cost_little(self):
        with Server("run 4000 big") as server:
            held = []
            for _ in range(CONNECTIONS):
                s = server.connect()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.sendall(b"GET /status.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                held.append(s)
            self.assert_serves(server)
            for s in held:
                s.close()

    def test_idle_page_costs_nothing(self):
        with Server() as server:
            held = [server.connect() for _ in range(CONNECTIONS)]
            self.assert_serves(server)
            begin = server.cpu_s()
            time.sleep(1)
            self.assertLess(server.cpu_s() - begin, 0.5)
            for s in held:
                s.close()


if __name__ == "__main__":
    unittest.main()
