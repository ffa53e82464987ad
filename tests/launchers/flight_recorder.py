"""flight_recorder.py FOLDER -- torchfrtrace, which comes with PyTorch, reads the flight recorder's files of a run that has
failed. It matches each call that all ranks of a group have completed, and it names a rank whose last call is taken away.
The entries have the keys and types of PyTorch's own."""

import os
import pickle
import subprocess
import sys
import tempfile


def load(folder):
    ranks = {}
    for name in sorted(n for n in os.listdir(folder) if n.startswith("rank_") and n != "rank_json"):
        with open(os.path.join(folder, name), "rb") as f:
            ranks[int(name[len("rank_"):])] = pickle.load(f)
    return ranks


def trace(folder):
    """What torchfrtrace says, and the calls of all ranks that it has matched: (group, sequence, name)."""
    script = os.path.join(os.path.dirname(sys.executable), "torchfrtrace")
    command = [script] if os.path.exists(script) else [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]
    out = os.path.join(tempfile.mkdtemp(dir="."), "db")
    done = subprocess.run(command + [folder, "-o", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(out, "rb") as f:
        _, db = pickle.load(f)
    came = {}
    for call in db.ncclcalls:
        came.setdefault(call.collective_id, set()).add(call.global_rank)
    matched = {(c.pg_desc, c.collective_seq_id) for c in db.collectives if came.get(c.id) == set(c.expected_ranks)}
    return done.stdout + done.stderr, matched


def completed(ranks):
    """The calls that all members of their group have completed."""
    done, members = {}, {}
    for rank, dump in ranks.items():
        for name, group in dump["pg_config"].items():
            members[name] = set(eval(group["ranks"]))
        for x in dump["entries"]:
            name, desc = x["process_group"]
            if x["state"] == "completed":
                done.setdefault((f"{name}:{desc}", x["collective_seq_id"], name), set()).add(rank)
    return {(desc, number) for (desc, number, name), came in done.items() if came == members[name]}


def key(x):
    return f"{x['process_group'][0]}:{x['process_group'][1]}", x["collective_seq_id"]


def write(ranks, folder):
    os.makedirs(folder)
    for rank, dump in ranks.items():
        with open(os.path.join(folder, f"rank_{rank}"), "wb") as f:
            pickle.dump(dump, f)


def check_like_torch(ranks):
    """The keys of a recording that PyTorch makes itself, and the types of their values."""
    os.environ.update(TORCH_FR_BUFFER_SIZE="10", MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    import torch
    import torch.distributed as dist

    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
    if not dump:
        return print("  not compared: this PyTorch does not dump what Gloo records")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(4))
    theirs = pickle.loads(dump())
    dist.destroy_process_group()
    ours = ranks[0]
    for name in theirs:
        assert name in ours and type(ours[name]) is type(theirs[name]), name
    for name, value in theirs["entries"][0].items():
        alike = (tuple, list) if name == "process_group" else (type(value), int if name.endswith("_ns") else type(value))
        assert isinstance(ours["entries"][0][name], alike), name
    assert ours["version"].split(".")[0] == theirs["version"].split(".")[0]


def main():
    folder = sys.argv[1]
    ranks = load(folder)
    said, matched = trace(folder)
    missing = completed(ranks) - matched
    assert completed(ranks) and not missing, f"not matched: {sorted(missing)[:5]}\n{said}"
    # The same without what is under way, and then without the last call of one rank.
    whole = completed(ranks)
    for dump in ranks.values():
        dump["entries"] = [x for x in dump["entries"] if key(x) in whole]
    here = tempfile.mkdtemp(dir=".")
    write(ranks, os.path.join(here, "whole"))
    said, matched = trace(os.path.join(here, "whole"))
    assert matched == whole and "missing ranks" not in said, said
    last = max(ranks)
    gone = key(ranks[last]["entries"].pop())
    write(ranks, os.path.join(here, "cut"))
    said, matched = trace(os.path.join(here, "cut"))
    assert whole - matched == {gone} and f"missing ranks: {{{last}}}" in said, said
    check_like_torch(ranks)
    print(f"torchfrtrace matches {len(whole)} calls of {len(ranks)} ranks")


main()
