# torch.sh TRIREME PYTHON -- the real PyTorch (CPU, Gloo) in both directions: `trireme run` starts an unchanged DDP script on
# one host and on two, with the lines that torchrun gets; and PyTorch's torchrun starts `trireme train` on one host and on
# two, with the bits of ranks that it forks itself. And PyTorch's torchfrtrace reads the flight recorder. PYTHON is an interpreter whose modules have torch.
# ./test-launchers TRIREME PYTHON starts it.
tests=$(cd "${0%/*}/.." && pwd)
. "$tests/cli/lib.sh" "$1"
. "$tests/launchers/check.sh"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
export PYTHON_EXEC=$2 OMP_NUM_THREADS=1 TRIREME_ATTACH_TIMEOUT=60s
script=$tests/launchers/ddp.py
torchrun=("$2" -m torch.distributed.run)
ours=("$trireme" run)
net=trt$$ pids=()
clear_up() {
    local n
    for n in alpha beta; do ip netns del "$net-$n" 2>/dev/null; done
    cd / && rm -rf "$scratch"
}
trap clear_up EXIT

free_port() { "$PYTHON_EXEC" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
here() { shift && exec "$@"; }

# Two nodes of a launcher, each started by the function WHERE with the node's name; what node 0 prints is in stdout.
two_nodes() { # WHERE "LAUNCHER FLAGS..." PROGRAM...
    local where=$1 launcher=$2 node
    shift 2
    for node in 0 1; do
        $where $node timeout 120 $launcher --node-rank $node "$@" >stdout.$node 2>stderr.$node </dev/null &
        pids[node]=$!
    done
    for node in 0 1; do
        wait "${pids[$node]}"
        code=$?
        [ $code = 0 ] || fail "node $node ended with $code: $(tail -n 5 stderr.$node)"
    done
    cp stdout.0 stdout
}
expect_like_torchrun() { # RANKS
    expect_lines 4 stdout
    expect_same torchrun.$1 stdout
}

one_host() { # RANKS
    ok "${torchrun[@]}" --standalone --nproc-per-node "$1" "$script"
    cp stdout torchrun.$1
    expect_lines 4 torchrun.$1
    ok "${ours[@]}" --standalone --nproc-per-node "$1" "$script" --order order.$1
    expect_like_torchrun "$1"
    seq -f "%g of $1" 0 $(($1 - 1)) >expected
    sort order.$1 >order
    expect_same expected order
}
static_nodes() {
    two_nodes here "${ours[*]} --nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port $(free_port)" "$script"
    expect_like_torchrun 4
    expect_none 'node 1 prints' "$(cat stdout.1)"
}
c10d_nodes() {
    two_nodes here "${ours[*]} --nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id torch --rdzv-endpoint 127.0.0.1:$(free_port)" "$script"
    cat stdout.0 stdout.1 >stdout # either node may have rank 0
    expect_like_torchrun 2
}
error_is_named() {
    run "${ours[@]}" --standalone --nproc-per-node 2 "$script" --fail 1
    expect_exit 1
    expect_line 'rank 1 .*ValueError: rank 1 was told to fail'
}
restarts() {
    ok "${ours[@]}" --standalone --nproc-per-node 2 --max-restarts 1 "$script" --fail 1
    tail -n 4 stdout >again
    expect_same torchrun.2 again
}
far() { # NODE COMMAND...
    local name=alpha
    [ "$1" = 1 ] && name=beta
    shift
    exec ip netns exec "$net-$name" unshare --uts sh -c 'hostname "$0" && exec "$@"' $name env GLOO_SOCKET_IFNAME=net "$@"
}
two_hosts() { # two network namespaces
    local n number=1
    for n in alpha beta; do ok ip netns add "$net-$n"; done
    ok ip -n "$net-alpha" link add net type veth peer name net netns "$net-beta"
    for n in alpha beta; do
        ok ip -n "$net-$n" link set lo up
        ok ip -n "$net-$n" link set net up
        ok ip -n "$net-$n" address add 10.78.0.$number/24 dev net
        number=2
    done
    (umask 077 && head -c 32 /dev/urandom | base64 >secret)
    two_nodes far "${ours[*]} --nnodes 2 --nproc-per-node 1 --master-addr 10.78.0.1 --secret-file secret" "$script"
    expect_like_torchrun 2
}

torchrun_trains() {
    ok "${torchrun[@]}" --standalone --nproc-per-node 4 --no-python "$trireme" train job.yaml --quiet --train.save_every 4 --train.out one
    expect_like_forked one
}
torchrun_trains_on_two() { # NAME FLAGS...
    two_nodes here "${torchrun[*]} --nnodes 2 --nproc-per-node 2 ${*:2} --no-python" \
        "$trireme" train job.yaml --quiet --train.save_every 4 --train.out "$1"
    expect_like_forked "$1"
}
torchrun_names() { # a rank that is killed
    local starter processes pid victim lost
    timeout 120 "${torchrun[@]}" --standalone --nproc-per-node 4 --no-python "$trireme" train job.yaml --train.steps 1000000 \
        --train.out torchrun-killed >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"step":3' torchrun-killed/log.jsonl
    processes=$(processes_of torchrun-killed)
    victim=$(for pid in $processes; do children_of "$pid"; done | sed -n 3p)
    lost=$(variable_of "$victim" RANK)
    kill -9 "$victim"
    wait $starter && fail 'torchrun ended well'
    expect_line "^trireme: rank $lost \(pid $victim\) was killed by signal 9"
    expect_gone 60000 $processes
}

# A run that fails in its second step, because its numbers are too large.
too_large='--optimizer.lr 1e30 --train.clip_grad_norm 0'
torch_reads() { # NAME FLAGS...: the flight recorder of four ranks
    run "$trireme" train job.yaml --quiet --launch.ranks 4 $too_large --train.out "$@"
    expect_exit 1
    expect_reads "$1"
}
torch_reads_two_nodes() { # each of which writes the files of its ranks
    local node
    for node in 0 1; do
        timeout 120 "${ours[@]}" --nnodes 2 --nproc-per-node 2 --node-rank $node --master-addr 127.0.0.1 --master-port 29771 \
            train job.yaml --quiet $too_large --train.out two-failed >stdout.$node 2>stderr.$node </dev/null &
        pids[node]=$!
    done
    for node in 0 1; do wait "${pids[$node]}" && fail "node $node ended well"; done
    expect_reads two-failed
}
expect_reads() { # RUN
    run "$PYTHON_EXEC" "$tests/launchers/flight_recorder.py" "$1/flight_recorder"
    [ $code = 0 ] || fail "$(tail -n 20 stderr)"
    echo "  $(tail -n 1 stdout)"
}

for ranks in 2 4; do check "trireme run: a DDP script on $ranks ranks" one_host $ranks; done
check "trireme run: two nodes, static" static_nodes
check "trireme run: two nodes, c10d" c10d_nodes
check "trireme run: the error of a rank is named" error_is_named
check "trireme run: a failed rank is started again" restarts
if [ "$(id -u)" = 0 ] && ip netns add "$net-alpha" 2>/dev/null && ip netns del "$net-alpha"; then
    check "trireme run: two hosts with a network" two_hosts
else
    echo "skipped: two hosts, because this user makes no network namespaces"
fi
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml
train --launch.ranks 4 --train.save_every 4 --train.out forked
check "torchrun: trains on one host" torchrun_trains
check "torchrun: trains on two nodes, static" torchrun_trains_on_two static --master-addr 127.0.0.1 --master-port "$(free_port)"
check "torchrun: trains on two nodes, c10d" torchrun_trains_on_two c10d --rdzv-backend c10d --rdzv-id torch --rdzv-endpoint 127.0.0.1:"$(free_port)"
check "torchrun: a rank that is killed is named" torchrun_names
check "torchfrtrace: ddp" torch_reads ddp-failed --parallel.dp ddp
check "torchfrtrace: zero3" torch_reads zero3-failed --parallel.dp zero3
check "torchfrtrace: a pipeline with tensor parallelism" torch_reads pp-failed --parallel.pp 2 --parallel.tp 2
check "torchfrtrace: four stages" torch_reads stages-failed --parallel.pp 4 --model.layers 4
check "torchfrtrace: two hosts" torch_reads_two_nodes
finish
