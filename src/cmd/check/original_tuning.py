# original_tuning.py -- some steps of a run under transformers' Trainer and TRL, whose trainers are based on it: the first
# part of the text whose rest is original.py, which imports what is used here. The values of the file become the objects
# that `trl sft`, `trl dpo` or a script makes of it. TRL encodes samples by itself, so labels and templates are compared,
# too.


def read_tuning(request):
    """The keys of the file, and over them what a check decides: the batch, one line a step, and nothing beside."""
    if not request.file.endswith((".json", ".yaml", ".yml")):
        raise Cannot("its file is a script: write the options as keys of a YAML or JSON file")
    import yaml

    with open(request.file) as file:
        values = json.load(file) if request.file.endswith(".json") else yaml.safe_load(file)
    os.environ.update({k: str(v) for k, v in values.pop("env", {}).items()})
    if values.get("deepspeed"):
        raise Cannot("its file asks for DeepSpeed: check that configuration with translate --check deepspeed")
    if values.get("fsdp") and request.device == "cpu":
        raise Cannot("Accelerate runs FSDP on GPUs alone; on a CPU it would train without sharding, and not say so")
    if not float(values.get("max_steps") or 0) > 0:
        values["max_steps"] = request.total_steps
    if values.get("bf16") is None and not values.get("fp16"):
        values["bf16"] = request.precision == "bf16"
    values |= dict.fromkeys(("eval_strategy", "save_strategy"), "no")
    values |= dict.fromkeys(("load_best_model_at_end", "push_to_hub", "logging_nan_inf_filter"), False)
    values |= {"logging_strategy": "steps", "logging_steps": 1, "report_to": "none", "disable_tqdm": True}
    values |= {"use_cpu": request.device == "cpu", "output_dir": os.path.dirname(request.result)}
    values |= {"per_device_train_batch_size": request.micro_batch, "gradient_accumulation_steps": request.accumulation}
    return values


def parse_tuning(kinds, values, known=None):
    """Objects of these dataclasses, from values as text or as they are. With `known` other keys are refused."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(kinds)
    names = {action.dest for action in parser._actions}
    unknown = [] if known is None else sorted(values.keys() - names - known)
    if unknown:
        raise Cannot(f"it does not know {', '.join(unknown)}")
    for action in parser._actions:
        action.required = False
    parser.set_defaults(**{name: values[name] for name in values.keys() & names})
    return parser.parse_args_into_dataclasses(args=[])


def token_rows(request):
    """Rows of token shards. A row's last token is only predicted, so it has one more than data.seq_len."""
    count = (len(request.tokens) - 1) // request.seq_len
    starts = [i % count * request.seq_len for i in range(request.steps * request.global_batch)]
    rows = [[int(t) for t in request.tokens[i : i + request.seq_len + 1]] for i in starts]
    return [{"input_ids": row, "labels": row} for row in rows]


def watched(kind, request):
    """A trainer of this class that takes the rows in their order, reports each step, and stops after the last one."""
    import torch
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            control.should_training_stop = state.global_step >= request.steps

        def on_log(self, args, state, control, logs, **_):
            if "learning_rate" in logs:
                request.say(
                    step=state.global_step,
                    loss=logs["loss"],
                    grad_norm=logs.get("grad_norm"),
                    lr=logs["learning_rate"],
                )

    class Watched(kind):
        def __init__(self, **given):
            super().__init__(callbacks=[Watch()], **given)

        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    return Watched


def run_trainer(request):
    from transformers import Trainer, TrainingArguments

    (args,) = parse_tuning(TrainingArguments, read_tuning(request))
    base = peak_bytes(request.device)
    watched(Trainer, request)(model=load_model(request), args=args, train_dataset=token_rows(request)).train()
    return base


def take_adapter(request, model):
    """Gives an adapter the weights that Trireme has drawn, because no two systems draw the same."""
    from peft import get_peft_model_state_dict, set_peft_model_state_dict
    from safetensors.torch import load_file

    weights = load_file(os.path.join(request.adapter, "adapter_model.safetensors"))
    other = sorted(weights.keys() ^ get_peft_model_state_dict(model).keys())
    if other:
        raise Cannot(f"Trireme's adapter and its own have other tensors: {other[0]} is in one of them")
    set_peft_model_state_dict(model, weights)
    request.say(note="the adapter begins with the weights that Trireme has drawn")


def read_trl(request):
    values = read_tuning(request)
    if values.get("packing"):
        request.say(note="data.packing is none in both, because the two fill rows in another order")
    values |= dict.fromkeys(("packing", "padding_free", "shuffle_dataset"), False) | {"lora_dropout": 0.0}
    if request.device == "cpu":
        values.pop("attn_implementation", None)
    if not request.has_samples:
        values["max_length"] = None
    return values


def run_trl(request):
    folder = os.path.dirname(request.result)
    os.environ["HF_DATASETS_CACHE"] = os.path.join(folder, f"cache{RANK}")
    from datasets import Dataset
    import trl

    sft = trl.SFTConfig, trl.SFTTrainer
    kinds = {"auto": sft, "cross_entropy": sft, "dpo": (trl.DPOConfig, trl.DPOTrainer)}
    if request.loss not in kinds:
        raise Cannot(f"the check runs its commands sft and dpo; the loss of the job is {request.loss}")
    config, kind = kinds[request.loss]
    of_command = {"accelerate_config", "num_processes", "config", "packing", "padding_free", "shuffle_dataset"}
    args, model, *_ = parse_tuning(
        (config, trl.ModelConfig, trl.ScriptArguments, trl.DatasetMixtureConfig), read_trl(request), of_command
    )
    args.model_init_kwargs = {
        "dtype": model.dtype,
        "attn_implementation": model.attn_implementation,
    } | (args.model_init_kwargs or {})
    data = Dataset.from_json(request.data) if request.has_samples else Dataset.from_list(token_rows(request))
    base = peak_bytes(request.device)
    trainer = watched(kind, request)(
        model=request.model,
        args=args,
        train_dataset=data,
        peft_config=trl.get_peft_config(model),
        quantization_config=trl.get_quantization_config(model),
    )
    if request.adapter:
        take_adapter(request, trainer.model)
    rows = trainer.train_dataset
    trainer.train_dataset = rows.select(i % len(rows) for i in range(request.steps * request.global_batch))
    trainer.train()
    return base
