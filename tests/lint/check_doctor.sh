#!/bin/sh
# docs/troubleshooting.md holds what the tables of checks say: the part between its marks is the output of `trireme doctor
# --list --markdown`. Every check has a planted fault that it finds, and a state in which it is silent, in the tests. Every
# recipe of the list that the project covers (153 to 184) stands in the table of recipes, and each check names such numbers.
# The tests of the doctor are run for this: each tells what it has expected of which check (tests/doctor_rig.h).
#   check_doctor.sh ROOT BUILD_FOLDER
#   check_doctor.sh --write ROOT BUILD_FOLDER      renews the page
set -eu

page_of_program() {
    "$1/trireme" doctor --list --markdown
}

if [ "$1" = --write ]; then
    page_of_program "$3" >"$2/docs/troubleshooting.md.part"
    awk -v part="$2/docs/troubleshooting.md.part" '
        /^<!-- doctor -->$/ { print; while ((getline line < part) > 0) print line; inside = 1 }
        /^<!-- end of doctor -->$/ { inside = 0 }
        !inside' "$2/docs/troubleshooting.md" >"$2/docs/troubleshooting.md.new"
    rm "$2/docs/troubleshooting.md.part"
    mv "$2/docs/troubleshooting.md.new" "$2/docs/troubleshooting.md"
    exit
fi
. "$(dirname "$0")/control.sh"
build=$2

check() {
    bad=0
    awk '/^<!-- end of doctor -->$/ { inside = 0 } inside; /^<!-- doctor -->$/ { inside = 1 }' "$1/docs/troubleshooting.md" >"$scratch/document"
    if ! diff "$scratch/document" "$scratch/program" >"$scratch/differ"; then
        head -n 5 "$scratch/differ"
        echo "docs/troubleshooting.md: not what the program says; tests/lint/check_doctor.sh --write ROOT BUILD renews it"
        bad=1
    fi
    for code in $(cat "$scratch/codes"); do
        for what in found passed; do
            grep -qx "$what $code" "$1/seen" || { echo "tests/unit/doctor: no test expects $what of $code" && bad=1; }
        done
    done
    return $bad
}

page_of_program "$build" >"$scratch/program"
"$build/trireme" doctor --list | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p' >"$scratch/codes"
[ "$(wc -l <"$scratch/codes")" -ge 60 ] # or else there was nothing to compare
[ "$(sort "$scratch/codes" | uniq -d | wc -l)" = 0 ] || { echo "two checks have one code" && exit 1; }
"$build/trireme" doctor --list --json | grep -oE '"recipes":\[[0-9,]*\]' | grep -oE '[0-9]+' | sort -un >"$scratch/numbers"
awk '$1 < 153 || $1 > 184 { print "a check answers recipe " $1 "; valid: 153 to 184"; bad = 1 } END { exit bad }' "$scratch/numbers"
grep -oE '^    \{[0-9]+,' "$root/src/cmd/doctor/doctor_recipes.c" | grep -oE '[0-9]+' >"$scratch/recipes"
seq 153 184 | diff - "$scratch/recipes" || { echo "doctor_recipes.c: not the recipes 153 to 184" && exit 1; }
! grep -E '^\| .* \|  \|$' "$scratch/program" || { echo "a recipe has no answer" && exit 1; }

mkdir -p "$scratch/now/docs" "$scratch/tree/docs"
for one in "$build"/tests/unit_doctor_test_* "$build"/tests/gpu/gpu_test_doctor_p2p; do
    [ ! -f "$one" ] || TRIREME_DOCTOR_SEEN="$scratch/now/seen" "$one" >"$scratch/said" 2>&1 || { cat "$scratch/said" && exit 1; }
done
for tree in now tree; do cp "$root/docs/troubleshooting.md" "$scratch/$tree/docs/"; done
grep -v '^found shm-size$' "$scratch/now/seen" >"$scratch/tree/seen"
control_fails "$scratch/tree" 'no test expects found of shm-size'
root=$scratch/now
control_verdict "every check of the doctor has a planted fault, and stands in docs/troubleshooting.md"
