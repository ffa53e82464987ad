# model_folders.sh -- folders that hold more than a text model: parts for images, layers of multi-token prediction, other
# files. They load, train, and come back whole; a tensor that nobody knows is refused.
. "$(dirname "$0")/lib.sh" "$1"
models=$(cd "$OLDPWD" && cd "$(dirname "$0")/../golden/models" && pwd)

cat >job.yaml <<END
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 4, micro_batch: 1, save_every: 1, eval_every: 0, precision: fp32, out: out}
optimizer: {name: sgd, lr: 0}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 1, as: threads, threads_per_rank: 1}
END

# Sets `header` to that of a file, and `data` to where its data begin, counted from 1.
read_header() { # FILE
    local length
    length=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    header=$(tail -c +9 "$1" | head -c "$length" | sed 's/ *$//')
    data=$((9 + length))
}

# Writes a file with `header`, the data of FILE and those of a second file.
write_header() { # FILE MORE
    while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
    { le64 ${#header} && printf '%s' "$header" && tail -c +"$data" "$1" && cat "$2"; } >joined
    mv joined "$1"
}

# Adds a tensor to a file, behind all others.
add_tensor() { # FILE NAME TYPE SHAPE DATA (as for printf %b)
    local header data end
    read_header "$1"
    end=$(($(wc -c <"$1") + 1 - data))
    printf '%b' "$5" >added
    header="${header%\}},\"$2\":{\"dtype\":\"$3\",\"shape\":$4,\"data_offsets\":[$end,$((end + $(wc -c <added)))]}}"
    write_header "$1" added
}

rename_tensors() { # FILE SED-EXPRESSION
    local header data
    read_header "$1"
    header=$(printf '%s' "$header" | sed "$2")
    write_header "$1" /dev/null
}

copy_model() { # NAME FOLDER
    mkdir "$2"
    cp "$models/$1/config.json" "$models/$1/model.safetensors" "$2"
}

# ---- A text model beside a part for images, as transformers 5 writes it

copy_model gemma3 gemma3
echo '{"image_seq_length": 4}' >gemma3/processor_config.json
echo '{"do_resize": true}' >gemma3/preprocessor_config.json
echo 'Terms.' >gemma3/LICENSE
echo 'other weights' >gemma3/consolidated.pth
echo 'hidden' >gemma3/.gitattributes
ok "$trireme" explain job.yaml --model.path gemma3
expect_line '^carried: 34 tensors of gemma3 .*: multi_modal_projector\.\*, vision_tower\.\*$' stdout
for how in '' '--launch.ranks 2' '--launch.ranks 2 --parallel.dp zero3' '--launch.ranks 2 --parallel.pp 2' \
    '--launch.ranks 2 --parallel.tp 2'; do
    train --overwrite --model.path gemma3 $how
    for file in model.safetensors config.json processor_config.json preprocessor_config.json LICENSE; do
        expect_same gemma3/$file out/checkpoints/latest/$file
    done
    expect_no_file out/checkpoints/latest/consolidated.pth
    expect_no_file out/checkpoints/latest/.gitattributes
done
expect_line '"note":"[^"]*34 tensors of gemma3 ' out/log.jsonl
ok "$trireme" checkpoint verify out
# A checkpoint is such a folder, too.
train --model.path out --train.out again
expect_same gemma3/model.safetensors again/checkpoints/latest/model.safetensors
expect_same gemma3/config.json again/checkpoints/latest/config.json

# Only the text model is of the run's type, and config.json says so where it says the type.
train --model.path gemma3 --train.out bf16 --train.precision bf16
ok "$trireme" checkpoint show bf16
expect_line '^weight +language_model\.model\.norm\.weight +bf16 ' stdout
expect_line '^weight +vision_tower\.head\.probe +fp32 +\[1, 1, 8\]$' stdout
sed 's/"dtype": "float32"/"dtype": "bfloat16"/' gemma3/config.json >expected.json
expect_same expected.json bf16/checkpoints/latest/config.json

# With drawn weights it is the text model alone.
train --model.path gemma3 --model.init random --train.out drawn
expect_line '"model_type": "gemma3_text"' drawn/checkpoints/latest/config.json
ok "$trireme" checkpoint show drawn
expect_no_line 'vision_tower|language_model' stdout

# ---- The same as transformers 4 writes it, with the other prefix of some folders

copy_model gemma3 four
rename_tensors four/model.safetensors 's/"language_model\.model\./"model.language_model./g'
awk '
    /"rope_parameters": \{/ {
        print "\"rope_theta\": 1000.0, \"rope_local_base_freq\": 20.0, \"rope_scaling\": {\"factor\": 3.0, \"rope_type\": \"linear\"},"
        skip = 1
    }
    !skip { print }
    skip && /^    },/ { skip = 0 }' gemma3/config.json | sed 's/"dtype"/"torch_dtype"/; s/"text_config": {/&"torch_dtype": "bfloat16",/; s/"vision_config": {/&"torch_dtype": "float16",/' >four/config.json
train --model.path gemma3 --train.out five --train.steps 3 --optimizer.lr 1e-1
train --model.path four --train.out four_out --train.steps 3 --optimizer.lr 1e-1
expect_same_losses five four_out
train --model.path four --train.out four_back
expect_same four/model.safetensors four_back/checkpoints/latest/model.safetensors
sed 's/"torch_dtype": "bfloat16"/"torch_dtype": "float32"/' four/config.json >expected.json
expect_same expected.json four_back/checkpoints/latest/config.json

# ---- An output layer of its own

copy_model mistral small3
{ printf '{"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3", "text_config": ' &&
    cat "$models/mistral/config.json" && printf '}'; } >small3/config.json
rename_tensors small3/model.safetensors 's/"model\./"language_model.model./g; s/"lm_head\./"language_model.lm_head./'
train --model.path small3 --train.out small3_back
expect_same small3/model.safetensors small3_back/checkpoints/latest/model.safetensors
expect_same small3/config.json small3_back/checkpoints/latest/config.json
train --model.path "$models/mistral" --train.out mistral --train.steps 3 --optimizer.lr 1e-1
train --model.path small3 --train.out small3_out --train.steps 3 --optimizer.lr 1e-1
expect_same_losses mistral small3_out

# ---- The other models of several parts, as transformers 5 writes them

for row in 'qwen3_5 Qwen3_5ForConditionalGeneration qwen3_5' 'gemma4 Gemma4ForConditionalGeneration gemma4_text' \
    'mistral3 Mistral3ForConditionalGeneration ministral3'; do
    read -r outer class text <<<"$row"
    copy_model "$text" "of_$text"
    { printf '{"architectures": ["%s"], "model_type": "%s", "text_config": ' "$class" "$outer" &&
        cat "$models/$text/config.json" && printf '}'; } >"of_$text/config.json"
    rename_tensors "of_$text/model.safetensors" 's/"model\./"model.language_model./g'
    add_tensor "of_$text/model.safetensors" model.vision_tower.patch.weight BF16 '[3]' '\x11\x12\x13\x14\x15\x16'
    train --model.path "of_$text" --train.out "of_${text}_back"
    expect_same "of_$text/model.safetensors" "of_${text}_back/checkpoints/latest/model.safetensors"
    expect_same "of_$text/config.json" "of_${text}_back/checkpoints/latest/config.json"
    train --model.path "$models/$text" --train.out "alone_$text" --train.steps 3 --optimizer.lr 1e-1
    train --model.path "of_$text" --train.out "of_${text}_out" --train.steps 3 --optimizer.lr 1e-1
    expect_same_losses "alone_$text" "of_${text}_out"
done

# ---- Tensors that transformers ignores

copy_model qwen3 mtp
add_tensor mtp/model.safetensors mtp.fc.weight F32 '[1,2]' '\x01\x02\x03\x04\x05\x06\x07\x08'
add_tensor mtp/model.safetensors mtp.layers.0.norm.weight BF16 '[3]' '\x11\x12\x13\x14\x15\x16'
add_tensor mtp/model.safetensors mtp.mask BOOL '[3]' '\x01\x00\x01'
ok "$trireme" explain job.yaml --model.path mtp
expect_line '^carried: 3 tensors of mtp .*: mtp\.\*$' stdout
train --model.path mtp --train.out mtp_out
expect_same mtp/model.safetensors mtp_out/checkpoints/latest/model.safetensors
train --model.path mtp --train.out mtp_bf16 --train.precision bf16
ok "$trireme" checkpoint show mtp_bf16
expect_line '^weight +mtp\.fc\.weight +fp32 +\[1, 2\]$' stdout

# ---- A run that resumes needs the folder

train --model.path mtp --train.out resumed --optimizer.lr 1e-1
train --model.path mtp --train.out resumed --optimizer.lr 1e-1 --train.steps 2
expect_steps resumed 2
ok "$trireme" checkpoint show resumed
expect_line '^weight +mtp\.mask ' stdout
cp mtp/model.safetensors kept.safetensors
cp "$models/qwen3/model.safetensors" mtp/model.safetensors
run "$trireme" train job.yaml --quiet --model.path mtp --train.out resumed --optimizer.lr 1e-1 --train.steps 3
expect_exit 2
expect_line 'tensor mtp\.fc\.weight comes from the folder of the weights, and .*mtp does not hold it; valid: the model.path that the run began with'
rm -r mtp
run "$trireme" train job.yaml --quiet --model.path mtp --train.out resumed --optimizer.lr 1e-1 --train.steps 3
expect_exit 2
expect_line 'model.path: found .*mtp, which is not a folder'

# ---- What nobody knows

refuse_tensor() { # FOLDER NAME MODEL
    rm -rf other
    copy_model "$1" other
    add_tensor other/model.safetensors "$2" F32 '[1]' '\x00\x00\x00\x00'
    refused 2 "tensor $2 is not one of a $3 model with this config.json" "$trireme" train job.yaml --quiet --model.path other
}
refuse_tensor qwen3 vision_tower.weight qwen3
refuse_tensor qwen3 model.mtp_weight qwen3
refuse_tensor gemma3 language_model.model.layers.9.mlp.up_proj.weight gemma3
refuse_tensor gemma3 audio.weight gemma3

rm -rf other
copy_model gemma3_text other
add_tensor other/model.safetensors lm_head.weight F32 '[1]' '\x00\x00\x00\x00'
refused 2 'tensor lm_head\.weight differs from model\.embed_tokens\.weight, but tie_word_embeddings is true' \
    "$trireme" train job.yaml --quiet --model.path other

# ---- config.json of several parts

refuse_config() { # SED-EXPRESSION MESSAGE
    rm -rf other
    copy_model gemma3 other
    sed -i "$1" other/config.json
    refused 2 "other/config.json: $2" "$trireme" train job.yaml --quiet --model.path other
}
refuse_config 's/Gemma3ForConditionalGeneration/Gemma3Model/' 'architectures: found "Gemma3Model", valid is Gemma3ForConditionalGeneration'
refuse_config 's/"text_config"/"language_config"/' 'text_config: not given; valid: an object, the config of the text model'
refuse_config 's/"model_type": "gemma3_text"/"model_type": "mixtral"/' 'text_config: model_type: found "mixtral", valid are '
refuse_config 's/"model_type": "gemma3"/&, "quantization_config": {"bits": 4}/' 'text_config: quantization_config: found '
refuse_config 's/"use_bidirectional_attention": false/"use_bidirectional_attention": true/' 'text_config: use_bidirectional_attention: found true'
# ---- Names of a wrapped module: DistributedDataParallel's, torch.compile's, and both
for prefix in module. _orig_mod. module._orig_mod. _orig_mod.module.; do
    rm -rf wrapped out
    copy_model qwen3 wrapped
    rename_tensors wrapped/model.safetensors "s/\"\([a-z_0-9.]*\)\":{\"dtype\"/\"$prefix\1\":{\"dtype\"/g"
    ok "$trireme" train job.yaml --quiet --model.path wrapped
    expect_line "^trireme: warning: all tensors of wrapped begin with $prefix, as a wrapped module's do; they are loaded, and saved, without it\$"
    expect_same "$models/qwen3/model.safetensors" out/checkpoints/latest/model.safetensors
done
# One name without it: nothing is left out.
rm -rf wrapped
copy_model qwen3 wrapped
rename_tensors wrapped/model.safetensors 's/"\(model.layers[a-z_0-9.]*\)":{"dtype"/"module.\1":{"dtype"/g'
refused 2 'wrapped: tensor model\.layers\.0\.[a-z_.]* is missing' "$trireme" train job.yaml --quiet --model.path wrapped
finish
