#!/usr/bin/env bash
# Python packages that tests need beyond Debian's, in .venv of the repository. Quick when they are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
    textmate-grammar-python==0.6.1
    perfetto==0.59.1 pywellen==0.25.7                              # read our traces
    scikit-build-core==1.1.2 pybind11==3.1.0                       # build the package
    pytest==8.4.2 mypy==1.18.2 ruff==0.14.4 nbclient==0.10.2 ipykernel==6.30.1 ml_dtypes==0.5.4 # test it
    numpy==2.3.5 onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 scikit-learn==1.7.2 # models, and who runs them
    transformers==5.24.0                                           # decoders to export
    torch==2.13.0 pillow==13.0.0 matplotlib==3.11.2 pandas==3.1.1  # kpusim[torch], kpusim[plots]
    PyYAML==6.0.4 optuna==5.0.0 SALib==1.6.0 duckdb==2.0.1 plotly==7.1.0 # kpusim[sweep]
    distributed==2026.8.0                                          # kpusim[cluster]
    jax==0.10.2 jaxlib==0.10.2                                     # kpusim[pallas]
)
# The second release of jax that Pallas is tested with, beside the first; absl-py is what its wheel forgets to require.
second_jax=(jax==0.9.2 jaxlib==0.9.2 absl-py==2.4.0)

[ "$(cat .venv/packages.txt 2>/dev/null)" = "${packages[*]} ${second_jax[*]}" ] && exit
/usr/bin/python3 -m venv --system-site-packages .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check "${packages[@]}"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target .venv/second_jax "${second_jax[@]}"
echo "${packages[*]} ${second_jax[*]}" >.venv/packages.txt
