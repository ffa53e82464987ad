"""Where ranks run: on this host, or on two network namespaces, which stand for two hosts of one rank each. Used by
plan_errors.py. Namespaces need root, ip and a kernel that has them."""
import os
import signal
import subprocess
import tempfile

LAUNCHER = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT"]


class Failed(Exception):
    """A command failed; the text says why, in one line."""


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and "warning:" not in line]
    return lines[-1] if lines else "no message"


def run_together(commands, limit_s):
    """Runs (words, environment) of all ranks at once. Returns what the first one printed."""
    children, files = [], []
    try:
        for words, env in commands:
            out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
            files.append((out, err))
            children.append(subprocess.Popen(words, stdout=out, stderr=err, env=env, start_new_session=True))
        for child in children:
            child.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise Failed("%s: took longer than %d s" % (" ".join(commands[0][0]), limit_s)) from None
    finally:
        for child in children:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    texts = []
    for out, err in files:
        out.seek(0), err.seek(0)
        texts.append((out.read(), err.read()))
        out.close(), err.close()
    bad = [i for i, child in enumerate(children) if child.returncode]
    if bad:
        raise Failed(last_line(texts[bad[0]][1]))
    return texts[0][0]


class OneHost:
    """Two ranks on this host."""
    name, launch = "one", {"launch.ranks": 2}

    def __init__(self):
        self.env = {key: value for key, value in os.environ.items() if key not in LAUNCHER}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, words, limit_s):
        return run_together([(words, self.env)], limit_s)

    def plan(self, words, limit_s):
        return self.run(words, limit_s)


class TwoHosts(OneHost):
    """One rank in each of two namespaces, over tls."""
    name, launch = "two", {"launch.comm": "tls"}

    def __init__(self):
        super().__init__()
        self.net, self.port, self.made = "tre%d" % os.getpid(), 29600, []
        self.folder = tempfile.TemporaryDirectory()
        self.secret = os.path.join(self.folder.name, "secret")

    def __enter__(self):
        descriptor = os.open(self.secret, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(descriptor, os.urandom(32).hex().encode() + b"\n")
        os.close(descriptor)
        try:
            a, b = ("%s-%s" % (self.net, n) for n in "ab")
            for name in (a, b):
                self.ip("netns", "add", name)
                self.made.append(name)
            self.ip("-n", a, "link", "add", "net", "type", "veth", "peer", "name", "net", "netns", b)
            for number, name in enumerate((a, b), 1):
                self.ip("-n", name, "link", "set", "lo", "up")
                self.ip("-n", name, "link", "set", "net", "up")
                self.ip("-n", name, "address", "add", "10.79.0.%d/24" % number, "dev", "net")
        except Failed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
        self.folder.cleanup()

    @staticmethod
    def ip(*words):
        try:
            done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        except OSError as why:
            raise Failed("ip: %s" % why.strerror) from None
        if done.returncode:
            raise Failed("ip %s: %s" % (" ".join(words), last_line(done.stderr)))

    def env_of(self, rank):
        return dict(self.env, RANK=str(rank), GROUP_RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1",
                    MASTER_ADDR="10.79.0.1", MASTER_PORT=str(self.port), TRIREME_SECRET_FILE=self.secret)

    def run(self, words, limit_s):
        self.port += 1
        return run_together([(["ip", "netns", "exec", name] + words, self.env_of(rank))
                             for rank, name in enumerate(self.made)], limit_s)

    def plan(self, words, limit_s):
        """A command that starts no ranks: it sees the hosts in its environment."""
        return run_together([(words, self.env_of(0))], limit_s)


HOSTS = {"one": OneHost, "two": TwoHosts}
