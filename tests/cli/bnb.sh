# bnb.sh -- folders that bitsandbytes has quantised: trained unpacked and packed, exported, merged, and what is refused.
# unit/infer/test_bnb.c compares their weights and logits with bitsandbytes and transformers.
. "$(dirname "$0")/lib.sh" "$1"
golden=$(cd "$OLDPWD" && cd "$(dirname "$0")/../golden/bnb" && pwd)

job_of() { # FOLDER
    cat <<END
model: {path: $1}
lora: {rank: 4, alpha: 8}
data: {train: mock, valid: mock, seq_len: 16}
train: {steps: 4, global_batch: 4, micro_batch: 1, save_every: 4, eval_every: 0, precision: bf16}
optimizer: {lr: 1e-1}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 2, as: threads, threads_per_rank: 1}
END
}

# ---- Packed rows have the bytes of the folder: packing anew would give other losses
for kind in double single odd; do
    job_of "$golden/$kind" >$kind.yaml
    ok "$trireme" train $kind.yaml --quiet --train.out $kind-unpacked
    ok "$trireme" train $kind.yaml --train.out $kind-packed --model.storage nf4
    cp stderr said
    if [ $kind = double ]; then
        expect_same_losses double-unpacked double-packed
        expect_no_line 'packed anew' said
    else
        expect_line "warning: 7 of 7 quantised tensors of .*/$kind are packed anew, which changes them" said
        [ "$(losses $kind-unpacked)" != "$(losses $kind-packed)" ] || fail "$kind: packing anew changes nothing"
    fi
done
[ "$(losses double-unpacked)" != "$(losses single-unpacked)" ] || fail 'double quantisation changes nothing'
ok "$trireme" train double.yaml --quiet --train.out sharded --model.storage nf4 --parallel.dp zero3 --parallel.no_sync true
expect_same_losses double-packed sharded
ok "$trireme" train double.yaml --quiet --train.out tp --parallel.tp 2
ok "$trireme" train double.yaml --quiet --train.out tp-packed --parallel.tp 2 --model.storage nf4
expect_same_losses tp tp-packed
ok "$trireme" explain double.yaml --model.storage nf4
expect_line 'self_attn.k_proj.weight .* frozen, NF4$' stdout

# ---- What comes out is not quantised
ok "$trireme" checkpoint export "$golden/double" --to hf --out plain
expect_line '^plain: 12 tensors, ' stdout
expect_no_line 'quantization_config|bnb' plain/config.json
expect_line '"model_type": "llama"' plain/config.json
job_of plain >plain.yaml
ok "$trireme" train plain.yaml --quiet --train.out plain-out
expect_same_losses double-unpacked plain-out
ok "$trireme" train plain.yaml --quiet --train.out plain-packed --model.storage nf4
[ "$(losses plain-packed)" != "$(losses plain-out)" ] || fail 'quantising twice changes nothing'
sed '/^lora/d; s/1e-1/1e-3/' double.yaml >whole.yaml
ok "$trireme" train whole.yaml --quiet --train.out whole
expect_no_line 'quantization_config' whole/checkpoints/latest/config.json
ok "$trireme" eval whole.yaml --model whole --json

# ---- An adapter on packed rows is merged onto these; bf16 holds them, so the stored base is the same
ok "$trireme" checkpoint export double-packed --to hf --merge --out merged
expect_line 'as NF4 packs and unpacks them: 7 tensors change' stdout
expect_line 'trained on the NF4 form; the weights as they are stored and their NF4 form differ by 0 at most' stdout
ok "$trireme" checkpoint export double-packed --to hf --merge --merge-onto stored --out stored
expect_line 'as they are stored there: 7 tensors change' stdout
expect_same merged/model.safetensors stored/model.safetensors
expect_no_line 'quantization_config' merged/config.json

# ---- What is refused
refused_config() { # SED-SCRIPT PATTERN
    rm -rf other
    cp -r "$golden/double" other
    sed -i "$1" other/config.json
    refused 2 "^trireme: --model.path: .*/other/config.json: quantization_config: $2$" \
        "$trireme" train double.yaml --model.path other --train.out out
}
valid='valid: null, or bitsandbytes with load_in_4bit and bnb_4bit_quant_type nf4'
refused_config 's/"nf4"/"fp4"/' "bnb_4bit_quant_type: found \"fp4\"; $valid"
refused_config '/bnb_4bit_quant_type/d' "bnb_4bit_quant_type: found nothing, which is fp4; $valid"
refused_config 's/"load_in_4bit": true/"load_in_4bit": false/' "load_in_4bit is not true; $valid"
refused_config 's/"bitsandbytes"/"gptq"/' "found quant_method \"gptq\"; $valid"
rm -rf other
cp -r "$golden/double" other
sed -i 's/bitsandbytes__nf4/bitsandbytes__fp4/g' other/model.safetensors
refused 2 '^trireme: .*other: tensor .*quantised by bitsandbytes as fp4; valid: nf4$' \
    "$trireme" train double.yaml --model.path other --train.out out
finish
