#!/bin/sh
# Mutants: changes one token of the core at a time, or drops one statement, builds, and runs the tests that should fail.
# Prints every mutant under which all tests pass: either a test is missing, or the change has no effect. A line is drawn
# at random, then one of its mutants.
#   tools/mutants.sh [--count N] [--seed S] [--folder WORK] [--passed] [--tests REGEX] [FILE or FOLDER under src/ ...]
#   tools/mutants.sh --list FILE             every mutant of a file: line, column, old, new
#   tools/mutants.sh --only FILE:LINE:COLUMN [--folder WORK] [--passed] [--tests REGEX]     that one
# Defaults: 20 mutants, seed 1, build-mutants/, the folders train infer graph parallel optim comm rendezvous ckpt, and the
# tests that mutants_tests.sh names. Works on a copy of the tree in WORK and keeps its build between calls. First it
# checks that the tests pass there; --passed skips this check. A mutant can take minutes, so ./test does not run this
# command.
# Exit codes: 0 a test failed under every mutant, 1 no test failed under some mutant, 2 bad usage.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
. tools/mutants_tests.sh

usage() {
    sed -n '5,7s/^#  //p' "$root/tools/mutants.sh" >&2
    exit 2
}

# The mutants of a file, one a line: FILE LINE COLUMN OLD NEW, separated by tabs. Comments, strings, includes and
# declarations of types are left alone.
list() {
    perl -e '
        my %swap = ("<" => "<=", "<=" => "<", ">" => ">=", ">=" => ">", "==" => "!=", "!=" => "==", "&&" => "||",
            "||" => "&&", "+" => "-", "-" => "+", "+=" => "-=", "-=" => "+=", "true" => "false", "false" => "true");
        my $file = shift;
        open my $in, "<", $file or die "$file: $!\n";
        my ($comment, $directive) = (0, 0);
        while (my $line = <$in>) {
            my $goes_on = $line =~ /\\$/;
            if ($directive || $line =~ /^\s*#/) { $directive = $goes_on; next }
            # Blanks replace everything but code, so that columns stay the same.
            my $code = $line;
            $code =~ s{("(?:\\.|[^"\\])*"|\x27(?:\\.|[^\x27\\])*\x27)}{" " x length $1}ge;
            if ($comment) { next unless $code =~ s{^(.*?\*/)}{" " x length $1}e; $comment = 0 }
            $code =~ s{(/\*.*?\*/)}{" " x length $1}ge;
            $code =~ s{(//.*)}{" " x length $1}e;
            $comment = 1 if $code =~ s{(/\*.*)}{" " x length $1}e;
            next if $code =~ /^\s*(static )?(const )?(struct|enum|typedef)\b.*;\s*$/;
            while ($code =~ /(?<![\w.])(\d+)(?![\w.])|(?<= )(<=|>=|==|!=|&&|\|\||\+=|-=|<|>|\+|-)(?= )|\b(true|false)\b|(!)(?=[\w(])/g) {
                my $column = $-[0] + 1;
                my ($old, $new) = defined $1 ? ($1, $1 == 0 ? 1 : $1 == 1 ? 0 : $1 + 1)
                    : defined $2 ? ($2, $swap{$2}) : defined $3 ? ($3, $swap{$3}) : ("!", "");
                print join("\t", $file, $., $column, $old, $new), "\n";
            }
            # A call or an assignment that is all of its line. One that frees leaves no trace.
            next unless $code =~ /^ +((?!free|return|goto)[\w*][\w.>\[\]-]*(?:\(.*\)| [-+|&]?= .*|\+\+|--);) *$/;
            my ($column, $old) = ($-[1] + 1, substr $line, $-[1], length $1);
            next unless ($code =~ tr/(//) == ($code =~ tr/)//);
            # A function that is named is used, as the compiler wants it.
            my $new = $old =~ /^(?:TRY\()?([a-z][\w.>-]*)\(/ ? "(void)$1;" : "(void)0;";
            print join("\t", $file, $., $column, $old, $new), "\n";
        }' "$1"
}

# sample COUNT SEED: of the mutants on stdin, so many in random order, each of another line.
sample() {
    perl -e 'my ($count, $seed) = @ARGV; srand $seed; my (%of, @all);
        while (<STDIN>) { my ($file, $line) = split /\t/; my $at = "$file:$line"; push @all, $at unless $of{$at}; push @{$of{$at}}, $_ }
        for my $i (reverse 1 .. $#all) { my $k = int rand($i + 1); @all[$i, $k] = @all[$k, $i] }
        print map { $of{$_}[rand @{$of{$_}}] } @all[0 .. ($count < @all ? $count : @all) - 1]' "$1" "$2"
}

# apply FILE LINE COLUMN OLD NEW: in the copy.
apply() {
    perl -i -pe 'BEGIN { ($l, $c, $o, $n) = splice @ARGV, 0, 4 } substr($_, $c - 1, length $o) = $n if $. == $l' \
        "$2" "$3" "$4" "$5" "$work/$1"
}

# passes REGEX: builds and runs those tests in the copy. What does not build says so by exit code 3.
passes() {
    targets=$(mutant_targets "$1")
    # shellcheck disable=SC2086 # a list of words
    ninja -C "$work/build" $targets >"$work/build/build.log" 2>&1 || return 3
    ctest --test-dir "$work/build" -R "$1" -j "$(nproc)" --stop-on-failure >"$work/build/ctest.log" 2>&1
}

# try FILE LINE COLUMN OLD NEW: prints the verdict; 1 when nothing noticed.
try() {
    apply "$@"
    verdict=SURVIVED
    for tests in ${regex:-$(mutant_tests "$1")}; do
        passes "$tests" && continue
        [ $? = 3 ] && verdict='does not build' && break
        verdict="noticed by $(sed -n 's/^[ \t]*[0-9]* - //p' "$work/build/ctest.log" | head -n 1)"
        break
    done
    cp "$root/$1" "$work/$1"
    printf '%s:%s:%s\t%s -> %s\t%s\n' "$1" "$2" "$3" "$4" "${5:-nothing}" "$verdict"
    [ "$verdict" != SURVIVED ]
}

count=20 seed=1 work=$root/build-mutants passed='' only='' files='' regex=''
while [ $# -gt 0 ]; do
    case $1 in
    --count | --seed | --folder | --only | --list | --tests)
        [ $# -gt 1 ] || usage
        case $1 in
        --count) count=$2 ;;
        --seed) seed=$2 ;;
        --folder) work=$2 ;;
        --only) only=$2 ;;
        --tests) regex=$2 ;;
        --list) list "$2" && exit 0 ;;
        esac
        shift 2
        ;;
    --passed) passed=1 && shift ;;
    -*) usage ;;
    *) files="$files $1" && shift ;;
    esac
done

mkdir -p "$work"
work=$(cd "$work" && pwd)
git ls-files -z | grep -zv '^\.' | tar --null -T - -cf - | tar -C "$work" --skip-old-files -xf -
# What has changed since the copy was made, with its time, so that little is built again.
git ls-files | grep -v '^\.' | while read -r file; do cmp -s "$file" "$work/$file" || cp "$file" "$work/$file"; done
# A mutant may hang; where a test says "Timeout" on a busy machine, look again with --only.
sed -i 's/TIMEOUT [0-9]*/TIMEOUT 400/' "$work/tests/CMakeLists.txt" "$work/tests/cli/CMakeLists.txt"
[ -e "$work/build/build.ninja" ] || cmake -S "$work" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTRIREME_CUDA=off >/dev/null
[ -n "$passed" ] || echo "mutants.sh: building and testing the tree as it is in $work/" >&2
[ -n "$passed" ] || passes "${regex:-$(mutant_all)}" || {
    echo "mutants.sh: the tree itself does not pass; see $work/build/build.log and $work/build/ctest.log" >&2
    exit 2
}

if [ -n "$only" ]; then
    list "${only%%:*}" | awk -F '\t' -v at="$only" '$1 ":" $2 ":" $3 == at' >"$work/build/mutants"
else
    [ -n "$files" ] || files='src/train src/infer src/graph src/parallel src/optim src/comm src/rendezvous src/ckpt'
    # shellcheck disable=SC2086
    find $files -name '*.c' | sort | while read -r file; do list "$file"; done | sample "$count" "$seed" >"$work/build/mutants"
fi
[ -s "$work/build/mutants" ] || usage
bad=0
tab=$(printf '\t')
while IFS=$tab read -r file line column old new; do
    try "$file" "$line" "$column" "$old" "$new" || bad=1
done <"$work/build/mutants"
exit $bad
