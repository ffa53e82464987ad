# spans.sh -- every rank of a run records what it does, in OUT/spans: its instructions and calls, evaluations, checkpoints,
# and the phases of each step. A resumed run replaces the records; what does not train leaves them.
. "$(dirname "$0")/lib.sh" "$1"
print_spans=$2
make_data
make_job

records() { # OUT
    ok "$print_spans" "$1"
    mv stdout records
}

expect_names() { # FOLDER NAMES
    [ "$(echo $(ls "$1"))" = "$2" ] || fail "$1 holds $(ls "$1")"
}

expect_count() { # COUNT PATTERN: so many lines of the records match it
    local found
    found=$(grep -Ec -- "$2" records)
    [ "$found" = "$1" ] || fail "$found lines match '$2', expected $1: $(grep -E -- "${2%% *}" records | head -n 3)"
}

# Processes under ddp, with evaluations and a checkpoint.
train --train.eval_every 4 --train.save_every 4
expect_names out/spans 'rank-00000.spans rank-00001.spans'
records out
expect_count 1 '^0 head ranks=2 local=0 stage=0 place=dp_replicate 0 device=cpu flops=[1-9].* memory=1 ended=1 error_ns=0 running=-1$'
expect_count 1 '^1 head ranks=2 local=1 stage=0 place=dp_replicate 1 '
expect_count 2 '^[01] plan weights=[1-9][0-9]* gradients=[1-9][0-9]* optimizer=[1-9]'
expect_count 16 '^[01] step [1-8] whole '
expect_count 2 '^[01] row .* phase=forward stream=0 parent=-1 peer=-1 micro=0 .* count=8 .* name=FORWARD micro 0 block 1$'
expect_count 2 '^[01] row .* phase=communication stream=1 parent=-1 .* count=8 .* name=REDUCE_GRAD bucket 0$'
expect_count 2 '^[01] row .* kind=1 phase=communication .* group=dp_replicate count=8 .* name=all_reduce$'
expect_count 2 '^[01] row .* phase=evaluation stream=-1 .* count=2 .* name=evaluation$'
expect_count 2 '^[01] row .* phase=checkpoint stream=-1 .* count=2 .* name=checkpoint$'

# An evaluation alone does not change them.
cksum out/spans/* >before
ok "$trireme" eval job.yaml --model out/checkpoints/latest --json
cksum out/spans/* >after
expect_same before after

# A run that resumes with one rank has its own record alone.
train --train.steps 10 --launch.ranks 1
expect_names out/spans 'rank-00000.spans'
records out
expect_count 1 '^0 head ranks=1 '
expect_count 2 '^0 step (9|10) whole '

# Threads, in a pipeline: both ends of a message, and the stages.
train --train.out stages --launch.as threads --parallel.pp 2 --parallel.dp ddp
records stages
expect_count 1 '^1 head ranks=2 local=1 stage=1 place=pp 1 '
expect_count 1 '^0 row .* peer=1 micro=0 .* count=8 .* name=SEND_ACT micro 0 block [0-9]* to stage 1$'
expect_count 1 '^1 row .* peer=0 micro=0 .* count=8 .* name=RECV_ACT micro 0 block [0-9]* from stage 0$'
expect_count 16 '^[01] step [1-8] whole '

finish
