# suspend.sh -- a run whose processes are all suspended (Ctrl-Z, SIGSTOP, a closed laptop) for longer than the
# watchdog's time continues normally afterwards. The watchdog still notices a single suspended rank.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
train --train.steps 40 --train.out straight

start() { # ARGUMENTS...: in a process group of its own, as a shell starts a job
    rm -rf out
    set -m
    "$trireme" train job.yaml --quiet --checks.watchdog 4s "$@" >stdout 2>stderr </dev/null &
    starter=$!
    set +m
    wait_for_line '"event":"step","step":5,' out/log.jsonl
}

for how in 'STOP --launch.as processes' 'TSTP --launch.as processes' 'STOP --launch.as threads'; do
    set -- $how
    signal=$1
    shift
    start --train.steps 1000000000 "$@"
    second=$([ "$*" = "--launch.as processes" ] && [ $signal = STOP ] && echo yes)
    for again in 1 ${second:+2}; do
        kill -s $signal -- -$starter
        sleep 5.5
        kill -CONT -- -$starter
        seen=$(wc -l <out/log.jsonl)
        deadline=$(($(now_ms) + 100000))
        while [ "$(wc -l <out/log.jsonl)" -le $((seen + 50)) ] && kill -0 $starter 2>/dev/null; do
            [ "$(now_ms)" -lt $deadline ] || break
            sleep 0.02
        done
        kill -0 $starter 2>/dev/null || fail "the run ended after '$how': $(cat stderr)"
        [ "$(wc -l <out/log.jsonl)" -gt $((seen + 50)) ] || fail "the run did not go on after '$how'"
    done
    kill -INT $starter
    { wait $starter; } 2>/dev/null
    code=$?
    expect_exit 130
    expect_lines 1 stderr
    losses straight >straight.losses
    losses out | head -n 40 >out.losses
    expect_same straight.losses out.losses
done

start --train.steps 1000000000
ranks=$(children_of $starter)
kill -STOP $(tail -n 1 <<<"$ranks")
{ wait $starter; } 2>/dev/null
code=$?
expect_exit 1
expect_lines 1 stderr
words='(LOAD_BATCH|FORWARD|BACKWARD|REDUCE_GRAD|CLIP_GRAD_NORM|OPTIMIZER_STEP|no step)[^)]*'
expect_line "^trireme: Watchdog caught collective operation timeout: rank 1 did not come to [a-z_]+ over [a-z_ ]+ \($words\) within 4 s; it is in $words; its last call is [a-z_]+ [0-9]+ over [a-z_ ]+, (issued|started|completed) [0-9.]+ s ago$"
finish
