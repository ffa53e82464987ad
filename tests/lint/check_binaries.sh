#!/bin/sh
# Every file `build/…` that README.md, CONTRIBUTING.md, docs/ and examples/ name exists in the build folder. Files
# that a run makes (build/demo/) are exempt.
#   check_binaries.sh ROOT BUILD_FOLDER
set -eu
. "$(dirname "$0")/control.sh"
build=$2

check() {
    bad=0
    for document in $(cd "$1" && ls README.md CONTRIBUTING.md docs/*.md examples/*.md 2>/dev/null); do
        for name in $(grep -ohE '(^|[^A-Za-z0-9_/.-])build/[A-Za-z0-9_./-]*' "$1/$document" | sed 's/^[^b]*//; s/[.,]*$//' | sort -u); do
            case $name in
            build/demo/*) continue ;;
            esac
            [ -e "$build/${name#build/}" ] && continue
            echo "$document: $name is not there after a build"
            bad=1
        done
    done
    # Examples are named one by one.
    for source in "$1"/examples/*.c; do
        [ -e "$source" ] || continue
        name=build/examples/example_$(basename "$source" .c)
        grep -qF "$name\`" "$1/examples/README.md" && continue
        echo "examples/README.md: does not name $name"
        bad=1
    done
    return $bad
}

mkdir -p "$scratch/tree/examples"
echo 'It is `build/trireme`, which lies in build/.' >"$scratch/tree/README.md"
control_passes "$scratch/tree"
echo 'Run build/trirem.' >"$scratch/tree/README.md"
control_fails "$scratch/tree" 'README.md: build/trirem is not there'
echo >"$scratch/tree/README.md"
touch "$scratch/tree/examples/own.c"
echo '`build/trireme`' >"$scratch/tree/examples/README.md"
control_fails "$scratch/tree" 'does not name build/examples/example_own'

control_verdict "documents name binaries that exist"
