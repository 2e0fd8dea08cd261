#!/usr/bin/env bash
# Fails if a C++ file differs from .clang-format, or a Python file from ruff.toml; with --fix it formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cpp=(--dry-run -Werror)
python=(--check)
lint=()
if [ "${1:-}" = --fix ]; then
    cpp=(-i)
    python=()
    lint=(--fix)
fi
command -v clang-format >/dev/null ||
    { echo "error: clang-format is missing. Fix: apt-get install clang-format" >&2; exit 1; }
git ls-files -z '*.cpp' '*.hpp' | xargs -0 clang-format "${cpp[@]}"
PATH="$PATH:$PWD/.venv/bin"
if command -v ruff >/dev/null; then
    ruff format --quiet "${python[@]}" .
    ruff check --quiet "${lint[@]}" .
else
    echo "ruff is missing, so the Python files were not checked. Fix: scripts/python_install.sh" >&2
fi
