"""A headless browser (Chromium), controlled over its DevTools pipe, without a driver, a port or
other packages.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:9090/")
        page.evaluate("document.title")"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 60


class BrowserError(Exception):
    pass


def find():
    """Returns its path, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    def __init__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="tutti-browser-",
                                                   ignore_cleanup_errors=True)
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()
        path = find()
        arguments = [path, "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run",
                     "--disable-extensions", "--disable-background-networking",
                     "--disable-component-update", "--mute-audio",
                     f"--user-data-dir={self.profile.name}", "about:blank"]
        if "shell" not in path:
            arguments.insert(1, "--headless")
        # The pipe consists of descriptors 3 (the browser reads) and 4 (it writes).
        self.process = subprocess.Popen(["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}',
                                         "-", *arguments],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL,
                                        pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self.unread, self.last, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.command("Browser.close")
        except BrowserError:
            self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.profile.cleanup()

    def take(self, deadline):
        """Returns the next message, or None at the timeout."""
        while b"\0" not in self.unread:
            if not select.select([self.back], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            more = os.read(self.back, 1 << 20)
            if not more:
                raise BrowserError(f"the browser ended with {self.process.wait()}")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def command(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method,
                   "params": parameters} | ({"sessionId": session} if session else {})
        try:
            os.write(self.to, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as error:
            raise BrowserError("the browser is gone") from error
        deadline = time.monotonic() + PATIENCE_S
        while (got := self.take(deadline)) is not None:
            if got.get("id") == self.last:
                if "error" in got:
                    raise BrowserError(f"{method}: {got['error']}")
                return got["result"]
            self.events.append(got)
        raise BrowserError(f"{method}: no answer within {PATIENCE_S} s")

    def open(self, address, **options):
        return Page(self, address, **options)


class Page:
    """A separate tab. scripts: whether the page's scripts run; dark: the preferred colour
    scheme."""

    def __init__(self, browser, address, scripts=True, dark=False, width=1200, height=900):
        self.browser = browser
        target = browser.command("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.command("Target.attachToTarget", targetId=target,
                                       flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.command(f"{domain}.enable")
        self.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.command("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": "dark" if dark
                                else "light"}])
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height,
                     deviceScaleFactor=1, mobile=width < 600)
        result = self.command("Page.navigate", url=address)
        if "errorText" in result:
            raise BrowserError(f"{address}: {result['errorText']}")
        self.wait_for(lambda: any(e["method"] == "Page.loadEventFired" for e in self.events()),
                      f"{address} to load")

    def command(self, method, **parameters):
        return self.browser.command(method, self.session, **parameters)

    def events(self):
        # earlier events arrive before its reply
        self.command("Runtime.runIfWaitingForDebugger")
        return [e for e in self.browser.events if e.get("sessionId") == self.session]

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression, as JSON."""
        got = self.command("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in got:
            raise BrowserError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def wait_for(self, condition, what):
        """Waits until a condition holds: a function, or an expression of the page."""
        deadline = time.monotonic() + PATIENCE_S
        while not (condition() if callable(condition) else self.evaluate(condition)):
            if time.monotonic() > deadline:
                raise BrowserError(f"waited {PATIENCE_S} s for {what}")
            time.sleep(0.05)

    def complaints(self):
        """Errors that the page or the browser printed to its console, including blocked loads."""
        told = []
        for e in self.events():
            if e["method"] == "Runtime.exceptionThrown":
                told.append(str(e["params"]["exceptionDetails"]))
            elif e["method"] == "Runtime.consoleAPICalled" and e["params"]["type"] in ("error", "warning", "assert"):
                told.append(str(e["params"]["args"]))
            elif e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] in ("error", "warning"):
                told.append(e["params"]["entry"]["text"])
        return told

    def screenshot(self, path, whole=True):
        data = self.command("Page.captureScreenshot", format="png",
                            captureBeyondViewport=whole)["data"]
        with open(path, "wb") as to:
            to.write(base64.b64decode(data))

    def close(self):
        self.browser.command("Target.closeTarget", targetId=self.target)
