#!/usr/bin/env python3
"""TRL's SFTTrainer on conversations, or with --lora PEFT under it, for bench/ab_sft.py. Prints one JSON object: the seconds and the
losses of the steps. It runs under torch.distributed.run for several ranks."""
import argparse
import json
import os
import time

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds, self.losses = [], []

    def on_step_begin(self, *_, **__):
        self.begin = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.begin)

    def on_log(self, args, state, control, logs=None, **_):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "data"):
        p.add_argument("--" + name, required=True)
    for name in ("seq", "micro", "steps", "threads", "lora"):
        p.add_argument("--" + name, type=int, default=0)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    a = p.parse_args()
    torch.set_num_threads(a.threads or 1)
    bf16 = a.dtype == "bf16"
    config = SFTConfig(output_dir="/tmp/peer_sft", max_steps=a.steps, per_device_train_batch_size=a.micro, max_length=a.seq,
                       packing=True, loss_type="chunked_nll", bf16=bf16, gradient_checkpointing=False, use_cpu=True,
                       logging_steps=1, save_strategy="no", report_to=[], learning_rate=1e-5, disable_tqdm=True,
                       dataloader_num_workers=0, ddp_backend="gloo" if "RANK" in os.environ else None)
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32, attn_implementation="sdpa")
    lora = None
    if a.lora:
        from peft import LoraConfig
        lora = LoraConfig(r=a.lora, lora_alpha=2 * a.lora, target_modules="all-linear", task_type="CAUSAL_LM")
    clock = Clock()
    trainer = SFTTrainer(model=model, args=config, train_dataset=load_dataset("json", data_files=a.data, split="train"),
                         processing_class=AutoTokenizer.from_pretrained(a.model), peft_config=lora, callbacks=[clock])
    trainer.train()
    if int(os.environ.get("RANK", 0)) == 0:
        print(json.dumps({"seconds": clock.seconds, "losses": clock.losses}), flush=True)


if __name__ == "__main__":
    main()
