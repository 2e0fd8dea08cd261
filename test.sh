#!/usr/bin/env bash
# Sets up, builds and tests.
#   ./test.sh                        everything; fuzzes the readers of untrusted files for a minute
#   ./test.sh fast                   what needs no packages of Python, no Verilator and no browser, and less than two seconds
#   ./test.sh room compiler/passes   as fast; the tests whose code is linked from that folder, slow ones too, and the smoke tests
#   ./test.sh -R lower ...           the tests that these arguments of ctest choose, of all
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
report_times

run_tests() { # ARGUMENT...: of ctest
    say "testing"
    ctest --test-dir build/release --no-label-summary --output-on-failure -j "$(nproc)" "$@"
}


# Every test, or those that arguments of ctest choose.
test_all() {
    install_packages "${command_packages[@]}" "${fast_packages[@]}" "${test_packages[@]}"
    say "installing packages of Python, while the build runs"
    scripts/python_packages.sh &
    local packages=$!
    build release || { wait "$packages"; exit 1; }
    wait "$packages"
    say "building the package of Python"
    scripts/python_install.sh wheel
    scripts/python_install.sh
    run_tests "$@"
    [ $# -eq 0 ] || return 0
    export FUZZ_SEED=1
    scripts/fuzz.sh 60 nem kpu sched kern
    scripts/fuzz.sh 0 onnx # its hour has not been run yet: what is kept must pass
}

test_fast() {
    install_packages "${command_packages[@]}" "${fast_packages[@]}"
    build fast
    run_tests -LE '^(packages|rtl|browser)$|(^| )slow$'
}

test_room() { # FOLDER
    install_packages "${command_packages[@]}" "${fast_packages[@]}"
    configure fast
    local rooms room="${1:-}"
    room="${room%/}"
    rooms="$("$cmake" --build build/release --target help | sed -nE 's/^room-([^:]*):.*/\1/p' | tr - / | sort)"
    if ! grep -qxF -- "$room" <<<"$rooms"; then
        printf 'error: no such room: `%s`. Fix: ./test.sh room FOLDER with one of\n%s\n' "$room" "$rooms" >&2
        exit 1
    fi
    build fast --target kpusim "room-${room//\//-}"
    run_tests -LE '^(packages|rtl|browser)$' -L "room:$room( |\$)|^smoke\$"
}

case "${1:-}" in
    fast) test_fast ;;
    room) test_room "${2:-}" ;;
    *) test_all "$@" ;;
esac
