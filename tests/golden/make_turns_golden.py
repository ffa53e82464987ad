"""Writes tests/golden/turns/: conversations made here, and the samples that they become under three templates that rewrite
history. The templates beside them (drops, empties, finals) are our own; they rewrite as those of Qwen 3, of GLM 4.5 and of
gpt-oss do. The tokenizer is that of tests/golden/sft.

    python tests/golden/make_turns_golden.py      (transformers 5.24)

A sample is apply_chat_template(messages[:i + 1]), and its labels are what follows apply_chat_template(messages[:i],
add_generation_prompt=True). A turn stands in the sample of the turn after it where its own sample is a beginning of that; messages behind the last turn
follow it in its sample where they rewrite nothing.
"""
import json
import pathlib
import random

OUT = pathlib.Path(__file__).parent / "turns"
TEMPLATES = ["drops", "empties", "finals"]
WORDS = "the oars of three banks pull as one over a sea that answers in long slow waves and gives way".split()


def turn_samples(tokenizer, source, messages, **given):
    """The samples of the messages in their order: a list of {ids, trained}. ValueError where a turn is no continuation."""
    def render(messages, prompt):
        return tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False, add_generation_prompt=prompt,
                                             **given)

    whole = render(messages, False)
    samples = []  # [text, [begin and end of each turn]], the last one first
    for i in reversed(range(len(messages))):
        m = messages[i]
        if m["role"] != "assistant" or m.get("train") is False or m.get("weight") == 0:
            continue
        before, turn = render(messages[:i], True), render(messages[:i + 1], False)
        if not turn.startswith(before):
            raise ValueError(f"messages[{i}]")
        if not samples or not samples[-1][0].startswith(turn):
            samples.append([whole if not samples and whole.startswith(turn) else turn, []])
        samples[-1][1].append((len(before), len(turn)))
    made = []
    for text, turns in reversed(samples):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        trained = [int(n > 0 and any(a < end and b > begin for begin, end in turns))
                   for n, (a, b) in enumerate(encoded["offset_mapping"])]
        made.append({"ids": encoded["input_ids"], "trained": trained})
    return made


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 6))) + rng.choice(". ! ?".split())


def answer(rng):
    m = {"role": "assistant", "content": sentence(rng)}
    if rng.random() < 0.6:
        m["reasoning_content"] = sentence(rng)
    if rng.random() < 0.15:
        m.update(rng.choice([{"train": False}, {"weight": 0}, {"train": True}]))
    return m


def conversation(rng):
    messages = []
    if rng.random() < 0.3:
        messages.append({"role": "system", "content": sentence(rng)})
    for _ in range(rng.randint(1, 3)):
        messages.append({"role": "user", "content": sentence(rng)})
        for _ in range(rng.choice([0, 0, 1, 2])):
            call = {"function": {"name": "pull", "arguments": {"oars": rng.randint(1, 9)}}}
            messages.append(answer(rng) | {"tool_calls": [call]})
            messages.append({"role": "tool", "content": sentence(rng)})
        messages.append(answer(rng))
    for key in ["train", "weight"]:  # the last turn has labels
        messages[-1].pop(key, None)
    if rng.random() < 0.3:
        messages.append({"role": "user", "content": sentence(rng)})
    return messages


def main():
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(OUT.parent / "sft" / "tokenizer.json"))
    rng = random.Random(7)
    rows = [conversation(rng) for _ in range(14)]
    (OUT / "conversations.jsonl").write_text("".join(json.dumps({"messages": m}) + "\n" for m in rows))
    expected = {name: [turn_samples(tokenizer, (OUT / f"{name}.jinja").read_text(), m) for m in rows] for name in TEMPLATES}
    (OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    for name, lines in expected.items():
        print(f"{name}: {len(rows)} conversations, {sum(map(len, lines))} samples")


if __name__ == "__main__":
    main()
