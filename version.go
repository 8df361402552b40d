// Package granary holds what the library and the command share as files of this tree: the version and the tables of
// options.
package granary

import (
	"embed"
	"strings"
)

//go:embed VERSION
var version string

// OptionTables are the files core/src/config/*.def, by these names.
//
//go:embed core/src/config/*.def
var OptionTables embed.FS

// Version is the version of this tree.
func Version() string { return strings.TrimSpace(version) }
