package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongOption returns the message for a wrong option.
func wrongOption(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		err = fmt.Errorf("--%s %q %s", value.GetFlag().Name, value.GetValue(), wrongValue(value.GetFlag().Value.Type(), value))
	}
	if name, ok := strings.CutPrefix(c.CommandPath(), "granary "); ok {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
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
