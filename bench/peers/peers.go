// Package peers holds what builds the allocators that Granary is compared with, so that the command has
// it with it.
package peers

import "embed"

// Files are build.sh, peers.toml and check/resolves.cc.
//
//go:embed build.sh peers.toml check/resolves.cc
var Files embed.FS
