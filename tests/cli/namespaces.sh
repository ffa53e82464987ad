# namespaces.sh -- ranks on two hosts with a network between them: two network namespaces with names and addresses of
# their own, joined by a bridge in a third one. The run has the bits of one host, also over a slow network. A rank that
# is killed or stopped, an agent that is killed, and a host that is cut off, are named on both. It needs root, ip and unshare.
. "${0%/*}/lib.sh" "$1"
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
net=trm$$
skip() {
    echo "skipped: $1"
    exit 77
}
[ "$(id -u)" = 0 ] || skip 'only root can make network namespaces'
command -v ip unshare >/dev/null || skip 'ip and unshare are not there'
ip netns add "$net-switch" 2>/dev/null || skip 'this machine makes no network namespaces'
clear_up() {
    local n
    for n in switch alpha beta; do ip netns del "$net-$n" 2>/dev/null; done
    cd / && rm -rf "$scratch"
}
trap clear_up EXIT
ip -n "$net-switch" link add bridge type bridge 2>/dev/null || skip 'this machine makes no bridges'
ip -n "$net-switch" link set bridge up
number=1
for n in alpha beta; do
    ok ip netns add "$net-$n"
    ok ip -n "$net-switch" link add "to-$n" type veth peer name net netns "$net-$n"
    ok ip -n "$net-switch" link set "to-$n" master bridge up
    ok ip -n "$net-$n" link set lo up
    ok ip -n "$net-$n" link set net up
    ok ip -n "$net-$n" address add 10.77.0.$number/24 dev net
    number=$((number + 1))
done
[ "$failures" = 0 ] || finish

make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0.1, drop_attention: 0, drop_residual: 0'
sed -i '/^launch:/d' job.yaml
export NCCL_SOCKET_IFNAME==net
export TRIREME_ATTACH_TIMEOUT=60s lacks= hidden=data
umask 077
head -c 32 /dev/urandom | base64 >secret
pids=()

# In the background: the process of the shell becomes the command.
on() { # HOST COMMAND...
    local name=$1
    shift
    exec ip netns exec "$net-$name" unshare --uts --mount \
        sh -c 'hostname "$0" && { [ ! -f "hosts.$0" ] || mount --bind "hosts.$0" /etc/hosts; } && { [ "$0" != "$lacks" ] || mount -t tmpfs none "$hidden"; } && exec "$@"' "$name" "$@"
}

start_4() { # ARGUMENTS...: ranks 0 and 1 on alpha, 2 and 3 on beta
    local r name
    for r in 3 1 0 2; do
        name=$([ $r -lt 2 ] && echo alpha || echo beta)
        on $name env RANK=$r LOCAL_RANK=$((r % 2)) WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$((r / 2)) MASTER_ADDR=${master-10.77.0.1} \
            "$trireme" train job.yaml ${quiet---quiet} "$@" >stdout.$r 2>stderr.$r </dev/null &
        pids[r]=$!
    done
}

ended() { # RANK CODE
    wait "${pids[$1]}" 2>/dev/null
    code=$?
    [ "$code" = "$2" ] || fail "rank $1 ended with $code, expected $2: $(head -c 400 "stderr.$1")"
}

all_say() { # REGEX CODE RANK...
    local r
    for r in "${@:3}"; do
        ended "$r" "$2"
        expect_lines 1 "stderr.$r"
        expect_line "$1" "stderr.$r"
    done
}

begin() { # ARGUMENTS...: a run that would take for ever, after its step 3
    rm -rf out
    start_4 --train.steps 1000000 "$@"
    wait_for_line '"step":3' out/log.jsonl
    left=$(for r in 0 1 2 3; do children_of "${pids[$r]}"; done)
}

rm -rf out
start_4
all_say '10.77.0.1.*TRIREME_SECRET_FILE, the same on every host' 2 0
for r in 1 2 3; do
    kill "${pids[$r]}" 2>/dev/null
    wait "${pids[$r]}" 2>/dev/null
done
expect_no_file out

export TRIREME_SECRET_FILE=$scratch/secret
# ---- Same bits, over messages alone and with a step whose sums are many
for arguments in '--parallel.dp ddp' '--parallel.dp zero3 --parallel.dp_replicate 2' '--parallel.pp 2 --parallel.tp 2'; do
    rm -rf one far
    train --launch.ranks 4 --train.save_every 4 --train.out one $arguments
    start_4 --train.save_every 4 --train.out far $arguments
    for r in 0 1 2 3; do
        ended $r 0
        expect_none "rank $r prints" "$(cat stdout.$r stderr.$r)"
    done
    expect_steps far 8
    expect_same_losses one far
    expect_same_checkpoint one far
done

# What it took, as a user sees it
rm -rf far
quiet= NCCL_DEBUG=INFO start_4 --train.steps 1 --train.out far
for r in 0 1 2 3; do ended $r 0; done
expect_line '^trireme: communicator hier: 4 ranks; rank 1 by local; rank 2 by tls/net \(10.77.0.1\)' stderr.0

# A host that knows its own name as 127.0.1.1, as Debian's installer writes it
printf '127.0.0.1 localhost\n127.0.1.1 alpha\n' >hosts.alpha
printf '127.0.0.1 localhost\n10.77.0.1 alpha\n' >hosts.beta
rm -rf far
unset NCCL_SOCKET_IFNAME
master=alpha start_4 --train.steps 1 --train.out far
for r in 0 1 2 3; do ended $r 0; done
export NCCL_SOCKET_IFNAME==net
rm hosts.alpha hosts.beta

# ---- A slow network: the same bits, and no rank is taken for lost. Bytes of the run fill the queue of each host, and the
# store's wait in it. A kernel may lack the token bucket filter.
shape() { # COMMAND...
    local n
    for n in alpha beta; do tc -n "$net-$n" qdisc "$1" dev net root "${@:2}" 2>/dev/null || return 1; done
}
if command -v tc >/dev/null && shape add tbf rate 1mbit burst 16kb limit 256kb; then
    rm -rf far
    start_4 --parallel.dp ddp --train.out far
    for r in 0 1 2 3; do
        ended $r 0
        expect_none "rank $r prints over a slow network" "$(cat stdout.$r stderr.$r)"
    done
    for n in alpha beta; do
        tc -n "$net-$n" -s qdisc show dev net >qdisc
        expect_line 'overlimits [1-9]' qdisc
    done
    rm -rf one
    train --launch.ranks 4 --parallel.dp ddp --train.out one
    expect_steps far 8
    expect_same_losses one far
    shape del || fail 'the network stays slow'
else
    echo 'not tested: a slow network (this machine has no tc, or its kernel no tbf)'
fi

# ---- A host that does not see the folder of the run sends its shards to rank 0
rm -rf far
mkdir far
hidden=far lacks=beta start_4 --train.save_every 4 --train.out far --parallel.dp zero3
for r in 0 1 2 3; do ended $r 0; done
rm -rf one
train --launch.ranks 4 --train.save_every 4 --train.out one --parallel.dp zero3
expect_same_checkpoint one far

# ---- A host that lacks the data
mkdir data
cp toy* data/
rm -rf out
lacks=beta start_4 --data.train data/toy
all_say '^trireme: rank 2 \(host beta\): data.train: .*data/toy' 2 0 1 2 3

# ---- Lost ranks
begin
victim=$(children_of "${pids[2]}")
kill -9 "$victim"
all_say "^trireme: rank 2 \(host beta, pid $victim\) $killed$" 1 0 1 2 3
expect_gone 20000 $left

begin --checks.watchdog 2s
kill -STOP "$(children_of "${pids[3]}")"
all_say '^trireme: Watchdog caught collective operation timeout: rank 3 \(host beta\) did not come to all_reduce over .*; it is in [A-Zn].*; its last call is [a-z_]+ [0-9]+ over' 1 0 1 2 3
expect_gone 20000 $left

# ---- A cut in the network, which both ends see by silence alone
begin
ok ip -n "$net-switch" link set to-beta nomaster
cut=$(now_ms)
all_say "^trireme: rank 2 \(host beta, pid ${pids[2]}\) was killed, was stopped or ended before its work was done, or its host does not answer$" 1 0 1
all_say '^trireme: host beta \(ranks 2 to 3\) lost the host of rank 0: the store' 1 2 3
took=$(($(now_ms) - cut))
echo "all ranks named the cut $took ms after it"
[ $took -le 60000 ] || fail "the cut was named after $took ms" # 5 s, on a machine that is twelve times too slow
expect_gone 20000 $left
ok ip -n "$net-switch" link set to-beta master bridge

# ---- An agent of one host is killed: the other names that host, and nothing is left on either
rm -rf out
for r in 1 0; do
    name=$([ $r = 0 ] && echo alpha || echo beta)
    on $name "$trireme" run --nnodes 2 --node-rank $r --nproc-per-node 2 --master-addr 10.77.0.1 \
        train job.yaml --quiet --train.steps 1000000 >stdout.$r 2>stderr.$r </dev/null &
    pids[r]=$!
done
wait_for_line '"step":3' out/log.jsonl
left=
for r in 0 1; do
    for worker in $(children_of "${pids[$r]}"); do left="$left $worker $(children_of "$worker")"; done
done
[ "$(wc -w <<<"$left")" -ge 8 ] || fail "four workers and their ranks are not among the processes $left"
kill -9 "${pids[1]}"
killed_at=$(now_ms)
ended 0 1
took=$(($(now_ms) - killed_at))
echo "the other host named the agent, and its processes had ended, $took ms after the kill"
[ $took -le 60000 ] || fail "the agent was named after $took ms"
# The agent and its workers end at the same moment, and the first failure that the store is told is that of the run: the end
# of the agent, or of the ranks of its workers, of which the other host's ranks learn.
expect_line '^trireme: (node 1 \(host beta\): its agent ended|rank [01] \(host alpha, local rank .*rank [23] \(host beta)' stderr.0
expect_gone 20000 $left
finish
