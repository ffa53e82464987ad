# sft.sh -- fine-tuning on samples: JSONL becomes packed sequences; packed and unpacked samples have the same bits; every
# strategy and prepared shards give the same losses; `data inspect` shows what is trained on; broken lines are named.
. "${0%/*}/lib.sh" "$1"
golden=${0%/*}/../golden/sft

# A model with the tokenizer and the template of the golden samples.
cat >first.yaml <<END
model: {family: llama, layers: 2, hidden: 16, heads: 4, kv_heads: 2, ffn: 24, vocab: 360, max_seq: 128}
data: {train: mock, seq_len: 16}
train: {steps: 1, global_batch: 1, save_every: 1, eval_every: 0, out: first}
launch: {ranks: 1}
END
ok "$trireme" train first.yaml --quiet
cp -RL first/checkpoints/latest model
rm -R model/trireme
cp "$golden"/tokenizer.json "$golden"/tokenizer_config.json "$golden"/chat_template.jinja model/

cat >job.yaml <<END
model: {path: model}
data: {train: $golden/messages.jsonl, valid: $golden/messages.jsonl, seq_len: 128, truncate: keep_start}
train: {steps: 4, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 2}
optimizer: {lr: 1e-2}
lr_schedule: {name: constant, warmup_steps: 0}
launch: {ranks: 2}
END

# ---- Training on conversations

ok "$trireme" train job.yaml --train.out ddp
expect_line 'data.train: 24 samples in [0-9]+ sequences of 128 tokens, [0-9.]+ % full; [0-9]+ of [0-9]+ tokens have labels'
expect_line 'data.train: [0-9]+ of 24 lines are longer than a sequence and are cut'
expect_line "an assistant's turn ends with <\|im_end\|> \(2\); generation stops at \{.*\}.*the tuned model does not stop"
expect_line '"note":"data.train: 24 samples' ddp/log.jsonl
expect_steps ddp 4
ok "$trireme" train job.yaml --quiet --train.out zero3 --parallel.dp zero3 --parallel.no_sync true
expect_same_losses ddp zero3
# Sums have another order on these axes.
for axis in tp pp cp; do
    ok "$trireme" train job.yaml --quiet --train.out $axis --parallel.$axis 2
    expect_near_losses ddp $axis 1e-5
done
printf '{"eos_token_id": [0, 2]}' >model/generation_config.json
ok "$trireme" train job.yaml --train.out stops
expect_line "ends with <\|im_end\|> \(2\); generation stops at \{<\|endoftext\|> \(0\), <\|im_end\|> \(2\)\} of generation_config.json$"
expect_same_losses ddp stops

# Shards with labels give the same sequences.
ok "$trireme" data prepare --sft --input "$golden/messages.jsonl" --tokenizer model --output-prefix shard/m --quiet
expect_line 'shard/m: 24 documents, [0-9]+ tokens, of which [0-9]+ are trained on' stdout
expect_file shard/m.labels
ok "$trireme" train job.yaml --quiet --train.out shards --data.train shard/m --data.valid shard/m
expect_same_losses ddp shards
# Without --sft the old labels go.
ok "$trireme" data prepare --input "$golden/text.jsonl" --tokenizer model --output-prefix shard/m --quiet
expect_no_file shard/m.labels

# A mixture of forms, with weights.
ok "$trireme" train job.yaml --train.out mixed --quiet \
    --data.train "[{path: $golden/messages.jsonl, weight: 0.5}, {path: $golden/text.jsonl, format: text, weight: 2}]"
expect_steps mixed 4
grep -q 'format: text' mixed/job.yaml || fail "job.yaml lacks the format of a source"

# One weight for all changes nothing but rounding; other weights change the loss.
sed 's/}$/, "weight": 3}/' "$golden/prompt_completion.jsonl" >three.jsonl
awk '{ sub(/}$/, ", \"weight\": " NR % 3 + 1 "}"); print }' "$golden/prompt_completion.jsonl" >others.jsonl
for name in "$golden/prompt_completion" three others; do
    ok "$trireme" train job.yaml --quiet --train.out "w-${name##*/}" --data.train "$name.jsonl" --data.valid "$name.jsonl"
done
expect_near_losses w-three w-prompt_completion 1e-5
[ "$(losses w-others)" != "$(losses w-prompt_completion)" ] || fail "weights of samples change nothing"

# ---- Packed and apart

# Samples of 16 tokens: four in a sequence, or each a sequence. The rows of a micro-batch are equal, so all bits are.
awk 'BEGIN { for (i = 0; i < 32; i++) { line = "{\"text\": \""
    for (k = 0; k < 15; k++) line = line substr("abcdefgh", (i * 7 + k * (i % 5 + 1)) % 8 + 1, 1) "\\n"; print line "\"}" } }' |
    sed 's/\\n"}/"}/' >even.jsonl
even="--data.train even.jsonl --data.valid even.jsonl --data.order sequential --launch.ranks 1"
ok "$trireme" data inspect even.jsonl --tokenizer model --sample 1 --json
length=$(tr -cd '[:digit:],[]' <stdout | sed 's/^[^[]*\[\([^]]*\)\].*/\1/' | awk -F, '{ print NF }')
ok "$trireme" train job.yaml --quiet --train.out apart $even --data.packing none --data.seq_len "$length" \
    --train.global_batch 16 --train.micro_batch 8
ok "$trireme" train job.yaml --quiet --train.out packed $even --data.packing next_fit --data.seq_len $((4 * length)) \
    --train.global_batch 4 --train.micro_batch 2
expect_same_losses apart packed

# Logits of samples of any length: those of packed sequences equal those of samples alone, position by position.
logits() { # PACKING PRECISION
    ok "$trireme" predict job.yaml --model model --data "$golden/prompt_completion.jsonl" --what logits --output "$1.json" \
        --data.packing "$1" --train.precision "$2" --data.order sequential
    sed 's/.*"logits":\[\[//; s/\]\].*//' "$1.json" | awk -v packing="$1" -v lengths="$lengths" '
        BEGIN { n = split(lengths, length_of, " ") }
        { at = split($0, row, /\],\[/); p = 0
          if (packing == "none") { for (p = 1; p <= length_of[NR]; p++) print row[p]; next }
          while (next_one < n && p + length_of[next_one + 1] <= at) {
              next_one++
              for (k = 1; k <= length_of[next_one]; k++) print row[++p] } }' >"$1.rows"
}
lengths=
for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24; do
    ok "$trireme" data inspect "$golden/prompt_completion.jsonl" --tokenizer model --sample $n
    lengths="$lengths $(sed -n 's/^sample: \([0-9]*\) tokens.*/\1/p' stdout)"
done
for precision in fp32 bf16; do
    logits none $precision
    logits next_fit $precision
    expect_same none.rows next_fit.rows
    expect_lines "$(awk -v l="$lengths" 'BEGIN { n = split(l, x, " "); for (i = 1; i <= n; i++) s += x[i]; print s }')" none.rows
done

# ---- data inspect

cat >look.jsonl <<'END'
{"messages": [{"role": "user", "content": "pull\u001b[31m"}, {"role": "assistant", "content": "as\none"}], "weight": 2}
END
ok "$trireme" data inspect look.jsonl --tokenizer model --sample 1
expect_line '^look.jsonl, sample 1, messages$' stdout
expect_line '^sample: [0-9]+ tokens, [0-9]+ trained on, weight 2$' stdout
expect_line '^    pull\\x1b\[31m<\|im_end\|>\\n$' stdout
expect_line '^  > as\\n$' stdout
expect_line '^  > one<\|im_end\|>$' stdout
ok "$trireme" data inspect look.jsonl --tokenizer model --row 1 --seq-len 64
expect_line '^position 0, document: ' stdout
expect_line 'tokens of padding$' stdout
ok "$trireme" data inspect look.jsonl --tokenizer model --row 1 --seq-len 64 --json
expect_json_lines stdout
ok "$trireme" data inspect "$golden/preference.jsonl" --tokenizer model --sample 2
expect_line '^chosen: ' stdout
expect_line '^rejected: ' stdout

# ---- A template that rewrites history

cp -R model rewrites
cp "${0%/*}/../golden/turns/drops.jinja" rewrites/chat_template.jinja
cat >turns.jsonl <<'END'
{"messages": [{"role": "user", "content": "pull"}, {"role": "assistant", "content": "as", "reasoning_content": "hm"}, {"role": "user", "content": "once"}, {"role": "assistant", "content": "one"}]}
{"messages": [{"role": "user", "content": "pull"}, {"role": "assistant", "content": "all"}]}
END
rewritten='the chat template writes earlier messages in another way when more follow, so 1 conversation became 2 samples'
ok "$trireme" data inspect turns.jsonl --tokenizer rewrites --sample 1
expect_line "^$rewritten\$" stdout
expect_line '^sample 1 of 2: ' stdout
expect_line '^  > hm\\n$' stdout
expect_line '^sample 2 of 2: ' stdout
ok "$trireme" data inspect turns.jsonl --tokenizer rewrites --sample 1 --json
expect_line '^\{"samples":\[\{"text":' stdout
ok "$trireme" data inspect turns.jsonl --tokenizer rewrites --sample 2
expect_line '^sample: ' stdout
ok "$trireme" data prepare --sft --input turns.jsonl --tokenizer rewrites --output-prefix shard/turns --quiet
expect_line 'shard/turns: 3 documents' stdout
expect_line "^$rewritten\$" stdout
turns="--model.path rewrites --train.global_batch 1 --train.micro_batch 1 --launch.ranks 1 --data.packing none"
ok "$trireme" train job.yaml $turns --train.out turns --data.train turns.jsonl --data.valid turns.jsonl
expect_line 'data.train: 3 samples in 3 sequences'
expect_line "data.train: $rewritten"
ok "$trireme" train job.yaml $turns --quiet --train.out turns_shard --data.train shard/turns --data.valid shard/turns
expect_same_losses turns turns_shard

# ---- Refusals

refused 2 'has 1 samples; found --sample 2' "$trireme" data inspect look.jsonl --tokenizer model --sample 2
refused 2 '\-\-tokenizer: missing' "$trireme" data inspect look.jsonl
refused 2 '\-\-format: found chat; valid: auto, text' "$trireme" data inspect look.jsonl --tokenizer model --format chat
refused 2 'data.train: .*messages.jsonl:[0-9]+: the sample has [0-9]+ tokens, and data.seq_len is 32' \
    "$trireme" train job.yaml --train.out out --data.seq_len 32 --data.truncate error
printf '{"text": "a b"}\n{"messages": []}\n' >bad.jsonl
refused 2 'data.train: .*bad.jsonl:2: key "messages" is no list' "$trireme" train job.yaml --train.out out --data.train bad.jsonl
printf '{"messages": [{"role": "user", "content": "a"}]}\n' >bad.jsonl
refused 2 'bad.jsonl:1: no token of the line would be trained on' "$trireme" train job.yaml --train.out out --data.train bad.jsonl
refused 2 'needs a loss of preferences' "$trireme" train job.yaml --train.out out --data.train "$golden/preference.jsonl"
refused 2 'found format chat; valid: auto, text' "$trireme" train job.yaml --train.out out \
    --data.train '[{path: bad.jsonl, format: chat}]'
refused 2 'JSONL needs a tokenizer' "$trireme" train first.yaml --train.out out --data.train bad.jsonl
refused 2 '\-\-sft: found --append-eod' "$trireme" data prepare --sft --append-eod --input bad.jsonl --tokenizer model \
    --output-prefix out/p
finish
