# kills_hosts.sh TRIREME [KILLS [SEED [LIMIT_MS]]] -- as kills.sh, for four ranks on two hosts. The hosts are of this machine: their ranks
# share no memory, and reach each other by TCP. Each time a rank, or the process that another launcher has started for it, is killed
# after the first step. Every other process says one line, which names the rank; all end, and nothing is left. It prints how long
# the first and the last line took. With LIMIT_MS a last line that comes later is a failure.
#   bash tests/soak/kills_hosts.sh build/trireme 1000 1 5000
program=$(realpath "$1")
soak=$(realpath "${0%/*}")
kills=${2:-6}
seed=${3:-$(($(date +%s) % 32768))}
limit_ms=${4:-0}
. "${0%/*}/../cli/lib.sh" "$program"
"$trireme" help launch.comm | grep -q 'valid.*ucx' || { echo 'skipped: this program has no communicator for several hosts' && exit 77; }
RANDOM=$seed
HANG_S=120 # a run that has not ended by then hangs
export UCX_TLS=tcp,self TRIREME_ATTACH_TIMEOUT=60s
. "$soak/lib.sh"
host=$(own_address)
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
sed -i -e 's/train: toy, valid: toy_valid/train: mock, valid: mock/' -e '/^launch:/d' job.yaml
ways=('--parallel.dp ddp' '--parallel.dp zero3' '--parallel.tp 2' '--parallel.pp 2' '--launch.comm ucx' '--train.save_every 1' '--checks.desync on')

start() { # RANK ARGUMENTS...
    env RANK="$1" LOCAL_RANK=$(($1 % 2)) WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$(($1 / 2)) MASTER_ADDR="$host" MASTER_PORT=29778 \
        TORCHELASTIC_RUN_ID=$$ "$trireme" train job.yaml --quiet --train.steps 1000000000 "${@:2}" >"stdout.$1" 2>said </dev/null &
    pids[$1]=$!
}
kill_one() { # NUMBER
    local way=${ways[RANDOM % ${#ways[@]}]} lost=$((RANDOM % 4)) starting=$((RANDOM % 2)) delay=$((RANDOM % 400)) r victim killed_us line left names name
    local what="kill $1: $way, rank $lost after $delay ms"
    [ $starting = 0 ] || what+=", the process that started it"
    rm -rf out
    # The words of some flags each.
    for r in 3 1 0 2; do start $r $way; done
    exec {from}<said
    wait_for_line '"step":1' out/log.jsonl
    left=$(for r in 0 1 2 3; do children_of "${pids[r]}"; done)
    names=$(names_of "${pids[@]}" $left)
    victim=$([ $starting = 1 ] && echo "${pids[lost]}" || rank_of "${pids[lost]}")
    wait_ms $delay
    killed_us=$(now_us)
    kill -9 "$victim" || fail "$what: it had ended before"
    [ $starting = 0 ] || { wait "$victim"; } 2>/dev/null
    read_said || fail "$what: it hangs"
    for r in 0 1 2 3; do
        [ "${pids[r]}" != "$victim" ] || continue
        wait "${pids[r]}"
        code=$?
        [ $code = 1 ] || fail "$what: rank $r ended with exit code $code"
    done
    [ ${#lines[@]} = $((4 - starting)) ] || fail "$what: ${#lines[@]} lines"
    for line in "${lines[@]}"; do
        [[ $line =~ ^trireme:\ rank\ $lost\ \(host\ [^\ ]+,\ pid\ $victim\)\ was\ killed ]] || fail "$what: it says: $line"
    done
    said_first_us+=($((first_us - killed_us)))
    said_last_us+=($((last_us - killed_us)))
    [ "$limit_ms" = 0 ] || [ $((last_us - killed_us)) -le $((limit_ms * 1000)) ] || fail "$what: the last line came after $(((last_us - killed_us) / 1000)) ms"
    expect_gone 20000 $left
    for name in $names; do expect_no_file "$name"; done
    expect_none "$what: files in TMPDIR" "$(ls -A tmp)"
    exec {from}<&-
}

said_first_us=() said_last_us=() pids=()
echo "$kills kills on two hosts of two ranks, seed $seed"
for number in $(seq "$kills"); do
    kill_one "$number"
    [ $((number % 100)) != 0 ] || echo "$number kills, $failures failures; the last line: $(median_worst "${said_last_us[@]}")"
done
[ ${#said_last_us[@]} = "$kills" ] || fail "${#said_last_us[@]} of $kills kills were made"
[ ${#said_last_us[@]} = 0 ] || echo "the first line: $(median_worst "${said_first_us[@]}"); the last line: $(median_worst "${said_last_us[@]}"); $failures failures"
finish
