#!/usr/bin/env bash
# Install Chromium, in which the report is tested, or say how.
for name in chromium chromium-browser google-chrome; do command -v "$name" && exit 0; done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  install="apt-get install --yes --quiet --no-install-recommends chromium"
  $install || { apt-get update --quiet && $install; }
else
  echo "Chromium is not here: install it, on Debian with sudo apt-get install chromium." >&2
  exit 1
fi
