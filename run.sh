#!/usr/bin/env bash
# Installs what the command needs, builds it, and runs the handwritten-digits network on npm_lite: values, cycles,
# causes, energy, files. Tests, their packages and their targets are test.sh's.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
install_packages "${command_packages[@]}"
build command
say "running examples/digits on npm_lite"
/usr/bin/python3 examples/digits/run.py --kpusim build/release/bin/kpusim --out out/digits
