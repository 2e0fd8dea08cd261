#!/usr/bin/env bash
# Sets up, builds, and passes every test.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
install_packages
build release
say "testing"
ctest --test-dir build/release --output-on-failure -j "$(nproc)" "$@"
