# kills.sh TRIREME [KILLS [SEED [LIMIT_MS]]] -- starts a run of four ranks, kills one of them with SIGKILL at a random moment, and
# again. Each time, one line names the rank, all processes of the run end, and nothing of it is left in /dev/shm and /tmp. It prints how long
# the line and the end took. With LIMIT_MS a line that comes later is a failure. The seed makes the same draws again; the moments then
# differ as far as the machine does.
#   bash tests/soak/kills.sh build/trireme 1000 1 1000
program=$(realpath "$1")
soak=$(realpath "${0%/*}")
kills=${2:-20}
seed=${3:-$(($(date +%s) % 32768))}
limit_ms=${4:-0}
. "${0%/*}/../cli/lib.sh" "$program"
RANDOM=$seed
RANKS=4
HANG_S=60 # a run that has not ended by then hangs
. "$soak/lib.sh"
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
sed -i -e 's/train: toy, valid: toy_valid/train: mock, valid: mock/' -e "s/ranks: 2/ranks: $RANKS/" job.yaml
ways=('--parallel.dp ddp' '--parallel.dp zero3' '--parallel.tp 2' '--parallel.pp 2' '--parallel.cp 2 --parallel.dp zero1' \
    '--train.save_every 1' '--train.eval_every 1 --train.eval_batches 4' '--checks.desync on')

# The ranks of $starter, once all have been started. They are started in their order.
find_ranks() {
    local deadline=$(($(now_ms) + HANG_S * 1000))
    ranks=()
    until [ ${#ranks[@]} = $RANKS ]; do
        [ "$(now_ms)" -lt "$deadline" ] || return 1
        wait_ms 1
        read -ra ranks 2>/dev/null <"/proc/$starter/task/$starter/children" || true
    done
}
kill_one() { # NUMBER
    local way=${ways[RANDOM % ${#ways[@]}]} victim=$((RANDOM % RANKS)) delay=$((RANDOM % (RANDOM % 3 ? 400 : 40))) names name killed_us pattern
    local what="kill $1: $way, rank $victim after $delay ms"
    rm -rf out
    # The words of some flags each.
    "$trireme" train job.yaml --quiet --train.steps 1000000000 $way >stdout 2>said </dev/null &
    starter=$!
    exec {from}<said
    if ! find_ranks; then
        fail "$what: the ranks did not start"
        kill -9 $starter
        { wait $starter; } 2>/dev/null
    else
        wait_ms $delay
        names=$(names_of $starter "${ranks[@]}")
        killed_us=$(now_us)
        kill -9 "${ranks[victim]}" || fail "$what: the rank had ended before"
        read_said || fail "$what: it hangs"
        { wait $starter; } 2>/dev/null
        code=$?
        end_us+=($(($(now_us) - killed_us)))
        said_us+=($((first_us - killed_us)))
        [ "$code" = 1 ] || fail "$what: exit code $code"
        pattern="^trireme: rank $victim \(pid ${ranks[victim]}\) $killed_line$"
        [ ${#lines[@]} = 1 ] && [[ ${lines[0]} =~ $pattern ]] ||
            fail "$what: it says: ${lines[*]}"
        [ "$limit_ms" = 0 ] || [ $((first_us - killed_us)) -le $((limit_ms * 1000)) ] || fail "$what: the line came after $(((first_us - killed_us) / 1000)) ms"
        expect_gone 1000 $starter "${ranks[@]}"
        for name in $names; do expect_no_file "$name"; done
        expect_none "$what: files in TMPDIR" "$(ls -A tmp)"
    fi
    exec {from}<&-
}

said_us=() end_us=()
echo "$kills kills of one of $RANKS ranks, seed $seed"
for number in $(seq "$kills"); do
    kill_one "$number"
    [ $((number % 100)) != 0 ] || echo "$number kills, $failures failures; the line: $(median_worst "${said_us[@]}")"
done
[ ${#said_us[@]} = "$kills" ] || fail "${#said_us[@]} of $kills kills were made"
[ ${#said_us[@]} = 0 ] || echo "the line: $(median_worst "${said_us[@]}"); the end of all processes: $(median_worst "${end_us[@]}"); $failures failures"
finish
