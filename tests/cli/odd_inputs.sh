# odd_inputs.sh -- wherever a file is read, pipes, devices and folders are refused at once and in one line, and so
# is a file that is far too large for its kind.
. "${0%/*}/lib.sh" "$1"
make_data
make_job
mkfifo pipe
mkdir folder

# WHAT REFUSED COMMAND...: expects exit code 2 and one line, within seconds.
odd() {
    what=$1
    shift
    refused 2 "it is $what, not a file" timeout 20 "$@"
}

for command in train explain plan "bench train" "eval --model m"; do
    odd 'a pipe' "$trireme" $command pipe
    odd 'a device' "$trireme" $command /dev/zero
done
odd 'a folder' "$trireme" explain folder
truncate -s 17M large
refused 2 'cannot read .*large: it has 17.00 MiB; valid: at most 16.00 MiB' timeout 20 "$trireme" explain large
{
    echo 'model:'
    seq -f '  k%.0f: 1' 2000
} >keys.yaml
refused 2 'keys.yaml:1026: more than 1024 keys in one section' timeout 20 "$trireme" explain keys.yaml

# A model's folder, data, a tokenizer.
for name in pipe /dev/zero; do
    what='a pipe'
    [ $name = pipe ] || what='a device'
    rm -rf model && mkdir model && ln -s "$(realpath $name)" model/config.json
    odd "$what" "$trireme" explain --model.path model --data.train toy
    for part in bin idx; do
        rm -f odd.bin odd.idx
        cp toy.bin odd.bin && cp toy.idx odd.idx && ln -sf "$(realpath $name)" odd.$part
        odd "$what" "$trireme" explain job.yaml --data.train odd
        odd "$what" "$trireme" data inspect odd
    done
    odd "$what" "$trireme" data prepare --input $name --output-prefix made --tokenizer tokenizer.json
    odd "$what" "$trireme" data prepare --input text.jsonl --output-prefix made --tokenizer $name
    expect_no_file made.bin
done

# Weights.
ok "$trireme" train job.yaml --quiet --train.steps 1 --train.save_every 1
cp -rL out/checkpoints/latest whole
ok timeout 60 "$trireme" generate --model whole --prompt a --tokens 2
for file in model.safetensors tokenizer.json config.json; do
    rm -rf broken && cp -r whole broken && rm broken/$file && mkfifo broken/$file
    odd 'a pipe' "$trireme" generate --model broken --prompt a --tokens 2
done
finish
