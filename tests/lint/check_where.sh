#!/bin/sh
# Every place `file: function` that ARCHITECTURE.md and docs/ name exists: the file (under src/ unless its path says
# otherwise) defines the function or table.
#   check_where.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# The entries, one "document file function" a line: `optim/clip.c: clip_gradients`.
entries() {
    (cd "$1" && grep -o '`[A-Za-z0-9_/]*\.[ch]: [A-Za-z0-9_, ]*`' ARCHITECTURE.md docs/*.md) | tr -d '`' |
        sed 's/:/ /' | awk '{
            gsub(/,/, "")
            sub(/:$/, "", $2)
            for (i = 3; i <= NF; i++) print $1, $2, $i
        }'
}

# A definition starts its line: a type before the name, and no ";" at the end, or a table's "= {".
is_defined() {
    grep -Eq "^[A-Za-z][A-Za-z0-9_ *]*[ *]$2(\([^;]*\$|\[[^]]*\] = )" "$1"
}

check() {
    bad=0
    entries "$1" >"$scratch/entries"
    while read -r document file function; do
        path=$1/src/$file
        [ -e "$path" ] || path=$1/$file
        if [ ! -e "$path" ]; then
            echo "$document: $file: there is no such file under src/"
            bad=1
        elif ! is_defined "$path" "$function"; then
            echo "$document: $file: $function is not defined there"
            bad=1
        fi
    done <"$scratch/entries"
    # With fewer entries, the table is gone or has another form, and the check would see nothing.
    if [ "$(wc -l <"$scratch/entries")" -lt "$least" ]; then
        echo "ARCHITECTURE.md: fewer than $least entries of the form \`file.c: function\`"
        bad=1
    fi
    return $bad
}

mkdir -p "$scratch/tree/src/optim" "$scratch/tree/docs"
echo 'Clip in `optim/clip.c: clip`.' >"$scratch/tree/docs/good.md"
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
least=2
control_fails "$scratch/tree" 'fewer than'

least=30
control_verdict "every entry of the table of places exists"
