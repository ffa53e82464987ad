#!/bin/sh
# The demo from end to end in a few seconds: on these documents instead of the novels, which a package
# would have to be fetched for, with the build at hand.
#   test_demo.sh ROOT BUILD_FOLDER
set -eu
root=$1
build=$(cd "$2" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir -p "$scratch/build/demo"
cp -R "$root/demo" "$root/tools" "$root/examples" "$scratch/"
ln -s "$build/trireme" "$scratch/build/trireme"
# One paragraph a document, so that there are enough to keep some back.
cat "$root"/*.md "$root"/docs/*.md "$root/LICENSE" | awk -v RS= '{ printf "%s%s\n", (NR > 1 ? "\f" : ""), $0 }' \
    >"$scratch/build/demo/austen.txt"

DEMO_BUILT=1 DEMO_SECONDS=5 "$scratch/demo" >"$scratch/said.txt" 2>&1 </dev/null || {
    cat "$scratch/said.txt"
    exit 1
}
found() {
    grep -q "$1" "$scratch/said.txt" || {
        cat "$scratch/said.txt"
        echo "test_demo.sh: '$1' is not in the demo's output"
        exit 1
    }
}
found 'austen_valid: '
found 'bits per byte [0-9]'
found '█.*loss [0-9.]* to [0-9.]*'
found '^It was a truth which Elizabeth'
test -s "$scratch/build/demo/run/loss.png"

if DEMO_BUILT=1 DEMO_SECONDS=soon "$scratch/demo" >"$scratch/said.txt" 2>&1 </dev/null; then
    echo "test_demo.sh: DEMO_SECONDS=soon was taken"
    exit 1
fi
found 'valid is a whole number'
