"""Writes tests/golden/preference/: a tiny Llama, and the losses of ten steps that TRL's trainers make with it from
the samples of tests/golden/sft.

    python tests/golden/make_preference.py      (trl 1.16, transformers 5.24, torch 2.15)
"""
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

GOLDEN = pathlib.Path(__file__).parent
OUT, SFT = GOLDEN / "preference", GOLDEN / "sft"
STEPS, BATCH = 10, 4
COMMON = dict(
    max_steps=STEPS, per_device_train_batch_size=BATCH, learning_rate=3e-3, lr_scheduler_type="constant",
    weight_decay=0.0, max_grad_norm=1.0, logging_steps=1, logging_strategy="steps", report_to=[], use_cpu=True,
    bf16=False, save_strategy="no", train_sampling_strategy="sequential", max_length=None, disable_tqdm=True,
    gradient_checkpointing=False, adam_beta1=0.9, adam_beta2=0.95, adam_epsilon=1e-8,
)


def lines(name):
    return [json.loads(line) for line in (SFT / name).read_text().splitlines()]


def make_model(tokenizer):
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=360, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False, initializer_range=0.2,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(OUT / "model")


def run(trainer_class, config_class, data, keys, **more):
    model = LlamaForCausalLM.from_pretrained(OUT / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    with tempfile.TemporaryDirectory() as folder:
        args = config_class(output_dir=folder, **{**COMMON, **more})
        trainer = trainer_class(model=model, args=args, train_dataset=Dataset.from_list(data),
                                processing_class=tokenizer)
        logged = []
        # The log rounds to four digits, so the losses are taken where they are made.
        original = trainer.compute_loss

        def compute_loss(*a, **k):
            out = original(*a, **k)
            loss = out[0] if isinstance(out, tuple) else out
            logged.append({"loss": float(loss.detach().double())})
            return out

        trainer.compute_loss = compute_loss
        trainer.train()
        steps = [h for h in trainer.state.log_history if "loss" in h]
        for mine, theirs in zip(logged, steps):
            mine.update({k: theirs[k] for k in keys if k in theirs})
    return logged


def prepared(trainer_class, config_class, data):
    """The samples as TRL tokenizes them."""
    model = LlamaForCausalLM.from_pretrained(OUT / "model", dtype=torch.float32)
    with tempfile.TemporaryDirectory() as folder:
        return trainer_class(model=model, args=config_class(output_dir=folder, **COMMON),
                             train_dataset=Dataset.from_list(data),
                             processing_class=AutoTokenizer.from_pretrained(SFT)).train_dataset


def train_by_hand(samples, loss_of):
    """The steps of a loss that TRL has not, or computes otherwise."""
    model = LlamaForCausalLM.from_pretrained(OUT / "model", dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    logged = []
    for step in range(STEPS):
        loss = loss_of(model, [samples[i] for i in range(step * BATCH, step * BATCH + BATCH)])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        logged.append({"loss": float(loss.detach().double())})
    return logged


def logps(model, prompt, completion):
    """The log-probability of each token of the completion."""
    ids = torch.tensor([prompt + completion])
    logp = torch.log_softmax(model(ids).logits[0, :-1], -1)
    return logp.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]


def weighted(model, batch):
    """sum w l / sum w over the tokens of the batch."""
    total, weights = 0, 0
    for s in batch:
        n = s["labels"].count(-100)
        logp = logps(model, s["input_ids"][:n], s["input_ids"][n:])
        total, weights = total - s["weight"] * logp.sum(), weights + s["weight"] * len(logp)
    return total / weights


def main():
    tokenizer = AutoTokenizer.from_pretrained(SFT)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    make_model(tokenizer)
    rewards = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"]
    pairs = (lines("preference.jsonl") * 10)[: STEPS * BATCH]
    unpaired = []
    for p in pairs[: STEPS * BATCH // 2]:
        unpaired.append({"prompt": p["prompt"], "completion": p["chosen"], "label": True})
        unpaired.append({"prompt": p["prompt"], "completion": p["rejected"], "label": False})
    made = {"batch": BATCH, "pairs": len(pairs)}
    answers = [{"prompt": p["prompt"], "completion": p["chosen"]} for p in pairs]
    made["sft"] = run(SFTTrainer, SFTConfig, answers, [], completion_only_loss=True)
    made["dpo"] = run(DPOTrainer, DPOConfig, pairs, rewards, beta=0.3)
    made["dpo_ipo"] = run(DPOTrainer, DPOConfig, pairs, rewards, beta=0.3, loss_type="ipo")
    made["dpo_hinge"] = run(DPOTrainer, DPOConfig, pairs, rewards, beta=0.3, loss_type="hinge")
    # discopop's default tau, and the squares of sppo_hard at the full rate, make the rounding of fp32 large.
    for kind, more in ("exo_pair", {"label_smoothing": 0.01}), ("nca_pair", {}), ("robust", {"label_smoothing": 0.1}), \
                      ("bco_pair", {}), ("sppo_hard", {"learning_rate": 3e-4}), ("apo_zero", {}), ("apo_down", {}), \
                      ("discopop", {"discopop_tau": 0.5}), ("sigmoid_norm", {}):
        made["dpo_" + kind] = run(DPOTrainer, DPOConfig, pairs, [], beta=0.3, loss_type=kind, **more)
    for kind in "apo_zero_unpaired", "kto":
        made[kind] = run(KTOTrainer, KTOConfig, unpaired, [], beta=0.3, loss_type=kind, desirable_weight=1.0,
                         undesirable_weight=0.7)
    made["orpo"] = run(ORPOTrainer, ORPOConfig, pairs, rewards, beta=0.3)
    weights = [0.25 * (1 + i % 7) for i in range(len(pairs))]
    samples = [dict(s, weight=w) for s, w in zip(prepared(SFTTrainer, SFTConfig, answers), weights)]
    made["weighted"] = train_by_hand(samples, weighted)
    (OUT / "losses.json").write_text(json.dumps(made, indent=1) + "\n")
    for name, data in ("sft.jsonl", answers), ("pairs.jsonl", pairs), \
                      ("weighted.jsonl", [dict(a, weight=w) for a, w in zip(answers, weights)]):
        (OUT / name).write_text("".join(json.dumps(x) + "\n" for x in data))
    for name in "tokenizer.json", "tokenizer_config.json", "chat_template.jinja":
        shutil.copy(SFT / name, OUT / "model" / name)
    print({k: [round(x["loss"], 6) for x in v] for k, v in made.items() if isinstance(v, list)}, file=sys.stderr)


main()
