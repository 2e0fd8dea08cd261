#!/usr/bin/env bash
# Builds everything with AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, and passes every test with it.
# Arguments go to ctest: scripts/sanitize.sh -R nem
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install_packages "${command_packages[@]}" "${test_packages[@]}"
build asan
say "testing with sanitizers"
ctest --preset asan -j "$(nproc)" "$@"
