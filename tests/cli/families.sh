# families.sh -- the folders of tests/golden/models: each trains with equal losses under every layout, and a folder
# that no step changed comes back with the same bytes of weights, also from shards. A family becomes supported here by
# the name of its folder in `folders`.
. "$(dirname "$0")/lib.sh" "$1"
models=$(cd "$OLDPWD" && cd "$(dirname "$0")/../golden/models" && pwd)

folders='
llama_biases
llama_dynamic
llama_longrope
llama_yarn
llama_yarn_mscale
qwen2
qwen2_window
qwen3
mistral
gemma2
gemma3_text
gemma3
smollm3
phi3
phi3_longrope
granite
olmo2
olmo3
exaone4
glm
glm4
cohere2
ernie4_5
hunyuan_v1_dense
seed_oss
starcoder2
stablelm
arcee
granite_swa
ministral3
apertus
cohere
stablelm_parallel
llama_dynamic_long
lfm2
lfm2_numbers
qwen3_5
qwen3_next
gemma4_text
'

# NAME, the run with the same order of sums, how near another run is, and the arguments.
layouts='
one     one     -
ddp2    one     1e-5    --launch.ranks 2
zero3   ddp2    same    --launch.ranks 2 --parallel.dp zero3
pp2     one     same    --launch.ranks 2 --parallel.pp 2
tp2     one     1e-5    --launch.ranks 2 --parallel.tp 2
cp2     one     1e-5    --launch.ranks 2 --parallel.cp 2
'

cat >job.yaml <<END
data: {train: mock, seq_len: 16}
train: {steps: 2, global_batch: 4, micro_batch: 1, save_every: 0, eval_every: 0, precision: fp32}
optimizer: {name: sgd, lr: 1e-1}
lr_schedule: {name: constant, warmup_steps: 0}
parallel: {no_sync: true}
launch: {ranks: 1, as: threads, threads_per_rank: 1}
END

# Prints for the entries of a safetensors header, which come in the order of their data, "SHARD BYTES" and the entry
# with its offsets in that shard. The first shard ends with half of the tensors.
divide_header() { # HEADER
    sed 's/^{//; s/}$//; s/},"/}\n"/g; s/}$/}\n/' "$1" | grep -v '^"__metadata__"\|^$' | awk '
        { entry[n++] = $0 }
        END {
            for (i = 0; i < n; i++) {
                match(entry[i], /"data_offsets":\[[0-9]+,[0-9]+\]/)
                split(substr(entry[i], RSTART + 16, RLENGTH - 17), offset, ",")
                shard = i < n / 2 ? 1 : 2
                if (i == 0 || shard != last) first = offset[1]
                last = shard
                printf "%d %d %s\"data_offsets\":[%d,%d]}\n", shard, offset[2] - offset[1], substr(entry[i], 1, RSTART - 1), offset[1] - first, offset[2] - first
            }
        }'
}

# Writes a copy of a model's folder whose weights lie in two shards.
make_shards() { # FOLDER COPY
    local length data=0 shard bytes header name
    mkdir "$2"
    cp "$1/config.json" "$2"
    length=$(od -An -tu8 -N8 "$1/model.safetensors" | tr -d ' ')
    tail -c +9 "$1/model.safetensors" | head -c "$length" | sed 's/ *$//' >header
    divide_header header >entries
    for shard in 1 2; do
        name=model-0000$shard-of-00002.safetensors
        header="{$(awk -v shard=$shard '$1 == shard { printf "%s%s", comma, substr($0, length($1 $2) + 3); comma = "," }' entries)}"
        while [ $((${#header} % 8)) != 0 ]; do header="$header "; done
        bytes=$(awk -v shard=$shard '$1 == shard { sum += $2 } END { print sum }' entries)
        {
            le64 ${#header}
            printf '%s' "$header"
            tail -c +$((9 + length + data)) "$1/model.safetensors" | head -c "$bytes"
        } >"$2/$name"
        data=$((data + bytes))
    done
    sed 's/^\([12]\) [0-9]* \("[^"]*"\):.*/\2: "model-0000\1-of-00002.safetensors"/' entries | paste -sd , |
        sed 's/.*/{"metadata": {"total_size": '$data'}, "weight_map": {&}}/' >"$2/model.safetensors.index.json"
}

# Of four ranks, two each have the same head of keys and values.
check_shared_heads() { # NAME
    local how
    for how in 'tp 4' 'tp 4 --parallel.sequence_parallel true' 'tp 4 --parallel.dp zero3 --launch.ranks 8' 'tp 4 --parallel.pp 2 --launch.ranks 8'; do
        train --model.path "$models/$1" --train.out tp4 --overwrite --launch.ranks 4 --parallel.$how
        expect_near_losses one tp4 1e-5
    done
    train --model.path "$models/$1" --train.out back --overwrite --optimizer.lr 0 --train.steps 1 --train.save_every 1 \
        --launch.ranks 4 --parallel.tp 4
    expect_same "$models/$1/model.safetensors" back/checkpoints/latest/model.safetensors
}

check_folder() { # NAME, in a folder of its own
    local name like near how from
    while read -r name like near how; do
        [ -n "$name" ] || continue
        [ "$1 $name" != 'gemma4_text tp2' ] || continue # its layers without a window have one key-value head
        train --model.path "$models/$1" --train.out "$name" $how
        expect_steps "$name" 2
        case $near in
        -) ;;
        same) expect_same_losses "$like" "$name" ;;
        *) expect_near_losses "$like" "$name" "$near" ;;
        esac
    done <<<"$layouts"
    [ "$1" = qwen3 ] && check_shared_heads "$1"
    make_shards "$models/$1" shards
    for from in "$models/$1" shards; do
        train --model.path "$from" --train.out back --overwrite --optimizer.lr 0 --train.steps 1 --train.save_every 1
        expect_same "$models/$1/model.safetensors" back/checkpoints/latest/model.safetensors
    done
}

# Four folders at a time: a run of so small a model mostly waits for its processes and files.
for folder in $folders; do
    mkdir "$folder"
    cp job.yaml "$folder"
    (
        cd "$folder" && check_folder "$folder"
        [ "$failures" = 0 ] || echo "$folder: $failures" >failed
    ) &
    [ "$(jobs -r | wc -l)" -lt 4 ] || wait -n
done
wait
for folder in $folders; do
    expect_no_file "$folder/failed"
    expect_file "$folder/back/checkpoints/latest"
done
finish
