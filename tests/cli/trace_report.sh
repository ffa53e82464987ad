# trace_report.sh -- `trireme trace report`: under every strategy a recorded step that is replayed takes what it took; and
# what does not fit the record is refused.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

expect_replay() { # the report of `out` in stdout: lists are known, and the replay is off by less than 2 %
    expect_json_lines stdout
    expect_line '"lists":true' stdout
    awk 'match($0, /"error_percent":[-0-9.e]+/) { off = substr($0, RSTART + 16, RLENGTH - 16) + 0; found = 1 }
         END { exit !(found && off < 2 && off > -2) }' stdout || fail "the replay is off: $(head -c 200 stdout)"
}

for keys in '--parallel.dp ddp' '--parallel.dp zero1' '--parallel.dp zero3' '--parallel.dp zero3 --launch.comm tls' \
    '--parallel.tp 2' '--parallel.cp 2' '--parallel.pp 2 --parallel.pp_schedule gpipe' '--parallel.pp 2 --parallel.pp_schedule zb'; do
    train --train.steps 4 --overwrite $keys
    ok "$trireme" trace report out --json
    expect_replay
done

# The pipeline, as text.
ok "$trireme" trace report out --step 3 --what-if schedule=1f1b BACKWARD_WEIGHT=50 communication
expect_line '^step 3: 2 ranks, [0-9.]+ ms measured, [0-9.]+ ms replayed \([+-][0-9.]+ %\)$' stdout
expect_line '^critical path, ' stdout
expect_line "^ +[0-9.]+ +[-+][0-9.]+ %  the pipeline's schedule were 1f1b$" stdout
expect_line '^ +[0-9.]+ +[-+][0-9.]+ %  BACKWARD_WEIGHT took 50 % less time$' stdout

refuses() { # PATTERN ARGUMENTS...
    local pattern=$1
    shift
    run "$trireme" trace report "$@"
    expect_exit 2
    expect_line "$pattern"
}
refuses 'found 0 folders; valid: one, of a run or a trace'
refuses 'nowhere: no such folder' nowhere
refuses "^trireme: --step: found 'first'; valid: a step, from 1" out --step first
refuses 'has no record of step 99$' out --step 99
refuses "^trireme: --what-if: found 'speed'; valid: rank=R, " out --what-if speed
refuses "^trireme: --what-if: found rank '2'; valid: 0 to 1" out --what-if rank=2
refuses '^trireme: --what-if: rank 1 is alone in its stage' out --what-if rank=1
refuses "^trireme: --what-if: found the schedule 'zebra'; valid: gpipe, " out --what-if schedule=zebra
refuses '^trireme: --what-if: the step has no instruction BACKWARDS' out --what-if BACKWARDS=3
sed -i 's/zb/gpipe/' out/job.yaml
refuses "job.yaml does not fit the record: instruction [0-9]+ of rank 0 is '.*' in the record, and '.*' in the job's list" out
finish
