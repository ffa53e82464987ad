# powersgd.sh -- checkpoints contain PowerSGD's errors and factors: a resumed run has the bits of a run that never
# stopped, also under another policy. With another number of ranks they start at zero, and a warning says so.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 32, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'
hook='{name: powersgd, rank: 2, start_step: 2, min_compression_rate: 1}'

resumes() { # NAME ARGUMENTS... -- ARGUMENTS-AFTER...
    local name=$1 first=()
    shift
    while [ "$1" != -- ]; do
        first+=("$1")
        shift
    done
    shift
    set -- --parallel.hook "$hook" --train.save_every 4 "$@"
    train "${first[@]}" --parallel.hook "$hook" --train.save_every 4 --train.out "straight-$name"
    cp -r "straight-$name" "stopped-$name"
    rm -r "stopped-$name/checkpoints/step-00000008"
    sed -i '/"event":"step","step":5/,$d' "stopped-$name/log.jsonl"
    train "$@" --train.out "stopped-$name"
    expect_steps "stopped-$name" 8
    expect_no_line 'PowerSGD state'
    expect_same_losses "straight-$name" "stopped-$name"
    expect_same_checkpoint "straight-$name" "stopped-$name"
}

resumes ddp -- 
resumes bf16 --train.precision bf16 -- --train.precision bf16
resumes zero3 --parallel.dp zero3 -- --parallel.dp zero3
resumes policy --parallel.dp zero2 --parallel.no_sync true -- --parallel.dp zero1 --parallel.no_sync true
resumes pipeline --launch.ranks 4 --parallel.pp 2 -- --launch.ranks 4 --parallel.pp 2
resumes tensor --launch.ranks 4 --parallel.tp 2 -- --launch.ranks 4 --parallel.tp 2
resumes cold --parallel.hook.warm_start false -- --parallel.hook.warm_start false
resumes plain --parallel.hook.error_feedback false -- --parallel.hook.error_feedback false

train --parallel.hook "$hook" --train.steps 4 --train.save_every 4 --train.out moved
train --parallel.hook "$hook" --train.save_every 4 --train.out moved --launch.ranks 4
expect_line "warning: the checkpoint's PowerSGD state is of another layout of ranks"
expect_steps moved 8
finish
