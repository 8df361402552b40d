package main

import (
	"bytes"
	"context"
	"testing"

	"granary/tool/internal/cli"
)

func TestEveryRowHasANameASummaryAndWork(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands {
		if c.Name == "" || c.Summary == "" || c.Run == nil && c.Name != "help" || seen[c.Name] {
			t.Errorf("row %+v", c)
		}
		seen[c.Name] = true
	}
}

func TestVersion(t *testing.T) {
	var out bytes.Buffer
	if code := cli.Main(context.Background(), cli.Env{Stdout: &out, Version: "1.2.3"}, commands, []string{"version"}); code != 0 || out.String() != "granary 1.2.3\n" {
		t.Errorf("code %d, printed %q", code, out.String())
	}
}
