# run.sh -- `trireme run` with programs that are no Trireme: environment, output, failures, restarts, several nodes,
# signals, and what is left when an agent is killed. The programs are shell scripts.
. "${0%/*}/lib.sh" "$1"
host=$(own_address)
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT

program() { # NAME, lines on stdin
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

alive() { # PID: it runs, and is not only an entry that nobody has waited for
    [ -e "/proc/$1/stat" ] && ! grep -q '^[0-9]* ([^)]*) Z' "/proc/$1/stat" 2>/dev/null
}

wait_for() { # COMMAND...: at most two minutes
    for _ in $(seq 1200); do
        "$@" && return
        sleep 0.1
    done
    fail "in vain: $*"
}

has_lines() { # COUNT FILE
    [ "$(wc -l 2>/dev/null <"$2" || echo 0)" -ge "$1" ]
}

none_alive() { # FILE with a pid a line
    local pid
    while read -r pid; do ! alive "$pid" || return 1; done <"$1"
}

# ---- The environment of workers
program env.sh <<'END'
echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $ROLE_NAME $TORCHELASTIC_RESTART_COUNT $OMP_NUM_THREADS $1" >>ranks
echo "$MASTER_ADDR:$MASTER_PORT" >>masters
END
run "$trireme" run --nproc-per-node 3 --role reader ./env.sh word --flag
expect_exit 0
sort ranks >sorted
printf '%d 3 %d 3 0 1 reader 0 1 word\n' 0 0 1 1 2 2 | cmp -s - sorted || fail "ranks: $(cat sorted)"
[ "$(sort -u masters | wc -l)" = 1 ] || fail "workers meet at $(cat masters)"
expect_line '^127.0.0.1:[0-9]+$' masters
rm ranks
PET_NPROC_PER_NODE=2 run "$trireme" torchrun --standalone --master_port 1234 ./env.sh
expect_exit 0
expect_lines 2 ranks

# Workers of a NUMA node may use cores of this machine, and these only.
program cores.sh <<'END'
sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status >"cores-$RANK"
END
for kind in node socket core-complex exclusive; do
    run "$trireme" run --numa-binding $kind ./cores.sh
    expect_exit 0
    expect_line '^[0-9]' cores-0
    for core in $(tr ',-' '  ' <cores-0); do
        taskset -c "$core" true || fail "$kind: core $core of $(cat cores-0) is not one of this test"
    done
done

# ---- Failures
program fails.sh <<'END'
[ "$RANK" != 1 ] || { echo 'first line' >&2; echo 'no such layer' >&2; exit 7; }
echo $$ >>pids
exec sleep 600
END
run "$trireme" run --nproc-per-node 3 ./fails.sh
expect_exit 1
expect_line '^trireme: rank 1 \(host .*, local rank 1, pid [0-9]+\) ended with exit code 7: no such layer$'
expect_line '^./fails.sh FAILED$'
expect_line '^Root Cause \(first observed failure\):$'
expect_line '^  rank      : 1 \(local_rank: 1\)$'
expect_line '^  exitcode  : 7 \(pid: [0-9]+\)$'
none_alive pids || fail "workers are left: $(cat pids)"

program killed.sh <<'END'
[ "$RANK" != 1 ] || kill -9 $$
exec sleep 600
END
run "$trireme" run --nproc-per-node 2 ./killed.sh
expect_exit 1
expect_line 'rank 1 .* was killed by signal 9 \(Killed\)$'
expect_line 'Signal 9 \(SIGKILL\) received by PID [0-9]+'

program tells.sh <<'END'
echo '{"message": {"message": "RuntimeError: out of paper", "extraInfo": {"timestamp": "1"}}}' >"$TORCHELASTIC_ERROR_FILE"
exit 1
END
run "$trireme" run ./tells.sh
expect_exit 1
expect_line 'ended with exit code 1: RuntimeError: out of paper$'
expect_line '^  error_file: .*/error.json$'

run "$trireme" run --no-python no-such-program
expect_exit 2
expect_line '^trireme: cannot run no-such-program: No such file or directory$'

# ---- Restarts
program second.sh <<'END'
echo "$TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS" >>attempts
[ "$TORCHELASTIC_RESTART_COUNT" = 2 ]
END
run "$trireme" run --max-restarts 2 ./second.sh
expect_exit 0
printf '%d of 2\n' 0 1 2 | cmp -s - attempts || fail "attempts: $(cat attempts)"
expect_line 'starts all workers again \(0 of 2 restarts left\)'
rm attempts
run "$trireme" run --max-restarts 1 ./second.sh
expect_exit 1
expect_lines 2 attempts

# ---- Output
program talks.sh <<'END'
echo "out of $RANK"
echo "err of $RANK" >&2
END
run "$trireme" run --nproc-per-node 2 --log-dir logs --rdzv-id talk -r 1:3 -t 0:1 ./talks.sh
expect_exit 0
expect_line '^\[default0\]:out of 0$' stdout
expect_lines 1 stdout
expect_line '^err of 0$'
expect_no_line 'of 1'
attempt=$(echo logs/talk_*/attempt_0)
expect_line '^out of 0$' "$attempt/0/stdout.log"
expect_line '^out of 1$' "$attempt/1/stdout.log"
expect_line '^err of 1$' "$attempt/1/stderr.log"
run "$trireme" run --nproc-per-node 2 --local-ranks-filter 1 --log-dir filtered --duplicate-stdout-filters 'of 0,xx' ./talks.sh
expect_exit 0
expect_lines 1 stdout
expect_line '^out of 1$' stdout
expect_line '^out of 0$' "$(echo filtered/*-*_*/attempt_0/filtered_stdout.log)"
expect_lines 1 "$(echo filtered/*-*_*/attempt_0/filtered_stdout.log)"

# ---- Nodes
rm -f ranks
nodes() { # FLAG... for both; node 1 has its output in other.*
    timeout 240 "$trireme" run "$@" --node-rank 1 ./env.sh >other.out 2>other.err </dev/null &
    run "$trireme" run "$@" --node-rank 0 ./env.sh
    wait $!
    other=$?
}
nodes --nnodes 2 --nproc-per-node 2 --master-addr "$host" --master-port 29701
expect_exit 0
[ "$other" = 0 ] || fail "node 1 ended with $other: $(cat other.err)"
sort ranks >sorted
printf '%d 4 %d 2 %d 2 default 0 1 \n' 0 0 0 1 1 0 2 0 1 3 1 1 | cmp -s - sorted || fail "ranks: $(cat sorted)"
rm ranks
nodes --nnodes 2 --rdzv-backend c10d --rdzv-endpoint "$host:29702" --rdzv-id one
expect_exit 0
[ "$other" = 0 ] || fail "node 1 ended with $other: $(cat other.err)"
expect_lines 2 ranks

# The failure of a worker is named on both nodes, and both end.
timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --master-addr "$host" --master-port 29703 ./fails.sh >other.out 2>other.err &
run "$trireme" run --nnodes 2 --node-rank 0 --master-addr "$host" --master-port 29703 ./fails.sh
wait $!
[ $? = 1 ] || fail 'node 1 does not end with 1'
expect_exit 1
expect_line '^trireme: rank 1 \(host .*, local rank 0, pid [0-9]+\) ended with exit code 7: no such layer$'
expect_line '^trireme: rank 1 \(host .*, local rank 0, pid [0-9]+\) ended with exit code 7: no such layer$' other.err

# Two nodes of one number, and hosts of two runs.
timeout 240 "$trireme" run --nnodes 2 --node-rank 0 --rdzv-id a --master-addr "$host" --master-port 29704 ./env.sh >other.out 2>other.err &
first=$!
run "$trireme" run --nnodes 2 --node-rank 1 --rdzv-id b --master-addr "$host" --master-port 29704 ./env.sh
expect_exit 2
expect_line 'the run is called "b" on this host and "a" on another'
kill -TERM $(pgrep -P $first)
wait $first
[ $? = 143 ] || fail "a node that waits does not end by SIGTERM: $(cat other.err)"

# ---- Signals
program stays.sh <<'END'
trap 'echo stopped >>stops; exit 0' TERM
echo $$ >>pids
while :; do sleep 0.1; done
END
rm -f pids
timeout 240 "$trireme" run --nproc-per-node 2 ./stays.sh >other.out 2>other.err &
agent=$!
wait_for has_lines 2 pids
kill -TERM $(pgrep -P $agent)
wait $agent
[ $? = 143 ] || fail "SIGTERM: the exit code is not 143: $(cat other.err)"
expect_lines 2 stops
none_alive pids || fail "workers are left: $(cat pids)"

program deaf.sh <<'END'
trap '' TERM
echo $$ >>pids
[ "$RANK" = 0 ] || { while [ "$(wc -l <pids)" -lt 2 ]; do sleep 0.1; done; exit 1; }
while :; do sleep 0.1; done
END
rm -f pids
run "$trireme" run --nproc-per-node 2 --shutdown-timeout 1 ./deaf.sh
expect_exit 1
none_alive pids || fail "a worker that ignores SIGTERM is left: $(cat pids)"

# ---- What is left when an agent is killed: nothing, not even what workers have started.
program parents.sh <<'END'
sleep 600 &
echo $! >>pids
echo $$ >>pids
wait
END
rm -f pids
"$trireme" run --nproc-per-node 2 ./parents.sh >other.out 2>other.err &
agent=$!
wait_for has_lines 4 pids
kill -9 $agent
wait_for none_alive pids

# The other node learns of it; with fewer nodes it goes on where it may.
program elastic.sh <<'END'
echo "$RANK of $WORLD_SIZE" >>worlds
[ "$WORLD_SIZE" = 1 ] || exec sleep 600
END
elastic="--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint $host:29705 --rdzv-conf last_call_timeout=5"
# shellcheck disable=SC2086 # a list of words
timeout 240 "$trireme" run $elastic ./elastic.sh >leader.out 2>leader.err &
leader=$!
# shellcheck disable=SC2086
"$trireme" run $elastic --rdzv-conf is_host=false,last_call_timeout=5 ./elastic.sh >other.out 2>other.err &
agent=$!
wait_for has_lines 2 worlds
kill -9 $agent
wait $leader
[ $? = 0 ] || fail "the node that is left fails: $(cat leader.err)"
expect_line 'node [01] \(host .*\): its agent ended, or its host does not answer' leader.err
expect_line '^0 of 1$' worlds

# ---- Trireme itself, and many workers
cat >job.yaml <<END
model: {family: gpt2, layers: 1, hidden: 32, heads: 4, vocab: 128, max_seq: 32}
data: {train: mock, seq_len: 32}
train: {steps: 2, global_batch: 2, micro_batch: 1, save_every: 0, eval_every: 0, out: out}
launch: {ranks: 1, threads_per_rank: 1}
END
run "$trireme" run train job.yaml --quiet
expect_exit 0
expect_file out/log.jsonl
rm -f ranks
run "$trireme" run --nproc-per-node 64 ./env.sh
expect_exit 0
expect_lines 64 ranks

# ---- The folder of a run that is given none is gone with the run, also after a failure.
mkdir own_tmp
printf '%s\n' '#!/bin/sh' '[ "$(dirname "$TORCHELASTIC_ERROR_FILE" | cut -c -"${#TMPDIR}")" = "$TMPDIR" ] && exit "$1"' >exits.sh
chmod +x exits.sh
for exits in 0 1; do
    TMPDIR=$PWD/own_tmp run "$trireme" run --nproc-per-node 2 ./exits.sh $exits
    expect_exit $exits
    expect_none 'files of an ended run' "$(ls own_tmp)"
done

# ---- Bad usage
refused() { # TEXT ARGUMENT...
    local why=$1
    shift
    run "$trireme" run "$@"
    expect_exit 2
    expect_lines 1 stderr
    grep -Fq -- "$why" stderr || fail "'$*' does not say '$why': $(cat stderr)"
}
refused 'give the program that the workers run' --nproc-per-node 2
refused '--nproc-per-nude: unknown flag, did you mean --nproc-per-node?' --nproc-per-nude 2 ./env.sh
refused '--nproc-per-node: found 0; valid are 1 to 4096, auto, gpu and cpu' --nproc-per-node 0 ./env.sh
refused '--numa-binding: found cores; valid are node, socket, exclusive and core-complex' --numa-binding cores ./env.sh
refused '--numa-binding and --bind-cores-to-rank exclude each other' --numa-binding node --bind-cores-to-rank ./env.sh
refused '--nnodes: found 3:2; valid are N and MIN:MAX' --nnodes 3:2 ./env.sh
refused 'valid: --rdzv-backend c10d' --nnodes 1:2 ./env.sh
refused '--node-rank: found 2; valid are 0 to 1 (--nnodes 2)' --nnodes 2 --node-rank 2 ./env.sh
refused 'valid are static and c10d' --rdzv-backend etcd ./env.sh
refused 'need --rdzv-endpoint' --nnodes 2 --rdzv-backend c10d ./env.sh
refused 'unknown key timeout' --rdzv-conf timeout=3 ./env.sh
refused '--redirects: found 4' --redirects 4 ./env.sh
refused 'needs a secret; valid: --secret-file FILE or TRIREME_SECRET_FILE' --nnodes 2 --master-addr 0.0.0.0 --master-port 29706 ./env.sh
echo 'a secret that is long enough' >secret
chmod 644 secret
refused 'secret file secret: others may use it (mode 644); valid: chmod 600 secret' --nnodes 2 --secret-file secret ./env.sh
echo short >secret
chmod 600 secret
refused 'valid are 16 to 4096' --nnodes 2 --secret-file secret ./env.sh
finish
