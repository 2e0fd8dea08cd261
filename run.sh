#!/usr/bin/env bash
# Sets up, builds, and runs the handwritten-digits network on npm_lite: values, cycles, causes, energy, files.
source "$(dirname "${BASH_SOURCE[0]}")/scripts/setup.sh"
install_packages
build release
say "running examples/digits on npm_lite"
/usr/bin/python3 examples/digits/run.py --kpusim build/release/bin/kpusim --out out/digits
