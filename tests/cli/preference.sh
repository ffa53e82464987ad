# preference.sh -- DPO, ORPO and KTO, and rows with labels and weights: ten steps have the losses of TRL, or of PyTorch where
# TRL has no such loss, under every way to divide the work; the reference is computed once and kept.
. "${0%/*}/lib.sh" "$1"
golden=${0%/*}/../golden/preference

cat >pairs.yaml <<END
model: {path: $golden/model}
data: {train: $golden/pairs.jsonl, packing: none, order: sequential, seq_len: 96}
train: {steps: 10, global_batch: 4, micro_batch: 2, save_every: 0, eval_every: 0, clip_grad_norm: 1.0, loss: dpo}
dpo: {beta: 0.3}
optimizer: {name: adamw, lr: 3e-3, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 1}
END
sed '/^dpo/d; s/, loss: dpo//; s/pairs.jsonl/sft.jsonl/' pairs.yaml >sft.yaml
sed '/^dpo/d; s/loss: dpo/loss: orpo/' pairs.yaml >orpo.yaml
echo 'orpo: {beta: 0.3}' >>orpo.yaml
sed '/^dpo/d; s/loss: dpo/loss: kto/; s/global_batch: 4/global_batch: 2/; s/micro_batch: 2/micro_batch: 1/' pairs.yaml >kto.yaml
echo 'kto: {beta: 0.3, undesirable_weight: 0.7}' >>kto.yaml

# The losses of a run are within 1e-5 of those of the golden file, or with "relative" within 1e-5 of each loss above 1.
expect_golden() { # RUN NAME [relative]
    losses "$1" | awk '{ print $2 }' >"$1.losses"
    awk -v name="\"$2\": [" 'index($0, name) { on = 1; next } on && /^ \]/ { exit } on && /"loss"/ { gsub(/[^-0-9.e]/, "", $2); print $2 }' \
        "$golden/losses.json" >"$1.golden"
    expect_lines 10 "$1.golden"
    paste "$1.losses" "$1.golden" | awk -v relative="${3:+1}" '
        { d = $1 - $2; if (d < 0) d = -d; most = relative && $2 > 1 ? $2 : 1; if (!(d <= 1e-5 * most)) bad = 1 } END { exit bad || NR != 10 }' ||
        fail "the losses of $1 are not those of $2: $(paste "$1.losses" "$1.golden" | head -n 3)"
}
train() { # NAME JOB [OVERRIDES]
    local name=$1 job=$2
    shift 2
    ok "$trireme" train "$job" --quiet --train.out "$name" "$@"
}

# ---- TRL's losses

train sft sft.yaml
expect_golden sft sft
train weighted sft.yaml --data.train "$golden/weighted.jsonl"
expect_golden weighted weighted
train dpo pairs.yaml
expect_golden dpo dpo
for type in ipo hinge exo_pair nca_pair robust bco_pair sppo_hard apo_zero apo_down discopop sigmoid_norm; do
    options='' relative=''
    case $type in
    exo_pair) options='--dpo.label_smoothing 0.01' ;;
    robust) options='--dpo.label_smoothing 0.1' ;;
    discopop) options='--dpo.discopop_tau 0.5' ;;
    sppo_hard) options='--optimizer.lr 3e-4' relative=relative ;;
    esac
    # shellcheck disable=SC2086
    train $type pairs.yaml --dpo.loss_type $type $options
    expect_golden $type dpo_$type $relative
done
train orpo orpo.yaml
expect_golden orpo orpo
train kto kto.yaml
expect_golden kto kto
train apo_unpaired kto.yaml --kto.loss_type apo_zero_unpaired
expect_golden apo_unpaired apo_zero_unpaired
expect_line '"rewards/chosen":[-0-9.e]+,"rewards/rejected":[-0-9.e]+,"rewards/accuracies":[0-9.e]+,"rewards/margins":' dpo/log.jsonl
expect_no_line 'rewards' sft/log.jsonl

# The same under every way to divide the work: rows with labels lie unevenly over micro-batches and ranks.
while read -r name ranks overrides; do
    for loss in sft weighted dpo orpo; do
        job=sft.yaml data=$golden/$loss.jsonl
        case $loss in dpo) job=pairs.yaml ;; orpo) job=orpo.yaml ;; esac
        [ $job = sft.yaml ] || data=$golden/pairs.jsonl
        # shellcheck disable=SC2086
        train "$loss-$name" $job --data.train "$data" --launch.ranks "$ranks" $overrides
        expect_golden "$loss-$name" $loss
    done
done <<'END'
ddp 2 --train.micro_batch 1
zero3 4 --train.micro_batch 1 --parallel.dp zero3
tp 2 --parallel.tp 2
sp 2 --parallel.tp 2 --parallel.sequence_parallel true
pp 2 --parallel.pp 2 --train.micro_batch 1
cp 2 --parallel.cp 2
tp_cp 4 --parallel.tp 2 --parallel.cp 2
END

while read -r name overrides; do
    # shellcheck disable=SC2086
    train "kto-$name" kto.yaml --launch.ranks 2 $overrides
    expect_golden "kto-$name" kto
done <<'END'
ddp --train.micro_batch 1
zero3 --parallel.dp zero3
tp --parallel.tp 2
pp --parallel.pp 2
cp --parallel.cp 2
END

# The estimate is of the global batch: it depends on no micro-batch, and a pipeline has its bits.
train kto-one kto.yaml --train.micro_batch 2
expect_golden kto-one kto
expect_same_losses kto kto-pp

# ---- The reference

# It is computed once: a resumed run reads it, and has the bits of one that was not interrupted.
train whole pairs.yaml --train.save_every 5
train parts pairs.yaml --train.save_every 5 --train.steps 5
train parts pairs.yaml --train.save_every 5
expect_same_losses whole parts
expect_same whole/reference-train.bin parts/reference-train.bin
train parts pairs.yaml --train.steps 12 --train.save_every 5
mv parts/reference-train.bin kept
run "$trireme" train pairs.yaml --train.out parts --train.steps 14
expect_exit 2
expect_line 'reference-train.bin: not there; it has the log-probabilities of the reference'
cp "$golden/pairs.jsonl" parts/reference-train.bin
run "$trireme" train pairs.yaml --train.out parts --train.steps 14
expect_exit 2
expect_line 'reference-train.bin: [0-9]+ bytes; valid for data.train: [0-9]+, of the same samples'
run "$trireme" train pairs.yaml --train.out adapters --lora.rank 2 --dpo.reference "$golden"
expect_exit 2
expect_line 'dpo.reference: found a folder, and the job trains adapters; valid: auto'

train kto-parts kto.yaml --train.save_every 5 --train.steps 5
train kto-parts kto.yaml --train.save_every 5
expect_same_losses kto kto-parts

# A folder as the reference: the same one gives the same losses, and another one other losses.
train folder pairs.yaml --dpo.reference "$golden/model"
expect_same_losses dpo folder
train other pairs.yaml --dpo.reference whole/checkpoints/latest --train.steps 2
[ "$(losses other | head -n 1)" != "$(losses dpo | head -n 1)" ] || fail "another reference gives the same loss"

# An evaluation has a reference of its own; before step 1 the policy is the reference.
train valid pairs.yaml --data.valid "$golden/pairs.jsonl" --train.eval_every 5 --parallel.pp 2 --launch.ranks 2
expect_line '"event":"eval","step":5,"loss":0\.[0-9]+' valid/log.jsonl
expect_file valid/reference-valid.bin

# ---- Refusals

refused 2 'orpo.beta: not a parameter of the loss dpo' "$trireme" train pairs.yaml --orpo.beta 1
refused 2 'dpo.label_smoothing: found 0; valid for exo_pair: a number above 0' "$trireme" train pairs.yaml \
    --dpo.loss_type exo_pair
refused 2 'dpo.label_smoothing: found 0.5; valid for robust: a number below 0.5' "$trireme" train pairs.yaml \
    --dpo.loss_type robust --dpo.label_smoothing 0.5
refused 2 'train.global_batch: found 1; valid: 2 or more' "$trireme" train kto.yaml --train.global_batch 1
refused 2 'train.loss: found dpo, and data.train has no pairs' "$trireme" train pairs.yaml --data.train mock
refused 2 'train.loss: found mse, and the labels of data.train are ids; valid: cross_entropy' \
    "$trireme" train sft.yaml --train.loss mse
finish
