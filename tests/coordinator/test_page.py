#!/usr/bin/env python3
"""The status page in a real browser. TUTTI_SCREENSHOTS=DIR stores screenshots there."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent),
                str(Path(__file__).resolve().parent.parent / "support")]

import browser as browsers     # noqa: E402
from test_web import Server     # noqa: E402

if "-fsanitize" in os.environ.get("CFLAGS", ""):
    print("skipped: a browser has nothing to ask of the server that test_web does not, under a "
          "sanitizer, too")
    sys.exit(77)
if not browsers.find():
    print(f"skipped: there is no browser here (one of {', '.join(browsers.NAMES)}; Debian: "
          f"chromium-headless-shell)")
    sys.exit(77)

ROWS = "document.querySelectorAll('#members tbody tr').length"
FIGURE = ("[...document.querySelectorAll('.figures div')].find(d => d.firstChild.textContent === "
          "'{}').lastChild.textContent")
EPOCH = FIGURE.format("epoch")


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browsers.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def open(self, server, **options):
        page = self.browser.open(f"http://{server.address}/", **options)
        self.addCleanup(page.close)
        return page

    def keep(self, page, name):
        if "TUTTI_SCREENSHOTS" in os.environ:
            page.screenshot(Path(os.environ["TUTTI_SCREENSHOTS"]) / f"{name}.png")

    def test_page_shows_members_ring_events_counters(self):
        with Server("measured 12") as server:
            page = self.open(server)
            self.assertEqual(page.evaluate("document.title"), "char-lm: Tutti")
            self.assertEqual((page.evaluate(ROWS), page.evaluate(EPOCH),
                              page.evaluate(FIGURE.format("waiting"))), (12, "7", "2"))
            self.assertEqual([page.evaluate(FIGURE.format(what)) for what in ("lost", "left")],
                             ["1", "1"])
            self.assertEqual(page.evaluate("document.querySelectorAll('#members td.bad').length"),
                             1)
            self.assertEqual(page.evaluate("document.querySelectorAll('#members tbody "
                                           "tr')[3].cells[1].textContent"), "left")
            self.assertIn("lost: silent",
                          page.evaluate("document.getElementById('counters').textContent"))
            cells = page.evaluate("[...document.querySelectorAll('#members tbody "
                                  "tr')[2].cells].map(c => c.textContent)")
            self.assertEqual((cells[:5], cells[6:]), (["102", "in the view, leaving", "2", "1",
                                                       "0"], ["epoch", "192.0.2.3:40002"]))
            self.assertEqual(page.evaluate("document.querySelectorAll('#ring svg "
                                           "rect[stroke=\"#d55e00\"]').length"), 12)
            self.assertEqual(page.evaluate("document.querySelectorAll('#events li').length"), 3)
            self.assertTrue(page.evaluate("document.querySelector('#events "
                                          "span').textContent.startsWith('somebody asked for')"))
            self.assertIn("HEARTBEAT",
                          page.evaluate("document.getElementById('counters').textContent"))
            self.assertEqual(page.complaints(), [])
            self.keep(page, "light")

    def test_refresh_keeps_unfolded_parts(self):
        with Server("run 3 first") as server:
            page = self.open(server)
            page.evaluate("document.getElementById('counters').open = true")
            server.say("epoch 41")
            page.wait_for(f"{EPOCH} === '41'", "the new epoch")
            self.assertEqual(page.evaluate(ROWS), 6)
            self.assertTrue(page.evaluate("document.getElementById('counters').open"))
            server.say("measured 4")
            page.wait_for("document.querySelector('#ring svg') !== null", "the ring")
            self.assertEqual(page.complaints(), [])

    def test_page_reports_a_missing_coordinator(self):
        with Server() as server:
            page = self.open(server)
            self.assertTrue(page.evaluate("document.getElementById('note').hidden"))
        page.wait_for("!document.getElementById('note').hidden", "the note")
        self.assertIn("No response since",
                      page.evaluate("document.getElementById('note').textContent"))
        self.assertEqual(page.evaluate(ROWS), 6)
        self.keep(page, "gone")

    def test_a_hostile_name_is_text(self):
        with Server("hostile 4") as server:
            page = self.open(server)
            for _ in range(2):
                self.assertTrue(page.evaluate("document.title.startsWith(\"</title></main><script>document.title='taken'\")"))
                self.assertTrue(page.evaluate("document.querySelector('h1').textContent.includes('<img src=x onerror=alert(1)>\"')"))
                self.assertEqual(page.evaluate("[document.scripts.length, document.images.length, "
                                               "document.querySelectorAll('main').length]"),
                                 [1, 0, 1])
                self.assertEqual(page.evaluate("document.querySelectorAll('#events li').length"), 3)
                page.evaluate("document.querySelector('h1').id = 'old'")
                page.wait_for("!document.getElementById('old')", "a refresh")
            self.assertEqual(page.complaints(), [])
            self.keep(page, "hostile")

    def test_page_works_without_scripts(self):
        with Server("measured 9") as server:
            page = self.open(server, scripts=False)
            # the test's own scripts still run
            text = page.command("Runtime.evaluate", expression="1", returnByValue=True)
            self.assertEqual(text["result"]["value"], 1)
            self.assertEqual((page.evaluate(ROWS), page.evaluate(EPOCH)), (9, "7"))
            self.assertEqual(page.evaluate("document.querySelectorAll('meta[http-equiv=refresh]').length"), 1)

    def test_phone_needs_no_sideways_scrolling(self):
        for line in ("measured 12", "hostile 200"):
            with Server(line) as server:
                page = self.open(server, width=390, height=844)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 390)
                self.keep(page, f"phone-{line.split()[0]}")

    def test_real_coordinator_shows_membership_changes(self):
        build = Path(os.environ["TUTTI_BUILD_DIR"])
        name = "<b>bold</b> & sons"
        coordinator = subprocess.Popen([build / "tutti", "coordinator", "--run", name, "--listen",
                                        "127.0.0.1:0", "--journal", "none",
                                        "--lease", "20000", "--http", "127.0.0.1:0"],
                                       stdout=subprocess.PIPE, text=True)
        try:
            address = coordinator.stdout.readline().split()[-1]
            page = self.browser.open(coordinator.stdout.readline().split()[-1])
            self.addCleanup(page.close)
            self.assertIn("No member has joined yet.", page.evaluate("document.body.textContent"))
            members = subprocess.Popen([build / "tests/coordinator/prog_members", name, "5",
                                        address], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
            self.assertEqual(members.stdout.readline(), "gathered\n")
            page.wait_for(f"{ROWS} === 5 && {EPOCH} === '1'", "five members in the first epoch")
            self.assertIn(name, page.evaluate("document.querySelector('h1').textContent"))
            self.assertIn("All members of the view are connected.",
                          page.evaluate("document.getElementById('live').textContent"))
            self.keep(page, "real")
            members.stdin.close()
            members.stdout.close()
            self.assertEqual(members.wait(timeout=60), 0)
            page.wait_for("document.querySelectorAll('#members td.bad').length === 5 || " + ROWS
                          + " === 0", "their loss")
            page.wait_for("document.querySelectorAll('#events li').length > 5", "events")
            self.assertEqual(page.complaints(), [])
            self.keep(page, "real-lost")
        finally:
            coordinator.terminate()
            coordinator.stdout.close()
            self.assertEqual(coordinator.wait(timeout=60), 0)

    def test_dark_is_dark(self):
        lightness = ("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, "
                     "3).reduce((a, b) => a + +b, 0) / 3")
        with Server("measured 12") as server:
            page = self.open(server, dark=True)
            self.assertLess(page.evaluate(lightness), 60)
            self.assertEqual(page.complaints(), [])
            self.keep(page, "dark")
            self.assertGreater(self.open(server).evaluate(lightness), 200)

    def test_a_policy_lets_nothing_else_run(self):
        with Server() as server:
            page = self.open(server)
            page.evaluate("""(() => { const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s);
                                      document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.taken = 2">'); })()""")
            page.wait_for(lambda: len(page.complaints()) >= 2,
                          "complaints about what the policy forbids")
            self.assertIsNone(page.evaluate("window.taken"))


if __name__ == "__main__":
    unittest.main()
