#!/usr/bin/env bash
# Make .venv with the exact packages of requirements.lock and with this checkout, editable.
# pip takes no file whose sha256 is not in the lock. torch is not in it: which of its builds fits
# the machine is the user's choice, so its version stands here.
set -euo pipefail
cd "$(dirname "$0")/.."
TORCH="torch==2.13.0"

for python in ${PYTHON:-python3.11 python3}; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
  python=
done
if [ -z "${python:-}" ]; then
  echo "error: graphdrop needs Python 3.11 or later. Install it, or name one: make PYTHON=/path/to/python3.11" >&2
  exit 1
fi

echo "Installing graphdrop and its tools into .venv: the first time takes a minute or two."
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  rm -rf .venv
  # Some systems split ensurepip off from their Python; its own pip can stand in for it.
  "$python" -m venv .venv 2>/dev/null || {
    "$python" -m venv --without-pip .venv
    "$python" -m pip --python .venv/bin/python install --quiet pip
  }
fi
pip() { .venv/bin/python -m pip "$@" --quiet --disable-pip-version-check; }
pip install "$TORCH"
pip install --no-deps --require-hashes -r requirements.lock
pip install --no-deps -e .
touch .venv/installed
