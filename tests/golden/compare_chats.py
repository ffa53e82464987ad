#!/usr/bin/env python3
"""Encodes conversations with Trireme's data/chat and with transformers' apply_chat_template, and compares ids and masks.

    tests/golden/compare_chats.py build/tests/chat_encode TOKENIZER-FOLDER FOLDER... [--conversations 200]

Masks are compared for templates with {% generation %}. They are equal but for one rule of ours: what the generation prompt
supplies is not trained. For every template it says how many conversations the two rules of data/chat accept, and of those
with a message of the assistant, how many have a label. Where a template rewrites history, the texts of a conversation are
compared with the samples that apply_chat_template makes of its beginnings (make_turns_golden.py).
"""
import argparse
import collections
import json
import os
import random
import re
import subprocess
from datetime import datetime

import transformers
import transformers.utils.chat_template_utils as hf

import compare_templates as random_chats
import make_turns_golden as turns


class Fixed(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(1764350000)


hf.datetime = Fixed


def conversation(r):
    messages = random_chats.pick_conversation(r)
    for m in messages:
        if isinstance(m.get("content"), list):
            m["content"] = " ".join(part["text"] for part in m["content"])
    # transformers would make control tokens of it; ours is text, and that is another test's.
    return json.loads(json.dumps(messages).replace("<|im_end|>", "text"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("tokenizer")
    p.add_argument("folders", nargs="+")
    p.add_argument("--conversations", type=int, default=200)
    p.add_argument("--train-on", default="assistant")
    p.add_argument("--show", type=int, default=0)
    o = p.parse_args()
    t = transformers.AutoTokenizer.from_pretrained(o.tokenizer)
    r = random.Random(1)
    inputs = [{"messages": conversation(r), "tools": [random_chats.pick_tool(r)] if r.random() < 0.3 else None}
              for _ in range(o.conversations)]
    total = collections.Counter()
    reasons = collections.Counter()
    for file in sorted(os.path.join(d, f) for d in o.folders for f in os.listdir(d) if f.endswith(".jinja")):
        source = open(file, encoding="utf-8", newline="").read()
        marks = re.search(r"\{%[-+]?\s*generation", source)
        out = subprocess.run([o.program, os.path.join(o.tokenizer, "tokenizer.json"), file, o.train_on],
                             input="".join(json.dumps(i) + "\n" for i in inputs), capture_output=True, text=True)
        lines = out.stdout.splitlines()
        here = collections.Counter()
        here["no end of turn"] += lines[0] == "-1"
        for given, line in zip(inputs, lines[1:]):
            ours = json.loads(line)
            try:
                theirs = t.apply_chat_template(given["messages"], tools=given["tools"], chat_template=source,
                                               return_dict=True, return_assistant_tokens_mask=bool(marks))
            except Exception:
                here["refused by both" if "error" in ours else "refused by transformers"] += 1
                continue
            if not marks and "error" not in ours and (len(ours) > 1 or ours[0]["ids"] != theirs["input_ids"]):
                here["rewritten"] += 1
                try:
                    wanted = turns.turn_samples(t, source, given["messages"], tools=given["tools"])
                    here["… equal"] += ours[::-1] == wanted
                    if ours[::-1] != wanted and o.show:
                        print(os.path.basename(file), "differs", json.dumps(given))
                except ValueError:
                    here["… with another prompt"] += 1
                continue
            if "error" in ours:
                here["refused by ours"] += 1
                reason = re.sub(r"messages\[\d+\]|:\d+:|\"[^\"]*\"?", "", ours["error"].split(": ", 1)[-1])[:60]
                reasons[("tags" if marks else "none") + " " + reason] += 1
                if o.show and here["refused by ours"] <= o.show:
                    print(os.path.basename(file), ours["error"])
                continue
            ours = ours[0]
            here["accepted"] += 1
            here["ids differ"] += ours["ids"] != theirs["input_ids"]
            speaks = any(m["role"] == "assistant" for m in given["messages"])
            here["without a label"] += speaks and not any(ours["trained"])
            if marks and ours["ids"] == theirs["input_ids"]:
                mask = theirs["assistant_masks"]
                extra = [i for i, (a, b) in enumerate(zip(ours["trained"], mask)) if a and not b]
                fewer = [i for i, (a, b) in enumerate(zip(ours["trained"], mask)) if b and not a]
                here["more labels"] += bool(extra)
                here["same labels"] += not extra and not fewer
                here["only the prompt's labels less"] += bool(fewer) and not extra
        total.update(here)
        print("%-46s %s %s" % (os.path.basename(file), "tags" if marks else "    ",
                               ", ".join("%s %d" % (k, v) for k, v in here.items() if v)), out.stderr.strip()[:150])
    print(dict(total))
    for reason, count in reasons.most_common(12):
        print("%6d %s" % (count, reason))


if __name__ == "__main__":
    main()
