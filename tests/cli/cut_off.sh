# cut_off.sh -- a file that is truncated while a run has it mapped ends the run with one line that names the
# file.
. "$(dirname "$0")/lib.sh" "$1"
make_data
cp toy.bin toy.kept
make_job

start() { # ARGUMENTS...
    rm -rf out
    "$trireme" train job.yaml --quiet --train.steps 1000000000 "$@" >stdout 2>stderr </dev/null &
    starter=$!
    wait_for_line '"event":"step","step":5,' out/log.jsonl
}
end() { # PATTERN
    { wait $starter; } 2>/dev/null
    code=$?
    expect_exit 1
    expect_lines 1 stderr
    expect_line "$1"
}
# Truncated to nothing: a rank reads beyond the end, or checks the size before that.
rank='(rank [01]( \(pid [0-9]+\) was killed by signal 7 \(Bus error\))?: )?'
cut_off=': the file was cut off while it was in use(: 0 of its [0-9]+ bytes are left)?(; it was in .*)?$'

for ranks in 1 2; do
    start --launch.ranks $ranks
    : >toy.bin
    end "^trireme: $rank[^ ]*/toy.bin$cut_off"
    expect_line '"event":"error","rank":[01],"text":"rank [01].*/toy.bin: the file was cut off' out/log.jsonl
    expect_line '"event":"end","reason":"failed"' out/log.jsonl
    cp toy.kept toy.bin
done
start --launch.as threads
: >toy.bin
end "^trireme: $rank[^ ]*/toy.bin$cut_off"
cp toy.kept toy.bin

# Truncated within its last page: the rest of the page reads as zeros. The run notices it, too.
for as in processes threads; do
    start --launch.as $as
    truncate -s -2 toy.bin
    end '^trireme: rank [01]: [^ ]*/toy.bin: the file was cut off while it was in use: [0-9]+ of its [0-9]+ bytes are left$'
    cp toy.kept toy.bin
done

# A name with a line break, and a safetensors file.
make_job 'family: mlp, features: 4, hidden: 8, layers: 1, classes: 3'
sed -i 's/, *seq_len: 16//; s/train: toy, valid: toy_valid/train: points.safetensors/' job.yaml
make_points
start
: >points.safetensors
end "^trireme: $rank[^ ]*/points.safetensors$cut_off"
make_points
start --launch.as threads
truncate -s -2 points.safetensors
end '^trireme: rank [01]: [^ ]*/points.safetensors: the file was cut off'
make_points 'odd
name.safetensors'
start --data.train 'odd
name.safetensors'
: >'odd
name.safetensors'
end "^trireme: $rank[^ ]*/odd\\\\(012|n)name.safetensors$cut_off"
finish
