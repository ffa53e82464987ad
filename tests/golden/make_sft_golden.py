"""Writes tests/golden/sft/: a small tokenizer with a chat template, samples made here in several forms, and the ids and
labels that TRL's trainers make of them; packings by TRL's pack_dataset.

    python tests/golden/make_sft_golden.py      (trl 1.16, transformers 5.24, tokenizers 0.23)
    python tests/golden/make_sft_golden.py --check FOLDER INSPECT...
        makes 200 conversations, compares what TRL's tokenizer of FOLDER and the command INSPECT print for each
    python tests/golden/make_sft_golden.py --losses FOLDER FILE.jsonl BATCH SEQ_LEN PACKED
        prints the losses of ten steps of TRL from the weights of FOLDER, with the samples in their order. They are those
        of `trireme train` with data.order sequential, optimizer.lr 1e-2, weight_decay 0, a constant schedule, and
        data.packing bfd (PACKED 1) or none (0), where the samples of an epoch fill its batches
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer, pack_dataset

OUT = pathlib.Path(__file__).parent / "sft"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<|assistant|>"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WORDS = "the oars of three banks pull as one over a sea that answers in long slow waves and gives way".split()


def sentence(rng, low=1, high=14):
    words = [rng.choice(WORDS) for _ in range(rng.randint(low, high))]
    return " ".join(words) + rng.choice(". ! ? ...".split())


def make_tokenizer():
    rng = random.Random(3)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator([sentence(rng) for _ in range(400)], trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|endoftext|>", pad_token="<|endoftext|>")
    made.chat_template = CHATML
    return made


def conversation(rng, turns=3):
    messages = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "content": sentence(rng)})
    for _ in range(rng.randint(1, turns)):
        messages.append({"role": "user", "content": sentence(rng)})
        messages.append({"role": "assistant", "content": sentence(rng, 1, 30)})
    return messages


def make_data():
    rng = random.Random(5)
    user, says = (lambda c: {"role": "user", "content": c}), (lambda c: {"role": "assistant", "content": c})
    return {
        "text": [{"text": sentence(rng, 1, 30)} for _ in range(12)],
        "messages": [{"messages": conversation(rng)} for _ in range(24)],
        "prompt_completion": [{"prompt": sentence(rng) + rng.choice(["", " ", "\n"]), "completion": sentence(rng, 1, 20)}
                              for _ in range(24)],
        "prompt_completion_messages": [{"prompt": [user(sentence(rng))], "completion": [says(sentence(rng))]}
                                       for _ in range(12)],
        "preference": [{"prompt": sentence(rng) + " ", "chosen": sentence(rng), "rejected": sentence(rng)}
                       for _ in range(12)],
        "preference_messages": [{"chosen": [user(q := sentence(rng)), says(sentence(rng) + " yes")],
                                 "rejected": [user(q), says(sentence(rng) + " no")]} for _ in range(12)],
    }


def tiny_model(tokenizer):
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                        num_attention_heads=1, num_key_value_heads=1))


def sft(tokenizer, rows, assistant):
    with tempfile.TemporaryDirectory() as out:
        args = SFTConfig(output_dir=out, assistant_only_loss=assistant, max_length=None, report_to=[], use_cpu=True,
                         bf16=False)
        t = SFTTrainer(tiny_model(tokenizer), args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
        made = []
        for row in t.train_dataset:
            ids, labels = row["input_ids"], row.get("labels", row["input_ids"])
            made.append({"ids": ids, "trained": [int(i > 0 and l != -100) for i, l in enumerate(labels)]})
        return made


def dpo(tokenizer, rows):
    with tempfile.TemporaryDirectory() as out:
        args = DPOConfig(output_dir=out, max_length=None, report_to=[], use_cpu=True, bf16=False)
        t = DPOTrainer(tiny_model(tokenizer), ref_model=tiny_model(tokenizer), args=args,
                       train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
        made = []
        for row in t.train_dataset:
            p, c, r = row["prompt_ids"], row["chosen_ids"], row["rejected_ids"]
            mask = [0] * len(p)
            made.append({"ids": p + c + p + r, "end": len(p + c),
                         "trained": mask + [1] * len(c) + mask + [1] * len(r)})
        return made


def packings():
    cases = []
    for seed, (count, most) in enumerate([(1, 8), (40, 16), (200, 64), (300, 1000), (500, 70)]):
        rng = random.Random(seed)
        lengths = [rng.randint(1, most) for _ in range(count)]
        data = Dataset.from_list([{"input_ids": [i] * n} for i, n in enumerate(lengths)])
        packed = pack_dataset(data, most, strategy="bfd", map_kwargs={"batch_size": count})
        rows = [[] for _ in packed]
        for row, one in zip(rows, packed):
            for i in one["input_ids"]:
                if not row or row[-1] != i:
                    row.append(i)
        cases.append({"most": most, "lengths": lengths, "rows": rows})
    return cases


def make():
    OUT.mkdir(exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(OUT)
    expected = {}
    for name, rows in make_data().items():
        (OUT / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        made = dpo(tokenizer, rows) if "preference" in name else sft(tokenizer, rows, name == "messages")
        expected[name] = made
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    (OUT / "packings.json").write_text(json.dumps(packings(), separators=(",", ":")) + "\n")


def marked(template):
    """A ChatML template without {% generation %}, with it as in TRL's templates for training: to the end of the turn."""
    if re.search(r"{%-? *generation", template):
        return template
    turn = re.search(r"{{ *'<\|im_start\|>' \+ message\['role'\].*?}}", template, re.S).group(0)
    said = ("{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}"
            "{{ message['content'] + '<|im_end|>\n' }}{% endgeneration %}{% else %}" + turn + "{% endif %}")
    return template.replace(turn, said)


def check(folder, command):
    """Compares `INSPECT FILE --tokenizer FOLDER --sample N --json` with TRL."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    rng = random.Random(11)
    rows = [{"messages": conversation(rng, 4)} for _ in range(200)]
    tokenizer.chat_template = marked(tokenizer.chat_template)
    expected = sft(tokenizer, rows, True)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "made.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        for n, want in enumerate(expected, 1):
            done = subprocess.run([*command, str(path), "--tokenizer", folder, "--sample", str(n), "--json"],
                                  capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            labels = [i if t else -100 for i, t in zip(want["ids"], want["trained"])]
            assert found["ids"] == want["ids"], (n, found["ids"], want["ids"])
            assert found["labels"] == labels, (n, found["labels"], labels)
    print(f"{len(expected)} conversations are equal")


def losses(folder, file, batch, seq_len, packed):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    class InOrder(SFTTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [json.loads(line) for line in open(file)]
    with tempfile.TemporaryDirectory() as out:
        args = SFTConfig(output_dir=out, per_device_train_batch_size=batch, max_steps=10, learning_rate=1e-2,
                         lr_scheduler_type="constant", adam_beta2=0.95, weight_decay=0, max_grad_norm=1, bf16=False,
                         use_cpu=True, report_to=[], logging_steps=1, save_strategy="no", max_length=seq_len,
                         packing=packed, assistant_only_loss="messages" in rows[0], gradient_checkpointing=False)
        t = InOrder(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), args,
                    train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
        t.train()
        print(json.dumps([entry["loss"] for entry in t.state.log_history if "loss" in entry]))


if __name__ == "__main__":
    if len(sys.argv) == 7 and sys.argv[1] == "--losses":
        losses(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6] == "1")
    elif len(sys.argv) > 3 and sys.argv[1] == "--check":
        check(sys.argv[2], sys.argv[3:])
    else:
        make()
