package measure

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/granary-allocator/granary/tool/internal/cli"

	"github.com/spf13/pflag"
)

func TestOptionsDefaultsAndLists(t *testing.T) {
	var o Options
	fs := pflag.NewFlagSet("x", pflag.ContinueOnError)
	o.Register(fs, Rounds{Full: 5, Quick: 3})
	if err := fs.Parse([]string{"--quick", "--allocators", "a,b", "--allocators", "c=/x.so"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(Rounds{Full: 5, Quick: 3}); err != nil || o.Rounds != 3 || o.Allocators.String() != "a,b,c=/x.so" {
		t.Errorf("%+v, %v", o, err)
	}
	if err := fs.Parse([]string{"--rounds", "0"}); err != nil {
		t.Fatal(err)
	}
	o.Rounds = 0
	if err := o.Check(Rounds{Full: 5, Quick: 3}); err == nil || err.Error() != "--rounds must be 1 or more" {
		t.Errorf("--rounds 0: %v", err)
	}
	full := Options{}
	if err := full.Check(Rounds{Full: 5, Quick: 3}); err != nil || full.Rounds != 5 {
		t.Errorf("%+v, %v", full, err)
	}
}

func TestAnInterruptEndsWith130(t *testing.T) {
	var exit *cli.ExitError
	if err := Ended(context.Canceled); !errors.As(err, &exit) || exit.Code != 130 || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("err = %v", err)
	}
	if err := Ended(nil); err != nil {
		t.Errorf("err = %v", err)
	}
}
