#!/usr/bin/env bash
# Write requirements.lock: the newest versions that the ranges of pyproject.toml allow, with the
# sha256 of every file of theirs. torch stays out, see environment.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
python="$folder/venv/bin/python"
torch=$(sed -n 's/^TORCH="\(.*\)"$/\1/p' release/environment.sh)
"$python" -m pip install --quiet "$torch" '.[dev]'
"$python" -m pip freeze --exclude graphdrop --exclude torch >"$folder/pins.in"
"$python" -m pip install --quiet uv
"$python" -m uv pip compile --quiet --no-deps --generate-hashes --no-annotate --no-header \
  --python "$python" "$folder/pins.in" -o "$folder/lock"
{ sed -n '/^#/p' requirements.lock; cat "$folder/lock"; } >"$folder/new"
mv "$folder/new" requirements.lock
