#!/bin/sh
# git: makes, packs, clones and checks a repository under the library. The names of its commits and
# trees are the same as without it.
set -eu
. "$(dirname "$0")/lib.inc"
need git

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME="$work"
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='2024-01-01T00:00:00Z'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'

# make_history FOLDER CMD...: thirty commits of this project's own files, by that git.
make_history() {
  folder=$1
  shift
  "$@" init -q "$folder"
  cp -r "$root/core" "$folder/core"
  round=0
  while [ "$round" -lt 30 ]; do
    seq "$round" $((round * 300 + 3000)) >"$folder/numbers.txt"
    echo "$round" >>"$folder/core/rounds.txt"
    "$@" -C "$folder" add -A
    "$@" -C "$folder" commit -q -m "round $round"
    round=$((round + 1))
  done
}

make_history "$work/plain" git
make_history "$work/under" env LD_PRELOAD="$lib" git
expect_equal "$(git -C "$work/plain" rev-parse HEAD 'HEAD^{tree}')" \
  "$(under git -C "$work/under" rev-parse HEAD 'HEAD^{tree}')" 'commit and tree'
under git -C "$work/under" gc -q --aggressive --prune=now 2>"$work/gc.log" || fail 'git gc failed.'
under git clone -q --no-local "$work/under" "$work/clone" 2>"$work/clone.log" ||
  fail 'git clone failed.'
under git -C "$work/clone" fsck --full --strict >"$work/fsck.log" 2>&1 || fail 'git fsck failed.'
under git -C "$work/clone" log -p --stat >"$work/under.out"
git -C "$work/plain" log -p --stat >"$work/plain.out"
cmp "$work/plain.out" "$work/under.out" || fail 'git log printed something else.'
under git -C "$work/clone" grep -c include >/dev/null || fail 'git grep failed.'
