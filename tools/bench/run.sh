#!/usr/bin/env bash
# Runs benchmark rows: tools/bench/run.sh [--list] [--smoke] [--json] [--repeat N] [--dir DIR] [ROW...]
# Every figure is a ratio of two subjects measured in turn; the table says which, what the limit is, and whether it holds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tools/setup.sh
setup_bench
exec cargo bench --locked -q --bench tiers -- "$@"
