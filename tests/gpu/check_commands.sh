#!/bin/sh
# ./check-gpu and ./bench-gpu on a machine without a GPU, and the program that ./bench-gpu starts.
#   check_commands.sh ROOT TRIREME
set -eu
cd "$1"
trireme=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
    echo "$*"
    failed=1
}

for one in ./check-gpu ./bench-gpu; do
    sh -n $one || fail "$one is no shell script"
    # Where there is a GPU, they would build and measure.
    if [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]; then continue; fi
    code=0
    $one >"$scratch/out" 2>"$scratch/said" || code=$?
    [ $code = 2 ] || fail "$one: exit code $code without a GPU; valid is 2"
    [ ! -s "$scratch/out" ] || fail "$one: it printed $(cat "$scratch/out")"
    [ "$(cat "$scratch/said")" = "$one: this machine has no NVIDIA GPU: there is no /dev/nvidiactl" ] ||
        fail "$one: it said $(cat "$scratch/said")"
done
code=0
./check-gpu --limit soon >/dev/null 2>"$scratch/said" || code=$?
[ $code = 2 ] && grep -q '^usage: ./check-gpu ' "$scratch/said" || fail "./check-gpu takes a limit that is no number"

# The table of models, without PyTorch. Trireme itself needs no Python, so the machine may have none.
if python3 -c '' 2>/dev/null; then
    python3 bench/ab_gpu.py --small --device cpu --only trireme --trireme "$trireme" --models gpt2-124m llama-1b --rounds 1 \
        --steps 1 --out "$scratch/figures" >"$scratch/out" 2>&1 || fail "ab_gpu.py failed: $(cat "$scratch/out")"
    for model in gpt2-124m llama-1b; do
        grep -Eq "^$model +[1-9][0-9]* +- +- +[0-9.]+ " "$scratch/out" || fail "no line of $model: $(cat "$scratch/out")"
        grep -q "\"model\": \"$model\"" "$scratch/figures" || fail "no figures of $model"
    done
    grep -q " GiB driver GiB *plan GiB " "$scratch/out" || fail "no memory beside the plan: $(cat "$scratch/out")"
    if python3 bench/ab_gpu.py --small --device cpu --only trireme --trireme false --models gpt2-124m --rounds 1 >"$scratch/out" 2>&1; then
        fail "ab_gpu.py says nothing of a program that fails"
    fi
fi
exit $failed
