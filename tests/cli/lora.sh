# lora.sh -- runs that train adapters: their checkpoints, how they stop and resume, the commands that read them, and what
# is refused. unit/api/test_lora.c compares their numbers with PEFT's.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: llama, layers: 2, hidden: 16, heads: 2, ffn: 24, vocab: 320, max_seq: 16'
ok "$trireme" train job.yaml --quiet --train.steps 2 --train.save_every 2 --train.out trained
cp -rL trained/checkpoints/latest base
rm -r base/trireme
sed -e 's/^model:.*/model: {path: base}\nlora: {r: 4, lora_alpha: 8, dropout: 0.1}/' job.yaml >lora.yaml

lora() { # OPTIONS ...
    ok "$trireme" train lora.yaml --quiet --train.save_every 4 "$@"
}

expect_same_adapter() { # RUN RUN
    for file in adapter_model.safetensors adapter_config.json trireme/state.safetensors; do
        expect_same "$1/checkpoints/latest/$file" "$2/checkpoints/latest/$file"
    done
}

# ---- A checkpoint is PEFT's folder with the tokenizer, and the state beside it; the base is not in it
lora --train.out whole
folder=whole/checkpoints/latest
for file in adapter_config.json adapter_model.safetensors tokenizer.json trireme/state.json; do expect_file $folder/$file; done
for file in config.json model.safetensors; do expect_no_file $folder/$file; done
expect_line '"base_model_name_or_path": ".*/base"' $folder/adapter_config.json
expect_line '"r": 4,' $folder/adapter_config.json
expect_line '"lora_alpha": 8,' $folder/adapter_config.json
expect_line '"q_proj",' $folder/adapter_config.json
expect_no_line 'lm_head' $folder/adapter_config.json
ok "$trireme" checkpoint verify whole
ok "$trireme" checkpoint show whole
expect_line '^weight +base_model.model.model.layers.1.mlp.down_proj.lora_B.weight +fp32 ' stdout
expect_no_line 'embed_tokens' stdout

# ---- Other layouts and a run that stops have the same numbers, also in 16 bits and with state in files
lora --train.out sharded --parallel.dp zero3 --parallel.no_sync true
expect_same_losses whole sharded
expect_same_adapter whole sharded
lora --train.out staged --parallel.pp 2 --train.micro_batch 1
lora --train.out one --launch.ranks 1 --train.micro_batch 1
expect_same_losses staged one
for precision in fp32 bf16; do
    set -- --train.precision $precision --parallel.dp zero3 --parallel.offload.optimizer file --parallel.offload.path tier
    lora "$@" --train.out $precision
    lora "$@" --train.out stopped --train.steps 4
    lora "$@" --train.out stopped
    expect_same_losses $precision stopped
    expect_same_adapter $precision stopped
    rm -rf stopped
done

# ---- Commands take the adapter with its base, or both
ok "$trireme" eval job.yaml --model whole --json
cp stdout by-name
ok "$trireme" eval lora.yaml --model base --adapter whole --json
expect_same stdout by-name
ok "$trireme" eval lora.yaml --model base --json # without the adapter, whatever the job trains
cp stdout bare
awk -F'[:,]' 'NR == FNR { with = $2; next } { exit !(with < $2) }' by-name bare || fail 'the adapter does not help'
ok "$trireme" predict job.yaml --model whole --what logits
cp stdout logits
ok "$trireme" predict job.yaml --model base --adapter whole/checkpoints/latest --what logits
expect_same stdout logits
ok "$trireme" generate --model whole --prompt 'the sea' --tokens 4 --temperature 0
cp stdout said
ok "$trireme" generate --model base --adapter whole --prompt 'the sea' --tokens 4 --temperature 0
expect_same stdout said
refused 2 'is an adapter, too; valid: its base, with --adapter$' "$trireme" generate --model whole --adapter whole --prompt x
refused 2 'cannot open base/adapter_config.json' "$trireme" generate --model base --adapter base --prompt x

# ---- A new run starts from an adapter, with its settings where the job gives none
sed 's/^lora:.*/lora: {start: whole}/' lora.yaml >start.yaml
ok "$trireme" explain start.yaml
expect_line '^lora.rank +4 ' stdout
expect_line '^lora.alpha +8 ' stdout
expect_line '^lora.start +.*/whole/checkpoints/step-00000008 ' stdout
ok "$trireme" train start.yaml --quiet --train.steps 1 --train.out more
first=$(losses more | head -n 1 | cut -d' ' -f2)
awk -v a="$first" -v b="$(losses whole | head -n 1 | cut -d' ' -f2)" 'BEGIN { exit !(a < b) }' || fail "the run did not start from the adapter: $first"
refused 2 'lora.start: .*lora_A.weight has shape \[4, 16\], .*makes it \[3, 16\]$' "$trireme" train start.yaml --lora.rank 3

# ---- Modules that are saved train as they are, and groups are of adapters and of the base
lora --train.out saved --lora.modules_to_save '[lm_head]' --lora.target_modules '[q_proj, v_proj]' --train.steps 4
ok "$trireme" checkpoint show saved
expect_line '^weight +base_model.model.lm_head.weight +fp32 ' stdout
expect_no_line 'k_proj' stdout
ok "$trireme" explain lora.yaml --groups "[{match: '*lora_B*', lr_scale: 4}, {match: '*mlp*', dp: zero3}]"
expect_line '^  model.layers.0.self_attn.q_proj.lora_B.weight +\[16, 4\] +groups\[0\] \(\*lora_B\*\) +trainable$' stdout
expect_line '^  model.layers.0.mlp.up_proj.weight +\[24, 16\] +groups\[1\] \(\*mlp\*\) +frozen$' stdout
expect_line '^  model.layers.0.mlp.up_proj.lora_A.weight +\[4, 16\] +groups\[1\] \(\*mlp\*\) +trainable$' stdout
expect_line '^  lm_head.weight +\[320, 16\] +no group +frozen$' stdout

# ---- Layers by number, other ranks, and a regular expression
ok "$trireme" explain lora.yaml --lora.layers_to_transform '[1]' --lora.rank_pattern '{down_proj: 2}'
expect_line '^  model.layers.1.mlp.down_proj.lora_A.weight +\[2, 24\]' stdout
expect_line '^  model.layers.1.mlp.up_proj.lora_A.weight +\[4, 16\]' stdout
expect_no_line 'layers.0.*lora' stdout
ok "$trireme" explain lora.yaml --lora.target_modules '.*layers\.\d\.self_attn\.(?:q|v)_proj'
expect_line 'layers.0.self_attn.v_proj.lora_A' stdout
expect_no_line 'k_proj.lora|mlp.*lora' stdout

# ---- What is refused, in one line
refused 2 '^trireme: --lora.target_modules: found q_prj, which matches no layer of the model; valid for a llama: all-linear, or some of q_proj, k_proj,' \
    "$trireme" train lora.yaml --lora.target_modules q_prj
refused 2 '^trireme: --lora.target_modules: found lm_head, which is no linear layer inside a block;' "$trireme" train lora.yaml --lora.target_modules '[lm_head]'
refused 2 '^trireme: --lora.target_modules: found \(\?=q\), which is no regular expression' "$trireme" train lora.yaml --lora.target_modules '(?=q)'
refused 2 '^trireme: --lora.target_modules: q_proj: .* leave none of these layers an adapter$' \
    "$trireme" train lora.yaml --lora.target_modules '[q_proj]' --lora.exclude_modules q_proj
refused 2 '^trireme: --lora.modules_to_save: found head, which matches no module' "$trireme" train lora.yaml --lora.modules_to_save head
refused 2 '^trireme: --lora.rank_pattern: q_proj: found 1.5; valid: a whole number' "$trireme" train lora.yaml --lora.rank_pattern '{q_proj: 1.5}'
refused 2 '^trireme: --lora.rank: found 0; valid: none, or a whole number from 1 to 65536$' "$trireme" train lora.yaml --lora.rank 0
refused 2 '^trireme: --lora.alpha: given without lora.rank; valid: with lora.rank, as 16, or lora.start$' "$trireme" train job.yaml --lora.alpha 3
refused 2 '^trireme: --lora.start: cannot open .*/nowhere/adapter_config.json' "$trireme" train lora.yaml --lora.start nowhere
for key in '"use_dora": true' '"bias": "all"' '"peft_type": "IA3"' '"target_parameters": ["experts.down_proj"]'; do
    rm -rf other && cp -rL $folder other && rm -r other/trireme
    sed -i -e "/${key%%:*}/d" -e "s/^{/{\n  $key,/" other/adapter_config.json
    name=${key%%:*}
    refused 2 "^trireme: --lora.start: .*/other/adapter_config.json: ${name//\"/}: found .*; valid: " "$trireme" train lora.yaml --lora.start other
done

# ---- Another run may resume with the same adapters only, and on the same base
run "$trireme" train lora.yaml --quiet --train.out other-run --resume whole --lora.alpha 3 --train.steps 9
expect_exit 2
expect_line 'lora_alpha \(8 there, 3 here\); valid: the same values, or a new run with its weights \(lora.start\)$'
run "$trireme" train job.yaml --quiet --train.out other-run --resume whole --train.steps 9
expect_exit 2
expect_line 'holds adapters, and the job has none \(lora.rank\)$'
ok "$trireme" train job.yaml --quiet --train.steps 3 --train.save_every 3 --train.out trained
cp trained/checkpoints/latest/model.safetensors base/
changed='the adapter was trained on another base than the weights of the model \(mark [0-9a-f]{16} there, [0-9a-f]{16} here\); valid: the base as it was$'
run "$trireme" train lora.yaml --quiet --train.out whole --train.steps 9
expect_exit 2
expect_line "$changed"
refused 2 "$changed" "$trireme" generate --model whole --prompt x
refused 2 "$changed" "$trireme" eval job.yaml --model whole
refused 2 "$changed" "$trireme" train start.yaml

# ---- Memory is that of the plan: the base has no gradients and no state of the optimizer
ok "$trireme" explain lora.yaml
expect_line '^trainable: [0-9]{4} of [0-9]{5} parameters$' stdout
expect_line '^plan, group 1: .*frozen: no gradients, no optimizer state' stdout
awk '$1 == "gradients" { g = $2 } $1 == "optimizer" { o = $2 } END { exit !(g > 0 && o == 2 * g && g < 40000) }' stdout || fail 'gradients or state of the base are planned'
finish
