#!/usr/bin/env bash
# uninstall.sh PREFIX: removes what `make install` put below PREFIX, and nothing else.
set -euo pipefail
cd "$1"
rm -rf lib*/libgranary.so lib*/libgranary.so.1 lib*/libgranary-record.so lib*/libgranary.a lib*/libgranary_*.a lib*/granary.o lib*/granary lib*/cmake/Granary \
  lib*/pkgconfig/granary.pc include/granary bin/granary libexec/granary share/granary share/doc/granary share/man/man1/granary.1 share/man/man1/granary-*.1 \
  share/bash-completion/completions/granary share/zsh/site-functions/_granary share/fish/vendor_completions.d/granary.fish
