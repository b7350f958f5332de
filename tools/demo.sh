#!/usr/bin/env bash
# Sets up what the demo needs, builds tierfs, and runs `tierfs demo`. Arguments go to the demo (a directory to work in).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tools/setup.sh
setup_demo
say "building tierfs (some minutes the first time)"
cargo build --release --locked --bins
exec target/release/tierfs demo "$@"
