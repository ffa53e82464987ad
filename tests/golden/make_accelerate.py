"""Writes tests/golden/accelerate/: what the commands of HuggingFace Accelerate write and print, for
tests/cli/accelerate_commands.sh.

  python make_accelerate.py FOLDER      (accelerate 1.15, transformers 5.24)

config_NAME.answers has one answer in each line, config_NAME.yaml the file that `accelerate config` makes of them;
default.yaml is that of `accelerate config default` without a GPU. update_NAME.old is an older file, and
update_NAME.yaml what `accelerate config update` makes of it. fsdp_NAME.old and fsdp_NAME.yaml are the same for
`accelerate to-fsdp2`. models/NAME/config.json is a model, and models/NAME/table.txt what `accelerate estimate-memory`
prints of it.
"""

import builtins
import contextlib
import io
import os
import shutil
import sys

import torch
from accelerate.commands import estimate, to_fsdp2
from accelerate.commands.config import cluster, config, config_utils, default, update
from transformers import AutoConfig, AutoModel

# Number from 0 of a choice, or text; an empty line is the default.
ANSWERS = {
    "cpu": ["", "", "yes", "", "", ""],
    "gpus": ["0", "4", "", "", "", "", "", "", "4", "", "yes", "2"],
    "one_gpu": ["", "0", "no", "", "no", "0,", "no", "1"],
    "machines": ["0", "4", "2", "1", "10.0.0.5", "29500", "no", "c10d", "yes", "", "", "", "", "16", "0,1", "", "2"],
    "cpus": ["0", "1", "2", "0", "n0", "29500", "yes", "", "yes", "/etc/hosts.mpi", "", "8", "2"],
    "dynamo": ["0", "4", "", "", "yes", "2", "yes", "1", "yes", "", "yes", "", "", "", "2", "all", "", "0"],
    "zero3": ["0", "4", "", "", "", "yes", "", "3", "1", "2", "/ssd", "8", "yes", "0.5", "yes", "yes", "", "8", "2"],
    "zero1": ["0", "0", "", "", "yes", "no", "1", "", "", "", "", "2", "1"],
    "zero_file": ["0", "4", "1", "", "", "yes", "yes", "ds.json", "", "", "4"],
    "zero_machines": ["0", "4", "2", "0", "10.0.0.5", "29500", "", "", "", "yes", "", "", "", "", "", "", "", "yes",
                      "MixtralSparseMoeBlock", "0", "hosts", "yes", "n3", "yes", "n0@n1", "16", "2"],
    "fsdp1": ["0", "4", "", "", "", "", "yes", "0", "3", "", "0", "", "LlamaDecoderLayer", "1", "2", "yes", "no", "no",
              "", "yes", "8", "2"],
    "fsdp2": ["0", "4", "", "", "", "", "yes", "", "", "yes", "1", "1000", "", "", "", "yes", "2", "4", "2", "", "16",
              "2"],
    "fsdp_cp": ["0", "4", "", "", "", "", "yes", "1", "no", "", "2", "1", "no", "", "yes", "", "", "", "2", "1", "2",
                "0"],
    "megatron": ["0", "4", "", "", "", "", "", "yes", "2", "", "2", "4", "", "no", "0.5", "8", "2"],
}

OLD = {
    "fp16": "compute_environment: LOCAL_MACHINE\ndeepspeed_config: {}\ndistributed_type: 'NO'\nfp16: true\n"
            "machine_rank: 0\nmain_process_ip: null\nmain_process_port: null\nmain_training_function: main\n"
            "num_machines: 1\n",
    "dynamo": "distributed_type: MULTI_GPU\ndynamo_backend: INDUCTOR\nnum_processes: 8\nmixed_precision: bf16\n"
              "same_network: true\ntpu_env: []\n",
    "zero": "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n  gradient_clipping: 1.0\n"
            "  offload_optimizer_device: none\nfsdp_config: {}\nmixed_precision: fp16\nnum_processes: 2\n"
            "num_machines: 1\nmain_process_ip: '1234'\nmain_process_port: 9999\ndynamo_backend: 'NO'\n",
}

FSDP1 = {
    "full": "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n"
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n"
            "  fsdp_cpu_ram_efficient_loading: true\n  fsdp_forward_prefetch: false\n  fsdp_offload_params: false\n"
            "  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
            "  fsdp_sync_module_states: true\n  fsdp_transformer_layer_cls_to_wrap: GPT2Block\n"
            "  fsdp_use_orig_params: true\nmachine_rank: 0\nmixed_precision: bf16\nnum_machines: 1\n"
            "num_processes: 8\nuse_cpu: false\n",
    "grad_op": "# a comment\ndistributed_type: FSDP\ndowncast_bf16: 'no'\nfsdp_config:\n"
               "  fsdp_reshard_after_forward: SHARD_GRAD_OP\n  fsdp_auto_wrap_policy: SIZE_BASED_WRAP\n"
               "  fsdp_min_num_params: 2000\n  fsdp_activation_checkpointing: yes\n  fsdp_version: 1\n"
               "mixed_precision: no\nnum_processes: 2\nrdzv_backend: static\ntpu_env: []\nmain_process_port: null\n",
    "no_shard": "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD, my_own_key: 1e8, limit: 1e-5,\n"
                "  other: 2.5e-7, names: [a, 'yes', 0x10, 010, 1_000], fsdp_state_dict_type: FULL_STATE_DICT}\n"
                "mixed_precision: 'no'\nnum_processes: 2\n",
    "already": "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_use_orig_params: true\n",
}

MODELS = {
    "gpt2": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024,
             "n_ctx": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12, "bos_token_id": 50256, "eos_token_id": 50256},
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 2048,
              "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2},
    "tiny": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 64, "hidden_size": 16,
             "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
             "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
             "hidden_act": "silu"},
}


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def make_config(folder, name, lines):
    write(f"{folder}/config_{name}.answers", "".join(line + "\n" for line in lines))
    left = list(lines)

    class Menu:
        def __init__(self, prompt=None, choices=()):
            self.choices = choices

        def run(self, default_choice=0):
            line = left.pop(0)
            return int(line) if line else default_choice

    config_utils.BulletMenu = Menu
    builtins_input = builtins.input
    builtins.input = lambda prompt="": left.pop(0)
    cluster.is_deepspeed_available = lambda: True
    try:
        answered = config.get_user_input()
    finally:
        builtins.input = builtins_input
    assert not left, (name, left)
    answered.to_yaml_file(f"{folder}/config_{name}.yaml")


class Arguments:
    def __init__(self, **values):
        self.__dict__.update(values)


def make_model(folder, name, values):
    import json

    path = f"{folder}/models/{name}"
    write(f"{path}/config.json", json.dumps(values, indent=1) + "\n")

    def create(*_, **__):
        with torch.device("meta"):
            return AutoModel.from_config(AutoConfig.from_pretrained(path), dtype=torch.float32)

    estimate.create_empty_model = create
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        estimate.estimate_command(Arguments(model_name=name, library_name="transformers", trust_remote_code=False,
                                            dtypes=["float32", "float16", "int8", "int4"]))
    write(f"{path}/table.txt", out.getvalue())


def main():
    folder = sys.argv[1]
    shutil.rmtree(folder, ignore_errors=True)
    for name, lines in ANSWERS.items():
        make_config(folder, name, lines)
    torch.cuda.is_available = lambda: False
    default.write_basic_config("bf16", f"{folder}/default.yaml")
    for name, text in OLD.items():
        write(f"{folder}/update_{name}.old", text)
        write(f"{folder}/update_{name}.yaml", text)
        update.update_config(Arguments(config_file=f"{folder}/update_{name}.yaml"))
    for name, text in FSDP1.items():
        write(f"{folder}/fsdp_{name}.old", text)
        to_fsdp2.to_fsdp2_command(Arguments(config_file=f"{folder}/fsdp_{name}.old", overwrite=False,
                                            output_file=f"{folder}/fsdp_{name}.yaml"))
    for name, values in MODELS.items():
        make_model(folder, name, values)


main()
