# run_hosts.sh -- `trireme run`: what agents say that cannot meet, or whose host is lost. The programs are shell scripts, and the hosts
# are agents of this machine.
. "${0%/*}/lib.sh" "$1"
host=$(own_address)
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TRIREME_SECRET_FILE

cat >stays.sh <<'END'
#!/bin/sh
echo $$ >>workers
exec sleep 600
END
chmod +x stays.sh
c10d=(--rdzv-backend c10d --rdzv-endpoint "$host:29721")

start() { # NAME ARGUMENT...: in the background
    timeout 240 "$trireme" run "${@:2}" >"$1.out" 2>"$1.err" </dev/null &
    started=$!
    wait_until has_child $started
    agent=$(children_of $started)
}

wait_until() { # COMMAND...
    local deadline=$(($(now_ms) + 100000))
    until "$@" || [ "$(now_ms)" -ge $deadline ]; do sleep 0.05; done
    "$@" || fail "in vain: $*"
}
has_child() { [ -n "$(children_of "$1")" ]; }
listens() { grep -q "$(printf ':%04X 00000000:0000 0A' "$1")" /proc/net/tcp; }
handles_term() { grep -Eq '^SigBlk:.*[4-7c-f]...$' "/proc/$1/status"; }
has_workers() { [ "$(wc -l 2>/dev/null <workers)" = "$1" ]; }

stop() { # AGENT STARTED
    kill -TERM "$1"
    wait "$2"
    code=$?
    expect_exit 143
}

# ---- An address that other hosts reach needs a secret: it is said at once, for the leader and for the others.
for leads in is_host=true is_host=false; do
    refused 2 '^trireme: a store on 0.0.0.0:29400, which other hosts reach, needs a secret; valid: ' timeout 40 \
        "$trireme" run --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 0.0.0.0 --rdzv-conf $leads ./stays.sh
done
refused 2 'needs a secret' timeout 40 "$trireme" run --nnodes 2 --rdzv-backend c10d --rdzv-endpoint 0.0.0.0 ./stays.sh

# ---- A leader that does not answer: SIGTERM ends the wait.
start leader --nnodes 2 "${c10d[@]}" ./stays.sh
leader=$agent timeout_of_leader=$started
wait_until listens 29721
kill -STOP "$leader"
start other --nnodes 2 "${c10d[@]}" ./stays.sh
wait_until handles_term "$agent"
kill -TERM "$agent"
expect_gone 20000 "$agent"
kill -9 "$agent" 2>/dev/null
wait $started
kill -CONT "$leader"
stop "$leader" $timeout_of_leader

# ---- The name of a run is the same on all hosts: one that gives none does not join one that does.
start leader --nnodes 2 "${c10d[@]}" --rdzv-id one ./stays.sh
wait_until listens 29721
refused 2 'the run is called "none" on this host and "one" on another; valid: one --rdzv-id on every host, or another endpoint' \
    timeout 40 "$trireme" run --nnodes 2 "${c10d[@]}" ./stays.sh
stop "$agent" $started

# ---- A second job at the endpoint of one that runs says for what it waits.
rm -f workers
start leader --nnodes 1 "${c10d[@]}" ./stays.sh
leader=$agent timeout_of_leader=$started
wait_until has_workers 1
start other --nnodes 1 "${c10d[@]}" ./stays.sh
wait_for_line "^trireme: the run at $host:29721 has begun with 1 node: this agent waits until it is needed; a job of its own needs another endpoint$" other.err
stop "$agent" $started
has_workers 1 || fail "the second job has started workers: $(cat workers)"
stop "$leader" $timeout_of_leader

# ---- After a lost host the agents that are left say what a user can do.
rm -f workers
static=(--nnodes 2 --master-addr "$host" --master-port 29722)
start other "${static[@]}" --node-rank 1 ./stays.sh
other=$agent
timeout 240 "$trireme" run "${static[@]}" --node-rank 0 ./stays.sh >stdout 2>stderr </dev/null &
leader=$!
wait_until has_workers 2
kill -9 "$other"
wait $leader
code=$?
expect_exit 1
expect_line '^trireme: node 1 \(host .*\): its agent ended, or its host does not answer$'
expect_line '^trireme: the same command on every node starts again, and `train` resumes from its newest checkpoint; with --nnodes 1:2 --rdzv-backend c10d a run goes on without a node$'
expect_lines 2 stderr

# ---- Below an agent commands say that `trireme run` has started them.
run "$trireme" run --nproc-per-node 2 bench link -b 1K -e 1K -n 1
expect_exit 1
expect_line '^trireme: RANK=[01] WORLD_SIZE=2: trireme run has started several processes'
finish
