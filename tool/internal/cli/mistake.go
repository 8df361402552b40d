package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongOption returns the message for a wrong option.
func wrongOption(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var absent *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &absent):
		err = errors.New(noOption(c, absent))
	case errors.As(err, &bare):
		err = fmt.Errorf("--%s needs a value", bare.GetFlag().Name)
	case errors.As(err, &value):
		err = fmt.Errorf("--%s %q %s", value.GetFlag().Name, value.GetValue(), wrongValue(value.GetFlag().Value.Type(), value))
	}
	if name, ok := strings.CutPrefix(c.CommandPath(), "granary "); ok {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

func noOption(c *cobra.Command, err *pflag.NotExistError) string {
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		return fmt.Sprintf("there is no option -%s", err.GetSpecifiedName())
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	text := "there is no option --" + err.GetSpecifiedName()
	if near := Nearest(known, err.GetSpecifiedName()); near != "" {
		text += " (did you mean --" + near + "?)"
	}
	return text
}

// wrongValue says what a value should have been; or the explanation of a type that explains its own values.
func wrongValue(kind string, err *pflag.InvalidValueError) string {
	switch kind {
	case "duration":
		return "is no duration: write a number with its unit, such as 5s, 2m or 1h"
	case "int", "int64":
		return "is no whole number: write digits, such as 10"
	case "uint", "uint64":
		return "is no whole number of 0 or more: write digits, such as 10"
	case "float64":
		return "is no number: write one such as 2 or 0.5"
	case "bool":
		return "is neither true nor false"
	}
	return "cannot be read: " + err.Unwrap().Error()
}

// MessageOf is the message of an error; the errors of the system about files get a text with a remedy.
func MessageOf(err error) string {
	text := err.Error()
	var file *fs.PathError
	if !errors.As(err, &file) {
		return text
	}
	var says string
	switch {
	case errors.Is(file.Err, fs.ErrNotExist):
		says = missing(file.Path)
	case errors.Is(file.Err, fs.ErrPermission):
		says = fmt.Sprintf("you may not open %s: run the command as its owner, or as root", file.Path)
	case errors.Is(file.Err, syscall.EISDIR):
		says = fmt.Sprintf("%s is a folder: name a file", file.Path)
	case errors.Is(file.Err, fs.ErrExist):
		says = fmt.Sprintf("%s already exists: name another file, or remove it", file.Path)
	case errors.Is(file.Err, syscall.ENOSPC):
		says = fmt.Sprintf("the disk of %s is full: free some space, or name a file elsewhere", file.Path)
	default:
		return text
	}
	return strings.Replace(text, file.Error(), says, 1)
}

// missing says that there is no file at path: which of its folders is not there, or which file has nearly its name.
func missing(path string) string {
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); err != nil {
		return fmt.Sprintf("there is no folder %s, so no file %s: check the path", folder, path)
	}
	entries, _ := os.ReadDir(folder) // a folder that may not be read has no neighbour to name
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if near := Nearest(names, filepath.Base(path)); near != "" {
		return fmt.Sprintf("there is no file %s; did you mean %s?", path, filepath.Join(folder, near))
	}
	return fmt.Sprintf("there is no file %s: check the path", path)
}
