#!/usr/bin/env python3
"""Compares the values that InstructLab's own command gives to its training library with those of Trireme.

    pip install --no-deps instructlab instructlab-training
    pip install click click-didyoumean pydantic ruamel.yaml rich
    tests/readers/instructlab_values.py build/trireme

60 files config.yaml with keys drawn at random, and 24 of them again with flags of `ilab model train`. The real command
reads them; the functions that would train are replaced by one that keeps TrainingArgs and TorchrunArgs. Ours are those of
`trireme translate instructlab`, and with flags those of job.yaml after one step of `trireme ilab model train`. It is no
part of ./test.
"""
import contextlib
import enum
import importlib.util
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types

CASES, FLAGGED = 60, 24
KEPT = {}


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    made.__path__ = []
    sys.modules[name] = made
    return made


def load_instructlab():
    """The command `ilab`, without torch: the library's models of arguments, and stand-ins that keep them."""
    package = pathlib.Path(importlib.util.find_spec("instructlab").submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location("instructlab.training.config", package / "training" / "config.py")
    config = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(config)
    module("instructlab.training", **{k: v for k, v in vars(config).items() if not k.startswith("_")})
    module("torch", set_autocast_enabled=lambda _: None)
    strategies = enum.Enum("SupportedTrainingStrategies", {"LAB_MULTIPHASE": "lab-multiphase", "LAB_SKILLS_ONLY": "lab-skills-only"})
    strategies.has_strategy = classmethod(lambda cls, value: value in cls._value2member_map_)

    def keep(train_args, **_):
        KEPT.update(train=train_args)

    model = importlib.import_module("instructlab.model")
    model.accelerated_train = module("instructlab.model.accelerated_train", SupportedTrainingStrategies=strategies,
                                     accelerated_train=keep)
    model.full_train = module("instructlab.model.full_train", train=keep)
    from instructlab import configuration
    from instructlab.cli.model.train import train

    original = configuration.map_train_to_library

    def map_and_keep(ctx, params):
        train_args, torch_args = original(ctx, params)
        KEPT.update(train=train_args, torch=torch_args, device=params["device"])
        return train_args, torch_args

    sys.modules["instructlab.cli.model.train"].map_train_to_library = map_and_keep
    return configuration, train


def draw_config(draw, small):
    """A section train; `small`: it trains here."""
    keys = {
        "max_seq_len": lambda: draw.choice([16, 32, 64] if small else [512, 4096, 8192, 20000]),
        "max_batch_len": lambda: draw.choice([5000, 60000]),
        "num_epochs": lambda: draw.randint(1, 12),
        "effective_batch_size": lambda: draw.choice([2, 4, 8] if small else [32, 64, 96, 3840]),
        "save_samples": lambda: draw.choice([0, 100, 1000, 250000]),
        "checkpoint_at_epoch": lambda: draw.choice([True, False]),
        "deepspeed_cpu_offload_optimizer": lambda: draw.choice([True, False]),
        "fsdp_cpu_offload_optimizer": lambda: draw.choice([True, False]),
        "distributed_backend": lambda: draw.choice(["fsdp", "deepspeed"]),
        "nproc_per_node": lambda: draw.choice([1, 2] if small else [1, 2, 8]),
        "is_padding_free": lambda: draw.choice([True, False]),
        "disable_flash_attn": lambda: draw.choice([True, False]),
    }
    more = {
        "learning_rate": lambda: draw.choice([2e-5, 1e-4, 6e-06, 0.0003]),
        "warmup_steps": lambda: draw.randint(0, 100),
        "random_seed": lambda: draw.randint(0, 9999),
        "nnodes": lambda: 1 if small else draw.choice([1, 2]),
        "deepspeed_cpu_offload_optimizer_pin_memory": lambda: draw.choice([True, False]),
        "rdzv_id": lambda: draw.randint(1, 999),
    }
    train = {k: f() for k, f in keys.items() if draw.random() < 0.5}
    additional = {k: f() for k, f in more.items() if draw.random() < 0.5}
    if additional:
        train["additional_args"] = additional
    if small:
        train.setdefault("max_seq_len", 32)
        train.setdefault("effective_batch_size", 4)
        train.update(pipeline="full", device="cpu")
    else:
        train.update(pipeline="accelerated", device="cuda")
        if draw.random() < 0.5:
            train["ckpt_output_dir"] = "/runs/out"
    return train


def draw_flags(draw):
    flags = {
        "--num-epochs": lambda: draw.randint(1, 12),
        "--effective-batch-size": lambda: draw.choice([2, 4, 8]),
        "--max-seq-len": lambda: draw.choice([16, 32, 64]),
        "--learning-rate": lambda: draw.choice([1e-3, 5e-5]),
        "--warmup-steps": lambda: draw.randint(0, 20),
        "--save-samples": lambda: draw.choice([0, 50, 400]),
        "--gpus": lambda: draw.choice([1, 2]),
        "--distributed-backend": lambda: draw.choice(["fsdp", "deepspeed"]),
    }
    out = []
    for name, make in flags.items():
        if draw.random() < 0.4:
            out += [name, str(make())]
    return out


def theirs(configuration, command, file, flags):
    """The effective values, by our keys."""
    import click

    KEPT.clear()
    parent = click.Context(click.Group("ilab"))
    configuration.init(parent, str(file))
    assert not parent.obj.error_msg, parent.obj.error_msg
    with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), command.make_context("train", list(flags), parent=parent, obj=parent.obj, default_map=parent.default_map["train"]) as ctx:
        command.invoke(ctx)
    t, torch = KEPT["train"], KEPT["torch"]
    deepspeed = t.distributed_backend.value == "deepspeed"
    offload = t.deepspeed_options.cpu_offload_optimizer if deepspeed else t.fsdp_options.cpu_offload_params
    steps = max(t.save_samples // t.effective_batch_size, 1) if t.save_samples > 0 else 1000000000
    return {"train.epochs": t.num_epochs, "train.global_batch": t.effective_batch_size, "data.seq_len": t.max_seq_len,
            "optimizer.lr": t.learning_rate, "lr_schedule.warmup_steps": t.warmup_steps, "train.seed": t.random_seed,
            "train.out": t.ckpt_output_dir, "optimizer.betas": list(t.adamw_betas), "optimizer.eps": t.adamw_eps,
            "optimizer.weight_decay": t.adamw_weight_decay, "launch.device": KEPT["device"],
            "launch.ranks": int(torch.nproc_per_node) * torch.nnodes, "parallel.dp": "zero2" if deepspeed else "zero3",
            "parallel.offload.optimizer": "host" if offload else None, "train.save_every": steps, "model.path": t.model_path}


def settings_of(done):
    return {s["key"]: s["value"] for s in json.loads(done.stdout)["settings"]}


def ours(trireme, file):
    done = subprocess.run([trireme, "translate", "instructlab", file, "--launch.device", "cpu", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return settings_of(done)


def ours_with_flags(trireme, file, flags, out):
    done = subprocess.run([trireme, "ilab", "model", "train", "--config", file, *flags, "--train.steps", "1", "--quiet"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    import ruamel.yaml

    job = ruamel.yaml.YAML(typ="safe").load((pathlib.Path(out) / "job.yaml").read_text())
    flat = {}

    def walk(prefix, value):
        for key, part in value.items():
            walk(f"{prefix}{key}.", part) if isinstance(part, dict) else flat.__setitem__(prefix + key, part)

    walk("", job)
    return flat


def equal(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a is not None and b is not None and math.isclose(float(a), float(b), rel_tol=1e-7)
    if isinstance(a, str) and isinstance(b, str):
        return os.path.abspath(os.path.expanduser(a)) == os.path.abspath(os.path.expanduser(b))
    return [float(x) for x in a] == [float(x) for x in b] if isinstance(a, list) else a == b


def main():
    trireme = os.path.abspath(sys.argv[1])
    draw = random.Random(1)
    compared, wrong, seeds = 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            os.environ[name] = scratch
        configuration, command = load_instructlab()
        import ruamel.yaml

        pathlib.Path("mock").write_text("")
        pathlib.Path("start.yaml").write_text(
            "model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 64, max_seq: 20480}\ndata: {train: mock, seq_len: 16}\n"
            "train: {steps: 1, global_batch: 2, save_every: 1, out: start}\n")
        subprocess.run([trireme, "train", "start.yaml", "--quiet"], check=True, capture_output=True)
        model = str(next(pathlib.Path(scratch, "start", "checkpoints").glob("step-*")))
        for case in range(CASES + FLAGGED):
            flags, small = [], case >= CASES
            train = draw_config(draw, small)
            train.update(data_path="mock", model_path=model)
            if small:
                train["ckpt_output_dir"] = f"{scratch}/out-{case}"
                flags = draw_flags(draw)
            file = pathlib.Path(f"config-{case}.yaml")
            with open(file, "w") as f:
                ruamel.yaml.YAML().dump({"version": "1.0.0", "train": train}, f)
            want = theirs(configuration, command, file, flags)
            got = ours_with_flags(trireme, file, flags, train["ckpt_output_dir"]) if small else ours(trireme, file)
            for key, value in want.items():
                found = got.get(key)
                if key == "parallel.offload.optimizer":
                    found = "host" if found == "host" else None
                if key == "launch.device" and not small:
                    continue  # this program may have been built without GPUs
                if key == "train.epochs" and small:
                    continue  # the run has one step
                if key == "train.seed" and found != value:
                    seeds += found == train["additional_args"]["random_seed"]
                    continue
                compared += 1
                if not equal(value, found):
                    wrong += 1
                    print(f"{file}: {key}: InstructLab {value}, Trireme {found}; train {train}, flags {flags}")
    print(f"{CASES} files and {FLAGGED} files with flags: {compared} values compared, {wrong} differ; besides, "
          f"{seeds} files set random_seed, which InstructLab does not hand to its library")


if __name__ == "__main__":
    main()
