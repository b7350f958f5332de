#!/usr/bin/env bash
# Sets up what the tests need and runs them: tools/test.sh [--full] [SUITE...] [-- NEXTEST-ARGUMENTS...]
#
#   fmt clippy docs    the code's form: no warnings
#   tests              unit, contract, architecture and real-mount tests (cargo-nextest)
#   full               slow real-mount tests: everyday programs, training jobs and a real model, each rule and mode
#   bench              every benchmark row once, small: does it run?
#   soak               daemons that die anywhere, over and over; only when it is named (tools/soak.sh)
#
# Without SUITE: fmt clippy tests docs; with --full: all.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
. tools/setup.sh

usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit "$1"; }

suites=() arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --full) suites=(fmt clippy tests docs full bench) ;;
    fmt | clippy | tests | docs | full | bench | soak) suites+=("$1") ;;
    -h | --help) usage 0 ;;
    --) shift; arguments=("$@"); break ;;
    *) echo "error: unknown argument $1" >&2; usage 2 >&2 ;;
  esac
  shift
done
[ ${#suites[@]} -gt 0 ] || suites=(fmt clippy tests docs)
wants() { [[ " ${suites[*]} " == *" $1 "* ]]; }

# Backing files on overlayfs can't be passed through to the kernel, so in a container the tests work in memory.
scratch_dir() {
  local base=${TIERFS_TEST_DIR:-${TMPDIR:-/tmp}}
  if [ "$(stat -f -c %T "$base")" = overlayfs ] && [ -w /dev/shm ]; then base=/dev/shm; fi
  local made
  made=$(mktemp -d "$base/tierfs-tests.XXXXXX") || return 1
  # Some tests work as another user.
  chmod 755 "$made"
  echo "$made"
}

azurite_pid='' scratch=''
cleanup() {
  [ -z "$azurite_pid" ] || kill "$azurite_pid" 2>/dev/null
  [ -n "$scratch" ] || return 0
  # A test that was killed may have left its mount; only what is below our own directory is touched.
  findmnt -rno TARGET 2>/dev/null | { grep -F "$scratch/" || true; } | sort -r | while read -r mount; do umount -l "$mount" || true; done
  rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_azurite() {
  [ -z "${TIERFS_AZURITE_URL:-}" ] || return 0
  local line url=''
  mkfifo "$scratch/azurite" || return 1
  node target/azurite/node_modules/azurite/dist/src/blob/main.js --blobHost 127.0.0.1 --blobPort 0 --inMemoryPersistence \
    --skipApiVersionCheck --loose --silent --disableTelemetry </dev/null >"$scratch/azurite" 2>"$scratch/azurite.err" &
  azurite_pid=$!
  exec 8<"$scratch/azurite"
  while read -r -t 60 line <&8; do
    case $line in *"successfully listens on "*) url=${line##*listens on }; break ;; esac
  done
  [ -n "$url" ] || { cat "$scratch/azurite.err" >&2; return 1; }
  export TIERFS_AZURITE_URL=$url/devstoreaccount1
}

passed=0 failed=0 report=''
suite() {
  local name=$1 start=$SECONDS verdict
  shift
  wants "$name" || return 0
  say "$name"
  if "$@"; then verdict=ok passed=$((passed + 1)); else verdict=FAILED failed=$((failed + 1)); fi
  report+=$(printf '%-8s %-7s %4d s' "$name" "$verdict" $((SECONDS - start)))$'\n'
}

clippy() { cargo clippy --locked --all-targets -- -D warnings; }
docs() { RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --document-private-items --lib -q; }
tests() { start_azurite && cargo nextest run --locked ${arguments[@]+"${arguments[@]}"}; }
full() { start_azurite && cargo nextest run --locked --profile full ${arguments[@]+"${arguments[@]}"}; }
soak() { start_azurite && cargo nextest run --locked --profile soak ${arguments[@]+"${arguments[@]}"}; }

if wants full; then setup_full; elif wants soak; then setup_soak; elif wants tests; then setup_test; else setup_build; fi
if wants bench; then setup_bench; fi
scratch=$(scratch_dir) || die "no directory to test in"
export TMPDIR=$scratch

suite fmt cargo fmt --check
suite clippy clippy
suite tests tests
suite docs docs
suite full full
suite soak soak
suite bench tools/bench/run.sh --smoke

printf '\n%s%d passed, %d failed\n' "$report" "$passed" "$failed"
[ "$failed" = 0 ]
