#!/usr/bin/env bash
# Python packages that tests need beyond Debian's, in .venv of the repository. Quick when they are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(textmate-grammar-python==0.6.1)

[ "$(cat .venv/packages.txt 2>/dev/null)" = "${packages[*]}" ] && exit
/usr/bin/python3 -m venv --system-site-packages .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "${packages[@]}"
echo "${packages[*]}" >.venv/packages.txt
