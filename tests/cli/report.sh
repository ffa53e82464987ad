# `trireme report`: the verdict of made-up runs, as text and as JSON, two runs compared, a run that goes on, and what is
# refused. A real run ends with report.json where its ranks have records.
. "$(dirname "$0")/lib.sh" "$1"
make_run=$2

ok "$make_run" slow ranks=4 hosts=2 steps=40 cause=compute slow_rank=3 slow_by=0.3
ok "$make_run" good ranks=4 hosts=2 steps=40

ok "$trireme" report slow
expect_line '^COMPUTE STRAGGLER rank 3 on host b: the others wait for it for 23\.[01] % of a step$' stdout
expect_line '^  the others waited for rank 3 on host b in 39 of 39 steps' stdout
expect_line '^next: .*launch\.threads_per_rank' stdout
expect_line '^ +3 +b +0 +130\.0 ms' stdout
expect_line '^median ' stdout

ok "$trireme" report slow --json
expect_lines 1 stdout
expect_json_lines stdout
expect_line '^\{"verdict":"COMPUTE STRAGGLER","rank":3,"host":"b",' stdout
expect_line '"stragglers":\[\{"rank":3,"host":"b","cause":"compute"' stdout

ok "$trireme" report slow --against good
expect_line '^good is 1\.30 times as fast as slow: in a step, communication takes 30\.0 ms less$' stdout
expect_line '^verdict +COMPUTE STRAGGLER +COMPUTE-BOUND$' stdout
expect_line '^loss of step 40 ' stdout
ok "$trireme" report slow --against good --json
expect_json_lines stdout
expect_line '"speedup":1\.3,' stdout

ok "$make_run" live ranks=2 steps=30 input=0.4 goes_on=1
ok "$trireme" report live
expect_line '^INPUT-BOUND: ' stdout

# A log without records.
rm -r good/spans
ok "$trireme" report good
expect_line '^UNKNOWN: ' stdout
ok "$trireme" report slow --against good
expect_line '^good is 1\.30 times as fast as slow' stdout

run "$trireme" report
expect_exit 2
expect_line 'give the folder of a run'
run "$trireme" report nowhere
expect_exit 2
expect_line 'nowhere: no such folder'
mkdir empty
run "$trireme" report empty
expect_exit 2
expect_line 'empty: not the folder of a run'
head -c 100 slow/spans/rank-00001.spans >cut && mv cut slow/spans/rank-00001.spans
run "$trireme" report slow
expect_exit 2
expect_line 'rank-00001.spans: not a record of spans'

finish
