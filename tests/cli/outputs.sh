# outputs.sh -- the output of commands and the files of a run, which scripts of users read.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 16'

# ---- data prepare and inspect
ok "$trireme" data prepare --input text.jsonl --output-prefix again --train-bpe 320 --append-eod --valid-fraction 0.1
for f in .bin .idx _valid.bin _valid.idx .tokenizer.json; do expect_same toy$f again$f; done
expect_lines 3 stdout
expect_line '^again: [0-9]+ documents, [0-9]+ tokens' stdout
expect_lines 0 stderr
ok "$trireme" data prepare --input text.jsonl --output-prefix again --tokenizer toy.tokenizer.json --append-eod --valid-fraction 0.1 --workers 1 --json
expect_json_lines stdout
for f in .bin .idx _valid.bin _valid.idx; do expect_same toy$f again$f; done
sed 's/^{"text": "\(.*\)"}$/\1/' text.jsonl | sed 's/$/%/' | tr -d '\n' >text.txt
ok "$trireme" data prepare --input text.txt --document-separator % --output-prefix plain --tokenizer toy.tokenizer.json --append-eod --valid-fraction 0.1
for f in .bin .idx; do expect_same toy$f plain$f; done
ok "$trireme" data prepare --input text.jsonl --output-prefix mega --tokenizer-type HuggingFaceTokenizer --tokenizer-model toy.tokenizer.json --append-eod --json-keys text --workers 2
expect_file mega_text_document.bin
expect_file mega_text_document.idx
ok "$trireme" data inspect toy
expect_line '^documents +[0-9]+' stdout
ok "$trireme" data inspect toy --json
expect_json_lines stdout

# ---- Help, version, no arguments
for command in '' train explain data 'data prepare' 'data inspect' generate eval checkpoint curve bench 'bench train' 'bench tier'; do
    ok "$trireme" $command --help
    expect_line '^(usage: )?trireme' stdout
    expect_lines 0 stderr
done
ok "$trireme" --version
expect_line '^trireme [0-9.]+$' stdout
run "$trireme"
expect_exit 2

# ---- A run: the log, the folder, what is printed
ok "$trireme" train job.yaml --train.save_every 4 --train.eval_every 4
expect_lines 0 stdout
expect_line '^step 1/8  loss [0-9.]+  lr 1.00e-02  \|g\| [0-9.]+  .*tok/s'
expect_line '^step 4  validation loss [0-9.]+  perplexity [0-9.]+$'
expect_line '^saved out/checkpoints/step-00000008$'
log=out/log.jsonl
expect_json_lines $log
expect_lines 14 $log
number='-?[0-9.]+(e[-+]?[0-9]+)?'
head -n 1 $log >first
expect_line '^\{"event":"start","version":"[0-9.]+","ranks":2,.*"mesh":\{.*"dp_replicate":2,.*\},.*"params":8688,"plan_bytes_per_rank":[0-9]+,' first
[ "$(grep -Ec "^\{\"event\":\"step\",\"step\":[1-8],\"loss\":$number,\"grad_norm\":$number,\"lr\":$number,\"tokens\":64,\"seconds\":$number,\"tokens_per_s\":$number,(\"matmul_share\":$number,)?\"skipped\":false\}$" $log)" = 8 ] ||
    fail "not 8 whole step events in $log"
[ "$(grep -Ec "^\{\"event\":\"eval\",\"step\":[48],\"loss\":$number,\"perplexity\":$number\}$" $log)" = 2 ] || fail 'not 2 eval events'
[ "$(grep -Ec "^\{\"event\":\"save\",\"step\":[48],\"path\":\".*/step-0000000[48]\"" $log)" = 2 ] || fail 'not 2 save events'
tail -n 1 $log >last
expect_line "^\{\"event\":\"end\",\"step\":8,\"reason\":\"done\",\"seconds\":$number\}$" last
awk -F '[:,]' '/"event":"eval"/ { d = exp($6) / $8 - 1; if (d > 1e-9 || d < -1e-9) exit 1 }' $log || fail 'a perplexity is not exp(loss)'
for f in config.json model.safetensors tokenizer.json trireme/manifest.json; do expect_file out/checkpoints/step-00000008/$f; done
[ "$(readlink out/checkpoints/latest)" = step-00000008 ] || fail 'latest is not step-00000008'
[ "$(ls -A out | tr '\n' ' ')" = '.writer checkpoints job.yaml log.jsonl report.html report.json spans tokenizer ' ] || fail "out holds $(ls -A out)"

# ---- keep
train --train.steps 6 --train.save_every 1 --train.out kept
[ "$(ls kept/checkpoints | tr '\n' ' ')" = 'latest step-00000005 step-00000006 ' ] || fail "kept $(ls kept/checkpoints)"
train --train.steps 6 --train.save_every 2 --train.keep 0 --train.out all
[ "$(ls all/checkpoints | tr '\n' ' ')" = 'latest step-00000002 step-00000004 step-00000006 ' ] || fail "kept $(ls all/checkpoints)"

# ---- --quiet prints nothing, also in a resumed run
for steps in 4 8; do
    train --train.steps $steps --train.save_every 4 --train.eval_every 4 --train.out quiet
    expect_lines 0 stdout
    expect_lines 0 stderr
done
expect_same_losses out quiet

# ---- job.yaml repeats the run
mkdir elsewhere
cp out/job.yaml elsewhere/
(cd elsewhere && timeout 240 "$trireme" train job.yaml --quiet --train.out "$scratch/repeated") || fail 'job.yaml does not run'
expect_same_losses out repeated
expect_same_checkpoint out repeated
diff <(grep -v '^ *out:' out/job.yaml) <(grep -v '^ *out:' repeated/job.yaml) >difference || fail "job.yaml changes: $(cat difference)"

# ---- explain: values and origins, plan, schedule; it starts nothing
ok "$trireme" explain job.yaml --train.steps 5
expect_line '^train.steps +5 +command line$' stdout
expect_line '^optimizer.lr +0.01 +job.yaml:4$' stdout
expect_line '^train.seed +0 +default' stdout
expect_line '^ +weights +34752|^ +weights +34816' stdout
expect_line '^ +FORWARD micro 0 block 0' stdout
expect_line '^ +REDUCE_GRAD bucket 0' stdout
expect_lines 0 stderr
ok "$trireme" explain job.yaml --json
tr -d '\n' <stdout >explained
expect_json_lines explained
for part in job plan schedule; do expect_line "\"$part\":" explained; done

# ---- eval gives the same bits as the run's own evaluation
newest=out/checkpoints/latest
ok "$trireme" eval job.yaml --model $newest --json
expect_json_lines stdout
loss=$(sed 's/.*"loss":\([^,]*\).*/\1/' stdout)
expect_line "^\{\"event\":\"eval\",\"step\":8,\"loss\":$loss," $log
expect_line '"bits_per_byte":[0-9.]+' stdout
ok "$trireme" eval job.yaml --model $newest
expect_line '^loss [0-9.]+  perplexity [0-9.]+  tokens [0-9]+  bits per byte [0-9.]+$' stdout

# ---- generate
sample() { # FILE ARGUMENTS...
    ok "$trireme" generate --model $newest --prompt 'the sea' --tokens 8 "${@:2}"
    mv stdout "$1"
}
sample one --seed 3
sample same --seed 3 --threads 1
sample other --seed 4
expect_same one same
! cmp -s one other || fail 'two seeds give the same text'
sample greedy --temperature 0
sample top1 --top-k 1 --seed 9
expect_same greedy top1
expect_line '^the sea' one
sample json --seed 3 --json
expect_line '^\{"prompt": "the sea", "text": "the sea' json

# ---- checkpoint
ok "$trireme" checkpoint verify $newest
expect_lines 0 stderr
ok "$trireme" checkpoint show $newest
expect_line '^weight +transformer.wte.weight +fp32 +\[320, 16\]$' stdout
expect_line '"step": 8' stdout
ok "$trireme" checkpoint show $newest --json
expect_json_lines stdout

# ---- curve
ok "$trireme" curve out
expect_file out/loss.png
[ "$(head -c 8 out/loss.png | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || fail 'loss.png is no PNG file'
[ "$(stat -c %s out/loss.png)" -gt 1000 ] || fail 'loss.png is nearly empty'
expect_line 'loss [0-9.]+ to [0-9.]+$' stdout

# ---- bench train leaves nothing behind
before=$(ls -A)
ok "$trireme" bench train --model.family gpt2 --model.layers 1 --model.hidden 16 --model.heads 2 --model.vocab 320 --model.max_seq 16 --data.seq_len 16 --train.global_batch 4 --train.steps 4 --launch.ranks 2 --json
expect_json_lines stdout
[ "$before" = "$(ls -A)" ] || fail "bench train left $(ls -A)"
ok "$trireme" bench tier --bytes 36868Ki --block 64Ki --json
expect_line "^\{\"write_gb_per_s\":$number,\"read_gb_per_s\":$number,\"bytes\":37752832,\"block_bytes\":65536,\"depth\":8,\"cpu_share\":$number,\"best_way\":(true|false)\}$" stdout
[ "$before" = "$(ls -A)" ] || fail "bench tier left $(ls -A)"
run "$trireme" bench tier --path nowhere
expect_exit 2
expect_lines 1 stderr
finish
