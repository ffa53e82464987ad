# kill.sh -- however a run ends, no process and nothing in /dev/shm is left, the message names the cause, and the
# run resumes from its last checkpoint, bit for bit.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 32, heads: 2, vocab: 320, max_seq: 16'
LONG_MS=60000 # far more than the end needs, far less than the 600 s of the watchdog
endless=1000000000

# Starts a run that does not end by itself, in a process group of its own as a terminal would, and waits for a
# step. Sets $starter and $ranks.
start() { # LAST-STEP-TO-WAIT-FOR ARGUMENTS...
    local step=$1
    shift
    rm -f started.log
    set -m
    "$trireme" train job.yaml --quiet --train.steps $endless "$@" >stdout 2>stderr </dev/null &
    starter=$!
    set +m
    wait_for_line "\"event\":\"step\",\"step\":$step," out/log.jsonl
    ranks=$(children_of $starter)
    # A file that never had a name there cannot be left there.
    expect_none 'names in /dev/shm' "$(shm_names $starter $ranks)"
}

# Files of /dev/shm that have a name and that one of these processes has mapped or open.
shm_names() {
    local pid
    for pid in "$@"; do
        grep -hs ' /dev/shm/' "/proc/$pid/maps"
        ls -l "/proc/$pid/fd" 2>/dev/null | grep -e '-> /dev/shm/'
    done | grep -v '(deleted)$'
}

is_running() {
    local state
    { read -r _ _ state _ <"/proc/$1/stat"; } 2>/dev/null && [ "$state" != Z ]
}

end() { # EXIT-CODE: waits until all processes of the run have ended
    local begin=$(now_ms) processes="$starter $ranks"
    { wait $starter; } 2>/dev/null
    code=$?
    expect_exit "$1"
    expect_gone $LONG_MS $processes
    [ $(($(now_ms) - begin)) -lt $LONG_MS ] || fail "the end took $(($(now_ms) - begin)) ms"
}

# Resumes the run in `out` to its next multiple of 10 steps and compares it with a run that never stopped.
expect_continues() {
    local from goal
    from=$(newest_step out)
    goal=$((from + 10))
    train --train.save_every $goal --train.steps $goal
    expect_line "\"resumed_from\":$from" out/log.jsonl
    train --train.save_every $goal --train.steps $goal --train.out "straight-$goal"
    losses "straight-$goal" >straight.losses
    expect_none 'other losses' "$(losses out | grep -vxFf straight.losses)"
    expect_same_checkpoint "straight-$goal" out
}

# ---- A rank is killed: of two, then of four, the first and the last
for victim in '2 1' '2 2' '4 3'; do
    set -- $victim
    rm -rf out
    start 25 --launch.ranks $1 --train.global_batch 4 --train.save_every 10
    [ "$(wc -w <<<"$ranks")" = "$1" ] || fail "found ranks '$ranks', expected $1"
    pid=$(tr ' ' '\n' <<<$ranks | sed -n "$2p")
    kill -9 $pid
    end 1
    expect_lines 1 stderr
    expect_line "^trireme: rank $(($2 - 1)) \(pid $pid\) $killed$"
    expect_line "^\{\"event\":\"error\",\"rank\":$(($2 - 1)),\"text\":\"rank $(($2 - 1)) \(pid $pid\) was killed" out/log.jsonl
    expect_line '^\{"event":"end","reason":"failed"' out/log.jsonl
    [ "$1" = 2 ] && expect_continues
done

# ---- The starting process is killed: its ranks end, too
rm -rf out
start 25 --train.save_every 10
kill -9 $starter
end 137
expect_continues

# ---- Ctrl-C: the run finishes the step, saves a checkpoint and can be resumed; as processes and as threads
for as in processes threads; do
    rm -rf out
    start 25 --train.save_every 1000000 --launch.as $as
    kill -INT -- -$starter
    end 130
    expect_lines 1 stderr
    expect_line 'interrupted|stopped by signal 2'
    expect_line '^\{"event":"end","step":[0-9]+,"reason":"interrupted"' out/log.jsonl
    ok "$trireme" checkpoint verify out/checkpoints/latest
    last=$(losses out | tail -n 1 | cut -d ' ' -f 1)
    [ "$(readlink out/checkpoints/latest)" = "$(printf 'step-%08d' "$last")" ] || fail "saved $(readlink out/checkpoints/latest) after step $last"
    expect_continues
done
rm -rf out
start 5 --train.save_every 0
kill -TERM $starter
end 130
ok "$trireme" checkpoint verify out/checkpoints/latest

# ---- A second Ctrl-C does not wait for a rank that hangs; nor does the watchdog
rm -rf out
start 5 --train.save_every 0
kill -STOP $(head -n 1 <<<"$ranks")
kill -INT -- -$starter
# A second signal is lost while the first one is pending.
until grep -Eq '^ShdPnd:[[:space:]]*0+$' /proc/$starter/status 2>/dev/null || ! is_running $starter; do sleep 0.02; done
kill -INT -- -$starter
end 1
expect_line 'stopped by a second signal'
rm -rf out
start 5 --train.save_every 0 --checks.watchdog 3s
kill -STOP $(tail -n 1 <<<"$ranks")
end 1
expect_line 'rank 1 did not come to .* within'

# ---- Two runs in one folder: the second is refused, the first continues
rm -rf out
start 5 --train.save_every 0
run "$trireme" train job.yaml --train.steps $endless
expect_exit 2
expect_lines 1 stderr
expect_line 'train.out: .*/out: another run is writing into it'
kill -INT $starter
end 130

# ---- Killed at random moments of a run that saves after every step: every visible checkpoint is complete, also
# where each killed rank has a shard of it
rm -rf out
for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
    case $((round % 3)) in
    0) how= ;;
    1) how='--parallel.dp zero3 --parallel.no_sync true' ;;
    2) how='--parallel.pp 2 --launch.ranks 4' ;;
    esac
    rm -f out/log.jsonl
    set -m
    "$trireme" train job.yaml --quiet --train.steps $endless --train.save_every 1 $how >stdout 2>stderr </dev/null &
    starter=$!
    set +m
    wait_for_line '"event":"save"' out/log.jsonl
    sleep 0.$(printf %03d $((RANDOM % 200)))
    ranks=$(children_of $starter)
    case $((round % 4)) in
    0 | 2) kill -9 $starter ;;
    1) kill -9 $(head -n 1 <<<"${ranks:-$starter}") ;;
    3) kill -9 $(tail -n 1 <<<"${ranks:-$starter}") ;;
    esac
    { wait $starter; } 2>/dev/null
    expect_gone $LONG_MS $starter $ranks
    expect_no_line 'broken' stderr
    for checkpoint in out/checkpoints/step-*; do
        [ -e "$checkpoint" ] && ok "$trireme" checkpoint verify "$checkpoint"
    done
done
expect_continues
expect_none 'left over' "$(find out/checkpoints -name '.tmp*')"
finish
