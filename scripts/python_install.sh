#!/usr/bin/env bash
# Installs the Python package into .venv, editable, with the extension built in the tree of the release preset, so that
# nothing is compiled twice.
#   scripts/python_install.sh
#   scripts/python_install.sh wheel    makes build/wheel/*.whl of the same tree instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/python_packages.sh

pip() { # COMMAND [ARGUMENT...]
    CMAKE_EXECUTABLE=/usr/bin/cmake CMAKE_GENERATOR=Ninja .venv/bin/python -m pip "$1" --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --config-settings=build-dir=build/release --config-settings=cmake.define.KPUSIM_TESTS=ON "${@:2}"
}

case "${1:-}" in
    wheel)
        rm -rf build/wheel
        pip wheel --wheel-dir build/wheel .
        ;;
    *) pip install --editable . ;;
esac
