package inspect

import (
	"errors"
	"strings"
	"testing"
)

func TestTheMissingRightIsNamedAndRootIsNotToldToBecomeRoot(t *testing.T) {
	for _, c := range []struct {
		user, owner int
		scope, want string
	}{
		{0, 0, "", "may not be read by root here"},
		{0, 1000, "", "may not be read by root here"},
		{0, 1000, "2", "may not be read by root here"},
		{1000, 0, "1", "belongs to user 0"},
		{1000, 1000, "1", "ptrace_scope is 1"},
		{1000, 1000, "0", "is protected from being read"},
		{1000, 1000, "", "is protected from being read"},
	} {
		err := missingRight(1, c.user, c.owner, c.scope)
		if !errors.Is(err, ErrNoRights) || !strings.Contains(err.Error(), c.want) || (c.user == 0) == strings.Contains(err.Error(), "as root") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
