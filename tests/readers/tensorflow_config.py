#!/usr/bin/env python3
"""Compares what TensorFlow and `trireme translate tensorflow` take from a TF_CONFIG, for 64 texts, some of them broken.

    pip install tensorflow-cpu
    tests/readers/tensorflow_config.py build/trireme

TensorFlow's side is TFConfigClusterResolver and the functions with which MultiWorkerMirroredStrategy checks a cluster:
the number of workers, and the place of this task among them. Ours is launch.ranks and the rank that the translation
names. A task ps or evaluator is refused here by name. It is no part of ./test, because TensorFlow is large.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tensorflow.python.distribute import multi_worker_util  # noqa: E402
from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver  # noqa: E402


def hosts(count, letter="w", port=2222):
    return [f"{letter}{i}:{port}" for i in range(count)]


def texts():
    task = {"type": "worker", "index": 0}
    for workers in (1, 2, 3, 8):
        for index in (0, workers - 1, workers):
            yield {"cluster": {"worker": hosts(workers)}, "task": {"type": "worker", "index": index}}
        for kind, index in (("chief", 0), ("worker", 0), ("worker", workers - 1), ("chief", 1)):
            yield {"cluster": {"chief": ["c:1"], "worker": hosts(workers)}, "task": {"type": kind, "index": index}}
    yield {"cluster": {"chief": ["c:1"]}, "task": {"type": "chief", "index": 0}}
    yield {"cluster": {"chief": ["c:1", "d:1"], "worker": hosts(2)}, "task": task}
    for kind in ("ps", "evaluator"):
        yield {"cluster": {"worker": hosts(2), kind: ["p:1"]}, "task": task}
        yield {"cluster": {"worker": hosts(2), kind: ["p:1"]}, "task": {"type": kind, "index": 0}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "evaluator", "index": 0}}
    yield {"cluster": {"master": ["m:1"], "worker": hosts(2)}, "task": task}
    yield {"cluster": {"workers": hosts(2)}, "task": task}
    # A task as an index and an address each
    yield {"cluster": {"worker": {"0": "w0:1", "1": "w1:1"}}, "task": {"type": "worker", "index": 1}}
    yield {"cluster": {"worker": {"1": "w1:1"}}, "task": {"type": "worker", "index": 1}}
    yield {"cluster": {"worker": "w0:1"}, "task": task}
    yield {"cluster": {"worker": []}, "task": task}
    yield {"cluster": {"worker": [1, 2]}, "task": task}
    yield {"cluster": {"worker": ["a:1", "a:1"]}, "task": task}
    yield {"cluster": {"worker": ["[::1]:2222", "[::2]:2222"]}, "task": task}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "worker", "index": "1"}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "worker", "index": -1}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "worker", "index": 0.0}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "worker", "index": "one"}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "Worker", "index": 1}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "trainer", "index": 0}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"type": "worker"}}
    yield {"cluster": {"worker": hosts(2)}, "task": {"index": 1}}
    yield {"cluster": {"worker": hosts(2)}, "task": {}}
    yield {"cluster": {"worker": hosts(2)}}
    yield {"cluster": {}, "task": task}
    yield {"cluster": hosts(2), "task": task}
    yield {"cluster": {"worker": hosts(2)}, "task": "worker"}
    yield {"cluster": {"worker": hosts(2)}, "task": task, "environment": "cloud", "rpc_layer": "grpc"}
    yield {"cluster": {"worker": hosts(2)}, "task": task, "job": {"name": "x"}}
    for text in ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}', "[]", "worker",
                 '{"cluster": {"worker": ["a:1", "b:1"],}, "task": {"type": "worker", "index": 1}}',
                 '{"cluster": {"worker": ["a:1"]}, "cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'):
        yield text


def of_tensorflow(text):
    """(ranks, rank or None), or the error."""
    os.environ["TF_CONFIG"] = text
    try:
        resolver = TFConfigClusterResolver()
        spec = multi_worker_util.normalize_cluster_spec(resolver.cluster_spec())
        kind, index = resolver.task_type, resolver.task_id
        if not spec.as_dict():
            return "no cluster"
        if kind is None or index is None:
            return len(spec.as_dict().get("chief", [])) + len(spec.as_dict().get("worker", [])), None
        multi_worker_util._validate_cluster_spec(spec, kind, index)
        return multi_worker_util.worker_count(spec, kind), multi_worker_util.id_in_cluster(spec, kind, index)
    except Exception as why:  # whatever their parser raises is a refusal
        return f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}"


def of_trireme(trireme, text):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([trireme, "translate", "tensorflow", f.name], capture_output=True, text=True)
    if done.returncode:
        assert done.returncode == 2, (text, done)
        return done.stderr.replace(f.name + ":", "").strip()
    ranks = re.search(r"^  ranks: (\d+)", done.stdout, re.M)
    rank = re.search(r"is rank (\d+) of \d+", done.stdout)
    return (int(ranks[1]) if ranks else None), (int(rank[1]) if rank else None)


def main():
    same, refused, other = 0, 0, []
    cases = [t if isinstance(t, str) else json.dumps(t) for t in texts()]
    for text in cases:
        theirs, ours = of_tensorflow(text), of_trireme(sys.argv[1], text)
        if theirs == ours:
            same += 1
        elif isinstance(theirs, str) and isinstance(ours, str):
            refused += 1
        else:
            other.append((text, theirs, ours))
    print(f"{len(cases)} texts: {same} with equal ranks, {refused} refused by both, {len(other)} otherwise")
    for text, theirs, ours in other:
        print(f"{text}\n    TensorFlow: {theirs}\n    Trireme:    {ours}")


if __name__ == "__main__":
    main()
