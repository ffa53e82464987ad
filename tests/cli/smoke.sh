# smoke.sh -- `trireme smoke`: its runs on several numbers of ranks and under another launcher, and the failures that it finds.
# $2 is the program whose collectives give wrong data.
. "$(dirname "$0")/lib.sh" "$1"
wrong=$2

ok "$trireme" smoke --ranks 2
expect_lines 1 stdout
expect_line '^smoke: 2 ranks on 1 host \(cpu [a-z0-9]+\): 7 runs of 8 steps in [0-9.]+ s, [0-9]+ tokens/s; losses fall from [0-9.]+ to [0-9.]+; the bits of equal runs agree$' stdout
ok "$trireme" smoke --ranks 1 --json
expect_json_lines stdout
expect_line '^\{"ranks":1,"hosts":1,"device":"cpu [a-z0-9]+","runs":3,"steps":8,' stdout
ok "$trireme" smoke --ranks 3 --launch.as threads
expect_line '^smoke: 3 ranks on 1 host .*: 3 runs of 8 steps' stdout
ok "$trireme" run --nproc-per-node 2 "$trireme" smoke
expect_line '^smoke: 2 ranks on 1 host .*: 7 runs of 8 steps' stdout
[ "$(grep -c '^smoke: ' stdout)" = 1 ] || fail "other lines than one: $(cat stdout)"
# Two hosts with a rank each, as torchrun starts them.
host=$(own_address)
of_host() { # RANK
    timeout 240 env RANK="$1" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK="$1" MASTER_ADDR="$host" MASTER_PORT=29778 TORCHELASTIC_RUN_ID=$$ "$trireme" smoke
}
of_host 1 >other 2>&1 &
of_host 0 >stdout 2>stderr || fail "the first host ended with $?: $(cat stderr)"
wait $! || fail "the other host ended with $?: $(cat other)"
expect_line '^smoke: 2 ranks on 1 host .*: 7 runs of 8 steps' stdout
[ ! -s other ] || fail "the other host printed: $(cat other)"
rm other
[ "$(ls)" = "$(printf 'stderr\nstdout')" ] || fail "files were left: $(ls)"

# Collectives that spoil a byte: ranks no longer agree, or runs have other bits.
run "$wrong" smoke --ranks 2
expect_exit 1
expect_lines 1 stderr
expect_line '^trireme: smoke: ddp'
# A model that does not learn, and one that breaks: the rank and its host are named.
run "$trireme" smoke --ranks 2 --optimizer.lr 0
expect_exit 1
expect_line '^trireme: smoke: ddp: the loss does not fall: '
run "$trireme" smoke --ranks 2 --optimizer.lr 1e30
expect_exit 1
expect_line "^trireme: smoke: ddp on host $(uname -n): rank [01]: step [0-9]+: the loss is -?nan"
expect_lines 1 stderr

refused 2 "^trireme: smoke: found 'job.yaml'; valid are keys such as" "$trireme" smoke job.yaml
refused 2 '^trireme: smoke: --launch.ranks: valid is --ranks N$' "$trireme" smoke --launch.ranks 2
refused 2 '^trireme: smoke: --ranks: found 5000; valid: 1 to 4096$' "$trireme" smoke --ranks 5000
refused 2 'launch.device: found' "$trireme" smoke --launch.device gpux
finish
