# original.py -- some steps of a run under the system whose configuration Trireme has translated. The program carries
# this file; `trireme translate --check` starts it once for each rank, with torchrun's environment. It computes as a
# script of that system does, on the same tokens in the same order, and knows nothing of Trireme but two files. The
# functions of original_tuning.py stand before it in the same text.
#   original.py REQUEST          trains; rank 0 adds lines of JSON to the request's file `result`
#   original.py REQUEST probe    says only which versions there are, or what this Python lacks
import importlib.metadata
import importlib.util
import json
import os
import sys

RANK = int(os.environ.get("RANK", 0))
RANKS = int(os.environ.get("WORLD_SIZE", 1))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))


class Cannot(Exception):
    """Why the original cannot run here, in one line."""


class Request:
    """The members of the JSON file, and the tokens."""

    def __init__(self, path):
        with open(path) as file:
            self.__dict__.update(json.load(file))

    def say(self, **members):
        if RANK == 0:
            with open(self.result, "a") as file:
                file.write(json.dumps(members) + "\n")

    def batches(self, step):
        """Inputs and labels [micro_batch, seq_len] of this rank, a pair for each micro-batch of a step (from 0)."""
        import torch

        count = (len(self.tokens) - 1) // self.seq_len
        first = step * self.global_batch + RANK * (self.global_batch // RANKS)
        for micro in range(self.accumulation):
            rows = []
            for i in range(self.micro_batch):
                begin = (first + micro * self.micro_batch + i) % count * self.seq_len
                rows.append(torch.tensor([int(t) for t in self.tokens[begin : begin + self.seq_len + 1]]))
            rows = torch.stack(rows).to(self.device_name())
            yield rows[:, :-1], rows[:, 1:]

    def device_name(self):
        return f"cuda:{LOCAL_RANK}" if self.device == "cuda" else "cpu"

    def read_tokens(self):
        import numpy

        with open(self.data + ".idx", "rb") as file:
            head = file.read(18)
        kind = {1: "u1", 4: "<i4", 5: "<i8", 8: "<u2"}[head[17]]
        self.tokens = numpy.memmap(self.data + ".bin", dtype=kind, mode="r")


def peak_bytes(device):
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def over_ranks(value, how):
    """The mean or the maximum of a number over all ranks."""
    import torch
    import torch.distributed as dist

    if RANKS == 1:
        return float(value)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    one = torch.tensor(float(value), dtype=torch.float64, device=device)
    dist.all_reduce(one, op=dist.ReduceOp.MAX if how == "max" else dist.ReduceOp.SUM)
    return one.item() if how == "max" else one.item() / RANKS


def load_model(request):
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(request.model, dtype=torch.float32)
    model.config.use_cache = False
    model.train()
    return model


def loss_of(model, inputs, labels):
    import torch

    logits = model(input_ids=inputs).logits.float()
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def make_optimizer(request, model):
    """The optimizer of a script, where the configuration names none: that of the job."""
    import torch

    o = request.optimizer
    named = [p for p in model.named_parameters() if p[1].requires_grad]
    decays = [p for n, p in named if o["decay_all"] or p.dim() >= 2]
    others = [p for n, p in named if not (o["decay_all"] or p.dim() >= 2)]
    groups = [{"params": decays, "weight_decay": o["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    groups = [g for g in groups if g["params"]]
    if o["name"] == "sgd":
        return torch.optim.SGD(groups, lr=o["lr"], momentum=o["beta1"])
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}
    if o["name"] not in kinds:
        raise Cannot(f"PyTorch has no optimizer {o['name']}")
    return kinds[o["name"]](groups, lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


# ---- DeepSpeed


def fill_auto(request, config):
    """The values of "auto" as transformers fills them, but from the job."""
    with open(os.path.join(request.model, "config.json")) as file:
        model = json.load(file)
    hidden = model.get("hidden_size") or model.get("n_embd") or 0
    o = request.optimizer
    values = {
        "lr": o["lr"],
        "betas": [o["beta1"], o["beta2"]],
        "eps": o["eps"],
        "weight_decay": o["weight_decay"],
        "warmup_min_lr": 0,
        "warmup_max_lr": o["lr"],
        "warmup_num_steps": request.warmup_steps,
        "total_num_steps": request.total_steps,
        "gradient_clipping": request.clip,
        "reduce_bucket_size": hidden * hidden,
        "stage3_prefetch_bucket_size": int(0.9 * hidden * hidden),
        "stage3_param_persistence_threshold": 10 * hidden,
        "stage3_gather_16bit_weights_on_model_save": False,
        "device": "none",
    }

    def fill(section, name):
        for key, value in list(section.items()):
            if isinstance(value, dict):
                fill(value, key)
            elif value != "auto":
                continue
            elif key == "enabled":
                section[key] = name == request.precision
            elif key in values:
                section[key] = values[key]
            else:
                del section[key]

    fill(config, "")
    config["train_batch_size"] = request.global_batch
    config["train_micro_batch_size_per_gpu"] = request.micro_batch
    config["gradient_accumulation_steps"] = request.accumulation


def read_deepspeed(request):
    import hjson

    with open(request.file) as file:
        config = hjson.load(file)
    fill_auto(request, config)
    kind = config.get("optimizer", {}).get("type", "")
    offload = config.get("zero_optimization", {}).get("offload_optimizer", {}).get("device", "none")
    if request.device == "cpu" and kind.lower() in ("adam", "adamw") and offload == "none":
        config["optimizer"].setdefault("params", {})["torch_adam"] = True
        request.say(note="optimizer.params.torch_adam: true, because DeepSpeed's own Adam is for GPUs")
    return json.loads(json.dumps(config))


def run_deepspeed(request):
    os.environ.setdefault("DS_ACCELERATOR", request.device)
    import deepspeed
    import torch

    config = read_deepspeed(request)
    if request.device == "cuda":
        torch.cuda.set_device(LOCAL_RANK)
    deepspeed.init_distributed(dist_backend="nccl" if request.device == "cuda" else "gloo")
    base = peak_bytes(request.device)
    model = load_model(request)
    own = {} if "optimizer" in config else {"optimizer": make_optimizer(request, model)}
    engine, optimizer, _, scheduler = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=config, **own
    )
    if scheduler is None:
        request.say(note="the file names no scheduler: both have Trireme's learning rates")
    for step in range(request.steps):
        if scheduler is None:
            set_rate(optimizer, request.rates[step])
        rate = optimizer.param_groups[0]["lr"]
        losses = []
        for inputs, labels in request.batches(step):
            loss = loss_of(engine, inputs, labels)
            losses.append(loss.item())
            engine.backward(loss)
            engine.step()
        norm = engine.get_global_grad_norm()
        report(request, step, losses, norm, rate)
    return base


# ---- Accelerate


def use_accelerate_file(request):
    """Sets the variables that `accelerate launch --config_file FILE` gives to a script."""
    from accelerate.commands import launch
    from accelerate.utils.launch import prepare_multi_gpu_env

    words = ["--config_file", request.file, "--num_processes", str(RANKS), "--num_machines", "1"]
    words += ["--main_process_port", "0"] + (["--cpu"] if request.device == "cpu" else [])
    args, _, _ = launch._validate_launch_command(launch.launch_command_parser().parse_args(words + ["script.py"]))
    if args.use_deepspeed:
        raise Cannot("its file asks for DeepSpeed: check that configuration with translate --check deepspeed")
    if args.use_megatron_lm:
        raise Cannot("its file asks for Megatron-LM, which needs a model of its own")
    if args.use_fsdp and request.device == "cpu":
        raise Cannot("Accelerate runs FSDP on GPUs alone; on a CPU it would train without sharding, and not say so")
    given = prepare_multi_gpu_env(args)
    os.environ.update({k: v for k, v in given.items() if k.startswith(("ACCELERATE_", "FSDP_", "PARALLELISM_"))})


def run_accelerate(request):
    use_accelerate_file(request)
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=request.device == "cpu", gradient_accumulation_steps=request.accumulation)
    base = peak_bytes(request.device)
    model = load_model(request)
    optimizer = make_optimizer(request, model)
    model, optimizer = accelerator.prepare(model, optimizer)
    request.say(note="Accelerate's file names neither optimizer nor learning rates: both have Trireme's")
    for step in range(request.steps):
        set_rate(optimizer, request.rates[step])
        losses, norm = [], None
        for inputs, labels in request.batches(step):
            with accelerator.accumulate(model):
                loss = loss_of(model, inputs, labels)
                losses.append(loss.item())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    norm = accelerator.clip_grad_norm_(model.parameters(), request.clip or float("inf"))
                optimizer.step()
                optimizer.zero_grad()
        report(request, step, losses, norm, request.rates[step])
    return base


# ---- All systems


def report(request, step, losses, norm, rate):
    if norm is not None:
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    loss = over_ranks(sum(losses) / len(losses), "mean")
    request.say(step=step + 1, loss=loss, grad_norm=norm, lr=float(rate))


SYSTEMS = {  # the function, and the packages that it needs
    "deepspeed": (run_deepspeed, ["torch", "transformers", "deepspeed"]),
    "accelerate": (run_accelerate, ["torch", "transformers", "accelerate"]),
    "trainer": (run_trainer, ["torch", "accelerate", "transformers"]),
    "trl": (run_trl, ["torch", "datasets", "accelerate", "transformers", "trl"]),
}
OTHERS = {  # why none is run
    "axolotl": "it encodes samples by templates of its own, and the check has none of its code; "
    "translate --check trl checks a file of TRL with the same values",
    "llamafactory": "it encodes samples by templates of its own, and the check has none of its code; "
    "translate --check trl checks a file of TRL with the same values",
}


def probe(request):
    if request.system not in SYSTEMS:
        raise Cannot(OTHERS.get(request.system, f"only {', '.join(SYSTEMS)} can be run beside Trireme"))
    packages = SYSTEMS[request.system][1]
    lacking = [p for p in packages if importlib.util.find_spec(p) is None]
    if lacking:
        raise Cannot(f"{sys.executable} lacks {', '.join(lacking)}")
    versions = [f"{p} {importlib.metadata.version(p)}" for p in reversed(packages)]
    request.say(versions=", ".join(versions + [f"Python {sys.version.split()[0]}"]))


def train(request):
    import torch

    if request.device == "cuda" and torch.cuda.device_count() < RANKS:
        raise Cannot(f"torch sees {torch.cuda.device_count()} GPUs; the job has {RANKS} ranks")
    if not request.has_samples:
        request.read_tokens()
    base = SYSTEMS[request.system][0](request)
    request.say(peak_bytes=over_ranks(peak_bytes(request.device), "max"), base_bytes=over_ranks(base, "max"))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def main():
    request = Request(sys.argv[1])
    try:
        probe(request) if sys.argv[2:] == ["probe"] else train(request)
    except Cannot as why:
        request.say(cannot=str(why))


main()
