"""Writes tests/golden/accelerate_launch/expected: the number of ranks and the environment that `accelerate launch` gives its
workers, for each line of accelerate_launch/cases. Neither a script nor torchrun is started.

    python tests/golden/make_accelerate_launch.py        # accelerate 1.15, PyTorch; DeepSpeed is not needed
"""
import contextlib
import io
import os
import pathlib
import shlex
import subprocess
import sys
import types

import accelerate.commands.launch as launch
import accelerate.utils.launch
import torch.distributed.run

for name in ("deepspeed", "deepspeed.launcher", "deepspeed.launcher.runner"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["deepspeed.launcher.runner"].DEEPSPEED_ENVIRONMENT_NAME = os.devnull

FOLDER = pathlib.Path(__file__).resolve().parent / "accelerate_launch"
LEFT_OUT = ("PYTHONPATH", "ACCELERATE_CONFIG_DS_FIELDS")  # a folder, and what serves a check of the worker alone


class Process:
    returncode = 0

    def __init__(self, command, env):
        record(env, "0")

    def wait(self):
        pass


def record(env, ranks):
    found.append(f"ranks {ranks}")
    found.extend(f"{k}={v}" for k, v in sorted(env.items()) if before.get(k) != v and k not in LEFT_OUT)


os.chdir(FOLDER)
os.environ.pop("OMP_NUM_THREADS", None)
os.environ["HF_HOME"] = str(FOLDER / "none")
launch.is_deepspeed_available = lambda: True
launch.subprocess = types.SimpleNamespace(Popen=Process, CalledProcessError=subprocess.CalledProcessError)
accelerate.utils.launch.is_port_in_use = lambda port=None: False
torch.distributed.run.run = lambda args: record(os.environ, args.nproc_per_node)
lines = []
for case in (FOLDER / "cases").read_text().splitlines():
    found, before = [], dict(os.environ)
    with contextlib.redirect_stdout(io.StringIO()):
        launch.launch_command(launch.launch_command_parser().parse_args([*shlex.split(case), "worker.sh"]))
    lines += ["# " + case, *found]
(FOLDER / "expected").write_text("\n".join(lines) + "\n")
