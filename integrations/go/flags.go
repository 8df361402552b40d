//go:build !granary_flags

package granary

// #cgo pkg-config: granary
import "C"
