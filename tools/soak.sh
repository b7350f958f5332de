#!/usr/bin/env bash
# Tortures mounts for a while: tools/soak.sh MINUTES
#
# Workers that rename and rewrite, fsx and a job that writes checkpoints go on while the daemon is killed at random moments;
# remount, compare; both modes, another seed each time. Some 200 rounds in half an hour. Ends 1 at the first loss and names the
# seed: TIERFS_TORTURE_SEED=N tools/test.sh soak -- -E 'test(no_byte_is_lost)' repeats it.
# After that, once: the daemon dies at every place that src/failpoint.rs names.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
[[ ${1:-} =~ ^[0-9]+$ ]] || { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

end=$((SECONDS + $1 * 60)) seed=${TIERFS_TORTURE_SEED:-$RANDOM} rounds=0
export TIERFS_TORTURE_ROUNDS=${TIERFS_TORTURE_ROUNDS:-10}
while [ $SECONDS -lt $end ]; do
  TIERFS_TORTURE_SEED=$seed tools/test.sh soak -- -E 'test(/crash::torture::/)' || { echo "seed $seed: LOSS" >&2; exit 1; }
  rounds=$((rounds + 2 * TIERFS_TORTURE_ROUNDS)) seed=$((seed + 1))
  echo "soak: $rounds rounds without loss"
done
tools/test.sh soak -- -E 'test(/crash::points::/)' || { echo "a place where the daemon dies: LOSS" >&2; exit 1; }
