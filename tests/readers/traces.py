#!/usr/bin/env python3
"""Reads a trace with the programs that it is written for.

    pip install perfetto HolisticTraceAnalysis
    trireme trace RUN --steps 3 --format both
    tests/readers/traces.py RUN/traces/steps-00000010-00000012

Checks the archive with Perfetto's own messages: every slice ends, slices of a track nest, and arrows join calls of
several ranks. Where trace_processor can be started (`perfetto` fetches it from the web at its first use), it imports the
archive, too, and must not complain. Holistic Trace Analysis divides the time of each rank. It is no part of ./test,
because these packages are large.
"""
import collections
import glob
import json
import os
import sys
import tarfile

CLOCK_OF_SEQUENCE, BEGIN, END = 64, 1, 2


def check_sequence(packets, name):
    """Returns the slices and arrows of a sequence: (begin, end, depth, flows)."""
    now, open_slices, slices = None, [], []
    for p in packets:
        if p.HasField("clock_snapshot"):
            now = next(c.timestamp for c in p.clock_snapshot.clocks if c.clock_id == CLOCK_OF_SEQUENCE)
        if not p.HasField("track_event"):
            continue
        now += p.timestamp
        event = p.track_event
        if event.type == BEGIN:
            open_slices.append((now, len(open_slices), list(event.flow_ids)))
        if event.type == END:
            begin, depth, flows = open_slices.pop()
            slices.append((begin, now, depth, flows))
    assert not open_slices, name
    for depth in range(3):
        row = sorted(s for s in slices if s[2] == depth)
        assert all(a[1] <= b[0] for a, b in zip(row, row[1:])), f"{name}: slices overlap"
    return slices


def check_archive(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    events, size = 0, 0
    arrows = collections.Counter()
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile("perfetto_manifest.json"))["perfetto_manifest"]
        assert manifest["version"] == 1
        assert [f["path"] for f in manifest["files"]] == tar.getnames()[1:]
        for name in tar.getnames()[1:]:
            data = tar.extractfile(name).read()
            trace = perfetto_trace_pb2.Trace.FromString(data)
            sequences = collections.defaultdict(list)
            for p in trace.packet:
                if p.trusted_packet_sequence_id:
                    sequences[p.trusted_packet_sequence_id].append(p)
            for number, packets in sequences.items():
                for _, _, _, flows in check_sequence(packets, f"{name}, sequence {number}"):
                    events += 1
                    arrows.update(flows)
            size += len(data)
    joined = sum(n > 1 for n in arrows.values())
    print(f"{path}: {events} events, {size / events:.1f} bytes each; {joined} of {len(arrows)} calls are joined")


def check_trace_processor(path):
    from perfetto.trace_processor import TraceProcessor

    try:
        tp = TraceProcessor(trace=path)
    except Exception as why:  # no binary for this machine, or no way to the web
        print(f"trace_processor was not started: {why}")
        return
    def one(sql):
        return next(tp.query(sql)).n

    bad = list(tp.query("select name, value from stats where severity = 'error' and value > 0"))
    assert not bad, [(r.name, r.value) for r in bad]
    print(f"trace_processor: {one('select count() n from slice')} slices, "
          f"{one('select count() n from flow')} arrows, {one('select count() n from machine')} machines")


def check_kineto(folder):
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    times = analysis.get_temporal_breakdown(visualize=False)
    assert len(times) == len(glob.glob(os.path.join(folder, "*.json")))
    assert (times["kernel_time(us)"] > 0).all()
    print(times.to_string())
    print(analysis.get_comm_comp_overlap(visualize=False).to_string())


def main():
    trace = sys.argv[1].rstrip("/")
    archive = os.path.join(trace, os.path.basename(trace) + ".tar")
    check_archive(archive)
    check_trace_processor(archive)
    if os.path.isdir(os.path.join(trace, "kineto")):
        check_kineto(os.path.join(trace, "kineto"))


if __name__ == "__main__":
    main()
