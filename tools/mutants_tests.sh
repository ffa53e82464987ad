# mutants_tests.sh -- lists the tests that should fail after a change of a file, the fastest first. mutants.sh sources it.

# Expressions of ctest, one a line; the next ones run where the earlier ones notice nothing.
mutant_tests() {
    case $1 in
    src/train/* | src/optim/*) echo '^unit/(optim|train)' ;;
    src/graph/*) echo '^unit/(graph|model|train)' ;;
    src/parallel/*) echo '^unit/(parallel|session)' ;;
    src/comm/*) echo '^unit/comm/' ;;
    src/rendezvous/*) echo '^unit/(rendezvous|launch)/' ;;
    src/infer/*) echo '^unit/(infer|train)/' ;;
    *) echo "^unit/$(echo "$1" | cut -d / -f 2)/" ;;
    esac
    case $1 in
    src/launch/*)
        echo '^cli/(leader_lost|run|run_flags|launchers|launches)$'
        echo '^cli/(elastic|deepspeed|attach|kill|hosts|recorder)$'
        ;;
    src/rendezvous/* | src/comm/network/* | src/comm/recorder*)
        echo '^cli/(leader_lost|attach|kill|recorder|ucx)$'
        echo '^cli/(hosts|elastic|namespaces)$'
        ;;
    src/config/* | src/session/* | src/cmd/*)
        echo '^unit/(config|session|api/test_)'
        echo '^cli/(groups|explain|plan|resume|messages)$'
        ;;
    src/device/* | src/net/* | src/base/*)
        echo '^unit/(device|net|base|model|train)'
        ;;
    *)
        echo '^(unit/(train|parallel|session|api/test_)|equiv/test_(late|memory|traffic|equiv_controls))'
        echo '^(equiv/test_(equiv|equiv_late|reshard)$|cli/(equal|resume|reshard|outputs|explain|plan|kill|nonfinite|offload)$)'
        ;;
    esac
}

mutant_all() {
    echo '^(unit|equiv)/|^cli/(equal|resume|reshard|outputs|explain|plan|kill|nonfinite|offload)$'
}

# The targets of ninja that these tests need.
mutant_targets() {
    ctest --test-dir "$work/build" -N -R "$1" | sed -n 's/.*: \(unit\|equiv\|cli\)\//\1\//p' |
        sed 's/^cli.*/trireme/; s/^unit\/api\/\(header\|symbols\).*/trireme_shared/; s/\//_/g' | sort -u
}
