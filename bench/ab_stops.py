#!/usr/bin/env python3
"""Asks a chat model the same questions in Trireme and in transformers, both greedy, and compares where each answer stops: it
prints how many answers have the same tokens, how many stop within one token of each other, and each one that does not.

  venv/bin/python bench/ab_stops.py --model FOLDER [--reference FOLDER] [--questions 100] [--tokens 200]

The Python that runs it has torch and transformers. --model is a HuggingFace folder with a chat template, as `trireme checkpoint
export` writes it; --reference is what transformers loads where that is another folder. An answer that ends neither here nor there
within --tokens is counted apart: it shows nothing about stopping. Exit code: 0 if every answer stops within one token, else 1.
"""
import argparse
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FORMS = ["How many oars has ship {n}?", "What is {n} plus {m}?", "Name the capital of {place}.", "Say hello in the language of {place}.",
         "Write one sentence about {thing}.", "Is {thing} larger than a ship? Answer with yes or no.", "Give me a word that rhymes with {word}.",
         "Who is the captain of ship {n}?", "What colour is {thing}?", "Translate \"{word}\" into the language of {place}."]
PLACES = "France Spain Japan Kenya Peru Greece Norway Egypt India Canada".split()
THINGS = ["the moon", "a whale", "an oar", "the sea", "a lighthouse", "an anchor", "a cat", "a harbour", "rain", "a mountain"]
WORDS = "sail wind tide boat crew stone light north salt rope".split()


def questions(count):
    for i in range(count):
        turn = i // len(FORMS)
        yield FORMS[i % len(FORMS)].format(n=12 + 7 * turn, m=3 + turn, place=PLACES[turn % 10], thing=THINGS[turn % 10], word=WORDS[turn % 10])


def ours(a, text):
    command = [a.trireme, "generate", "--model", a.model, "--prompt", text, "--tokens", str(a.tokens), "--temperature", "0", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit("%s\n%s" % (" ".join(command), done.stderr))
    return json.loads(done.stdout.splitlines()[-1])["samples"][0]["ids"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--reference")
    p.add_argument("--questions", type=int, default=100)
    p.add_argument("--tokens", type=int, default=200)
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    a = p.parse_args()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(a.reference or a.model)
    model = AutoModelForCausalLM.from_pretrained(a.reference or a.model, dtype=torch.float32)
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    same = close = open_ended = 0
    far = []
    for question in questions(a.questions):
        text = tokenizer.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        theirs = model.generate(**ids, max_new_tokens=a.tokens, do_sample=False)[0, ids["input_ids"].shape[1]:].tolist()
        stops = theirs[-1] in ends
        theirs = [t for t in theirs if t not in ends]
        mine = [t for t in ours(a, text) if t not in ends]
        same += mine == theirs
        if not stops and len(mine) >= a.tokens:
            open_ended += 1
        elif abs(len(mine) - len(theirs)) <= 1:
            close += 1
        else:
            far.append((question, len(mine), len(theirs)))
    print(f"{a.questions} questions: {same} answers of the same tokens; {close} stop within one token, {open_ended} end on neither side "
          f"within {a.tokens} tokens, {len(far)} stop elsewhere")
    for question, mine, theirs in far:
        print(f"  {question}: {mine} tokens, transformers {theirs}")
    return 1 if far else 0


if __name__ == "__main__":
    raise SystemExit(main())
