#!/usr/bin/env python3
"""Asks a chat model the same questions in Trireme and in transformers or llama.cpp, all greedy, and compares where each answer
stops: it prints how many answers are the same, how many stop within one token of each other, and each one that does not.

  venv/bin/python bench/ab_stops.py --model FOLDER [--gguf FILE] [--questions 100] [--tokens 200]

--model is a HuggingFace folder with a chat template, as `trireme checkpoint export` writes it. The Python that runs it has torch and
transformers, and with --gguf xllamacpp: then llama.cpp reads that file, and writes the conversation with the template in it. An
answer that ends on neither side within --tokens is counted apart: it shows nothing about stopping. Exit code: 0 if every answer
stops within one token, else 1.
"""
import argparse
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


def ours(a, question):
    """The answer, and whether it stopped by itself."""
    command = [a.trireme, "chat", "--model", a.model, "--prompt", question, "--tokens", str(a.tokens), "--temperature", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit("%s\n%s" % (" ".join(command), done.stderr))
    return done.stdout.strip(), "was cut" not in done.stderr


def ask_transformers(a, tokenizer):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])

    def ask(question):
        ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt",
                                            return_dict=True)
        answer = model.generate(**ids, max_new_tokens=a.tokens, do_sample=False)[0, ids["input_ids"].shape[1]:].tolist()
        return tokenizer.decode([t for t in answer if t not in ends]).strip(), answer[-1] in ends
    return ask


def ask_llama_cpp(a):
    import xllamacpp
    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel = a.gguf, 2048, 1
    server = xllamacpp.Server(options)

    def ask(question):
        answer = server.handle_chat_completions({"messages": [{"role": "user", "content": question}], "max_tokens": a.tokens,
                                                 "temperature": 0, "top_k": 1})["choices"][0]
        return answer["message"]["content"].strip(), answer["finish_reason"] == "stop"
    return ask


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--gguf")
    p.add_argument("--questions", type=int, default=100)
    p.add_argument("--tokens", type=int, default=200)
    p.add_argument("--trireme", default=os.path.join(HERE, "..", "build", "trireme"))
    a = p.parse_args()
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(a.model)
    ask = ask_llama_cpp(a) if a.gguf else ask_transformers(a, tokenizer)
    count = lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])
    same = close = open_ended = 0
    far = []
    for question in questions(a.questions):
        (theirs, they_stop), (mine, we_stop) = ask(question), ours(a, question)
        same += mine == theirs
        if not they_stop and not we_stop:
            open_ended += 1
        elif they_stop == we_stop and abs(count(mine) - count(theirs)) <= 1:
            close += 1
        else:
            far.append((question, count(mine), count(theirs)))
    print(f"{a.questions} questions: {same} answers are the same; {close} stop within one token, {open_ended} end on neither side within "
          f"{a.tokens} tokens, {len(far)} stop elsewhere")
    for question, mine, theirs in far:
        print(f"  {question}: {mine} tokens, {'llama.cpp' if a.gguf else 'transformers'} {theirs}")
    return 1 if far else 0


if __name__ == "__main__":
    raise SystemExit(main())
