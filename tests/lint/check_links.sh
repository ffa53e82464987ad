#!/bin/sh
# Every link of a document to a file of the tree leads to a file that exists, and to a heading in it.
#   check_links.sh ROOT
set -eu
. "$(dirname "$0")/control.sh"

# The anchors of a document's headings, as GitHub makes them.
anchors() {
    awk '/^```/ { inside = !inside } /^#+ / && !inside { sub(/^#+ /, ""); print }' "$1" | sed 's/\[\([^]]*\)\]([^)]*)/\1/g' |
        LC_ALL=C tr 'A-Z' 'a-z' | LC_ALL=C sed 's/[^a-z0-9_ -]//g; s/ /-/g'
}

check() {
    bad=0
    for document in $(cd "$1" && find . -name '*.md' -not -path './build*' -not -path './.*/*' -not -path './shared/*' | sed 's,^\./,,' | sort); do
        for link in $(awk '/^```/ { inside = !inside } !inside' "$1/$document" | grep -o '](\([^) ]*\))' | sed 's/^](//; s/)$//' | sort -u); do
            case "$link" in *://* | mailto:*) continue ;; esac
            file=${link%%#*}
            target=$1/$document
            [ -z "$file" ] || target=$(dirname "$1/$document")/$file
            if [ ! -e "$target" ]; then
                echo "$document: the link $link leads to nothing" && bad=1
            elif [ "$link" != "$file" ] && ! anchors "$target" | grep -qxF -- "${link#*#}"; then
                echo "$document: the link $link leads to no heading" && bad=1
            fi
        done
    done
    return $bad
}

mkdir -p "$scratch/tree/docs"
page() { # LINK
    printf '%s\n' '# A page' "See [there]($1)." >"$scratch/tree/README.md"
    printf '%s\n' '# Two `words`, more' '```sh' '# no heading' '```' '[up](../README.md#a-page)' >"$scratch/tree/docs/page.md"
}
page docs/page.md#two-words-more
control_passes "$scratch/tree"
page docs/gone.md
control_fails "$scratch/tree" 'README.md: the link docs/gone.md leads to nothing'
page docs/page.md#no-heading
control_fails "$scratch/tree" 'README.md: the link docs/page.md#no-heading leads to no heading'

control_verdict "every link leads somewhere"
