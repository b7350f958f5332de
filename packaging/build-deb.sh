#!/usr/bin/env bash
# Builds the Debian package into target/debian: packaging/build-deb.sh [--no-build] [PROFILE]
# Needs cargo-deb (cargo install cargo-deb --locked). --no-build packs the programs that are in target already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=yes
if [ "${1:-}" = --no-build ]; then build=no; shift; fi
profile=${1:-release}
folder=$profile
[ "$profile" != dev ] || folder=debug

[ "$build" = no ] || cargo build --locked --profile "$profile" --bins
# Man pages and completions out of the programs themselves.
made=target/packaging
rm -rf "$made"
for program in tierfs tierstat; do
  "target/$folder/$program" generate "$made"
  mv "$made/completions/bash/$program.bash" "$made/completions/bash/$program"
done
exec cargo deb --locked --no-build --profile "$profile" --output target/debian/
