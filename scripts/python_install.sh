#!/usr/bin/env bash
# Installs the Python package into .venv, editable, with the extension built in the tree of the release preset, so that
# nothing is compiled twice.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/python_packages.sh
CMAKE_EXECUTABLE=/usr/bin/cmake CMAKE_GENERATOR=Ninja .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps --config-settings=build-dir=build/release --config-settings=cmake.define.KPUSIM_TESTS=ON \
    --editable .
