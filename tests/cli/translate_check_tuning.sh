# translate_check_tuning.sh -- `trireme translate --check` of fine-tuners' files, with a stand-in for the original. Where
# TRIREME_ORIGINALS names a Python that has TRL, TRL and transformers' Trainer run, too: no test of CI has PyTorch.
#   TRIREME_ORIGINALS=venv/bin/python bash tests/cli/translate_check_tuning.sh build/trireme
. "${0%/*}/lib.sh" "$1"
golden=$(cd "${0%/*}/../golden" && pwd)
cat >first.yaml <<END
model: {family: llama, layers: 2, hidden: 16, heads: 2, kv_heads: 1, ffn: 24, vocab: 360, max_seq: 128}
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 1, save_every: 1, eval_every: 0, out: first}
launch: {ranks: 1}
END
ok "$trireme" train first.yaml --quiet
cp -RL first/checkpoints/latest model
rm -R model/trireme
cp "$golden"/sft/tokenizer.json "$golden"/sft/tokenizer_config.json "$golden"/sft/chat_template.jinja model/
cat >sft.yaml <<END
model_name_or_path: model
dataset_name: $golden/sft/messages.jsonl
assistant_only_loss: true
packing: true
max_length: 128
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: false
use_cpu: true
max_steps: 20
learning_rate: 1e-2
warmup_steps: 2
output_dir: of_trl
END
sed 's/^packing.*/use_peft: true\nlora_r: 2\nlora_target_modules: all-linear/' sft.yaml >lora.yaml
cat >dpo.yaml <<END
model_name_or_path: model
dataset_name: $golden/sft/preference.jsonl
max_length: 64
per_device_train_batch_size: 2
bf16: false
use_cpu: true
max_steps: 20
beta: 0.2
learning_rate: 1e-3
END
cat >trainer.json <<END
{"model_name_or_path": "model", "per_device_train_batch_size": 2, "max_steps": 20, "learning_rate": 1e-2, "adam_beta2": 0.95,
 "weight_decay": 0.1, "lr_scheduler_type": "cosine", "warmup_steps": 2, "use_cpu": true}
END
make_text
ok "$trireme" data prepare --input text.jsonl --tokenizer model --output-prefix shards
shards='--data.train shards --data.seq_len 16'

# The stand-in keeps its request, and the adapter that it is given, and says that it cannot run.
cat >python <<END
#!/bin/bash
[ "\${3-}" ] || [ "\${RANK-0}" != 0 ] && exit 0
cp "\$2" $scratch/request.json
adapter=\$(sed -n 's/^ *"adapter": "\(.*\)",*\$/\1/p' "\$2")
[ -z "\$adapter" ] || cp "\$adapter"/adapter_* $scratch/
echo '{"cannot": "this is a stand-in"}' >>"\$(sed -n 's/^ *"result": "\(.*\)",*\$/\1/p' "\$2")"
END
chmod +x python
stand_in() { # SYSTEM FILE ARGUMENTS...
    rm -f request.json adapter_*
    run "$trireme" translate --check "$@" --python ./python
    expect_exit 2
    expect_line 'cannot run here: this is a stand-in$'
}
stand_in trl sft.yaml
expect_line '"loss": "auto"' request.json
expect_line '"has_samples": true' request.json
expect_line '"data": ".*messages.jsonl"' request.json
expect_line '"accumulation": 2' request.json
expect_line '"total_steps": 20' request.json
expect_no_file adapter_config.json
stand_in trl lora.yaml
expect_line '"r": 2' adapter_config.json
expect_line '"lora_dropout": 0' adapter_config.json
[ -s adapter_model.safetensors ] || fail 'the original gets no weights of the adapter'
stand_in trl dpo.yaml
expect_line '"loss": "dpo"' request.json
stand_in trainer trainer.json $shards
expect_line '"has_samples": false' request.json
refused 2 'data.train must be the prefix of one pair of token shards$' "$trireme" translate --check trainer trainer.json \
    --data.train "$golden/sft/messages.jsonl" --python ./python
refused 2 'data.train must be the prefix of one pair of token shards, or one file \*.jsonl$' "$trireme" translate --check trl sft.yaml \
    --data.train mock --python ./python

[ -n "${TRIREME_ORIGINALS-}" ] || finish
agrees() { # SYSTEM FILE ARGUMENTS...
    run "$trireme" translate --check "$@" --python "$TRIREME_ORIGINALS"
    expect_exit 0
    expect_line '^verdict: the same run: 5 losses' stdout
    tail -n 1 stdout
}
differs() { # SYSTEM FILE ARGUMENTS...
    run "$trireme" translate --check "$@" --python "$TRIREME_ORIGINALS"
    expect_exit 1
    expect_line '^verdict: another run: 5 losses' stdout
}
for ranks in 1 2; do
    agrees trl sft.yaml --launch.ranks $ranks
    agrees trl lora.yaml --launch.ranks $ranks
    agrees trl dpo.yaml --launch.ranks $ranks
    agrees trainer trainer.json $shards --launch.ranks $ranks
done
sed '/^assistant_only_loss/d' sft.yaml >shards.yaml
agrees trl shards.yaml $shards
sed 's/^bf16.*/bf16: true/' sft.yaml >bf16.yaml
agrees trl bf16.yaml
# Keys that follow change Trireme's run alone.
differs trl sft.yaml --data.train_on all
expect_line '^step 1 differs before any update: the weights, the tokens, their labels or' stdout
differs trl lora.yaml --lora.alpha 7
differs trl dpo.yaml --dpo.beta 0.3
differs trainer trainer.json $shards --optimizer.betas 0.9,0.999
run "$trireme" translate --check trl lora.yaml --lora.target_modules q_proj --python "$TRIREME_ORIGINALS"
expect_exit 2
expect_line "Trireme's adapter and its own have other tensors"
printf 'base_model: model\ndatasets: [{path: %s, type: chat_template}]\nsequence_len: 128\n' "$golden/sft/messages.jsonl" >axolotl.yaml
run "$trireme" translate --check axolotl axolotl.yaml --python "$TRIREME_ORIGINALS"
expect_exit 2
expect_line 'axolotl cannot run here: it encodes samples by templates of its own'
echo 'model_name_or_path: model' >llamafactory.yaml
run "$trireme" translate --check llamafactory llamafactory.yaml --python "$TRIREME_ORIGINALS"
expect_exit 2
expect_line 'LLaMA-Factory cannot run here: it encodes samples by templates of its own'
finish
