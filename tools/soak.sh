#!/usr/bin/env bash
# Tortures mounts: tools/soak.sh MINUTES | torture [ROUNDS] | latest [ROUNDS] | ranks [ROUNDS]
#
#   MINUTES            torture for so long, another seed each time (some 200 rounds in half an hour); then, once, the daemon dies at
#                      every place that src/failpoint.rs names
#   torture [ROUNDS]   programs that write, fsync, rename, reopen and map files, fsx and a job that writes checkpoints live on while the
#                      daemon is killed at random moments; remount, compare. 50 rounds in each mode, with write-back and where calls wait for commits
#   latest [ROUNDS]    a reader of Blob follows `latest` while a trainer writes 50 checkpoints, with failing, late and lost answers: 10 rounds
#                      in each mode, strict and with barriers
#   ranks [ROUNDS]     two mounts write 200 checkpoints by flush, barrier and marker; what the marker names is there
#
# Ends 1 at the first loss and names the seed: TIERFS_TORTURE_SEED=N tools/soak.sh torture repeats it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2; exit 2; }
[[ ${1:-} =~ ^([0-9]+|torture|latest|ranks)$ && ${2:-1} =~ ^[0-9]+$ ]] || usage

seed=${TIERFS_TORTURE_SEED:-$RANDOM}
torture() {
  TIERFS_TORTURE_SEED=$seed TIERFS_TORTURE_ROUNDS=$1 tools/test.sh soak -- -E 'test(/crash::torture::/)' || { echo "seed $seed: LOSS" >&2; exit 1; }
}
case $1 in
  torture) torture "${2:-50}" ;;
  latest) TIERFS_SOAK_ROUNDS=${2:-10} tools/test.sh soak -- -E 'test(soak_latest_never_names_what_is_missing)' ;;
  ranks) TIERFS_SOAK_ROUNDS=${2:-200} tools/test.sh soak -- -E 'test(soak_the_marker_never_names_what_is_not_there)' ;;
  *)
    end=$((SECONDS + $1 * 60)) rounds=0 each=${TIERFS_TORTURE_ROUNDS:-10}
    while [ $SECONDS -lt $end ]; do
      torture "$each"
      rounds=$((rounds + 4 * each)) seed=$((seed + 1))
      echo "soak: $rounds rounds without loss"
    done
    tools/test.sh soak -- -E 'test(/crash::points::/)' || { echo "a place where the daemon dies: LOSS" >&2; exit 1; }
    ;;
esac
