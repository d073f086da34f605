"""Headless Chromium for tests of pages, by chromedriver (Debian's chromium and chromium-driver) and the WebDriver protocol."""
import base64
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

MISSING = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
WHY_NOT = f"{' and '.join(MISSING)} (Debian packages chromium, chromium-driver) not there" if MISSING else ""
ARGUMENTS = ["--headless=new", *(["--no-sandbox"] if os.geteuid() == 0 else []), "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"]


class Browser:
    """One window. Close it: its processes end."""

    def __init__(self, port, deadline_s=120):
        self.port, self.deadline_s, self.session = port, deadline_s, None
        self.folder = tempfile.TemporaryDirectory(prefix="gradwire-browser-")
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True, env={**os.environ, "HOME": self.folder.name})
        try:
            self.until("chromedriver answers", lambda: self.answers())
            options = {"args": [*ARGUMENTS, f"--user-data-dir={self.folder.name}/profile"]}
            self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def answers(self):
        try:
            return self.call("GET", "/status")["ready"]
        except OSError:
            return False

    def call(self, method, path, body=None):
        at = f"/session/{self.session}{path}" if self.session else path
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.deadline_s)
        try:
            c.request(method, at, None if body is None else json.dumps(body))
            value = json.loads(c.getresponse().read())["value"]
        finally:
            c.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(value["message"])
        return value

    def until(self, what, condition):
        end = time.monotonic() + self.deadline_s
        while not (got := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"not within {self.deadline_s} s: {what}")
            time.sleep(0.05)
        return got

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, height, dark):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def complaints(self):
        """The errors in the page's console."""
        return [line["message"] for line in self.call("POST", "/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "")
        except (OSError, RuntimeError):
            pass
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.folder.cleanup()
