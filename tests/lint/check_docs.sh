#!/bin/bash
# Every command in the documents works. Runs the ```sh blocks of README.md, CONTRIBUTING.md, docs/ and examples/.
# The blocks of a document run in order, by bash -eu, in one new folder. It holds the documents, the examples and the
# public header of a checkout, and the program and library in build/. The program is on PATH.
#   check_docs.sh ROOT BUILD_FOLDER [DOCUMENT...]
# Comments of the page, each in a line of its own before a block, say what is expected. In a text, … stands for anything,
# and a space for any number of them.
#   <!-- not run: reason -->   the block does not run, unless $TRIREME_DOCS says all: then it may download, and take an hour
#   <!-- exits: N -->          the block ends with this exit code, at its first command that fails. It runs in a shell of its own
#   <!-- prints: text -->      a line that the block prints, on standard output or error, contains the text
#   <!-- printed -->           before a ```text block: the commands before it have printed each of its lines
#   <!-- printed, other numbers -->   the same, and each number stands for any
#   <!-- checks                commands that the reader does not see run until a line -->
set -eu
. "$(dirname "$0")/control.sh"
build=$(cd "$2" && pwd)
blocks= # "all": also those that do not run
limit=400
shift 2
chosen=$*

# The commands of a document as one script.
commands() {
    awk -v all="$blocks" '
        function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }
        function begin() { print "begin_block"; if (exits != "") print "set +e; (set -e" }
        function end(i) {
            if (exits != "") print "); code=$?; set -e; exits_with " exits
            print "end_block"
            for (i = 1; i <= wanted; i++) print "expect_part " quoted(want[i])
            unmark()
        }
        function unmark() { exits = ""; skip = printed = wanted = 0 }
        function wrong(what) { print "wrong_mark " quoted(FNR ": " what) }
        inside && /^```$/ { if (inside == "run") end(); else unmark(); inside = ""; next }
        inside == "checks" && /^-->$/ { end(); inside = ""; next }
        inside == "run" || inside == "checks" { print; next }
        inside == "expect" { if ($0 !~ /^ *…?$/) print expect " " quoted($0); next }
        inside { next }
        /^<!-- not run: ..* -->$/ { skip = all != "all"; next }
        /^<!-- exits: [0-9]+ -->$/ { exits = $3; next }
        /^<!-- prints: ..* -->$/ { want[++wanted] = substr($0, 14, length($0) - 17); next }
        /^<!-- printed -->$/ { printed = 1; expect = "expect_line"; next }
        /^<!-- printed, other numbers -->$/ { printed = 1; expect = "expect_form"; next }
        /^<!-- (keys|doctor|end of doctor) -->$/ { next }
        /^<!-- checks$/ { inside = "checks"; begin(); next }
        /^<!--/ { wrong("no such mark: " $0); next }
        /^```sh$/ { if (printed) wrong("printed stands before a block of text"); inside = skip ? "skip" : "run"; if (!skip) begin(); next }
        /^```/ { if (skip || exits != "" || wanted) wrong("a mark without commands"); inside = printed ? "expect" : "skip"; next }
        { if (skip || exits != "" || wanted || printed) wrong("a mark without a block"); unmark() }' "$1"
}

# What a script of commands begins with. It reads $printed, the file that holds what the last block has printed.
prelude='exec 3>&1 4>&2
begin_block() { exec >"$printed" 2>&1; set -x; }
end_block() { { set +x; } 9>/dev/null; exec >&3 2>&4; cat "$printed"; }
exits_with() { [ "$code" = "$1" ] || { echo "exit code $code, expected $1"; exit 1; }; }
pattern() { printf "%s\n" "$1" | LC_ALL=C sed -e "s/[][\\\\.*^\$+?(){}|]/\\\\&/g" -e "s/…/.*/g" -e "s/  */ +/g"; }
expect_part() { LC_ALL=C grep -Eaq -e "$(pattern "$1")" "$printed" || { echo "nothing printed contains: $1"; exit 1; }; }
any_number() { printf "%s\n" "$1" | LC_ALL=C sed -e "s/[0-9][0-9]*\(\\\\[.][0-9]*\)*[kMG]*/[0-9][0-9.]*[kMG]*/g"; }
expect_form() { LC_ALL=C grep -Eaxq -e "$(any_number "$(pattern "$1")")" "$printed" || { echo "no line printed has the form: $1"; exit 1; }; }
expect_line() { LC_ALL=C grep -Eaxq -e "$(pattern "$1")" "$printed" || { echo "no line printed is: $1"; exit 1; }; }
wrong_mark() { echo "line $1"; exit 1; }'

# The ports of pages are fixed, so a page has a network of its own where the system gives one: other tests may run.
own_network=
for flags in -n -rn; do
    [ -n "$own_network" ] || ! unshare $flags ip link set lo up 2>/dev/null || own_network=$flags
done
isolated() {
    if [ -n "$own_network" ] && [ "$blocks" != all ]; then
        unshare $own_network sh -c 'ip link set lo up && exec "$@"' sh "$@"
    else
        "$@"
    fi
}

# run_document ROOT DOCUMENT
run_document() {
    folder=$scratch/run/$2
    rm -rf "$folder"
    mkdir -p "$folder/build"
    (cd "$1" && for one in *.md LICENSE docs examples include; do [ ! -e "$one" ] || cp -R "$one" "$folder/"; done)
    ln -s "$build/trireme" "$build"/libtrireme.* "$folder/build/"
    commands "$1/$2" >"$folder.commands"
    [ -s "$folder.commands" ] || return 0
    { printf '%s\n' "$prelude" && cat "$folder.commands"; } >"$folder.script"
    if ! (cd "$folder" && printed=$folder.printed BASH_XTRACEFD=9 PATH="$folder/build:$PATH" isolated timeout $limit bash -eu "$folder.script") \
        >"$folder.log" 2>&1 </dev/null 9>"$folder.trace"; then
        tail -n 15 "$folder.log"
        [ ! -e "$folder.printed" ] || tail -n 5 "$folder.printed"
        tail -n 5 "$folder.trace"
        echo "$2: a command in it failed"
        return 1
    fi
}

check() {
    bad=0
    for document in ${chosen:-$(cd "$1" && ls README.md CONTRIBUTING.md docs/*.md examples/*.md 2>/dev/null)}; do
        run_document "$1" "$document" || bad=1
    done
    return $bad
}

# Negative controls: a page is README.md, whatever was chosen.
all=$chosen
chosen=README.md
mkdir "$scratch/tree"
tree() {
    printf '%s\n' "$@" >"$scratch/tree/README.md"
}
fence='```'
tree "${fence}sh" 'trireme help | grep train' "$fence" '<!-- not run: an example -->' "${fence}sh" 'trireme no-such-command' "$fence"
control_passes "$scratch/tree"
tree "${fence}sh" 'trireme help' 'trireme no-such-command' 'true' "$fence"
control_fails "$scratch/tree" 'README.md: a command'
tree '<!-- not run: -->' "${fence}sh" 'true' "$fence"
control_fails "$scratch/tree" 'no such mark: <!-- not run: -->'
tree '<!-- exits: 2 -->' '<!-- prints: no-such-command… did you mean -->' "${fence}sh" 'word=no-such-command' 'trireme $word-' "$fence" \
    '<!-- checks' 'echo "it is 7 (seven)"' '-->' '<!-- printed -->' "${fence}text" '…' 'it is … (seven)' "$fence"
control_fails "$scratch/tree" 'nothing printed contains: no-such-command… did you mean'
tree '<!-- exits: 2 -->' '<!-- prints: there is no command…-command- -->' "${fence}sh" 'word=no-such-command' 'trireme $word-' "$fence" \
    '<!-- checks' 'echo "it is 7 (seven)"' '-->' '<!-- printed -->' "${fence}text" '…' 'it is … (seven)' "$fence"
control_passes "$scratch/tree"
tree '<!-- exits: 2 -->' "${fence}sh" 'true' "$fence"
control_fails "$scratch/tree" 'exit code 0, expected 2'
tree "${fence}sh" 'echo it is 7' "$fence" '<!-- printed -->' "${fence}text" 'it is' "$fence"
control_fails "$scratch/tree" 'no line printed is: it is'
tree "${fence}sh" 'echo "it is 7.5k (12)"' "$fence" '<!-- printed, other numbers -->' "${fence}text" 'it is 11.25 (0.5)' "$fence"
control_passes "$scratch/tree"
tree "${fence}sh" 'echo "it is no (12)"' "$fence" '<!-- printed, other numbers -->' "${fence}text" 'it is 11.25 (0.5)' "$fence"
control_fails "$scratch/tree" 'no line printed has the form: it is 11.25 (0.5)'
tree '<!-- checks' 'false' '-->'
control_fails "$scratch/tree" 'README.md: a command'
tree '<!-- exits: 2 -->' 'A sentence.' "${fence}sh" 'true' "$fence"
control_fails "$scratch/tree" 'a mark without a block'
chosen=$all
blocks=${TRIREME_DOCS-}
[ "$blocks" != all ] || limit=3400

control_verdict "every command in the documents works"
