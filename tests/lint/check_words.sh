#!/bin/sh
# The names of types are made of words that others know: each word of a type's name is a word of a table of
# docs/glossary.md, or of type_words.txt beside this file, which has the ordinary words of programming; or the plural of one.
#   check_words.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"
ordinary=$(dirname "$0")/type_words.txt

# Prints "FILE:LINE NAME" for each type of src and include. Names of other libraries, which end in _t or
# have a capital letter, do not count.
types() {
    find "$1/src" "$1/include" -name '*.[ch]' -o -name '*.cu' 2>/dev/null | xargs awk '
        function found(name) {
            if (name !~ /_t$|[A-Z]|^__typeof__$/) print FILENAME ":" FNR, name
        }
        { sub("//.*", "") }
        match($0, /(struct|union|enum) [A-Za-z_][A-Za-z0-9_]* *\{/) {
            split(substr($0, RSTART, RLENGTH), part, /[ {]+/); found(part[2])
        }
        match($0, /^\} [A-Za-z_][A-Za-z0-9_]*;/) { found(substr($0, 3, RLENGTH - 3)) }
        /^typedef / && match($0, /[A-Za-z_][A-Za-z0-9_]*(\)?\(|;)/) {
            name = substr($0, RSTART, RLENGTH); gsub(/[();]/, "", name); found(name)
        }'
}

check() {
    {
        sed -n '/^|/p' "$1/docs/glossary.md"
        cat "$ordinary"
    } | tr 'A-Z' 'a-z' | grep -oE '[a-z0-9]+' >"$scratch/words"
    types "$1" | awk '
        NR == FNR { word[$1] = 1; next }
        seen[$2]++ { next }
        {
            n = split($2, part, "_")
            for (i = 1; i <= n; i++)
                if (part[i] != "" && !(part[i] in word) && !(substr(part[i], 1, length(part[i]) - 1) in word && part[i] ~ /s$/)) {
                    print $1 ": type " $2 ": " part[i] " is no word of docs/glossary.md or of type_words.txt"
                    bad = 1
                }
        }
        END { exit bad }' "$scratch/words" -
}

mkdir -p "$scratch/tree/src/comm" "$scratch/tree/docs"
echo '| process group | group |' >"$scratch/tree/docs/glossary.md"
echo 'typedef struct group_list {' >"$scratch/tree/src/comm/a.h"
control_passes "$scratch/tree"
for line in 'typedef struct group_seat {' 'struct group_crew {' '} group_bell;' 'typedef int group_lane;' 'typedef status group_meet(void *arg);'; do
    echo "$line" >"$scratch/tree/src/comm/b.h"
    control_fails "$scratch/tree" 'is no word of'
done

control_verdict "the types have words that others know"
