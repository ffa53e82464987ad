# `trireme trace`: of a run that has ended, of one that goes on, of one whose ranks stand still; train --profile; and what
# is refused.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

# expect_archive FOLDER STEPS RANKS: its files, and one that other programs can open.
expect_archive() {
    expect_file "$1/spans/rank-00000.spans"
    tar tf "$1/$2.tar" >names || fail "$1/$2.tar is no archive"
    {
        echo perfetto_manifest.json
        seq -f 'rank-%05.0f.pftrace' 0 $(($3 - 1))
        echo ranks-calls.pftrace
    } >expected
    expect_same names expected
    tar xOf "$1/$2.tar" perfetto_manifest.json | tr -d '\n' >manifest
    expect_json_lines manifest
}

# ---- In advance
train --train.steps 12 --profile steps=5-6
expect_archive out/traces/steps-00000005-00000006 steps-00000005-00000006 2
rm -r out/traces

# A run that ends before it has taken all steps traces those that it has.
ok "$trireme" train job.yaml --train.steps 6 --observe.trace_steps 5-9 --train.out short
expect_line 'traced steps 5 to 6: .*short/traces/steps-00000005-00000006$'
expect_archive short/traces/steps-00000005-00000006 steps-00000005-00000006 2

# ---- A run that has ended
ok "$trireme" trace out
expect_line '^traced steps 10 to 12 of 2 ranks, [0-9]+ spans, into out/traces/steps-00000010-00000012$' stdout
expect_archive out/traces/steps-00000010-00000012 steps-00000010-00000012 2
ok "$trireme" trace out --from 3 --steps 2 --format both --json
expect_json_lines stdout
expect_line '^\{"first":3,"last":4,"ranks":2,"spans":[0-9]+,"folder":"out/traces/steps-00000003-00000004","perfetto":"[^"]*\.tar","kineto":"[^"]*/kineto"\}$' stdout
for rank in 0 1; do
    tr -d '\n' <out/traces/steps-00000003-00000004/kineto/rank-0000$rank.json >one
    expect_json_lines one
    expect_line "\"rank\": $rank, \"world_size\": 2" one
    expect_line '"name": "ProfilerStep#4"' one
    expect_line '"cat": "kernel", "name": "ncclDevKernel_AllReduce"' one
done
ok "$trireme" trace out --steps 1 --out mine.tar
tar tf mine.tar >names || fail 'mine.tar is no archive'

# ---- A run that goes on
"$trireme" train job.yaml --quiet --train.steps 1000000 --train.out live >/dev/null 2>&1 &
pid=$!
wait_for_line '"step":2,' live/log.jsonl
ok "$trireme" trace live --steps 2 --json
first=$(sed -n 's/^{"first":\([0-9]*\),.*/\1/p' stdout)
expect_line "^\{\"first\":$first,\"last\":$((first + 1)),\"ranks\":2," stdout
[ "$first" -gt 2 ] || fail "the trace begins with step $first, which was over"
ranks=$(children_of "$pid")
for rank in $ranks; do kill -STOP "$rank"; done
run "$trireme" trace live --timeout 300ms
expect_exit 1
expect_line 'rank [01] has recorded no step for .* s; its last is step [0-9]+, and step [0-9]+ is to be traced'
for rank in $ranks; do kill -KILL "$rank"; done
wait "$pid"
ok "$trireme" trace live
expect_line '^traced steps ' stdout

# ---- Refusals
run "$trireme" trace out --from 90
expect_exit 2
expect_line 'rank 0 has not recorded step 90 yet; its last is 12'
run "$trireme" trace nowhere
expect_exit 2
expect_line 'nowhere: no such folder'
rm -r short/spans
run "$trireme" trace short
expect_exit 2
expect_line 'short: has no records of ranks'
run "$trireme" trace out --format chrome
expect_exit 2
expect_line 'valid: perfetto, kineto, both'
run "$trireme" trace out --steps 0
expect_exit 2
run "$trireme" trace out --format both --out x
expect_exit 2
run "$trireme" trace
expect_exit 2
expect_line 'give the folder of a run'
refused 2 '--profile: found 10-12; valid: steps=10, or steps=10-12' "$trireme" train job.yaml --profile 10-12

finish
