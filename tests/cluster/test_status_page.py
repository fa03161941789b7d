#!/usr/bin/env python3
"""tutti status --serve: the page of a job of real processes, also in a browser, its JSON and its
metrics, read by Prometheus' own parser; hostile clients; a job that ends. TUTTI_SCREENSHOTS=DIR
stores screenshots there."""

import http.client
import json
import os
import socket
import subprocess
import sys
import unittest
from pathlib import Path

from cluster import PATIENCE_S, SANITIZED, TUTTI, free_port, wait_until
from test_status import QUERY_S, RANKS, StatusTest, is_missing

# Debian's prometheus_client, if another Python runs this
sys.path.append("/usr/lib/python3/dist-packages")

import browser as browsers     # noqa: E402

CONNECTIONS = 64        # TT_HTTP_CONNECTIONS
MANY = 16
ROWS = "document.querySelectorAll('#communicators tbody tr').length"
CELLS = ("[...document.querySelectorAll('#communicators tbody tr')[{}].cells].map(c => "
         "c.textContent)")


class PageTest(StatusTest):
    def serve(self, *args, address="127.0.0.1:0"):
        """Starts the server; self.address is its address."""
        server = subprocess.Popen([TUTTI, "status", "--serve", address, "--timeout", str(QUERY_S),
                                   "--watch=0.1", *map(str, args)], env=self.env,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

        def end():
            server.terminate()
            server.stdout.close()
            self.assertEqual(server.wait(PATIENCE_S), 0)

        self.addCleanup(end)
        line = server.stdout.readline()
        self.assertRegex(line, r"^status page: http://127\.0\.0\.1:\d+/$")
        self.address = line.split("/")[2]
        return server

    def get(self, path, method="GET", headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def json(self):
        answer, text = self.get("/json")
        return json.loads(text) if answer.status == 200 else None

    def await_missing(self, rank):
        wait_until(lambda: (a := self.json()) and is_missing(a, rank), f"rank {rank} is missing")

    def connect(self):
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


class Remote(PageTest):
    def test_page_of_a_job_over_tcp_has_its_number(self):
        port = free_port()
        self.env["TUTTI_STATUS_TOKEN"] = "a token of 24 characters"
        pids = self.start("run", ranks=2, TUTTI_STATUS="0",
                          TUTTI_STATUS_LISTEN=f"127.0.0.1:{port}")
        self.serve(f"tcp://127.0.0.1:{port}")
        wait_until(lambda: self.json(), "the job responds")
        job = self.json()["job"]
        self.assertRegex(job, "^(?!0{16})[0-9a-f]{16}$")
        for pid in pids.values():
            os.kill(pid, 9)
        wait_until(lambda: self.get("/healthz")[0].status == 503, "the job does not respond")
        self.assertIn(f"job {job}", self.get("/")[1])


class Pages(PageTest):
    def test_pages_have_types_and_restrictions(self):
        self.start("run", ranks=2)
        self.serve()
        for path, kind in (("/", "text/html; charset=utf-8"), ("/json", "application/json"),
                           ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
                           ("/healthz", "text/plain; charset=utf-8")):
            wait_until(lambda path=path: self.get(path)[0].status == 200, f"{path} of the job")
            answer, text = self.get(path)
            self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, kind))
            self.assertTrue(text)
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
        self.assertEqual(self.get("/status")[0].status, 404)
        self.assertEqual(self.get("/", "POST")[0].status, 405)
        self.assertEqual(self.get("/", headers={"Host": "evil.example"})[0].status, 421)

    def test_prometheus_reads_the_metrics(self):
        try:
            from prometheus_client.parser import text_string_to_metric_families as parse
        except ImportError:
            self.skipTest("python3-prometheus-client is not installed")
        self.start("never", 3)
        self.serve()
        self.await_missing(3)
        families = {f.name: f for f in parse(self.get("/metrics")[1])}

        def values(name, label=None):
            return {s.labels.get(label): s.value for s in families[name].samples}

        self.assertTrue(all(f.documentation and f.type == "gauge" for f in families.values()))
        self.assertEqual(values("tutti_job_ranks"), {None: RANKS})
        self.assertEqual(values("tutti_job_ranks_active"), {None: RANKS - 1})
        self.assertEqual(set(values("tutti_job_ranks_unreported", "cause")),
                         {"silent", "late", "left", "lost", "unknown"})
        self.assertEqual(values("tutti_communicator_ranks_missing", "name"),
                         {"world": 1, "odd": 0, "even": 0})
        # the rates are those of a second, which may begin before the last call
        wait_until(lambda: {s.value for f in parse(self.get("/metrics")[1])
                            if f.name == "tutti_communicator_latest_rank"
                            for s in f.samples if s.labels["name"] == "world"} == {3},
                   "rank 3 is the latest")

    def test_end_of_the_job_is_reported(self):
        pids = self.start("run", ranks=2)
        self.serve()
        wait_until(lambda: self.get("/healthz")[0].status == 200, "the job responds")
        for pid in pids.values():
            os.kill(pid, 9)
        wait_until(lambda: self.get("/healthz")[0].status == 503, "the job does not respond")
        for path, word in (("/", "no process of job"), ("/json", "no process of job"),
                           ("/metrics", "# no process of job")):
            answer, text = self.get(path)
            self.assertEqual(answer.status, 503)
            self.assertIn(word, text)
        self.assertIn("no process of job", json.loads(self.get("/json")[1])["error"])

    def test_invalid_use_is_refused(self):
        self.start("run", ranks=2)
        for args, word in ((("--serve", "nowhere"), "must be like host:29401"),
                           (("--serve", "127.0.0.1:99999999"), "99999999"),
                           (("--serve", "0", "--json"), "--serve excludes")):
            done = self.status(*args)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(word, done.stderr)
        self.serve(address="0")
        done = self.status("--serve", self.address)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Address already in use", done.stderr)


    def test_addresses_are_not_those_of_a_coordinator(self):
        self.start("run", ranks=2)
        for address in ("nowhere", "127.0.0.1:99999999", "192.0.2.1:1"):
            done = self.status("--serve", address)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("listen", done.stderr)
            self.assertNotIn("coordinator", done.stderr)

    def test_full_output_ends_it(self):
        self.start("run", ranks=2)
        with open("/dev/full", "w") as full:
            done = subprocess.run([TUTTI, "status", "--serve", "0"], env=self.env, stdout=full,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  timeout=PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "cannot write standard output: No space left on device")

    def test_a_signal_ends_it_during_a_query(self):
        """The query has minutes left when the signal arrives: the queried process accepts it,
        and never answers."""
        path = self.base / "00000000000000ab"
        path.mkdir(0o700, parents=True)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path / "0"))
            silent.listen()
            server = subprocess.Popen([TUTTI, "status", "--serve", "0", "--timeout", "600",
                                       str(path / "0")], env=self.env, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, text=True)
            self.addCleanup(server.stdout.close)
            self.addCleanup(server.kill)
            self.address = server.stdout.readline().split("/")[2]
            silent.settimeout(PATIENCE_S)
            with self.connect() as client:
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                with silent.accept()[0]:
                    server.terminate()
                    self.assertEqual(server.wait(PATIENCE_S), 0)


class Hostile(PageTest):
    def test_held_connections_and_junk_disturb_nobody(self):
        self.start("never", 3)
        self.serve()
        self.await_missing(3)
        held = [self.connect() for _ in range(2 * CONNECTIONS)]
        for i, s in enumerate(held):
            try:
                s.sendall((b"GET /json HTTP/1.1\r\nHost: x", b"\0" * 1000, b"\xff\r\n\r\n",
                           b"GET /" + b"a" * 100000)[i % 4])
            except (ConnectionResetError, BrokenPipeError):
                pass
        self.assertEqual(self.get("/healthz")[0].status, 200)
        self.assertEqual(self.query()["reported"], RANKS)
        for s in held:
            s.close()
        self.await_missing(3)

    def test_many_clients_cost_one_query(self):
        """Within the interval, all pages show the same answer."""
        self.start("run")
        self.serve("--watch=3600")
        wait_until(lambda: self.get("/json")[0].status == 200, "an answer")
        first = self.get("/json")[1]
        for _ in range(50):
            self.assertEqual(self.get("/json")[1], first)


@unittest.skipIf(SANITIZED, "a browser tests nothing of the program that Pages does not")
@unittest.skipIf(not browsers.find(), "there is no browser (Debian: chromium-headless-shell)")
class Browser(PageTest):
    @classmethod
    def setUpClass(cls):
        cls.browser = browsers.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def open(self, **options):
        page = self.browser.open(f"http://{self.address}/", **options)
        self.addCleanup(page.close)
        return page

    def keep(self, page, name):
        if "TUTTI_SCREENSHOTS" in os.environ:
            page.screenshot(Path(os.environ["TUTTI_SCREENSHOTS"]) / f"{name}.png")

    def test_page_shows_the_missing_rank_and_the_end_of_the_job(self):
        pids = self.start("never", 5, ranks=MANY)
        self.serve()
        self.await_missing(5)
        page = self.open()
        self.assertRegex(page.evaluate("document.title"), "^job [0-9a-f]{16}: Tutti$")
        page.wait_for(f"{ROWS} === 3 && {CELLS.format(0)}[5] === 'rank 5'", "rank 5")
        cells = page.evaluate(CELLS.format(0))
        self.assertEqual(cells[:3], ["missing", "world", f"{MANY - 1} of {MANY}"])
        self.assertRegex(cells[3], r"^allreduce 256 f32 max, number \d+$")
        page.evaluate("document.querySelector('h1').id = 'old'")
        page.wait_for("!document.getElementById('old')", "a refresh")
        self.assertEqual(page.complaints(), [])
        self.keep(page, "status")
        phone = self.open(width=390, height=844)
        self.assertLessEqual(phone.evaluate("document.documentElement.scrollWidth"), 390)
        self.keep(phone, "status-phone")
        for pid in pids.values():
            os.kill(pid, 9)
        page.wait_for("!document.getElementById('note').hidden", "the note")
        self.assertIn("No response since",
                      page.evaluate("document.getElementById('note').textContent"))
        self.keep(page, "status-gone")

    def test_hostile_names_are_text(self):
        self.start("run", ranks=2, PROG_STATUS_NAME="<img src=x onerror=alert(1)>")
        self.serve()
        wait_until(lambda: self.get("/")[0].status == 200, "the page")
        page = self.open()
        page.wait_for(f"{ROWS} === 3", "all communicators")
        self.assertEqual(page.evaluate("[document.scripts.length, document.images.length]"), [1, 0])
        self.assertIn("<img src=x onerror=alert(1)>",
                      page.evaluate("document.getElementById('communicators').textContent"))
        self.assertEqual(page.complaints(), [])


if __name__ == "__main__":
    unittest.main()
