# generate.sh -- prompts from arguments, files and stdin; samples that repeat; stop strings; text that is printed
# token by token; the reason why each sample ended.
. "${0%/*}/lib.sh" "$1"

make_data
make_job 'family: gpt2, layers: 1, hidden: 16, heads: 2, vocab: 320, max_seq: 32, drop_embed: 0, drop_attention: 0, drop_residual: 0'
train --train.steps 8 --train.save_every 8 --train.out run
model=run/checkpoints/latest
generate() { ok "$trireme" generate --model $model "$@"; }

# ---- The prompt: the same text from an argument, a file and stdin
generate --prompt 'the sea' --tokens 8 --seed 3
mv stdout argument
mv stderr said
expect_lines 1 said
expect_line '^trireme: ended after 8 tokens: --tokens 8$' said
printf 'the sea\n' >prompt.txt
generate --prompt-file prompt.txt --tokens 8 --seed 3 --quiet
expect_same stdout argument
expect_lines 0 stderr
"$trireme" generate --model $model --prompt - --tokens 8 --seed 3 <prompt.txt >piped 2>stderr || fail "$(cat stderr)"
expect_same piped argument
refused 2 'one of them' "$trireme" generate --model $model --prompt x --prompt-file prompt.txt
refused 2 'cannot open none.txt' "$trireme" generate --model $model --prompt-file none.txt
refused 2 'it is a folder, not a file' "$trireme" generate --model $model --prompt-file .
refused 2 'it is a device, not a file' "$trireme" generate --model $model --prompt-file /dev/zero
truncate -s 17M large.txt
refused 2 'it has 17.00 MiB; valid: at most 16.00 MiB' "$trireme" generate --model $model --prompt-file large.txt
code=0
"$trireme" generate --model $model --prompt - </dev/zero >stdout 2>stderr || code=$?
expect_exit 2
expect_line 'stdin has more than 16777216 bytes'
refused 2 'prompt is empty' "$trireme" generate --model $model --prompt -

# ---- Samples: each depends only on its number and the seed, and all differ
generate --prompt 'the sea' --tokens 8 --seed 3 --samples 3 --json
expect_json_lines stdout
mv stdout three
generate --prompt 'the sea' --tokens 8 --seed 3 --samples 2 --json
texts() { grep -o '"text": "[^"]*", "tokens"' "$1"; }
[ "$(texts three | sort -u | wc -l)" = 3 ] || fail "samples are equal: $(texts three)"
[ "$(texts three | head -n 2)" = "$(texts stdout)" ] || fail 'a sample depends on how many are drawn'
generate --prompt 'the sea' --tokens 8 --seed 3 --samples 2
expect_line '^--- sample 2 of 2 ---$' stdout
sed -n '/--- sample 1/,/--- sample 2/p' stdout | sed '1d;$d' >first
expect_same first argument
expect_line '^trireme: sample 2: ended after 8 tokens' stderr

# ---- Every end token of config.json ends a sample: here the third token that the model draws
generate --prompt 'the sea' --tokens 20 --temperature 0 --json
ids=$(sed 's/.*"ids": \[\([^]]*\)\].*/\1/' stdout)
third=$(echo "$ids" | cut -d, -f3 | tr -d ' ')
earlier=$(echo "$ids" | tr -d ' ' | tr , '\n' | grep -nx "$third" | head -n 1 | cut -d: -f1)
mkdir ends
cp $model/config.json $model/model.safetensors $model/tokenizer.json ends/
sed -i "s/\"eos_token_id\": *[0-9]*/\"eos_token_id\": [319, $third]/" ends/config.json
grep -q "\[319, $third\]" ends/config.json || fail "config.json has no end token: $(cat ends/config.json)"
ok "$trireme" generate --model ends --prompt 'the sea' --tokens 20 --temperature 0
expect_line "^trireme: ended after $((earlier - 1)) tokens?: end of text$" stderr

# ---- Stop strings, also one that spans several tokens
generate --prompt 'the sea' --tokens 20 --temperature 0 --json
text=$(sed 's/.*"text": "the sea\([^"\\]*\)", "tokens": 20.*/\1/' stdout)
[ "${#text}" -gt 8 ] || fail "no text to stop in: $(cat stdout)"
stop=${text:5:4}
generate --prompt 'the sea' --tokens 20 --temperature 0 --stop 'never said' --stop "$stop"
[ "$(cat stdout)" = "the sea${text%%"$stop"*}" ] || fail "'$(cat stdout)' does not end before '$stop' of '$text'"
expect_line "^trireme: ended after [0-9]+ tokens?: stop string \"" stderr
generate --prompt 'the sea' --tokens 20 --temperature 0 --stop "$stop" --json
expect_line '"reason": "stop_string"' stdout
refused 2 '--stop: the text is empty' "$trireme" generate --model $model --prompt x --stop ''

# ---- A sample ends at the model's length, and a line says so
generate --prompt 'the sea' --tokens 100
expect_line '^trireme: ended after [0-9]+ tokens: (the model takes at most 32 tokens|end of text)$' stderr
generate --prompt 'the sea' --tokens 100 --temperature 0 --json
expect_line '"reason": "(model_length|end_of_text)"' stdout

# ---- A failed write ends the command
code=0
"$trireme" generate --model $model --prompt 'the sea' --quiet >/dev/full 2>stderr || code=$?
[ "$code" = 1 ] || fail "exit code $code with a full stdout"
expect_line '^trireme: cannot write to standard output' stderr
expect_lines 1 stderr # generating stopped at the first failed write
code=0
"$trireme" generate --model $model --prompt 'the sea' --json >/dev/full 2>stderr || code=$?
[ "$code" = 1 ] || fail "exit code $code with a full stdout and --json"
finish
