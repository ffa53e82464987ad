# hangup.sh -- SIGHUP, which a terminal sends when it is closed, stops `train` after its step with a checkpoint, and `run`
# with its workers, as SIGTERM does. Under nohup it stops neither. The library UCX, which takes SIGHUP, SIGSEGV and others
# for itself where it is loaded, gets none of them, and a program that does not use it does not load it.
. "${0%/*}/lib.sh" "$1"
make_data
make_job
# The address sanitizer would take some of these signals itself.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}handle_segv=0:handle_sigfpe=0:handle_sigill=0
endless=1000000

start() { # STEPS, then arguments: trains, and waits for so many steps; sets $starter
    local steps=$1
    shift
    rm -rf out
    "$trireme" train job.yaml --quiet --train.steps $endless "$@" >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line "^\{\"event\":\"step\",\"step\":$steps," out/log.jsonl
}
ended() { # CODE
    wait $starter
    code=$?
    expect_exit "$1"
}
catches() { # PID NUMBER: the process has a handler for the signal
    local mask
    mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
    [ $((0x$mask >> ($2 - 1) & 1)) = 1 ]
}

# ---- train
communicators=local
[ -z "$(ldconfig -p 2>/dev/null | grep libucp.so.0)" ] || ! "$trireme" help launch.comm | grep -q ucx || communicators='local ucx'
for comm in $communicators; do
    start 5 --train.save_every 0 --launch.comm $comm
    for pid in $starter $(rank_of $starter); do
        for number in 1 4 8 11; do # SIGHUP, SIGILL, SIGFPE, SIGSEGV
            ! catches "$pid" $number || fail "$comm: process $pid handles signal $number"
        done
    done
    kill -HUP $starter
    ended 130
    expect_lines 1 stderr
    expect_line 'stopped by signal 1 \(Hangup\)'
    expect_no_line 'ucx|UCX|DEBUG|debug'
    ok "$trireme" checkpoint verify out/checkpoints/latest
done
start 2 --train.save_every 0 --launch.comm local
! grep -q libuc[ps] "/proc/$starter/maps" || fail 'UCX is loaded without need'
kill -TERM $starter
ended 130

# ---- nohup: the signal is ignored, and another one stops the run.
trap '' HUP
start 2 --train.save_every 0
kill -HUP $starter
now=$(losses out | tail -n 1 | cut -d ' ' -f 1)
wait_for_line "^\{\"event\":\"step\",\"step\":$((now + 50))," out/log.jsonl
kill -TERM $starter
ended 130
expect_line 'stopped by signal 15'
trap - HUP

# ---- run
cat >stays.sh <<'END'
#!/bin/sh
trap 'echo hangup >>stops; exit 0' HUP
trap 'echo term >>stops; exit 0' TERM
echo $$ >>pids
while :; do sleep 0.05; done
END
chmod +x stays.sh
runs() { # CODE SIGNAL...: sends the signals to `run` when its two workers are there
    local expected=$1 s
    shift
    rm -f pids stops
    "$trireme" run --nproc-per-node 2 ./stays.sh >stdout 2>stderr </dev/null &
    starter=$!
    until [ -f pids ] && [ "$(wc -l <pids)" = 2 ]; do sleep 0.02; done
    for s in "$@"; do kill -$s $starter; done
    ended "$expected"
    expect_lines 2 stops
    expect_gone 10000 $(cat pids)
}
runs 129 HUP
expect_line '^hangup$' stops
trap '' HUP
runs 143 HUP TERM
expect_line '^term$' stops
finish
