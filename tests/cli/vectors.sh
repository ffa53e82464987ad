# vectors.sh -- vector data: regression of several targets from a file. Evaluation counts every sample once, with any
# number of ranks and any micro-batch, and prints no perplexity.
. "$(dirname "$0")/lib.sh" "$1"

# values.safetensors: 20 points in 3 dimensions and 2 targets each.
safetensors values.safetensors \
    '{"x":{"dtype":"F32","shape":[20,3],"data_offsets":[0,240]},"y":{"dtype":"F32","shape":[20,2],"data_offsets":[240,400]}}' \
    "$(awk 'BEGIN {
        split("00\\x00\\x00\\x00 00\\x00\\x80\\x3f 00\\x00\\x80\\xbf 00\\x00\\x00\\x3f 00\\x00\\x00\\x40", v, " ")
        x = 5
        for (i = 0; i < 100; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "\\x%s", v[int(x / 65536) % 5 + 1] }
    }')"
make_points
vectors_job() { # MODEL DATA
    cat >job.yaml <<END
model: {family: mlp, layers: 2, hidden: 8, $1}
data: {train: $2, valid: $2}
train: {steps: 4, global_batch: 12, micro_batch: 6, save_every: 4, eval_every: 2, out: out}
launch: {ranks: 2}
END
}
evaluate() { # RANKS MICRO-BATCH SAMPLES: the line of all is the same
    ok "$trireme" eval job.yaml --model out/checkpoints/latest --launch.ranks "$1" --train.micro_batch "$2"
    expect_line "^loss [0-9.]+$accuracy  samples $3\$" stdout
    [ -s expected ] || cp stdout expected
    expect_same stdout expected
}

for kind in values points; do
    rm -rf out expected
    case $kind in
        values) vectors_job 'features: 3, classes: 2, loss: mse' values.safetensors ;;
        points) vectors_job 'features: 4, classes: 3' points.safetensors ;;
    esac
    samples=$([ $kind = values ] && echo 20 || echo 48)
    accuracy=$([ $kind = values ] || echo '  accuracy [01].[0-9]{4}')
    ok "$trireme" train job.yaml
    expect_line 'step 4 .*validation loss [0-9.]+$'
    expect_no_line perplexity
    expect_line '"event":"eval","step":4,"loss":[0-9.e+-]+[,}]' out/log.jsonl
    expect_no_line perplexity out/log.jsonl
    expect_json_lines out/log.jsonl
    for shape in '1 12' '2 6' '2 3' '3 4' '3 1'; do evaluate $shape "$samples"; done
    ok "$trireme" eval job.yaml --model out/checkpoints/latest --json
    expect_line "^\{\"loss\":[0-9.e+-]+(,\"accuracy\":[0-9.e+-]+)?,\"samples\":$samples\}\$" stdout
done

refused 2 'a sample has 3 inputs and 2 labels, the model takes 3 and 1' "$trireme" train job.yaml \
    --model.features 3 --model.classes 1 --model.loss mse --data.train values.safetensors --data.valid values.safetensors

# Text keeps its perplexity, and counts each token once.
make_data
make_job
train --train.save_every 8
for shape in '1 4' '2 2' '2 1'; do
    set -- $shape
    ok "$trireme" eval job.yaml --model out/checkpoints/latest --launch.ranks "$1" --train.micro_batch "$2"
    expect_line '^loss [0-9.]+  perplexity [0-9.]+  tokens [0-9]+ ' stdout
    [ -s tokens ] || cp stdout tokens
    expect_same stdout tokens
done
finish
