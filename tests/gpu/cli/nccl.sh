# nccl.sh -- ranks over the communicator nccl on the GPUs of the stand-in: the losses have the bits of p2p, on one host
# and on two; the benchmark of collectives finds no wrong number; and what cannot run says why in one line.
on_gpus=1
. "$(dirname "$0")/../../cli/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
common="--train.steps 3 --train.global_batch 8 --parallel.no_sync true --launch.device cuda"

export TRIREME_STAND_IN_DEVICES=4
train $common --launch.ranks 2 --train.out p2p
train $common --launch.ranks 2 --train.out ddp --launch.comm nccl
train $common --launch.ranks 2 --train.out zero3 --launch.comm nccl --parallel.dp zero3 --launch.as threads
train $common --launch.ranks 4 --train.out pp --launch.comm nccl --parallel.pp 2
train $common --launch.ranks 3 --train.global_batch 6 --train.out any --launch.comm nccl --train.deterministic false
expect_steps p2p 3
expect_steps any 3
for run in ddp zero3 pp; do expect_same_losses p2p $run; done

for what in all_reduce reduce_scatter all_gather broadcast sendrecv alltoall; do
    ok "$trireme" bench $what --device cuda --comm nccl --ranks 3 -b 1000 -e 100000 -f 10 -n 2 -w 1
    expect_line 'Out of bounds values : 0 OK' stdout
done
ok "$trireme" bench all_reduce --device cuda --comm nccl --ranks 2 -b 1000 -e 100000 -f 10 -n 2 -w 1 -G 3
expect_line 'Out of bounds values : 0 OK' stdout

# Two hosts of one GPU each: auto is nccl.
host=$(own_address)
sed -i '/^launch:/d' job.yaml
pids=()
start() { # RANK ARGUMENTS...: in the background, on a host of its own
    env RANK="$1" LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 GROUP_RANK="$1" MASTER_ADDR="$host" MASTER_PORT=29788 \
        TORCHELASTIC_RUN_ID=$$ TRIREME_ATTACH_TIMEOUT=60s CUDA_VISIBLE_DEVICES="$1" TRIREME_STAND_IN_TAPE="tape.$1" \
        "$trireme" train job.yaml --quiet $common "${@:2}" >"stdout.$1" 2>"stderr.$1" </dev/null &
    pids[$1]=$!
}
start 1 --train.out hosts
start 0 --train.out hosts
for r in 0 1; do wait ${pids[$r]} || fail "rank $r on its own host ended with $?: $(head -c 400 stderr.$r)"; done
expect_none 'the two hosts print' "$(cat stdout.? stderr.?)"
expect_same_losses p2p hosts
for r in 0 1; do expect_line '^nccl call=' tape.$r; done
start 1 --train.out compared --checks.desync on
start 0 --train.out compared --checks.desync on
for r in 0 1; do wait ${pids[$r]} || fail "rank $r that compares calls ended with $?: $(head -c 400 stderr.$r)"; done
expect_same_losses p2p compared

# A rank that is killed ends the other host's, which names it.
start 1 --train.out killed --train.steps 1000000
start 0 --train.out killed --train.steps 1000000
wait_for_line '"step":3,' killed/log.jsonl
kill -9 ${pids[1]}
wait ${pids[0]}
code=$?
[ $code = 1 ] || fail "the rank that is left ended with $code"
expect_lines 1 stderr.0
expect_line "rank 1 \(host [^ ]*, pid ${pids[1]}\) was killed, was stopped or ended before its work was done" stderr.0
expect_line '"profiling_name": "nccl:all_reduce", "communicator": "nccl"' killed/flight_recorder/rank_json/0.json
# The calls of each step, also of those that the GPU replays. Those of the first three are done.
for step in 1 2 3; do
    grep '"name": "CLIP_GRAD_NORM"' killed/flight_recorder/rank_json/0.json | sed -n ${step}p | grep -q "\"collective_seq_id\": .*\"state\": \"completed\"" ||
        fail "the calls of step $step are not in the flight recorder, or not done: $(grep -c '"CLIP_GRAD_NORM"' killed/flight_recorder/rank_json/0.json)"
done
wait ${pids[1]} 2>/dev/null

# A GPU that would have two ranks, and a machine without NCCL.
export TRIREME_STAND_IN_DEVICES=1
code=0
"$trireme" train job.yaml --quiet $common --launch.ranks 2 --launch.comm nccl --train.out one >stdout 2>stderr || code=$?
[ "$code" = 2 ] || fail "two ranks on one GPU end with $code: $(head -c 400 stderr)"
expect_line 'Duplicate GPU detected' stderr
export TRIREME_STAND_IN_DEVICES=2 TRIREME_STAND_IN_WITHOUT=NCCL
code=0
"$trireme" train job.yaml --quiet $common --launch.ranks 2 --launch.comm nccl --train.out none >stdout 2>stderr || code=$?
[ "$code" = 2 ] || fail "without NCCL: $code: $(head -c 400 stderr)"
expect_line 'communicator nccl: NCCL is not on this machine' stderr
finish
