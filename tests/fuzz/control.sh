#!/bin/sh
# Checks the driver of the fuzz targets: it names an input that ends the target, its exit code is 1 then, and it
# refuses bad usage.
#   control.sh PROGRAM
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
mkdir good bad
echo '{"weight_map": {"a.weight": "model-00001-of-00002.safetensors", "a.bias": "model-00001-of-00002.safetensors"}}' >good/x
echo '{' >bad/good-x

fail() {
    echo "control.sh: $*"
    exit 1
}
"$program" bad >said 2>&1 && fail 'a refused file that must be accepted is not noticed'
grep -q 'good-x ends it by signal 6' said || fail "it says: $(cat said)"
"$program" good/x >said 2>&1 || fail "one file: $(cat said)"
"$program" good --runs 50 >said 2>&1 || fail "a corpus: $(cat said)"
grep -qx '51 inputs' said || fail "it says: $(cat said)"
for wrong in '' 'good --runs' 'good bad' 'good --runs many' 'missing'; do
    # shellcheck disable=SC2086 # words
    code=0 && "$program" $wrong >said 2>&1 || code=$?
    [ "$code" != 0 ] || fail "'$wrong' is accepted"
done
