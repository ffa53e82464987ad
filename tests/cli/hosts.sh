# hosts.sh -- ranks on two hosts become one run: same bits as ranks of one host, under each strategy; and a rank that is
# killed, stopped or missing on one host is named on both. The two hosts are of this machine: their ranks share no
# memory, because their launcher says that they are on different nodes.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export TRIREME_ATTACH_TIMEOUT=60s
host=$(own_address)
me=$(uname -n)
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml
pids=()

# Two agents of two ranks each: two hosts.
agents() { # ARGUMENTS...: of train
    timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
        train job.yaml --quiet "$@" >stdout.far 2>stderr.far </dev/null &
    local far=$!
    ok "$trireme" run --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
        train job.yaml --quiet "$@"
    wait $far || fail "the agent of node 1 ended with $?: $(tail -n 3 stderr.far)"
    expect_none 'node 1 prints' "$(cat stdout.far stderr.far)"
}

# The environment of rank $1 of $2, of which each host has $3. The pid of this script makes identities that no other
# test has.
torchrun() { printf '%s\n' RANK="$1" LOCAL_RANK=$(($1 % $3)) WORLD_SIZE="$2" LOCAL_WORLD_SIZE="$3" GROUP_RANK=$(($1 / $3)) MASTER_ADDR="$host" MASTER_PORT=29778 TORCHELASTIC_RUN_ID=$$; }
agent_store() { torchrun "$@" && printf '%s\n' TORCHELASTIC_USE_AGENT_STORE=True; }
slurm() { printf '%s\n' SLURM_PROCID="$1" SLURM_LOCALID=$(($1 % $3)) SLURM_NODEID=$(($1 / $3)) SLURM_STEP_NUM_TASKS="$2" SLURM_STEP_TASKS_PER_NODE="$3(x2)" SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_JOB_NODELIST='localhost,node[7-9]'; }
tensorflow() { printf '%s\n' "TF_CONFIG={\"cluster\": {\"worker\": [\"$host:29779\", \"other:1\"]}, \"task\": {\"type\": \"worker\", \"index\": $1}}"; }
sagemaker() { printf '%s\n' 'SM_HOSTS=["one", "two"]' SM_CURRENT_HOST="$([ "$1" = 0 ] && echo one || echo two)" MASTER_ADDR="$host"; }
# One process a pod, without a local rank; and one process a host of SageMaker, which starts a rank for each GPU.
pytorchjob() { printf '%s\n' RANK="$1" WORLD_SIZE="$2" MASTER_ADDR="$host" MASTER_PORT=29778; }
sagemaker_gpus() { printf '%s\n' "SM_HOSTS=[\"$host\", \"two\"]" SM_CURRENT_HOST="$([ "$1" = 0 ] && echo "$host" || echo two)" SM_NUM_GPUS=2; }
cyclic() { printf '%s\n' RANK="$1" LOCAL_RANK=$(($1 / 2)) WORLD_SIZE="$2" LOCAL_WORLD_SIZE="$3" GROUP_RANK=$(($1 % 2)) MASTER_ADDR="$host" MASTER_PORT=29778 TORCHELASTIC_RUN_ID=$$; }

start() { # LAUNCHER RANK SIZE EACH ARGUMENTS...: in the background
    local variables
    mapfile -t variables < <("$1" "$2" "$3" "$4")
    env "${variables[@]}" "$trireme" train job.yaml --quiet "${@:5}" >"stdout.$2" 2>"stderr.$2" </dev/null &
    pids[$2]=$!
}

start_4() { # LAUNCHER ARGUMENTS...
    local r
    for r in 3 1 0 2; do start "$1" "$r" 4 2 "${@:2}"; done
}

ended() { # RANK CODE
    wait "${pids[$1]}" 2>/dev/null
    code=$?
    [ "$code" = "$2" ] || fail "rank $1 ended with $code, expected $2: $(head -c 400 "stderr.$1")"
}

# Each of the ranks printed one line, which matches.
all_say() { # REGEX CODE RANK...
    local r
    for r in "${@:3}"; do
        ended "$r" "$2"
        expect_lines 1 "stderr.$r"
        expect_line "$1" "stderr.$r"
    done
}

all_succeed() { # WHAT
    local r
    for r in 0 1 2 3; do
        ended $r 0
        expect_none "rank $r under $1 prints" "$(cat stdout.$r stderr.$r)"
    done
}

expect_like_one_host() { # NAME
    expect_steps "$1" 8
    expect_same_losses one "$1"
    expect_same_checkpoint one "$1"
}

begin() { # ARGUMENTS...: a run that would take for ever, after its step 3
    rm -rf out
    start_4 torchrun --train.steps 1000000 "$@"
    wait_for_line '"step":3' out/log.jsonl
    left=$(for r in 0 1 2 3; do children_of "${pids[$r]}"; done)
}

# ---- Same bits
for arguments in '--parallel.dp ddp' '--parallel.dp zero3' '--parallel.dp zero3 --parallel.dp_replicate 2' '--parallel.tp 2' \
    '--parallel.pp 4 --model.layers 4' '--parallel.pp 2 --parallel.tp 2'; do
    rm -rf one far
    # The words of one flag each.
    train --launch.ranks 4 --train.save_every 4 --train.out one $arguments
    agents --train.save_every 4 --train.out far $arguments
    expect_like_one_host far
done
# Compared before they run, the calls are the same.
for desync in '--checks.desync on' '--checks.desync on --launch.comm ucx'; do
    rm -rf far
    agents --train.save_every 4 --train.out far $arguments $desync
    expect_like_one_host far
done
rm -rf one
train --launch.ranks 4 --train.save_every 4 --train.out one
for launcher in torchrun agent_store slurm; do
    start_4 $launcher --train.save_every 4 --train.out $launcher
    all_succeed $launcher
    expect_like_one_host $launcher
done
# A run resumes, and one that has all steps ends at once.
sed -i 's/steps: 8/steps: 12/' job.yaml
train --launch.ranks 4 --train.save_every 4 --train.out one
start_4 torchrun --train.save_every 4 --train.out torchrun
all_succeed torchrun
expect_steps torchrun 12
expect_same_losses one torchrun
expect_same_checkpoint one torchrun
start_4 torchrun --train.save_every 4 --train.out torchrun
for r in 0 1 2 3; do ended $r 0; done
expect_line 'already at step 12 of 12' stderr.0
for r in 1 2 3; do expect_lines 0 stderr.$r; done
sed -i 's/steps: 12/steps: 8/' job.yaml
# Hosts of one rank
rm -rf one
train --launch.ranks 2 --train.save_every 4 --train.out one
for launcher in torchrun tensorflow sagemaker pytorchjob; do
    start $launcher 1 2 1 --train.save_every 4 --train.out single-$launcher
    start $launcher 0 2 1 --train.save_every 4 --train.out single-$launcher
    ended 0 0
    ended 1 0
    expect_like_one_host single-$launcher
done

rm -rf one
train --launch.ranks 4 --train.save_every 4 --train.out one
for r in 1 0; do start sagemaker_gpus $r 4 2 --train.save_every 4 --train.out sagemaker_gpus; done
for r in 0 1; do
    ended $r 0
    expect_none "process $r prints" "$(cat stdout.$r stderr.$r)"
done
expect_like_one_host sagemaker_gpus

# Other commands take part, too: rank 0 prints what it prints on one host.
for command in "eval job.yaml --model one --json" "predict job.yaml --model one --what classes"; do
    # The words of the command
    timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
        $command >stdout.far 2>stderr.far </dev/null &
    far=$!
    ok "$trireme" run --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr "$host" --master-port 29777 $command
    wait $far || fail "the agent of node 1 ended with $?: $(tail -n 3 stderr.far)"
    expect_none 'node 1 prints' "$(cat stdout.far stderr.far)"
    mv stdout far.out
    ok "$trireme" $command --launch.ranks 4
    expect_same stdout far.out
done

# ---- Refused before anything is written
start_4 torchrun --launch.comm local
all_say 'communicator local: ranks are on several machines; valid are nccl, for GPUs, and hier, tls and' 2 0 1 2 3
start_4 torchrun --train.stepz 3
all_say 'train.stepz: unknown option' 2 0 1 2 3
start cyclic 0 4 2
start cyclic 2 4 2
all_say 'local rank 1 is rank 2 of the run, and local rank 0 is rank 0; valid: ranks of a host that follow' 2 0 2
export TRIREME_ATTACH_TIMEOUT=2s
start torchrun 0 4 2
start torchrun 1 4 2
all_say "^trireme: rank 0 \(host $me\): the host of rank 2 of 4 did not come within 2 s" 1 0 1
start torchrun 2 4 2
start torchrun 3 4 2
all_say "^trireme: rank 2 \(host $me\): the store: $host:29778: nobody was there in time" 1 2 3
export TRIREME_ATTACH_TIMEOUT=60s
expect_no_file out

# ---- A rank that is lost is named on both hosts, and nothing is left
for lost in 1 2; do
    begin
    victim=$(rank_of "${pids[$lost]}")
    kill -9 "$victim"
    all_say "^trireme: rank $lost \(host $me, pid $victim\) $killed$" 1 0 1 2 3
    expect_gone 20000 $left
    expect_line "\"rank\":$lost,.*rank $lost .host" out/log.jsonl
    # Each process leaves the last calls of its rank.
    for r in 0 1 2 3; do
        expect_line "\"rank\": $r,\$" out/flight_recorder/rank_json/$r.json
        expect_line '"profiling_name": "nccl:all_reduce", "communicator": "hier"' out/flight_recorder/rank_json/$r.json
        expect_line '"desc": "all ranks", "ranks": "\[0, 1, 2, 3\]"' out/flight_recorder/rank_json/$r.json
    done
done
# The process that another program has started: of rank 0, whose host keeps the store; of the rank that speaks for its
# host; and of another one.
for lost in 0 2 3; do
    begin
    others=()
    for r in 0 1 2 3; do [ $r = $lost ] || others+=($r); done
    kill -9 "${pids[$lost]}"
    all_say "^trireme: rank $lost \(host $me, pid ${pids[$lost]}\) was killed(, was stopped)? or ended before its work was done(, or its host does not answer|; it was in [A-Zn].*)?$" 1 "${others[@]}"
    wait "${pids[$lost]}" 2>/dev/null
    expect_gone 20000 $left
done
# A rank that is stopped is named by the watchdog, also where another rank waits for one that waits for it.
begin --checks.watchdog 2s
victim=$(rank_of "${pids[3]}")
kill -STOP "$victim"
all_say "^trireme: Watchdog caught collective operation timeout: rank 3 \(host $me\) did not come to all_reduce over .*; it is in [A-Zn].*; its last call is [a-z_]+ [0-9]+ over" 1 0 1 2 3
expect_gone 20000 $left
# A process that is stopped and has started the first rank of a host is named on the other host. Its rank goes on.
begin --checks.watchdog 2s
kill -STOP "${pids[2]}"
all_say "^trireme: rank 2 \(host $me, pid ${pids[2]}\) was killed, was stopped or ended before its work was done, or its host does not answer$" 1 0 1
kill -9 "${pids[2]}" "${pids[3]}" 2>/dev/null
wait "${pids[2]}" "${pids[3]}" 2>/dev/null
expect_gone 20000 $left
# A signal to one rank stops all after their step, and rank 0 says it.
begin
kill "${pids[3]}"
for r in 0 1 2 3; do ended $r 130; done
expect_line '^trireme: stopped by a signal to another rank$' stderr.0
for r in 1 2 3; do expect_lines 0 stderr.$r; done
expect_line '"reason":"interrupted"' out/log.jsonl
# An agent names the rank of another node's agent, too.
rm -rf out
timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
    train job.yaml --quiet --train.steps 1000000 >stdout.far 2>stderr.far </dev/null &
far=$!
timeout 240 "$trireme" run --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
    train job.yaml --quiet --train.steps 1000000 >stdout.near 2>stderr.near </dev/null &
near=$!
wait_for_line '"step":3' out/log.jsonl
victim=
for agent in $(children_of $far); do
    for starter in $(children_of "$agent"); do victim=$victim\ $(children_of "$starter"); done
done
victim=$(tr ' ' '\n' <<<"$victim" | grep -m 1 .)
lost=$(variable_of "$victim" RANK)
kill -9 "$victim"
wait $far
[ $? = 1 ] || fail 'node 1 did not fail'
wait $near
[ $? = 1 ] || fail 'node 0 did not fail'
for side in far near; do
    expect_line "rank $lost \(host $me, pid $victim\) $killed$" stderr.$side
done
# After a failure the agents start all ranks again, which resume.
cat >once.sh <<'END'
#!/bin/sh
# The second process of node 1 fails in the first round, which else has no end, when there is a checkpoint.
steps=1000000
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then
    steps=$(($(ls again/checkpoints | sed -n 's/^step-0*\([0-9]*\)$/\1/p' | sort -n | tail -n 1) + 20))
elif [ "$RANK" = 3 ]; then
    (until [ -e again/checkpoints/latest ]; do sleep 0.05; done; kill -9 $$) &
fi
exec "$TRIREME" train job.yaml --quiet --train.steps $steps --train.save_every 20 --train.out again
END
chmod +x once.sh
export TRIREME=$trireme
timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr "$host" --master-port 29777 \
    --max-restarts 1 ./once.sh >stdout.far 2>stderr.far </dev/null &
far=$!
ok "$trireme" run --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr "$host" --master-port 29777 --max-restarts 1 ./once.sh
wait $far || fail "the agent of node 1 ended with $?: $(tail -n 3 stderr.far)"
expect_line 'starts all workers again \(0 of 1 restarts left\)'
expect_line '"reason":"failed"' again/log.jsonl
expect_line '"reason":"done"' again/log.jsonl
finish
