#!/bin/sh
# Every command in the documents works. Runs the ```sh blocks of README.md, CONTRIBUTING.md, docs/ and
# examples/. The blocks of a document run in order in one new folder. It holds the documents, the
# examples and the public header of a checkout, and the program and library in build/. The program is
# on PATH. A block after a line <!-- not run: reason --> does not run.
#   check_docs.sh ROOT BUILD_FOLDER
set -eu
. "$(dirname "$0")/control.sh"
build=$(cd "$2" && pwd)

# The commands of a document as one script.
commands() {
    awk '
        /^```$/ && inside { inside = 0; print "" }
        inside && !skip
        /^```sh$/ { inside = 1; skip = previous ~ /^<!-- not run: ..* -->$/ }
        { previous = $0 }' "$1"
}

# run_document ROOT DOCUMENT
run_document() {
    folder=$scratch/run/$2
    rm -rf "$folder"
    mkdir -p "$folder/build"
    (cd "$1" && for one in *.md LICENSE docs examples include; do [ ! -e "$one" ] || cp -R "$one" "$folder/"; done)
    ln -s "$build/trireme" "$build"/libtrireme.* "$folder/build/"
    commands "$1/$2" >"$folder/commands.sh"
    [ -s "$folder/commands.sh" ] || return 0
    if ! (cd "$folder" && PATH="$folder/build:$PATH" timeout 400 sh -eux commands.sh) \
        >"$folder.log" 2>&1 </dev/null; then
        tail -n 15 "$folder.log"
        echo "$2: a command in it failed"
        return 1
    fi
}

check() {
    bad=0
    for document in $(cd "$1" && ls README.md CONTRIBUTING.md docs/*.md examples/*.md 2>/dev/null); do
        run_document "$1" "$document" || bad=1
    done
    return $bad
}

mkdir "$scratch/tree"
tree() {
    printf '%s\n' "$@" >"$scratch/tree/README.md"
}
fence='```'
tree "${fence}sh" 'trireme help | grep train' "$fence" '<!-- not run: an example -->' "${fence}sh" 'trireme no-such-command' "$fence"
control_passes "$scratch/tree"
tree "${fence}sh" 'trireme help' 'trireme no-such-command' 'true' "$fence"
control_fails "$scratch/tree" 'README.md: a command'
tree '<!-- not run: -->' "${fence}sh" 'trireme no-such-command' "$fence"
control_fails "$scratch/tree" 'README.md: a command'

control_verdict "every command in the documents works"
