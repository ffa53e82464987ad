#!/bin/sh
# Every entry `file: function` of ARCHITECTURE.md's "Where is …?" table exists: the file under src/
# (or where it says), and in it the definition of the function. The same holds for the five hops.
#   check_where.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# The entries, one "file function" a line: `optim/clip.c: clip_gradients`.
entries() {
    grep -o '`[A-Za-z0-9_/]*\.[ch]: [A-Za-z0-9_, ]*`' "$1/ARCHITECTURE.md" | tr -d '`' |
        awk -F ': ' '{ n = split($2, name, ", "); for (i = 1; i <= n; i++) print $1, name[i] }'
}

# A definition starts its line: a type before the name, no ";" at the end of the line.
is_defined() {
    grep -Eq "^[A-Za-z][A-Za-z0-9_ *]*[ *]$2(\(|\[)[^;]*$" "$1"
}

check() {
    bad=0
    entries "$1" >"$scratch/entries"
    while read -r file function; do
        path=$1/src/$file
        [ -e "$path" ] || path=$1/$file
        if [ ! -e "$path" ]; then
            echo "ARCHITECTURE.md: $file: there is no such file under src/"
            bad=1
        elif ! is_defined "$path" "$function"; then
            echo "ARCHITECTURE.md: $file: $function is not defined there"
            bad=1
        fi
    done <"$scratch/entries"
    # Fewer would mean that the table is gone or spelt otherwise, and nothing was checked.
    if [ "$(wc -l <"$scratch/entries")" -lt "$least" ]; then
        echo "ARCHITECTURE.md: fewer than $least entries of the form \`file.c: function\`"
        bad=1
    fi
    return $bad
}

mkdir -p "$scratch/tree/src/optim"
printf 'static int late(int x);\nint clip(int x)\n{\n    return late(x);\n}\n' >"$scratch/tree/src/optim/clip.c"
least=1
where() {
    printf '| clipping | %s |\n' "$1" >"$scratch/tree/ARCHITECTURE.md"
}
where '`optim/clip.c: clip`'
control_passes "$scratch/tree"
where '`optim/clop.c: clip`'
control_fails "$scratch/tree" 'no such file'
where '`optim/clip.c: clip, clap`'
control_fails "$scratch/tree" 'clap is not defined'
where '`optim/clip.c: late`'
control_fails "$scratch/tree" 'late is not defined'
where 'nothing'
control_fails "$scratch/tree" 'fewer than'

least=30
control_verdict "every entry of the table of places exists"
