# stops_hosts.sh TRIREME [STOPS [SEED]] -- ranks on two and on three hosts, of which one is stopped (SIGSTOP) at a random
# moment, each rank in its turn. The hosts are of this machine: their ranks share no memory, and reach each other by TCP. Each time
# every process says the same line, which names the rank with its host, the instruction that it is in and its last call, the
# one that its flight recorder has last. It prints how long the first line took.
#   bash tests/soak/stops_hosts.sh build/trireme 50 1
program=$(realpath "$1")
soak=$(realpath "${0%/*}")
stops=${2:-50}
seed=${3:-$(($(date +%s) % 32768))}
. "${0%/*}/../cli/lib.sh" "$program"
"$trireme" help launch.comm | grep -q 'valid.*ucx' || { echo 'skipped: this program has no communicator for several hosts' && exit 77; }
RANDOM=$seed
HANG_S=120 # a run that has not ended by then hangs
export UCX_TLS=tcp,self TRIREME_ATTACH_TIMEOUT=60s
. "$soak/lib.sh"
host=$(own_address)
me=$(uname -n)
make_job 'family: gpt2, layers: 4, hidden: 16, heads: 4, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
sed -i -e 's/train: toy, valid: toy_valid/train: mock, valid: mock/' -e '/^launch:/d' -e 's/global_batch: 4/global_batch: 12/' job.yaml
ways=('--parallel.dp ddp' '--parallel.dp zero3' '--parallel.tp 2' '--parallel.pp 2' '--launch.comm ucx' '--train.save_every 1' '--checks.desync on' '--parallel.pp 2 --parallel.tp 2')
# Hosts, and the ranks of each.
shapes=('2 2' '3 2' '2 3' '3 1' '4 1')
word='[A-Zn][^;]*'
group='[a-z_]+( [a-z]+)*'
call="[a-z_]+( [a-z0-9]+)*( over $group)?"

start() { # RANK RANKS EACH ARGUMENTS...
    env RANK="$1" LOCAL_RANK=$(($1 % $3)) WORLD_SIZE="$2" LOCAL_WORLD_SIZE="$3" GROUP_RANK=$(($1 / $3)) MASTER_ADDR="$host" MASTER_PORT=29778 \
        TORCHELASTIC_RUN_ID=$$ "$trireme" train job.yaml --quiet --train.steps 1000000000 --checks.watchdog 5s "${@:4}" >"stdout.$1" 2>said </dev/null &
    pids[$1]=$!
}
stop_one() { # NUMBER
    local way shape=${shapes[$1 % ${#shapes[@]}]} delay=$((RANDOM % 400)) hosts each ranks lost r line left stopped_us what last recorded
    read -r hosts each <<<"$shape"
    ranks=$((hosts * each))
    lost=$((($1 + $1 / ${#shapes[@]}) % ranks))
    way=${ways[RANDOM % ${#ways[@]}]}
    [ $((ranks % 2)) = 0 ] || [[ $way != *[pt]p\ 2* ]] || way=${ways[0]}
    [ $((ranks % 4)) = 0 ] || [[ $way != *pp*tp* ]] || way='--parallel.pp 2'
    what="stop $1: $hosts hosts of $each, $way, rank $lost after $delay ms"
    rm -rf out
    pids=()
    # The words of some flags each.
    for ((r = ranks - 1; r >= 0; r--)); do start $r $ranks "$each" $way; done
    exec {from}<said
    wait_for_line '"step":2,' out/log.jsonl
    left=$(for r in "${!pids[@]}"; do children_of "${pids[r]}"; done)
    wait_ms $delay
    stopped_us=$(now_us)
    kill -STOP "$(rank_of "${pids[lost]}")" || fail "$what: it had ended before"
    read_said || fail "$what: it hangs"
    for r in "${!pids[@]}"; do
        wait "${pids[r]}"
        code=$?
        [ $code = 1 ] || fail "$what: rank $r ended with exit code $code"
    done
    [ ${#lines[@]} = $ranks ] || fail "$what: ${#lines[@]} lines"
    for line in "${lines[@]}"; do
        [ "$line" = "${lines[0]}" ] || fail "$what: not all say the same: $line"
    done
    line=${lines[0]-}
    grep -qE "^trireme: Watchdog caught collective operation timeout: rank $lost \(host $me\) did not come to $call \($word\) within 5 s; it is in $word; its last call is [a-z_]+ [0-9]+ over $group, (issued|started|completed) [0-9.]+ s ago$" <<<"$line" ||
        fail "$what: it says: $line"
    # The name of the call, its number in its group, and the group.
    last=$(sed -nE "s/.*; its last call is ([a-z_]+) ([0-9]+) over ($group), .*/\1 \2 \3/p" <<<"$line")
    recorded=$(sed -nE 's/.*"(collective|p2p)_seq_id": ([1-9][0-9]*),.*"process_group": \["[^"]*", "([^"]*)"\], "profiling_name": "nccl:([a-z_]+)[^"]*".*/\4 \2 \3/p' "out/flight_recorder/rank_json/$lost.json" | tail -n 1)
    [ "$last" = "$recorded" ] || fail "$what: '$last' is not the last call of the flight recorder: '$recorded'"
    said_us+=($((first_us - stopped_us)))
    expect_gone 20000 $left
    exec {from}<&-
    echo "$what: ${line#*timeout: }"
}

said_us=() pids=()
echo "$stops stops of a rank on two to four hosts, seed $seed"
for number in $(seq "$stops"); do stop_one "$number"; done
[ ${#said_us[@]} = "$stops" ] || fail "${#said_us[@]} of $stops stops were made"
[ ${#said_us[@]} = 0 ] || echo "the first line: $(median_worst "${said_us[@]}"); $failures failures"
finish
