# printable.sh -- text of a file, a name or an argument never controls the terminal: none of its control bytes and
# line breaks reaches an error, a warning, a note or a table. Long text is cut between two characters.
. "$(dirname "$0")/lib.sh" "$1"
make_data
make_job
evil=$'\e]0;title\a\e[2J\nline\rback\xc2\x9b31m'
shown='\\x1b\]0;title\\x07\\x1b\[2J\\nline\\rback\\xc2\\x9b31m'

# One line without control bytes, except for the line break at its end.
expect_clean() { # FILE
    ! LC_ALL=C grep -aq $'[\x01-\x09\x0b-\x1f\x7f]' "$1" || fail "control bytes in $1: $(cat -v "$1" | head -n 3)"
    ! LC_ALL=C grep -aqF $'\xc2\x9b' "$1" || fail "U+009B in $1: $(cat -v "$1" | head -n 3)"
    iconv -f UTF-8 -t UTF-8 "$1" >/dev/null 2>&1 || fail "$1 is not UTF-8: $(cat -v "$1" | head -n 3)"
}

says() { # COMMAND...: expects a refusal of one clean line that shows the name
    refused 2 "$shown" "$trireme" "$@"
    expect_clean stderr
}
says "$evil"
says train "$evil.yaml"
says train job.yaml "--$evil" 3
says train job.yaml --train.steps "$evil"
says train job.yaml --data.train "$evil"
says generate --model "$evil" --prompt x
says checkpoint verify "$evil"
says curve "$evil"
says data inspect "$evil"

# Keys and values of files.
printf 'model: {family: "\\e[31mred"}\n' >red.yaml
refused 2 '\\x1b\[31mred' "$trireme" train red.yaml
expect_clean stderr
train --train.save_every 8 --train.out plain
cp -rL plain/checkpoints/latest evil
safetensors evil/model.safetensors '{"\u001b[2Jx\u009b":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}' '\x00\x00\x00\x00\x00\x00\x00\x00'
refused 2 'evil/model.safetensors' "$trireme" generate --model evil --prompt x
expect_clean stderr

# Notes and tables of a run in a folder with such a name.
run "$trireme" train job.yaml --train.save_every 4 --train.out "run$evil"
expect_exit 0
expect_line '^saved run.*\\x1b\]0;title'
expect_clean stderr
run "$trireme" train job.yaml --train.save_every 4 --train.out "run$evil"
expect_exit 0
expect_line '\\x1b\]0;title.*already at step 8 of 8'
expect_clean stderr
run "$trireme" curve "run$evil"
expect_exit 0
tail -n 1 stdout >last
expect_clean last
run "$trireme" checkpoint verify "run$evil/checkpoints/latest"
expect_exit 0
expect_clean stdout
run "$trireme" explain job.yaml --train.out "run$evil"
expect_exit 0
expect_line '\\x1b\]0;title' stdout
tr -d '\n\t' <stdout >joined
expect_clean joined

# ---- Cut at characters: 199 letters, and a character of three bytes where the cut is
letters=$(printf 'a%.0s' $(seq 199))
for n in 0 1 2; do
    word=${letters:$n}€€€€
    refused 2 'train.steps' "$trireme" train job.yaml --train.steps "$word"
    expect_clean stderr
    expect_no_line '\\xe2'
    refused 2 'argument' "$trireme" train job.yaml "$word"
    refused 2 'argument' "$trireme" train job.yaml --quiet "$word"
    expect_clean stderr
    expect_no_line '\\xe2'
done
long=$(printf '€%.0s' $(seq 1000))
for n in '' x xy; do
    refused 2 '\.\.\.$' "$trireme" train "$n$long.yaml"
    expect_clean stderr
    expect_no_line '\\xe2'
done
finish
