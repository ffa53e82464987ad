# layouts.sh -- on one data-parallel size the losses and evaluation losses of a log have the same bits under every
# policy and pipeline, also on a number of ranks that is not a power of two, with split sequences and with parameter
# groups.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 2, hidden: 16, heads: 2, vocab: 320, max_seq: 16, drop_embed: 0, drop_attention: 0, drop_residual: 0'

numbers() { # RUN: steps and evaluations with their losses
    sed -n 's/^{"event":"\(step\|eval\)","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2 \3/p' "$1/log.jsonl" >"$1.losses"
}

for ranks in 2 3 4; do
    common="--train.steps 6 --train.global_batch 12 --train.eval_every 1 --train.eval_batches 0 --data.valid toy --launch.ranks $ranks"
    train $common --train.out ddp-$ranks
    numbers ddp-$ranks
    expect_lines 12 ddp-$ranks.losses
    train $common --train.out zero3-$ranks --parallel.dp zero3 --parallel.no_sync true
    train $common --train.out pp-$ranks --launch.ranks $((2 * ranks)) --parallel.pp 2
    for other in zero3 pp; do
        numbers $other-$ranks
        expect_same ddp-$ranks.losses $other-$ranks.losses
    done
done

# ---- Two context-parallel ranks for each of two data-parallel ranks
common="--train.steps 6 --train.global_batch 12 --train.eval_every 1 --train.eval_batches 0 --data.valid toy --parallel.no_sync true --launch.ranks"
train $common 4 --train.out cp-ddp --parallel.cp 2
train $common 4 --train.out cp-zero3 --parallel.cp 2 --parallel.dp zero3 --launch.as threads
train $common 8 --train.out cp-pp --parallel.cp 2 --parallel.pp 2 --parallel.recompute full
for run in cp-ddp cp-zero3 cp-pp; do
    numbers $run
    expect_same cp-ddp.losses $run.losses
    expect_near_losses ddp-2 $run 1e-5
done

# ---- Frozen MLPs, and biases with settings of their own
frozen='match: "*.mlp.*", trainable: false' biases='match: "*.bias", lr_scale: 2, weight_decay: 0'
train $common 2 --train.out groups-ddp --groups "[{$frozen}, {$biases}]"
train $common 2 --train.out groups-mixed --groups "[{$frozen, dp: zero3}, {$biases, dp: zero1}]"
train $common 4 --train.out groups-pp --parallel.pp 2 --groups "[{$frozen}, {$biases}]"
for run in groups-mixed groups-pp; do
    numbers groups-ddp
    numbers $run
    expect_same groups-ddp.losses $run.losses
done
expect_lines 12 groups-ddp.losses
! cmp -s ddp-2.losses groups-ddp.losses || fail 'the groups change nothing'

# ---- A checkpoint whose matrices are larger than the buffers of a save: one rank writes a whole matrix in pieces,
# or four write a shard of it each
make_job 'family: gpt2, layers: 1, hidden: 640, heads: 2, vocab: 2000, max_seq: 16'
common='--train.steps 1 --train.global_batch 4 --train.eval_every 0 --train.save_every 1 --launch.ranks'
train $common 4 --train.out large-ddp --parallel.dp ddp
train $common 4 --train.out large-zero3 --parallel.dp zero3 --parallel.no_sync true
expect_same_checkpoint large-ddp large-zero3
finish
