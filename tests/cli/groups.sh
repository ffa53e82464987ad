# groups.sh -- parameter groups in runs that stop and resume, with state in files, and frozen parameters in the saved
# model.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: llama, layers: 2, hidden: 16, heads: 2, ffn: 24, vocab: 320, max_seq: 16'

# The bytes of a tensor in a safetensors file, as hexadecimal digits.
tensor() { # FILE NAME
    local header offsets bytes
    bytes=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    header=$(head -c $((bytes + 8)) "$1" | tail -c "$bytes")
    offsets=$(sed 's/.*"'"$2"'":{[^}]*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/' <<<"$header")
    tail -c +$((bytes + 9 + ${offsets% *})) "$1" | head -c $((${offsets#* } - ${offsets% *})) | od -An -v -t x1
}

# ---- fp32 groups in a 16-bit job: they have no master weights, so the model's folder has them in fp32
for precision in bf16 fp16; do
    for dp in ddp zero3; do
        set -- --train.precision $precision --parallel.dp $dp --train.save_every 4 \
            --groups "[{match: '*norm*', dtype: fp32}, {match: 'model.embed*', dtype: fp32, dp: zero1}]"
        train "$@" --train.out $precision-$dp
        train "$@" --train.out stopped --train.steps 4
        train "$@" --train.out stopped
        expect_same_losses $precision-$dp stopped
        expect_same_checkpoint $precision-$dp stopped
        ok "$trireme" checkpoint show stopped/checkpoints/latest
        expect_line '^weight +model.norm.weight +fp32 ' stdout
        expect_line "^weight +model.layers.0.mlp.up_proj.weight +$precision " stdout
        rm -rf stopped
    done
done

# ---- State in files that some groups do not have: plain sgd has no state of the optimizer
files='--parallel.offload.optimizer file --parallel.offload.path tier'
train --optimizer.name sgd --optimizer.momentum 0 --train.out sgd
train --optimizer.name sgd --optimizer.momentum 0 --train.out sgd-files $files
expect_same_losses sgd sgd-files
set -- --train.save_every 4 --groups "[{match: '*norm*', optimizer: sgd, momentum: 0}, {match: 'lm_head*', trainable: false}]"
train "$@" --train.out mixed
train "$@" --train.out mixed-files $files
expect_same_losses mixed mixed-files
expect_same_checkpoint mixed mixed-files

refused 2 'groups\[0\].offload.weights: file needs weights .* valid: groups\[0\].dp zero3, or device$' \
    "$trireme" train job.yaml --quiet --parallel.offload.path tier \
    --groups "[{match: '*norm*', dp: zero2, offload: {weights: file}}]"

# ---- A run resumes with the groups that it had; a new run may begin with the weights of a checkpoint
ok "$trireme" train job.yaml --quiet --train.out frozen --train.save_every 4 --train.steps 4 --groups "[{match: '*norm*', trainable: false}]"
run "$trireme" train job.yaml --quiet --train.out frozen --groups "[{match: 'model.norm*', trainable: false}]"
expect_exit 2
expect_line 'groups\[0\] \(\{match: "\*norm\*", trainable: false\} there, \{match: "model.norm\*", trainable: false\} here\)'
run "$trireme" train job.yaml --quiet --train.out thawed --resume frozen/checkpoints/latest
expect_exit 2
expect_line ': trainable \(false there, true here, of model.layers.0.input_layernorm.weight\); valid: .* \(model.path\)$'
sed '/^model:/d' job.yaml >from-weights.yaml
ok "$trireme" train from-weights.yaml --quiet --model.path frozen/checkpoints/latest --train.out thawed-2

# ---- A new run resumes from a checkpoint of another only where each tensor keeps its optimizer, dtype and state
resumes() { # GROUPS LINE, or no line: the run resumes
    run "$trireme" train job.yaml --quiet --train.precision bf16 --resume grouped --train.out other --groups "$1"
    [ $# = 2 ] && expect_exit 2 && expect_line "^trireme: --resume: .*/grouped/checkpoints/step-00000004 was saved .*: $2; valid: the same values"
    [ $# = 1 ] && expect_exit 0
    [ -n "${2-}" ] && expect_no_file other
    rm -rf other
}
ok "$trireme" train job.yaml --quiet --train.precision bf16 --train.out grouped --train.save_every 4 --train.steps 4 \
    --groups "[{match: '*norm*', optimizer: adam, dtype: fp32}, {match: '*mlp*', optimizer: lion}, {match: 'lm_head*', trainable: false}]"
resumes "[{match: '*norm*', optimizer: adam, dtype: fp32}, {match: '*mlp*', optimizer: sgd, momentum: 0.9}, {match: 'lm_head*', trainable: false}]" \
    'groups\[1\].optimizer \(lion there, sgd here, of model.layers.0.mlp.[a-z_]*.weight\)'
resumes "[{match: '*norm*', optimizer: adam}, {match: '*mlp*', optimizer: lion}, {match: 'lm_head*', trainable: false}]" \
    'groups\[0\].dtype \(fp32 there, bf16 here, of model.[a-z0-9_.]*norm.weight\)'
resumes "[{match: '*norm*', optimizer: adam, dtype: fp32}, {match: '*mlp*', trainable: false}, {match: 'lm_head*', trainable: false}]" \
    'groups\[1\].trainable \(true there, false here, of model.layers.0.mlp.[a-z_]*.weight\)'
resumes "[{match: '*mlp*', optimizer: lion}, {match: 'lm_head*', trainable: false}]" \
    'train.precision \(fp32 there, bf16 here, of model.layers.0.input_layernorm.weight\)'
resumes "[{match: '*norm*', optimizer: adam, dtype: fp32}, {match: '*mlp*', optimizer: lion}]" 'trainable \(false there, true here, of lm_head.weight\)'
resumes "[{match: 'lm_head*', trainable: false}, {match: '*mlp*', optimizer: lion}, {match: '*layernorm*', optimizer: adam, dtype: fp32}, {match: 'model.norm*', optimizer: adam, dtype: fp32}]"

# ---- A frozen tensor keeps its bytes; a trainable one does not
train "$@" --train.out start --train.steps 1 --optimizer.lr 0 --train.save_every 1
for name in lm_head.weight model.norm.weight; do
    tensor start/checkpoints/latest/model.safetensors $name >at-start
    tensor mixed/checkpoints/latest/model.safetensors $name >at-end
    [ -s at-start ] || fail "the model has no bytes of $name"
    if [ $name = lm_head.weight ]; then expect_same at-start at-end; else
        cmp -s at-start at-end && fail "$name is trainable and did not change"
    fi
done
finish
