# export.sh -- `trireme checkpoint export` and `import`: GGUF files there and back, clean HuggingFace folders of a run, adapters,
# and what is refused. tests/unit/convert compares the files with llama.cpp's converter.
. "$(dirname "$0")/lib.sh" "$1"
golden=$(cd "$OLDPWD" && cd "$(dirname "$0")/../golden" && pwd)
file=$golden/../fuzz/corpus/gguf/good-model
folder=$golden/gguf/vocab

say() { # MODEL
    "$trireme" generate --model "$1" --prompt 'the small words' --tokens 12 --temperature 0 --quiet 2>&1
}

# Nothing but these names is in the folder.
expect_names() { # FOLDER NAMES
    [ "$(ls -A "$1" | tr '\n' ' ')" = "$2 " ] || fail "$1 holds $(ls -A "$1" | tr '\n' ' '), expected $2"
}

# ---- A GGUF file becomes a folder, and the folder a GGUF file

ok "$trireme" checkpoint import "$file" --out back
expect_line '^back: 11 tensors, .*, fp32$' stdout
expect_names back 'chat_template.jinja config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json'
cmp -s back/chat_template.jinja "$folder/chat_template.jinja" || fail 'the chat template is another one'
[ "$(say back)" = "$(say "$folder")" ] || fail 'the imported model says something else'
expect_line '"eos_token_id": 0' back/generation_config.json

ok "$trireme" checkpoint export back --to gguf --out again.gguf --dtype f32
ok "$trireme" checkpoint import again.gguf --out again
cmp -s back/model.safetensors again/model.safetensors || fail 'the weights change on the way'
cmp -s back/tokenizer.json again/tokenizer.json || fail 'the tokenizer changes on the way'

for type in f16 bf16 q8_0; do
    ok "$trireme" checkpoint export "$folder" --to gguf --out $type.gguf --dtype $type
    ok "$trireme" checkpoint import $type.gguf --out $type
    [ -n "$(say $type)" ] || fail "$type: the imported model says nothing"
done
expect_line '"dtype": "bfloat16"' bf16/config.json
expect_line '"dtype": "float16"' f16/config.json
expect_line '"dtype": "float32"' q8_0/config.json
[ "$(say bf16)" = "$(say "$folder")" ] || fail 'a bf16 model says something else as a bf16 GGUF file'
ok "$trireme" checkpoint import q8_0.gguf --out as-bf16 --dtype bf16 --json
expect_line '^\{"out":"as-bf16","tensors":11,"bytes":[0-9]+,"dtype":"bf16"\}$' stdout

# ---- A run, and a folder in several files

cat >job.yaml <<END
model: {path: $folder}
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 1, micro_batch: 1, save_every: 1, eval_every: 0, precision: fp32, out: out}
launch: {ranks: 1, as: threads, threads_per_rank: 1}
END
ok "$trireme" train job.yaml
ok "$trireme" checkpoint export out --to hf --out clean --dtype bf16 --shard-size 16k
[ ! -e clean/trireme ] || fail 'the exported folder holds trireme/'
expect_line '"dtype": "bfloat16"' clean/config.json
expect_line '"total_size": ' clean/model.safetensors.index.json
[ "$(ls clean/model-*.safetensors | wc -l)" -gt 1 ] || fail 'the weights are in one file'
for name in tokenizer.json tokenizer_config.json chat_template.jinja; do
    cmp -s clean/$name "$folder/$name" || fail "$name is not byte for byte that of the folder"
done
[ -n "$(say clean)" ] || fail 'the exported model says nothing'
ok "$trireme" checkpoint export out --to gguf --out run.gguf
ok "$trireme" checkpoint import clean --out copy
cmp -s clean/config.json copy/config.json || fail 'import of a folder changes config.json'

# A folder that does not say where text ends gets it from config.json.
cp -r "$folder" silent
rm silent/generation_config.json
ok "$trireme" checkpoint export silent --to hf --out ends
expect_line '"eos_token_id": 0' ends/generation_config.json

# One that stops elsewhere than its template ends a turn gets that token, too.
sed -i 's/"eos_token_id": 0/"eos_token_id": 5/' ends/generation_config.json
ok "$trireme" checkpoint export ends --to hf --out both
tr -d ' \n' <both/generation_config.json >flat
expect_line '"eos_token_id":\[5,0\]' flat
expect_line '"bos_token_id":1' flat

# ---- Adapters

mkdir adapter
echo '{"peft_type": "LORA", "r": 2, "target_modules": ["q_proj"]}' >adapter/adapter_config.json
cp "$folder/model.safetensors" adapter/adapter_model.safetensors
mkdir adapter/trireme && echo '{}' >adapter/trireme/state.json
ok "$trireme" checkpoint export adapter --to peft --out peft --dtype fp32
expect_names peft 'adapter_config.json adapter_model.safetensors'
turned_down() { # PATTERN COMMAND…
    local pattern=$1
    shift
    run "$trireme" checkpoint "$@"
    expect_exit 2
    expect_line "$pattern"
    [ "$(wc -l <stderr)" = 1 ] || fail "more than one line: $(cat stderr)"
    [ ! -e no ] || fail "something is left behind: $(ls -A no)"
    rm -rf no
}
turned_down 'adapter; valid: --merge, or --to peft, --to gguf' export adapter --to hf --out no
turned_down 'holds no adapter; valid: --to hf, --to gguf' export "$folder" --to peft --out no
turned_down '^trireme: --merge: found a model, which has no adapter' export "$folder" --to hf --merge --out no

# An adapter that a run trained, merged: the model says what base and adapter say together.
cat >lora.yaml <<END
model: {path: $folder}
data: {train: mock, seq_len: 16}
train: {steps: 4, global_batch: 2, micro_batch: 2, save_every: 4, eval_every: 0, precision: fp32, out: tuned}
optimizer: {name: adamw, lr: 0.5}
lora: {rank: 2, alpha: 8}
launch: {ranks: 1, as: threads, threads_per_rank: 1}
END
ok "$trireme" train lora.yaml
ok "$trireme" checkpoint export tuned --to hf --merge --out merged --dtype fp32
expect_line '7 tensors change, an element by [0-9.e-]+ at most' stdout
[ "$(say merged)" = "$(say tuned)" ] || fail "the merged model says '$(say merged)', base and adapter '$(say tuned)'"
[ "$(say merged)" != "$(say "$folder")" ] || fail 'the merged model says what its base says'
ok "$trireme" checkpoint export tuned --to gguf --merge --out merged.gguf --dtype f32
ok "$trireme" checkpoint import merged.gguf --out merged-back
expect_same merged/model.safetensors merged-back/model.safetensors
ok "$trireme" checkpoint export tuned --to gguf --out tuned.gguf
expect_line '^tuned.gguf: 14 tensors, .*, F32$' stdout
grep -qa 'blk.0.attn_q.weight.lora_a' tuned.gguf || fail 'the file of an adapter has no lora_a'
ok "$trireme" checkpoint export tuned --to peft --out tuned-peft
expect_line '"peft_type"' tuned-peft/adapter_config.json
expect_no_file tuned-peft/trireme
turned_down '--merge: an adapter folder holds no base' export tuned --to peft --merge --out no

# ---- What is refused

turned_down "\-\-to: found nothing; valid: hf, peft, gguf" export "$folder" --out no
turned_down "\-\-dtype: found 'q4_k'; valid: f16, bf16, q8_0, f32" export "$folder" --to gguf --dtype q4_k --out no
turned_down "\-\-dtype: found 'q8_0'; valid: fp32, bf16, fp16" export "$folder" --to hf --dtype q8_0 --out no
turned_down '\-\-out: again exists; valid: a new path, or --overwrite' export "$folder" --to hf --out again
turned_down '\-\-out is missing' import "$file"
cmp -s back/model.safetensors again/model.safetensors || fail 'a refused export changed the folder'
ok "$trireme" checkpoint export "$folder" --to hf --out again --overwrite
cmp -s "$folder/model.safetensors" again/model.safetensors || fail '--overwrite does not replace the folder'
head -c 60000 "$file" >short.gguf
turned_down 'short.gguf: the data of tensor .* ends behind the end of the file' import short.gguf --out no
echo 'GGUF' >tiny.gguf
turned_down 'tiny.gguf: ends within the description' import tiny.gguf --out no
sed 's/general.architecture/general.architectura/' "$file" >other.gguf
turned_down 'general.architecture is missing' import other.gguf --out no
turned_down 'cannot open|No such file' import nothing.gguf --out no
[ -z "$(ls -A | grep -E '[.](tmp|old)-')" ] || fail "temporary names stay: $(ls -A | grep -E '[.](tmp|old)-')"

finish
