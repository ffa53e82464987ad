# run_flags.sh -- `trireme run`: the flags and variables of torchrun that run.sh does not use, many jobs that start at once, and an
# agent that is stopped. The programs are shell scripts.
. "${0%/*}/lib.sh" "$1"
host=$(own_address)
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS TORCH_NCCL_ASYNC_ERROR_HANDLING PYTHON_EXEC

program() { # NAME, lines on stdin
    { echo '#!/bin/sh' && cat; } >"$1"
    chmod +x "$1"
}

expect_ranks() { # LINE...: what the workers wrote
    sort ranks >sorted
    printf '%s\n' "$@" | cmp -s - sorted || fail "ranks: $(cat sorted)"
    rm -f ranks
}

# ---- Number and environment of workers
program env.sh <<'END'
echo "$RANK $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE $TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE $TORCH_NCCL_ASYNC_ERROR_HANDLING $LOCAL_RANK" >>ranks
echo "$MASTER_ADDR" >>masters
END
run "$trireme" run --nproc-per-node 2 --rdzv-id one --role reader ./env.sh
expect_exit 0
expect_ranks '0 reader 0 2 one False 1 0' '1 reader 1 2 one False 1 1'
expect_line '^trireme: warning: OMP_NUM_THREADS is 1 for each of the 2 workers'
expect_lines 1 stderr
OMP_NUM_THREADS=3 TORCH_NCCL_ASYNC_ERROR_HANDLING=2 run "$trireme" run --nproc-per-node 2 ./env.sh
expect_lines 0 stderr
# A run of one host that gives no name has a random one, the same for all of its ranks.
id=$(cut -d ' ' -f 5 ranks | sort -u)
[[ $id =~ ^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$ ]] || fail "the run is called '$id'"
expect_ranks "0 default 0 2 $id False 2 0" "1 default 1 2 $id False 2 1"
run "$trireme" run --standalone ./env.sh
expect_lines 0 stderr
other=$(cut -d ' ' -f 5 ranks)
[[ ${#other} = 36 && $other != "$id" ]] || fail "two runs are called '$id' and '$other'"
rm ranks
run "$trireme" run --rdzv-backend c10d --rdzv-endpoint localhost:0 ./env.sh
expect_ranks '0 default 0 1 none False 1 0'
rm masters
# The beginning of a flag's name stands for it, as under argparse.
run "$trireme" run --nproc_per_n 2 --rdzv-i=short --ro reader ./env.sh
expect_exit 0
expect_ranks '0 reader 0 2 short False 1 0' '1 reader 1 2 short False 1 1'
run "$trireme" deepspeed --num_g 2 --no_local ./env.sh
expect_exit 0
expect_lines 2 ranks
rm -f ranks masters
refused 2 '^trireme: --n: it may be --nnodes, --nproc-per-node, --no-python, --node-rank, --numa-binding$' "$trireme" run --n 2 ./env.sh
refused 2 '^trireme: --nproc-per-nodes: unknown flag, did you mean --nproc-per-node\?$' "$trireme" run --nproc-per-nodes 2 ./env.sh

# As many as there are cores: at most four here.
cores=$(taskset -cp $$ | sed 's/.*: //')
few=$(awk -v list="$cores" 'BEGIN {
    n = split(list, part, ",")
    for (i = 1; i <= n; i++) {
        split(part[i] "-" part[i], end, "-")
        for (c = end[1]; c <= end[2] && found < 4; c++) out = out (found++ ? "," : "") c
    }
    print out
}')
count=$(tr ',' '\n' <<<"$few" | wc -l)
for kind in auto cpu; do
    run taskset -c "$few" "$trireme" run --nproc-per-node $kind ./env.sh
    expect_exit 0
    expect_lines "$count" ranks
    rm -f ranks
done
refused 2 'nproc-per-node gpu: this host has no GPU that a program may use' "$trireme" run --nproc-per-node gpu ./env.sh

program gpu.sh <<'END'
echo "$RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES" >>ranks
END
CUDA_VISIBLE_DEVICES=3,5 run "$trireme" run --nproc-per-node 2 --virtual-local-rank ./gpu.sh
expect_exit 0
expect_ranks '0 0 3' '1 0 5'
CUDA_VISIBLE_DEVICES=3 run "$trireme" run --nproc-per-node 2 --virtual-local-rank ./gpu.sh
expect_exit 2
expect_line 'CUDA_VISIBLE_DEVICES=3 has no GPU for local rank 1'
rm -f ranks masters

# ---- How the program is started
program python <<'END'
printf '%s|' "$@" >words
END
PYTHON_EXEC=./python run "$trireme" run -m pack.age --word
expect_exit 0
[ "$(cat words)" = '-u|-m|pack.age|--word|' ] || fail "-m: $(cat words)"
echo 'import sys; open("words", "w").write(__name__ + "|" + "|".join(sys.argv))' >script
PYTHON_EXEC=./python run "$trireme" run --run-path script --word
expect_exit 0
grep -q '^-u|-c|.*runpy.*|script|--word|$' words || fail "--run-path: $(cat words)"
if command -v python3 >/dev/null; then
    run "$trireme" run --run-path script --word
    expect_exit 0
    [ "$(cat words)" = '__main__|script|--word' ] || fail "--run-path with Python: $(cat words)"
fi

# ---- Variables PET_*, each the default of a flag
PET_STANDALONE=1 PET_NNODES=2 PET_ROLE=one PET_RDZV_ID=id PET_NPROC_PER_NODE=2 run "$trireme" run --role two ./env.sh
expect_exit 0
expect_ranks '0 two 0 2 id False 1 0' '1 two 1 2 id False 1 1'
refused 2 '^trireme: PET_STANDALONE: found maybe' env PET_STANDALONE=maybe "$trireme" run ./env.sh
refused 2 '^trireme: PET_NNODES|--nnodes: found none' env PET_NNODES=none "$trireme" run ./env.sh

# ---- Rendezvous
rm -f masters
run "$trireme" run --local-addr "$host" ./env.sh
expect_exit 0
expect_line "^$host$" masters
run "$trireme" run --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-conf store_type=tcp,close_timeout=1,join_timeout=600,read_timeout=5 ./env.sh
expect_exit 0
run "$trireme" run --nnodes 2 --master-addr "$host" --master-port 29711 --rdzv-conf join_timeout=0.2 ./env.sh
expect_exit 1
expect_line '1 of 2 nodes came within 0.2 s'
refused 2 'rdzv-conf: store_type: valid are' "$trireme" run --rdzv-conf store_type=file ./env.sh
refused 2 'rdzv-conf: close_timeout: valid are' "$trireme" run --rdzv-conf close_timeout=0 ./env.sh

# ---- Output, and flags without an effect
program talks.sh <<'END'
echo "out of $RANK"
printf 'one,two %s\none two\nthree\n' "$RANK" >&2
END
TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE='<${role_name} ${local_rank} ${rank}> ' \
    run "$trireme" run --nproc-per-node 2 --log-dir logs -t 1 --duplicate-stderr-filters 'e,,t,zz' --monitor-interval 0.5 \
    --start-method fork --event-log-handler null --logs-specs default ./talks.sh
expect_exit 0
sort stdout >sorted
printf '<default %d %d> out of %d\n' 0 0 0 1 1 1 | cmp -s - sorted || fail "prefixes: $(cat stdout)"
sort logs/*-*_*/attempt_0/filtered_stderr.log >sorted
printf 'one,two %d\n' 0 1 | cmp -s - sorted || fail "filtered: $(cat sorted)"

# ---- Signals. A worker that takes long to end is killed when the time is over.
program slow.sh <<'END'
trap 'sleep 20; echo late >late; exit' TERM
echo $$ >>pids
while sleep 0.1; do :; done
END
program ends.sh <<'END'
[ "$RANK" = 0 ] || exec ./slow.sh
until [ -e pids ]; do sleep 0.1; done
exit 3
END
TORCH_ELASTIC_SHUTDOWN_TIMEOUT=0 run "$trireme" run --nproc-per-node 2 ./ends.sh
expect_exit 1
expect_gone 20000 $(cat pids)
expect_no_file late
refused 2 'TORCH_ELASTIC_SHUTDOWN_TIMEOUT: found soon; valid is a number' env TORCH_ELASTIC_SHUTDOWN_TIMEOUT=soon "$trireme" run ./env.sh
program handles.sh <<'END'
trap 'echo handled >handled; exit' USR1
echo $$ >>started
while sleep 0.1; do :; done
END
"$trireme" run --signals-to-handle SIGUSR1,SIGTERM ./handles.sh >other.out 2>other.err </dev/null &
agent=$!
wait_for_line . started
kill -USR1 $agent
wait $agent
code=$?
expect_exit 138 # 128 + SIGUSR1
expect_file handled
expect_line 'stopped by signal 10' other.err
refused 2 'signals-to-handle: found SIGKILL; valid are' "$trireme" run --signals-to-handle SIGTERM,SIGKILL ./env.sh
refused 2 'signals-to-handle: found TERM; valid are' "$trireme" run --signals-to-handle TERM ./env.sh

# ---- 100 jobs that start at once: each has a port of its own. All workers live until the last one has told its port.
mkfifo go
program tells.sh <<'END'
exec 3<go
echo "$MASTER_PORT" >>ports
read -r _ <&3 || exit 0
END
exec 9<>go
jobs=()
for _ in $(seq 100); do
    timeout 240 "$trireme" run --standalone --nproc-per-node 1 ./tells.sh >/dev/null 2>>other.100 9>&- </dev/null &
    jobs+=($!)
done
deadline=$(($(now_ms) + 200000))
until [ "$(wc -l 2>/dev/null <ports || echo 0)" -ge 100 ] || [ "$(now_ms)" -ge $deadline ]; do sleep 0.2; done
exec 9>&-
ended=0
for pid in "${jobs[@]}"; do wait "$pid" && ended=$((ended + 1)); done
[ $ended = 100 ] || fail "$ended of 100 jobs succeeded: $(sort -u other.100 | head -n 3)"
[ "$(sort -u ports | wc -l)" = 100 ] || fail "ports that two jobs have: $(sort ports | uniq -d)"

# ---- An agent that is stopped gives no sign of life: node 0 names its node. When it goes on, nothing is left.
program lives.sh <<'END'
echo $$ >>workers
exec sleep 600
END
nodes=(--nnodes 2 --master-addr "$host" --master-port 29712 --rdzv-conf 'keep_alive_interval=1,keep_alive_max_attempt=2,close_timeout=1')
"$trireme" run "${nodes[@]}" --node-rank 1 ./lives.sh >other.out 2>other.err </dev/null &
other=$!
timeout 240 "$trireme" run "${nodes[@]}" --node-rank 0 ./lives.sh >stdout 2>stderr </dev/null &
leader=$!
wait_for_line . workers
until [ "$(wc -l <workers)" = 2 ] || ! kill -0 $leader 2>/dev/null; do sleep 0.1; done
kill -STOP $other
wait $leader
code=$?
expect_exit 1
expect_line '^trireme: node 1 \(host .*\): its agent ended, or its host does not answer$'
kill -CONT $other
wait $other
code=$?
expect_exit 1
expect_gone 20000 $(cat workers)
finish
