# run_reports.sh -- `trireme run`: what its report says of a failure, output that is lost, and what is left behind when an agent is
# killed. The programs are shell scripts.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT
mkdir tmp
export TMPDIR=$scratch/tmp

program() { # NAME, lines on stdin
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

wait_until() { # COMMAND...
    local deadline=$(($(now_ms) + 100000))
    until "$@" || [ "$(now_ms)" -ge $deadline ]; do sleep 0.05; done
    "$@" || fail "in vain: $*"
}
has_lines() { [ "$(wc -l 2>/dev/null <"$2" || echo 0)" -ge "$1" ]; }

traceback() { # what the report says after "traceback : "
    sed -n '/^  traceback : /,/^=====/{s/^  traceback : //;/^=====/d;p}' stderr
}

# ---- The report's traceback begins with a line, and has no lines of progress.
program long.sh <<'END'
for i in $(seq 100); do echo "a line of the log with the number $i" >&2; done
exit 3
END
run "$trireme" run ./long.sh
expect_exit 1
traceback >found
sed '/^$/d' found | grep -Evq '^a line of the log with the number [0-9]+$' && fail "the report has a part of a line: $(head -n 2 found)"
expect_line 'number 100$' found
expect_line '^trireme: rank 0 .* ended with exit code 3: a line of the log with the number 100$'

program bars.sh <<'END'
for i in 1 2 3; do printf '\r %d%%|##| %d/3 [00:00<00:00]' $i $i >&2; done
echo >&2
for i in $(seq 40); do echo "step $i/40  loss 5.0  lr 1e-3" >&2; done
echo 'the data is not there' >&2
exit 3
END
run "$trireme" run ./bars.sh
[ "$(traceback | sed '/^$/d')" = 'the data is not there' ] || fail "the report has progress: $(traceback)"

program python.sh <<'END'
echo 'a line before' >&2
printf '\r 50%%|##| 1/2 [00:00<00:00]Traceback (most recent call last):\n  File "x.py", line 3, in f\nValueError: no paper\n' >&2
exit 1
END
run "$trireme" run ./python.sh
printf '%s\n' 'Traceback (most recent call last):' '  File "x.py", line 3, in f' 'ValueError: no paper' >expected
traceback | sed '/^$/d' >found
expect_same expected found
expect_line 'ended with exit code 1: ValueError: no paper$'

# ---- A rank that hangs is blamed, not the one that noticed.
cat >job.yaml <<'END'
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16}
data: {train: mock, seq_len: 16}
train: {steps: 1000000, global_batch: 3, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
checks: {watchdog: 2s}
END
timeout 240 "$trireme" run --nproc-per-node 3 train job.yaml --quiet >stdout 2>stderr </dev/null &
started=$!
wait_for_line '"step":3,' out/log.jsonl
rank_pid() { # RANK: the process that the agent has started for it
    local pid
    for pid in $(for p in $(children_of $started); do children_of "$p"; done); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "RANK=$1" && printf '%s\n' "$pid"
    done
}
frozen=$(rank_pid 2)
kill -STOP "$(rank_of "$frozen")"
wait $started
code=$?
expect_exit 1
expect_line "^trireme: rank 2 \(host .*, local rank 2, pid $frozen\), says rank [012]: Watchdog caught collective operation timeout: rank 2 did not come to "
expect_line '^  rank      : 2 \(local_rank: 2\)$'
expect_line "^  exitcode  : <N/A> \(pid: $frozen\), says rank [012]$"
expect_no_line '^  rank      : [01] '

# ---- Output that cannot be written is an error.
program talks.sh <<'END'
echo "out of $RANK"
END
"$trireme" run --tee 3 --log-dir logs ./talks.sh >/dev/full 2>stderr </dev/null
code=$?
expect_exit 1
expect_line '^trireme: cannot write to standard output: No space left on device; output of workers is lost$'
expect_line '^trireme: all workers succeeded, but output of theirs is lost$'
expect_lines 2 stderr

# ---- An agent that is killed leaves no process behind, not even one with a session of its own, and the next run removes its files.
program parents.sh <<'END'
setsid sh -c 'echo $$ >>pids; sleep 600 & echo $! >>pids; wait' &
echo $$ >>pids
wait
END
"$trireme" run --nproc-per-node 2 ./parents.sh >other.out 2>other.err </dev/null &
agent=$!
wait_until has_lines 6 pids
kill -9 $agent
wait $agent 2>/dev/null
expect_gone 20000 $(cat pids)
[ "$(ls tmp | wc -l)" = 1 ] || fail "temporary folders: $(ls tmp)"
# One that fails, too; one that succeeds leaves a process with a session of its own alone.
rm pids
program fails.sh <<'END'
setsid sleep 600 &
echo $! >>pids
[ "$1" = 0 ] || until [ -e pids ]; do sleep 0.05; done
exit "$1"
END
run "$trireme" run ./fails.sh 1
expect_exit 1
expect_gone 20000 $(cat pids)
rm pids
run "$trireme" run ./fails.sh 0
expect_exit 0
kill $(cat pids) || fail 'a process with a session of its own was killed after a run that succeeded'
expect_none 'temporary folders are left' "$(ls tmp)"
# That of a run that lives stays.
program stays.sh <<'END'
echo "$TORCHELASTIC_ERROR_FILE" >file
exec sleep 600
END
"$trireme" run ./stays.sh >other.out 2>other.err </dev/null &
agent=$!
wait_until has_lines 1 file
run "$trireme" run ./talks.sh
expect_exit 0
[ -d "$(dirname "$(cat file)")" ] || fail "a run removed the folder of another one"
kill $agent
wait $agent
expect_none 'temporary folders are left' "$(ls tmp)"
finish
