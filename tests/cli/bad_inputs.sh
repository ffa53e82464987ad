# bad_inputs.sh -- every bad input is refused before anything starts: with the right exit code, one line that
# names the file or the key, no other output, and no folder made.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job

bad_job() { # EXPECTED-LINE JOB (as for printf)
    printf "$2" >bad.yaml
    refused 2 "$1" "$trireme" train bad.yaml
}
bad_key() { # EXPECTED-LINE ARGUMENTS...
    local pattern=$1
    shift
    refused 2 "$pattern" "$trireme" train job.yaml "$@"
}

# ---- The command line
refused 2 "no command 'trian', did you mean 'train'" "$trireme" trian job.yaml
refused 2 'model: not given' "$trireme" train --train.steps 3
bad_key '^trireme: --frobnicate: unknown' --frobnicate 3
bad_key '^trireme: --train.step: unknown option; did you mean train.steps\?' --train.step 3
bad_key 'argument extra' extra
bad_key '^trireme: --train.steps: needs a value' --train.steps
for command in eval generate 'checkpoint show' curve bench 'bench tier'; do
    refused 2 . "$trireme" $command --frobnicate
done
refused 2 'unknown flag, did you mean --pattern\?' "$trireme" data prepare --patern gpt2
refused 2 "no command 'data inspekt', did you mean 'inspect'" "$trireme" data inspekt toy

# ---- Keys and their values
bad_key '^trireme: --train.steps: found -3; valid' --train.steps -3
bad_key '^trireme: --train.micro_batch: found -1; valid' --train.micro_batch=-1
bad_key '^trireme: --train.steps: found many; valid' --train.steps many
bad_key '^trireme: --optimizer.lr: found -1; valid' --optimizer.lr -1
bad_key '^trireme: --optimizer.lr: found nan; valid' --optimizer.lr nan
bad_key '^trireme: --optimizer.betas: found \[0.9, 2\]; valid' --optimizer.betas 0.9,2
bad_key 'optimizer.momentum: not a parameter of the optimizer adamw' --optimizer.momentum 0.9
bad_key '^trireme: --parallel.dp: found zero4; valid: .*did you mean' --parallel.dp zero4
bad_key '^trireme: --parallel.dp: zero3 over dp_replicate shards weights, zero1 over dp_shard does not; valid' --parallel.dp zero3,zero1
bad_key '^trireme: --parallel.dp: found HYBRID_SHARD, which keeps several copies.*dp_replicate 2 or more' --parallel.dp HYBRID_SHARD
bad_key '^trireme: --parallel.tp: found 0; valid' --parallel.tp 0
bad_key '^trireme: job.yaml:6: launch.ranks: found 2, not a multiple of tp 4; nearest valid: 4$' --parallel.tp 4
bad_key '^trireme: --launch.ranks: found 6, not a multiple of pp 2 x tp 2 = 4; nearest valid: 4 and 8$' --launch.ranks 6 --parallel.tp 2 --parallel.pp 2
bad_key '^trireme: job.yaml:6: launch.ranks: found 2, not the product of dp_shard 3; valid: 3$' --parallel.dp_shard 3
bad_key '^trireme: --train.global_batch: found 3, not a multiple of 2 data-parallel ranks.*nearest valid: 2 and 4; valid launch.ranks for 3: 2, 6; train.global_batch = micro_batch x accumulation x data-parallel ranks \(DeepSpeed: train_batch_size = .* x world_size\)$' --train.global_batch 3 --parallel.tp 2 --launch.ranks 4
bad_key '^trireme: --parallel.virtual_stages: found 2, but parallel.pp_schedule is 1f1b' --parallel.virtual_stages 2
bad_key '^trireme: --parallel.pp_schedule: found interleaved with parallel.virtual_stages 1' --parallel.pp 2 --parallel.pp_schedule interleaved
bad_key '^trireme: --parallel.pp_schedule: found zb2; valid: gpipe, 1f1b, interleaved, zb; did you mean zb' --parallel.pp_schedule zb2
bad_key '^trireme: --parallel.split: found 1 numbers; valid: 2, for pp 2' --parallel.pp 2 --parallel.split 1
bad_key '^trireme: --parallel.split: found 2 layers in all; the model has 1$' --parallel.pp 2 --parallel.split 1,1
bad_key '^trireme: --parallel.reshard_after_forward: found maybe; valid: false, true, or a whole' --parallel.reshard_after_forward maybe
bad_key '^trireme: parallel.reshard_after_forward: groups of 4 do not divide the 2 ranks of dp_shard' --parallel.reshard_after_forward 4 --parallel.dp zero3 --launch.ranks 2
bad_key '^trireme: --parallel.offload.optimizer: found file; it needs parallel.offload.path' --parallel.offload.optimizer file
bad_key '^trireme: --parallel.offload.path: found /dev/null/tier, which is not a folder and cannot be made one' --parallel.offload '{optimizer: file, path: /dev/null/tier}'
bad_key '^trireme: --parallel.offload.block_bytes: found 5000; valid: a multiple of 4Ki' --parallel.offload.block_bytes 5000
bad_key '^trireme: --parallel.hook.name: found powersdg; valid: .*did you mean powersgd' --parallel.hook powersdg
bad_key '^trireme: --parallel.hook.rank: not a parameter of the hook none' --parallel.hook.rank 2
bad_key '^trireme: --parallel.hook.start_step: found 1; valid: 2 or more' --parallel.hook '{name: powersgd, start_step: 1}'
bad_key '^trireme: --train.fp16.hysteresis: not a parameter of the precision fp32' --train.fp16.hysteresis 3
bad_key '^trireme: --train.fp16.min_loss_scale: found 8; valid: at most 2\^2' --train.precision fp16 --train.fp16 '{min_loss_scale: 8, initial_scale_power: 2}'
bad_key '^trireme: --launch.device: device cuda: ' --launch.device cuda
bad_key '^trireme: --launch.ranks: found 0; valid' --launch.ranks 0
bad_key '^trireme: --launch.ranks: found 100000; valid' --launch.ranks 100000
bad_key '^trireme: --train.global_batch: found 5, not a multiple of 2 ranks.*nearest valid: 4 and 6.*launch.ranks for 5: 1, 5;' --train.global_batch 5
bad_key 'job.yaml:3: train.global_batch: found 4, not a multiple of 3 ranks' --launch.ranks 3
bad_key '^trireme: --train.micro_batch: found 8; valid: at most train.global_batch' --train.micro_batch 8
bad_key '^trireme: --data.seq_len: found 17; valid: up to the model.s max_seq, which is 16' --data.seq_len 17
bad_key 'model.hidden: found 16, valid are multiples of heads \(3\)' --model.heads 3
bad_key 'model.hiden: .*did you mean hidden' --model.hiden 16
bad_key 'train.epochs: train.steps is given too' --train.epochs 1 --train.steps 3

# ---- The job file
refused 2 'cannot open nowhere.yaml' "$trireme" train nowhere.yaml
refused 2 'it is a folder' "$trireme" train .
bad_job 'bad.yaml:2:[0-9]+: broken YAML' 'model: {family: gpt2\ndata: {train: toy}\n'
bad_job 'bad.yaml:1: found a tab before the key; valid: spaces' '\tmodel: 3\n'
bad_job 'bad.yaml:3:[0-9]+: broken YAML' '{"model": {"family": "gpt2"},\n"data": {\n'
bad_job 'bad.yaml: .*UTF-8 .*at byte 17' 'model: {family: "\x80\xff"}\n'
bad_job 'bad.yaml:1: found a list' '[1, 2]\n'
bad_job 'bad.yaml:1: train: found 3; valid: a section' 'train: 3\n'
bad_job 'bad.yaml:2: .*given twice' 'train: {steps: 3,\n steps: 4}\n'
bad_job 'bad.yaml:1: optimiser: unknown key; did you mean optimizer' 'optimiser: {lr: 1}\n'
bad_job 'bad.yaml:1: model.family: found gpt3; valid: gpt2, llama, qwen2, qwen3, mistral, ministral3, gemma2, gemma3, gemma4, smollm3, phi3, granite, granite_swa, olmo2, olmo3, exaone4, glm, glm4, cohere, cohere2, ernie4_5, hunyuan_v1_dense, seed_oss, starcoder2, stablelm, arcee, apertus, lfm2, qwen3_5, qwen3_next, mlp; did you mean gpt2' 'model: {family: gpt3}\n'
bad_job 'bad.yaml:1: model.layers: found "one"' 'model: {family: gpt2, layers: one}\n'
bad_job 'data.train: not given' 'model: {family: gpt2}\n'
head -c 100000 /dev/zero | tr '\0' '[' >bad.yaml
refused 2 'bad.yaml:1:.*levels of nesting' "$trireme" train bad.yaml

# ---- Token shards
bad_shard() { # EXPECTED-LINE: of the shard `bad`, which starts as a copy of toy
    bad_key "^trireme: data.train: (cannot open )?$scratch/bad$1" --data.train bad
    cp toy.bin bad.bin
    cp toy.idx bad.idx
}
bad_shard '.idx: No such file'
truncate -s 100 bad.bin && bad_shard '.bin: size: found 100 bytes, valid is'
rm bad.bin && bad_shard '.bin: No such file'
truncate -s 20 bad.idx && bad_shard '.idx: size: found 20 bytes'
truncate -s 100 bad.idx && bad_shard '.idx: sequence count'
: >bad.idx && bad_shard '.idx: size: found 0 bytes'
patch bad.idx 0 X && bad_shard '.idx: magic'
patch bad.idx 9 '\x02' && bad_shard '.idx: version: found 2'
patch bad.idx 17 '\x07' && bad_shard '.idx: dtype code: found 7'
patch bad.idx 17 '\x04' && bad_shard '.(bin|idx): (size|offset)'
patch bad.idx 18 '\xff\xff\xff\xff\xff\xff\xff\x7f' && bad_shard '.idx: sequence count: found 9223372036854775807'
patch bad.idx 26 '\xff\xff\xff\xff\xff\xff\xff\xff' && bad_shard '.idx: document count: found 18446744073709551615'
patch bad.idx 34 '\xff\xff\xff\xff' && bad_shard '.idx: length of sequence 0: found -1'
patch bad.bin 100 '\xff\xff' && bad_shard '.bin: token 50 .byte 100.: found id 65535, valid is 0 to 319'
bad_key 'toy.bin: token .*the model.s vocabulary is 100' --model.vocab 100
bad_key '^trireme: data.valid: .*nowhere.idx' --data.valid nowhere

# ---- Text
bad_text() { # EXPECTED-LINE ARGUMENTS...
    local pattern=$1
    shift
    refused 2 "$pattern" "$trireme" data prepare --output-prefix new "$@"
    for f in new*; do expect_no_file "$f"; done
}
: >empty.txt
printf 'abc \xff\xfe def\n' >latin.txt
printf '{"text": "a"}\n{"text": \n' >broken.jsonl
printf '{"txt": "a"}\n' >nokey.jsonl
bad_text 'empty.txt: no text to train a tokenizer on' --input empty.txt --train-bpe 300
bad_text 'empty.txt: .*(no|empty)' --input empty.txt --tokenizer toy.tokenizer.json
bad_text 'latin.txt: byte 4: found 0xff' --input latin.txt --train-bpe 300
bad_text 'broken.jsonl:2: broken JSON' --input broken.jsonl --train-bpe 300
bad_text 'nokey.jsonl:1: key "text" is missing' --input nokey.jsonl --train-bpe 300
bad_text 'nowhere.txt' --input nowhere.txt --train-bpe 300
bad_text 'nowhere.json' --input text.jsonl --tokenizer nowhere.json
bad_text 'broken.jsonl: line 2: broken JSON' --input text.jsonl --tokenizer broken.jsonl
bad_text '--train-bpe: found 3, valid' --input text.jsonl --train-bpe 3
bad_text '--valid-fraction: found 2, valid' --input text.jsonl --train-bpe 300 --valid-fraction 2

# ---- Safetensors, as data
make_points
cp job.yaml gpt2.yaml
make_job 'family: mlp, features: 4, hidden: 8, layers: 1, classes: 3'
sed 's/, seq_len: 16//' job.yaml >mlp.yaml
ok "$trireme" train mlp.yaml --quiet --data.train points.safetensors --data.valid points.safetensors
bad_points() { # EXPECTED-LINE: of `bad.safetensors`, which starts as a copy
    refused 2 "^trireme: data.train: .*$1" "$trireme" train mlp.yaml --data.train bad.safetensors --data.valid points.safetensors
    cp points.safetensors bad.safetensors
}
bad_points 'bad.safetensors: No such file'
truncate -s 500 bad.safetensors && bad_points 'bad.safetensors'
truncate -s 5 bad.safetensors && bad_points 'bad.safetensors'
: >bad.safetensors && bad_points 'bad.safetensors'
patch bad.safetensors 0 '\xff\xff\xff\xff\xff\xff\xff\x7f' && bad_points 'bad.safetensors: .*9223372036854775807'
patch bad.safetensors 8 '[' && bad_points 'bad.safetensors'
patch bad.safetensors 23 'Q99' && bad_points 'bad.safetensors: .*x.*dtype .Q99'
patch bad.safetensors 23 'I32' && bad_points 'bad.safetensors: x: found dtype'
safetensors bad.safetensors '{"x":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}' '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00' && bad_points 'bad.safetensors: .*x'
safetensors bad.safetensors '{"x":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}' '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00' && bad_points 'bad.safetensors: no tensor y'
safetensors bad.safetensors '{"x":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]},"x":{"dtype":"F32","shape":[1,4],"data_offsets":[0,16]}}' '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00' && bad_points 'bad.safetensors: .*x'
patch bad.safetensors $(($(stat -c %s points.safetensors) - 1)) '\x09' && bad_points 'bad.safetensors: y: sample 47: found class 9, valid is 0 to 2'
refused 2 '^trireme: data.train: a sample has 4 inputs and 1 labels, the model takes 5 and 1' "$trireme" train mlp.yaml --data.train points.safetensors --data.valid points.safetensors --model.features 5
refused 2 'data.seq_len: found 8; mlp reads vectors' "$trireme" train mlp.yaml --data.train points.safetensors --data.seq_len 8
refused 2 '^trireme: data.train: .*toy' "$trireme" train mlp.yaml --data.train toy --data.valid toy_valid
cp gpt2.yaml job.yaml
refused 2 '^trireme: data.train: the data are vectors, the model takes tokens' "$trireme" train job.yaml --data.train points.safetensors

# ---- Model folders
train --train.steps 1 --train.save_every 1
mv out/checkpoints/step-00000001 good
bad_model() { # EXPECTED-LINE: of the folder `bad`, which starts as a copy of `good`
    refused 2 "$1" "$trireme" train folder.yaml
    rm -rf bad && cp -r good bad
}
sed 's/^model:.*/model: {path: bad}/' job.yaml >folder.yaml
bad_model 'folder.yaml:1: model.path: found .*bad, which is not a folder'
rm bad/config.json && bad_model 'bad/config.json'
patch bad/config.json 0 '[' && bad_model 'bad/config.json'
sed -i 's/"n_head": *2/"n_head": 3/' bad/config.json && bad_model 'bad/config.json.*(heads|n_head)'
sed -i 's/"n_embd": *16/"n_embd": 24/' bad/config.json && bad_model 'bad.*transformer.*(24|16)'
sed -i 's/"n_layer": *1/"n_layer": 2/' bad/config.json && bad_model 'bad.*transformer.h.1'
sed -i 's/"model_type": *"gpt2"/"model_type": "bert"/' bad/config.json && bad_model 'bad/config.json.*model_type.*bert'
truncate -s 2000 bad/model.safetensors && bad_model 'bad/model.safetensors'
patch bad/model.safetensors 0 '\xff\xff\xff\xff\xff\xff\xff\x7f' && bad_model 'bad/model.safetensors'
sed -i 's/transformer.ln_f.bias/transformer.ln_g.bias/' bad/model.safetensors && bad_model 'bad.*transformer.ln_[fg].bias'
refused 2 'found nowhere, which is not a folder' "$trireme" generate --model nowhere --prompt x
refused 2 'nowhere' "$trireme" eval job.yaml --model nowhere
refused 2 'nowhere' "$trireme" checkpoint verify nowhere
refused 2 'nowhere' "$trireme" curve nowhere
refused 2 'prompt is empty' "$trireme" generate --model good --prompt ''
refused 2 'tokens, the model takes at most 16' "$trireme" generate --model good --prompt "$(head -c 200 text.jsonl)"
refused 2 '--temperature: found' "$trireme" generate --model good --prompt x --temperature -1

# ---- Memory, and the run's folder
refused 3 'needs .* on each of 2 ranks \(weights .*activations .*memory.budget is 1000 B' "$trireme" train job.yaml --memory.budget 1000
: >file
bad_key '^trireme: train.out: cannot make the folder .*file: File exists' --train.out file
bad_key '^trireme: train.out: cannot make the folder .*file: File exists' --train.out file/out
bad_key '^trireme: --resume: .*nowhere' --resume nowhere

train --train.steps 2 --train.save_every 2
cp -r out before
another() { # EXPECTED-LINE ARGUMENTS...: the run in `out` must not change
    local pattern=$1
    shift
    run "$trireme" train job.yaml "$@"
    expect_exit 2
    expect_lines 1 stderr
    expect_line "$pattern"
    diff -r before out >difference || fail "out has changed: $(cat difference)"
}
another 'out/job.yaml belongs to another job: model.layers .1 there, 2 here.' --model.layers 2
another 'optimizer.lr .0.01 there, 0.1 here., train.seed|train.seed .*optimizer.lr' --optimizer.lr 0.1 --train.seed 9
another 'belongs to another job: optimizer.lr' --optimizer.lr 0.1 --resume never
rm -rf out before

# ---- A full disk while saving: the older checkpoint stays valid, and the run resumes from it.
limited() { # KIBIBYTES COMMAND...: files are limited to that size
    local most=$1
    shift
    (
        trap '' XFSZ
        ulimit -f "$most"
        exec "$@"
    ) >stdout 2>stderr </dev/null
    code=$?
    expect_exit 1
    expect_lines 1 stderr
}
train --launch.ranks 1 --train.save_every 2 --train.steps 2
# The optimizer state has 70 KiB.
limited 64 "$trireme" train job.yaml --quiet --launch.ranks 1 --train.save_every 2 --train.steps 4
expect_line 'rank 0: the checkpoint of step 4 is not saved, older ones stay: .*File too large'
[ "$(ls -A out/checkpoints | tr '\n' ' ')" = 'latest step-00000002 ' ] || fail "a failed save left $(ls -A out/checkpoints)"
expect_line '^{"event":"error".*"rank":0.*File too large' out/log.jsonl
expect_line '^{"event":"end".*"reason":"failed"' out/log.jsonl
ok "$trireme" checkpoint verify out/checkpoints/latest
train --launch.ranks 1 --train.save_every 2 --train.steps 4
train --launch.ranks 1 --train.save_every 4 --train.steps 4 --train.out straight
expect_same_losses out straight
expect_same_checkpoint out straight

# The same for the log, and for token shards; no shard is left.
limited 16 "$trireme" train job.yaml --quiet --launch.ranks 1 --train.steps 500 --train.out logged
expect_line 'rank 0: .*logged/log.jsonl: cannot write: File too large'
expect_json_lines logged/log.jsonl
for most in 1 4; do
    limited $most "$trireme" data prepare --input text.jsonl --output-prefix new --tokenizer toy.tokenizer.json --quiet
    expect_line 'new.*File too large'
    for f in new*; do expect_no_file "$f"; done
done

# The same on a full file system, where a test may mount one.
mkdir small
if mount -t tmpfs -o size=280k none small 2>/dev/null; then
    trap 'cd / && umount "$scratch/small" && rm -rf "$scratch"' EXIT
    run "$trireme" train job.yaml --quiet --train.out small/out --train.save_every 2 --train.steps 8 --train.keep 0
    expect_exit 1
    expect_line 'the checkpoint of step [468] is not saved, older ones stay: .*No space left'
    ok "$trireme" checkpoint verify small/out/checkpoints/latest
fi
# ---- A model whose weights are in another form is not trained from random ones
mkdir other
echo '{"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 320, "n_positions": 16}' >other/config.json
touch other/pytorch_model.bin
refused 2 '^trireme: --model.path: .*/other holds its weights as pytorch_model.bin, which is not read; valid: model.safetensors' \
    "$trireme" train --model.path other --data.train toy --data.seq_len 16 --train.steps 1
ok "$trireme" explain --model.path other --model.init random --data.train toy --data.seq_len 16
finish
