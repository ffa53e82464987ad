# startup.sh -- prints the time from the start of the program to the end of the first step, with two ranks and half
# a million parameters. It is for information; no time is tested.
. "$(dirname "$0")/lib.sh" "$1"
ok "$trireme" bench train --model.family gpt2 --model.layers 2 --model.hidden 128 --model.heads 2 \
        --model.vocab 512 --model.max_seq 256 --data.seq_len 256 --train.global_batch 8 --train.steps 3 \
        --launch.ranks 2 --json
expect_line '"first_step_s":[0-9.]+.*"params":4[0-9]{5},"ranks":2' stdout
sed 's/.*"first_step_s":\([0-9.]*\).*/first step \1 s after the start/' stdout
finish
