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

# What ./check-gpu --fetch has put into a folder is found by a compiler, in Debian's folder of headers for one kind of
# machine, too; tools only where the machine has none. tests/gpu/bare_machine.sh does it all, by hand.
kind=$(cc -dumpmachine | sed 's/-pc-/-/; s/-unknown-/-/')
mkdir -p "$scratch/files/usr/include/$kind" "$scratch/files/usr/lib/$kind" "$scratch/none/usr/bin" "$scratch/fetched"
echo '#define FETCHED 1' >"$scratch/files/usr/include/$kind/trireme_fetched.h"
tar -czf "$scratch/fetched/libraries.tar.gz" -C "$scratch/files" .
tar -czf "$scratch/fetched/tools.tar.gz" -C "$scratch/none" .
(
    . tools/packages.sh
    packages_unpack "$scratch/fetched"
    printf '#include <trireme_fetched.h>\nint fetched = FETCHED;\n' | cc -c -x c - -o "$scratch/fetched.o"
    printf '#include <trireme_fetched.h>\nint fetched = FETCHED;\n' | c++ -c -x c++ - -o "$scratch/fetched.o"
    case :$LD_LIBRARY_PATH: in *:"$scratch/fetched/libraries/usr/lib/$kind":*) ;; *) exit 1 ;; esac
    case :$PATH: in *:"$scratch/fetched/"*) exit 1 ;; esac
) || fail "what --fetch has put into a folder is not found"
rm "$scratch/fetched/tools.tar.gz"
code=0
(. tools/packages.sh && packages_unpack "$scratch/fetched") 2>"$scratch/said" || code=$?
[ $code = 2 ] && grep -q 'holds no tools.tar.gz' "$scratch/said" || fail "a file of --fetch that is missing is not named"

# A new compiler's first warning does not end their builds.
for one in ./check-gpu ./bench-gpu; do
    grep -q 'build_into build-gpu .*-DTRIREME_WERROR=off' $one || fail "$one takes warnings for errors"
done
cmake -S . -B "$scratch/build" -DTRIREME_CUDA=off -DTRIREME_WERROR=off >"$scratch/said" 2>&1 || fail "cmake: $(tail -n 5 "$scratch/said")"
! grep -q -- '-Werror' "$scratch/build/compile_commands.json" || fail "TRIREME_WERROR=off leaves -Werror"

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
