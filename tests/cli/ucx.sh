# ucx.sh -- a run over the communicators ucx and hier has the bits of one over local, whatever the strategy; and the benchmark
# checks its sums.
. "$(dirname "$0")/lib.sh" "$1"

cat >job.yaml <<'YAML'
model: {family: gpt2, layers: 2, hidden: 32, heads: 4, vocab: 200, max_seq: 32}
data: {train: mock, seq_len: 16}
train: {steps: 4, global_batch: 8, micro_batch: 2, save_every: 0, eval_every: 0}
lr_schedule: {name: constant}
launch: {ranks: 2, threads_per_rank: 1}
YAML

same_as_local() { # NAME ARGUMENTS...
    local name=$1 comm
    shift
    for comm in local ucx hier; do
        ok timeout 120 "$trireme" train job.yaml --quiet --launch.comm $comm --train.out "$name-$comm" "$@"
        grep '"event":"step"' "$name-$comm/log.jsonl" | sed 's/,"seconds.*//' >"$name-$comm.steps"
        expect_lines 4 "$name-$comm.steps"
    done
    expect_same "$name-local.steps" "$name-ucx.steps"
    expect_same "$name-local.steps" "$name-hier.steps"
}

same_as_local ddp --parallel.dp ddp
same_as_local four --parallel.dp ddp --launch.ranks 4 --train.precision bf16 --train.micro_batch 1
same_as_local zero3 --parallel.dp zero3
same_as_local tp --parallel.dp ddp --parallel.tp 2
same_as_local pp --parallel.dp ddp --parallel.pp 2
same_as_local both --parallel.dp zero3 --parallel.pp 2 --launch.ranks 4

# The plan counts the workspace of each communicator: of all ranks, of their split, and three for the pipeline.
counts() { # BYTES ARGUMENTS...
    local bytes=$1
    shift
    ok timeout 60 "$trireme" plan job.yaml --json --launch.comm ucx "$@"
    expect_line "\"buffers\":$bytes," stdout
}
counts 8388608 --parallel.dp ddp
counts 16777216 --parallel.pp 2

# It compares every bit, with sums in the order of the tree.
ok timeout 120 "$trireme" bench all_reduce --comm ucx --ranks 3 -b 8 -e 64K -f 8 -n 3 -c 1
expect_line '# Out of bounds values : 0 OK' stdout
ok timeout 120 "$trireme" bench link --comm ucx -b 1 -e 4Ki -f 64 -n 4
expect_line '^link: communicator ucx between two ranks' stdout
expect_line '^ +4096 +4 .* 0$' stdout

# Two agents are two hosts: the benchmark runs on the ranks of both, and rank 0 prints.
on_two_hosts() { # ARGUMENTS...
    local host=$(own_address) far
    timeout 240 "$trireme" run --nnodes 2 --node-rank 1 --nproc-per-node 2 --master-addr $host --master-port 29779 bench "$@" \
        >stdout.far 2>stderr.far </dev/null &
    far=$!
    ok "$trireme" run --nnodes 2 --node-rank 0 --nproc-per-node 2 --master-addr $host --master-port 29779 bench "$@"
    wait $far || fail "node 1 ended with $?: $(tail -n 3 stderr.far)"
    expect_none 'node 1 prints' "$(cat stdout.far stderr.far)"
    expect_line '^# Out of bounds values : 0 OK' stdout
    [ "$(grep -cE '^#  Rank  [0-3] Group  0 Pid +[1-9]' stdout)" = 4 ] || fail "expected 4 ranks: $(cat stdout)"
    [ "$(grep -c '^ *[0-9]' stdout)" = 3 ] || fail "expected 3 rows: $(cat stdout)"
}
on_two_hosts all_reduce --device cpu -b 64 -e 4K -f 8 -n 2
UCX_TLS=tcp on_two_hosts alltoall --device cpu --comm ucx -b 64 -e 4K -f 8 -n 2

# The rule of NCCL_SOCKET_IFNAME chooses the interfaces of TCP. UCX says at INFO which one it took; UCX_NET_DEVICES is
# its own choice. Shared memory stays.
chooses() { # RULE
    ok env NCCL_SOCKET_IFNAME="$1" UCX_LOG_LEVEL=info "$trireme" bench all_reduce --comm ucx --ranks 2 -b 8 -e 8 -n 1
    cat stdout stderr >said
}
unset TRIREME_SOCKET_IFNAME NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME UCX_NET_DEVICES UCX_TLS
chooses =lo
expect_line ' tag\([a-z]+/memory' said
export UCX_TLS=tcp
chooses =lo
expect_line ' tag\(tcp/lo\)' said
UCX_NET_DEVICES=lo chooses =no-such
expect_line ' tag\(tcp/lo\)' said
refused 2 '^trireme: .*communicator ucx: NCCL_SOCKET_IFNAME: interface =no-such: none that is up has such a name; valid are .*lo' \
    env NCCL_SOCKET_IFNAME==no-such "$trireme" train job.yaml --launch.comm ucx --launch.device cpu

# At INFO a run says what it took, once.
ok env NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME==lo "$trireme" train job.yaml --launch.comm ucx --train.out told --launch.device cpu
expect_line '^trireme: version [0-9.]+$' stderr
[ "$(grep '^trireme: communicator' stderr)" = 'trireme: communicator ucx: 2 ranks; rank 1 by tcp/lo (127.0.0.1)' ] ||
    fail "it says $(grep communicator stderr)"
ok env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT "$trireme" train job.yaml --launch.comm hier --train.out said-2 --launch.device cpu
[ "$(grep '^trireme: communicator' stderr)" = 'trireme: communicator hier: 2 ranks' ] || fail "it says $(grep communicator stderr)"
ok env NCCL_DEBUG=INFO "$trireme" bench all_reduce --comm hier -b 8 -e 8 -n 1
expect_line '^trireme: communicator hier: 2 ranks; rank 1 by local$' stderr
ok env NCCL_DEBUG=VERSION "$trireme" train job.yaml --launch.comm ucx --train.out said-3 --launch.device cpu
expect_line '^trireme: version [0-9.]+$' stderr
expect_no_line '^trireme: communicator' stderr
unset UCX_TLS

run env TRIREME_ALGO=ring "$trireme" train job.yaml --launch.comm ucx --train.out ring
[ "$code" != 0 ] || fail 'an unknown algorithm was taken'
expect_line 'TRIREME_ALGO=ring: valid are auto, recursive_doubling, gather, halving_doubling and direct' stderr
finish
