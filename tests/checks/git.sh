#!/usr/bin/env bash
# A repository's life on a directory: git.sh DIR. Ends with the first git command that fails, or that leaves a lock behind.
set -eu
dir=${1:?usage: git.sh DIR}
work=$(mktemp -d "$dir/git.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1

sound() {
  git -C "$1" fsck --full --strict
  [ -z "$(git -C "$1" status --porcelain)" ] || { echo "$1 is not clean"; exit 1; }
  [ -z "$(find "$1" -name '*.lock')" ] || { echo "$1 has locks left"; exit 1; }
}

git init -q one
cd one
for i in $(seq 200); do
  echo "$i" >"f$((i % 20))"
  git add .
  git commit -qm "$i"
done
[ "$(git rev-list --count HEAD)" = 200 ]
sound .
git clone -q . ../two
git clone -q --no-hardlinks --bare . ../three
git worktree add -q ../four HEAD~2
git gc -q --aggressive --prune=now
echo x >>f1
git stash -q
git stash pop -q
git checkout -q -- f1
git checkout -q -b side HEAD~50
echo side >side
git add side
git commit -qm side
git checkout -q -
git merge -q --no-edit side
cd ..
git -C two pull -q
[ "$(git -C two rev-parse HEAD)" = "$(git -C one rev-parse HEAD)" ]
for repository in one two four; do sound "$repository"; done
git -C three fsck --full --strict
echo "all well"
