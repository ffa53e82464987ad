#!/bin/sh
# docs/job-file.md holds every key as the program knows it: the block after <!-- keys --> is the output
# of `trireme train --help` from its first section on. Also prints that block for a new version:
#   check_job_file.sh ROOT BUILD_FOLDER
#   check_job_file.sh --write ROOT BUILD_FOLDER
set -eu

keys_of_program() {
    "$1/trireme" train --help | awk '/^model$/ { keys = 1 } keys'
}

if [ "$1" = --write ]; then
    keys_of_program "$3" >"$2/docs/job-file.md.keys"
    awk -v keys="$2/docs/job-file.md.keys" '
        inside && /^```$/ { while ((getline line < keys) > 0) print line; inside = 0 }
        !inside
        /^```text$/ && previous == "<!-- keys -->" { inside = 1 }
        { previous = $0 }' "$2/docs/job-file.md" >"$2/docs/job-file.md.new"
    rm "$2/docs/job-file.md.keys"
    mv "$2/docs/job-file.md.new" "$2/docs/job-file.md"
    exit
fi
. "$(dirname "$0")/control.sh"
build=$2

keys_of_document() {
    awk '
        inside && /^```$/ { exit }
        inside
        /^```text$/ && previous == "<!-- keys -->" { inside = 1 }
        { previous = $0 }' "$1/docs/job-file.md"
}

check() {
    keys_of_document "$1" >"$scratch/document"
    if ! diff "$scratch/document" "$scratch/program"; then
        echo "docs/job-file.md: not what the program says; tests/lint/check_job_file.sh --write ROOT BUILD renews it"
        return 1
    fi
}

keys_of_program "$build" >"$scratch/program"
grep -q 'train.global_batch' "$scratch/program" # or else there was nothing to compare
mkdir -p "$scratch/tree/docs"
sed 's/train.global_batch/train.batch/' "$root/docs/job-file.md" >"$scratch/tree/docs/job-file.md"
control_fails "$scratch/tree" 'train.batch'

control_verdict "docs/job-file.md holds every key"
