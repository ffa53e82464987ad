# pipes.sh -- output to a closed pipe, to a full disk, to closed descriptors, and beyond a limit of file size. A run
# does not end because its progress cannot be printed, and no result is lost without an error.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
train --train.save_every 8 --train.out reference
cp -r reference run

# ---- Progress to a closed pipe: the run continues and succeeds

# The reader is gone before the run starts, so that the first line already fails.
closed_reader() { # COMMAND...: its stderr is a pipe without a reader; sets $code
    { (sleep 0.2; timeout 60 "$@" >stdout; echo $? >code) 2>&1 | true; } 2>/dev/null
    local i
    for i in $(seq 500); do [ -s code ] && break; sleep 0.1; done
    code=$(cat code)
    rm -f code
}

for as in processes threads; do
    rm -rf out
    closed_reader "$trireme" train job.yaml --launch.as $as --train.save_every 4
    [ "$code" = 0 ] || fail "exit code $code of a run whose progress nobody reads"
    expect_steps out 8
    expect_same_losses out reference
done
rm -rf out
run sh -c '"$0" train job.yaml 2>/dev/full' "$trireme"
expect_exit 0
expect_same_losses out reference
closed_reader "$trireme" data prepare --input text.jsonl --output-prefix unread --train-bpe 320 --append-eod
[ "$code" = 0 ] || fail "exit code $code of a preparation whose progress nobody reads"
expect_file unread.bin

# A failed run keeps its exit code.
closed_reader "$trireme" train job.yaml --train.steps none
[ "$code" = 2 ] || fail "exit code $code of a wrong job whose error nobody reads, expected 2"

# ---- No file of a run gets the number of a closed descriptor
for closed in '2>&-' '<&- 2>&-' '<&- >&- 2>&-'; do
    rm -rf out
    eval "timeout 60 \"\$trireme\" train job.yaml --train.save_every 4 $closed"
    code=$?
    [ "$code" = 0 ] || fail "exit code $code with $closed"
    expect_json_lines out/log.jsonl
    expect_same_losses out reference
    ok "$trireme" checkpoint verify out/checkpoints/latest
done

# ---- A result that cannot be written is an error of one line
unwritten() { # COMMAND...
    timeout 60 "$trireme" "$@" >/dev/full 2>stderr </dev/null
    code=$?
    [ "$code" = 1 ] || fail "exit code $code, expected 1, of '$*' into a full disk"
    expect_lines 1 stderr
    expect_line '^trireme: (rank 0: )?cannot write to standard output(: No space left on device)?$'
}
folder=run/checkpoints/latest
unwritten help
unwritten --version
unwritten train --help
unwritten help train
unwritten completion bash
unwritten explain job.yaml
unwritten explain job.yaml --json
unwritten plan job.yaml
unwritten plan job.yaml --json
unwritten curve run
unwritten checkpoint show $folder
unwritten checkpoint show $folder --json
unwritten checkpoint verify $folder
unwritten data inspect toy
unwritten data inspect toy --json
unwritten generate --model $folder --prompt sea --tokens 3
for as in processes threads; do
    unwritten eval job.yaml --model $folder --launch.as $as
    unwritten eval job.yaml --model $folder --launch.as $as --json
done
unwritten eval job.yaml --model $folder --launch.ranks 1
unwritten bench all_reduce -b 1K -e 4K -g 2 -n 1 -w 0
unwritten bench train job.yaml --train.steps 1 --train.out bench
rm -f prepared*
unwritten data prepare --input text.jsonl --output-prefix prepared --train-bpe 320 --quiet
timeout 60 "$trireme" help >&- 2>stderr
[ $? = 1 ] || fail "'help' into a closed descriptor is no failure"
expect_line 'cannot write to standard output: Bad file descriptor'

# A command that failed prints only its own error.
timeout 60 "$trireme" explain nothing.yaml >/dev/full 2>stderr
[ $? = 2 ] || fail "another exit code than 2 of a missing job into a full disk"
expect_lines 1 stderr
expect_line 'nothing.yaml'

# A closed pipe ends a command by SIGPIPE and without a message, as with other programs.
{ (sleep 0.2; "$trireme" explain job.yaml 2>stderr; echo $? >code) | true; } 2>/dev/null
for i in $(seq 100); do [ -s code ] && break; sleep 0.1; done
[ "$(cat code)" = 141 ] || fail "exit code $(cat code) of a command whose reader has gone, expected 141"
expect_lines 0 stderr

# ---- A limit of file size is reported like a full disk, with the name of the file
limited() { # KILOBYTES PATTERN COMMAND...
    local kilobytes=$1 pattern=$2
    shift 2
    (
        ulimit -f "$kilobytes"
        exec timeout 60 "$@"
    ) >stdout 2>stderr </dev/null
    code=$?
    expect_exit 1
    expect_lines 1 stderr
    expect_line "$pattern"
}
for ranks in 1 2; do
    rm -rf out
    limited 16 '^trireme: rank 0: [^ ]*/out/log.jsonl: cannot write: File too large(; the flight recorder was not written: .*)?$' \
        "$trireme" train job.yaml --quiet --train.steps 500 --launch.ranks $ranks
    expect_json_lines out/log.jsonl
    rm -rf out
    limited 40 '^trireme: rank 0: the checkpoint of step 4 is not saved.*/out/checkpoints/[^ ]*: File too large$' \
        "$trireme" train job.yaml --quiet --train.save_every 4 --launch.ranks $ranks
done
rm -rf out
mkdir files
limited 32 '^trireme: rank [01]: .*/files .*File too large$' \
    "$trireme" train job.yaml --quiet --parallel.dp zero3 --parallel.offload '{optimizer: file, path: files}'
limited 2 '^trireme: cannot write [^ ]*limited[^ ]*: File too large$' \
    "$trireme" data prepare --input text.jsonl --output-prefix limited --train-bpe 320 --quiet
expect_none 'left behind' "$(ls | grep '^limited')"
finish
