// Package granary holds the version of the library and the command, which both take from the file VERSION.
package granary

import (
	_ "embed"
	"strings"
)

//go:embed VERSION
var version string

// Version is the version of this tree.
func Version() string { return strings.TrimSpace(version) }
