# tokenizers.sh -- data, model and checkpoint must have the same tokenizer. It is stored beside the data and in the
# checkpoint, and it encodes as transformers does.
. "$(dirname "$0")/lib.sh" "$1"
golden=$(cd "$OLDPWD" && cd "$(dirname "$0")/../golden" && pwd)

make_data
make_job
sed 's/sea/harbour/g; s/wind/lighthouse/g' text.jsonl >other.jsonl
ok "$trireme" data prepare --input other.jsonl --output-prefix other --train-bpe 320 --append-eod --quiet

# ---- Other tokenizers are refused with both names
refused 2 'data.train: .*other was made with another tokenizer \(hash [0-9a-f]{16}\) than that of .*toy \(hash [0-9a-f]{16}\); valid: .*data.tokenizer_mismatch: allow' \
    "$trireme" train job.yaml --quiet --data.train '[{path: toy, weight: 1}, {path: other, weight: 1}]'
refused 2 'data.valid: .*other was made with another tokenizer' "$trireme" train job.yaml --quiet --data.valid other
refused 2 'data.valid: .*other.bin was made with another tokenizer' "$trireme" plan job.yaml --data.valid other.bin
train --data.valid other --data.tokenizer_mismatch allow --train.steps 1
expect_line '^trireme: warning: data.valid: .*other was made with another tokenizer'
rm other.json # Megatron's shards have no P.json, so there is nothing to compare
train --data.valid other --train.steps 1 --train.out plain
expect_no_line warning

# ---- Checkpoints of models that were trained from scratch have the id that ends a document
train --train.steps 2 --train.save_every 2 --train.out run
expect_line '"eos_token_id": 0,' run/checkpoints/latest/config.json
expect_line '"eos_token": "<\|endoftext\|>"' run/checkpoints/latest/tokenizer_config.json
ok "$trireme" explain job.yaml
expect_line 'model.eos +0 +data.train' stdout
train --train.steps 2 --train.save_every 2 --train.out unended --model.eos null
expect_line '"eos_token_id": null,' unended/checkpoints/latest/config.json

# ---- A model folder: settings of transformers, and its own tokenizer
cp -r run/checkpoints/latest/ folder
rm -r folder/trireme
printf '%s' '{"eos_token": "<|endoftext|>", "model_max_length": 1000000000000000019884624838656, "x": NaN}' \
    >folder/tokenizer_config.json
ok "$trireme" generate --model folder --prompt 'the sea' --tokens 3 --temperature 0
ok "$trireme" data prepare --input text.jsonl --output-prefix big --tokenizer folder --quiet
from_folder() { # ARGUMENTS...
    sed 's/^model:.*/model: {path: folder}/' job.yaml >from.yaml
    run timeout 60 "$trireme" train from.yaml --quiet --train.steps 2 --train.save_every 2 "$@"
}
from_folder --train.out ours
expect_exit 0
expect_same folder/tokenizer_config.json ours/checkpoints/latest/tokenizer_config.json
ok "$trireme" generate --model ours/checkpoints/latest --prompt 'the sea' --tokens 3
ok "$trireme" data prepare --input other.jsonl --output-prefix other --train-bpe 320 --append-eod --quiet
from_folder --train.out no --data.train other --data.valid other
expect_exit 2
expect_line 'data.train: .*other was made with another tokenizer \(hash .*\) than the model.s, /.*/folder/tokenizer.json \(hash'
expect_no_file no
awk '{ gsub(/[[:space:]]+/, " "); printf "%s ", $0 }' folder/tokenizer.json >one-line # other white space
mv one-line folder/tokenizer.json
from_folder --train.out again
expect_exit 0
refused 2 'data.train: .*other was made with another tokenizer' "$trireme" eval job.yaml --model folder --data.train other --data.valid other
sed -i 's/"normalizer": null/"normalizer": {"type": "BertNormalizer"}/' folder/tokenizer.json
from_folder --train.out no
expect_exit 2
expect_line 'tokenizer.json, which Trireme cannot read \(.*normalizer.type is BertNormalizer'

# ---- The post-processor: a prompt is encoded as transformers' tokenizer(prompt) does
cp -r run/checkpoints/latest/ begins
sed -i 's/"post_processor": null/"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}]}/' begins/tokenizer.json
text_after() { # MODEL PROMPT
    ok "$trireme" generate --model "$1" --prompt "$2" --tokens 8 --temperature 3 --seed 5 --precision fp32
    sed "s/^$2//" stdout
}
text_after begins 'the oar' >by-post-processor
text_after run/checkpoints/latest '<|endoftext|>the oar' | sed 's/^the oar//' >by-hand
text_after run/checkpoints/latest 'the oar' >without
expect_same by-post-processor by-hand
! cmp -s by-post-processor without || fail "the post-processor changes nothing"
ok "$trireme" data prepare --input text.jsonl --output-prefix begun --tokenizer begins --quiet
expect_line "post-processor adds special tokens; they were not added" stdout
ok "$trireme" data prepare --input text.jsonl --output-prefix begun --tokenizer begins --add-special-tokens --quiet
expect_no_line "not added" stdout
ok "$trireme" data inspect begun
expect_line '^document 0, [0-9]+ tokens: <\|endoftext\|>' stdout
expect_line "^special " stdout
train --data.train begun --train.steps 1 # a post-processor does not count as another tokenizer
expect_no_line warning

# ---- BPE of characters, as SentencePiece's
sed 's/"decoder":null/"decoder":{"type":"Metaspace","replacement":"\xe2\x96\x81","prepend_scheme":"always","split":true}/' \
    "$golden/tokenizer/characters.json" >characters.json
printf 'the sea, 日本 \360\237\230\200' >characters.txt
ok "$trireme" data prepare --input characters.txt --tokenizer characters.json --output-prefix characters --quiet
ok "$trireme" data inspect characters
expect_line '^document 0, [0-9]+ tokens: the sea, 日本 😀$' stdout

# ---- Data can be moved with their tokenizer; a missing tokenizer gives a warning
mkdir elsewhere
mv begun.* elsewhere
rm -r begins
ok "$trireme" data inspect elsewhere/begun
expect_line '^tokenizer   elsewhere/begun.tokenizer.json, vocabulary 320, hash [0-9a-f]{16}$' stdout
train --data.train elsewhere/begun --train.steps 2 --train.save_every 2 --train.out moved
expect_same elsewhere/begun.tokenizer.json moved/checkpoints/latest/tokenizer.json
rm elsewhere/begun.tokenizer.json
ok "$trireme" data inspect elsewhere/begun
expect_line 'begun.tokenizer.json \(missing\)' stdout
ok "$trireme" data inspect elsewhere/begun --json
expect_line '"tokenizer_found":false' stdout
train --data.train elsewhere/begun --train.steps 1 --train.out missed
expect_line '^trireme: warning: data.train: the tokenizer of /.*/elsewhere/begun, /.*begun.tokenizer.json, is missing'

# ---- Skipped documents are counted
mkdir texts
printf 'fine \377 no' >texts/bad.txt
printf 'the sea, the sea' >texts/good.txt
printf 'not a text' >texts/notes.md
refused 2 'texts/bad.txt: byte 5: found 0xff' "$trireme" data prepare --input texts --output-prefix skip --tokenizer toy.tokenizer.json --quiet
ok "$trireme" data prepare --input texts --include '*.txt' --skip-invalid --output-prefix skip --tokenizer toy.tokenizer.json --quiet
expect_line '^skip: 1 documents' stdout
expect_line '^1 invalid documents skipped, the first: texts/bad.txt: byte 5' stdout

# ---- A step with more samples than the data have
train --data.train skip --data.seq_len 2 --train.global_batch 64 --train.steps 1
expect_line '^trireme: warning: data.train has [0-9]+ samples, and a step takes train.global_batch = 64 of them: every step is [0-9.]+ epochs'

# ---- Files of ids of nanoGPT and llm.c, which have no index
for i in $(seq 40); do printf '\x05\x00\x06\x00\x00\x00'; done >nano.bin
refused 2 'nano.bin may hold plain ids as nanoGPT writes them .*data prepare --from-tokens' "$trireme" train job.yaml --data.train nano.bin
ok "$trireme" data prepare --from-tokens nano.bin --output-prefix nano-shard --eod 0
expect_line '^nano-shard: 40 documents, 120 tokens, ids up to 6$' stdout
train --data.train nano-shard --train.steps 1
refused 2 'from-tokens: goes with --output-prefix' "$trireme" data prepare --from-tokens nano.bin --output-prefix x --append-eod
refused 2 'go with --from-tokens only' "$trireme" data prepare --input text.jsonl --train-bpe 300 --output-prefix x --eod 3
finish
