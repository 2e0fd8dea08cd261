#!/usr/bin/env bash
# Builds the extension of the Python package with ASan and UBSan, and runs the package's tests with it.
# Arguments go to pytest: scripts/sanitize_python.sh tests/python -k schedule
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install_packages "${command_packages[@]}" "${test_packages[@]}"
scripts/python_packages.sh
say "building the extension (asan)"
python="$root/.venv/bin/python"
/usr/bin/cmake --preset asan -B build/asan_python -DKPUSIM_TESTS=OFF -DSKBUILD=ON -DPython_EXECUTABLE="$python" \
    -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" >/dev/null
/usr/bin/cmake --build build/asan_python --target kpusim_python
# A package of its own, which .venv's editable one does not hide: files of .pth are not read for PYTHONPATH.
site=build/asan_python/site
mkdir -p "$site/kpusim"
ln -sfn "$root"/python/kpusim/* "$site/kpusim/"
ln -sf "$root"/build/asan_python/python/_core*.so "$site/kpusim/"
say "testing with sanitizers"
# The command and the generated cases that some tests compare with; ./test.sh makes them.
export KPUSIM="$root/build/release/bin/kpusim" KPUSIM_CASES="$root/build/release/tests/conformance/nem"
[ -x "$KPUSIM" ] && [ -d "$KPUSIM_CASES" ] || { echo "build/release is not there. Fix: run ./test.sh first." >&2; exit 1; }
packages="$("$python" -c 'import site; print(site.getsitepackages()[0])')"
[ $# -gt 0 ] || set -- tests/python tests/deploy/test_kpu.py tests/deploy/test_client.py
# Leaks are those of the interpreter and of NumPy; ours are found by scripts/sanitize.sh.
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
    PYTHONPATH="$root/$site:$packages" PYTHONDONTWRITEBYTECODE=1 \
    "$(readlink -f "$python")" -m pytest -q -p no:cacheprovider "$@"
