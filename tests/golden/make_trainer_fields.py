#!/usr/bin/env python3
"""Writes trainer_fields.json: every field of the configurations of transformers, TRL, axolotl and LLaMA-Factory with its
default, and learning rates of transformers' schedules. tests/unit/config/test_tuning.c compares the dialects with it.

    make_trainer_fields.py AXOLOTL LLAMAFACTORY >trainer_fields.json

needs transformers 5.24 and trl 1.16; AXOLOTL and LLAMAFACTORY are folders with the sources of these systems, whose fields are
read without running them. Defaults that are no constants are left out.
"""
import ast
import dataclasses
import json
import pathlib
import sys


def default_of(field):
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        return None
    value = getattr(value, "value", value)
    return value if isinstance(value, (bool, int, float, str)) else None


def fields_of_class(cls, without=()):
    left_out = {f.name for one in without for f in dataclasses.fields(one)}
    return {f.name: default_of(f) for f in dataclasses.fields(cls) if f.name not in left_out}


def constant(node):
    """The default of a field in source text: a constant, or the one in Field(...) and field(...)."""
    if isinstance(node, ast.Call):
        given = [k.value for k in node.keywords if k.arg == "default"]
        node = given[0] if given else (node.args[0] if node.args else None)
    return node.value if isinstance(node, ast.Constant) and node.value is not Ellipsis else None


def classes_of(folder):
    found = {}
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = node
    return found


def fields_of_source(classes, name):
    node = classes.get(name)
    fields = {}
    if node is None:
        return fields
    for base in node.bases:
        fields.update(fields_of_source(classes, ast.unparse(base)))
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and not line.target.id.startswith("_"):
            fields[line.target.id] = constant(line.value)
    return fields


def rates():
    """Rates of some schedules, each over ten steps."""
    import torch
    from transformers import get_scheduler

    cases = [
        ("linear", 3, 10, {}), ("linear", 0, 10, {}), ("cosine", 3, 10, {}), ("constant", 0, 10, {}),
        ("constant_with_warmup", 4, 10, {}), ("inverse_sqrt", 3, 10, {}),
        ("polynomial", 2, 10, {"lr_end": 1e-4}), ("cosine_with_min_lr", 2, 10, {"min_lr_rate": 0.1}),
        ("cosine_with_restarts", 2, 10, {}),
        ("warmup_stable_decay", 2, 10, {"num_decay_steps": 4, "min_lr_ratio": 0.2, "decay_type": "linear"}),
    ]
    for name, warmup, steps, kwargs in cases:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-3)
        schedule = get_scheduler(name, optimizer, warmup, steps, scheduler_specific_kwargs=kwargs or None)
        found = []
        for _ in range(steps):
            found.append(schedule.get_last_lr()[0])
            optimizer.step()
            schedule.step()
        yield {"name": name, "warmup": warmup, "steps": steps, "kwargs": kwargs, "rates": found}


def main():
    from transformers import TrainingArguments
    from trl import DPOConfig, ModelConfig, ScriptArguments, SFTConfig
    from trl.experimental.kto import KTOConfig
    from trl.experimental.orpo import ORPOConfig
    from trl.scripts.utils import DatasetMixtureConfig

    axolotl = classes_of(pathlib.Path(sys.argv[1]) / "src/axolotl/utils/schemas")
    llamafactory = classes_of(pathlib.Path(sys.argv[2]) / "src/llamafactory/hparams")
    own = {}
    for name in ["ModelArguments", "DataArguments", "FinetuningArguments", "TrainingArguments", "GeneratingArguments"]:
        own.update(fields_of_source(llamafactory, name))
    trl = fields_of_class(SFTConfig)
    for cls in [DPOConfig, KTOConfig, ORPOConfig, ModelConfig, ScriptArguments, DatasetMixtureConfig]:
        trl.update({k: v for k, v in fields_of_class(cls).items() if k not in trl})
    json.dump(
        {
            "trainer": fields_of_class(TrainingArguments),
            "trl": trl,
            "axolotl": fields_of_source(axolotl, "AxolotlInputConfig"),
            "llamafactory": own,
            "rates": list(rates()),
        },
        sys.stdout,
        indent=0,
        sort_keys=True,
    )
    print()


main()
