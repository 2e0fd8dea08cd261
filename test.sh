#!/usr/bin/env bash
# Sets up, builds, passes every test, and fuzzes the readers of untrusted files for a minute. With arguments, which go
# to ctest, only the tests that they choose.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
install_packages "${command_packages[@]}" "${test_packages[@]}"
scripts/python_packages.sh
build release
scripts/python_install.sh
say "testing"
ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
[ $# -gt 0 ] && exit
export FUZZ_SEED=1
scripts/fuzz.sh 60 nem kpu sched kern
scripts/fuzz.sh 0 onnx # its hour has not been run yet: what is kept must pass
