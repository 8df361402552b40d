package options

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/term"

	"github.com/spf13/pflag"
)

// Command is the command `granary options`.
var Command = cli.Command{
	Name: "options", Usage: "[NAME...] [options]",
	Summary: "list the library's options, and when to change which",
	About: `Without a name it lists every option with its default. With a name, also jemalloc's or TCMalloc's, it
prints the option's values, its unit, its meaning and when to change it.`,
	Examples: []cli.Example{
		{Line: "options", Does: "all of them"},
		{Line: "options dirty_decay_ms", Does: "one"},
		{Line: "options TCMALLOC_RELEASE_RATE lg_tcache_max", Does: "by the names of other allocators"},
		{Line: "options --json | jq -r '.[] | select(.at_run_time).name'", Does: "those that can change at run time"},
	},
	Takes: cli.Words, Choices: func() []string { return names(Table()) }, Setup: setup,
}

func names(table []Option) (out []string) {
	for _, o := range table {
		out = append(out, o.Name)
	}
	return out
}

func setup(fs *pflag.FlagSet) cli.Action {
	asJSON := fs.Bool("json", false, "print JSON")
	return func(_ context.Context, env cli.Env, args []string) error {
		chosen, err := choose(Table(), args)
		if err != nil {
			return err
		}
		width := term.HelpWidth(env.Stdout)
		switch {
		case *asJSON:
			return term.JSON(env.Stdout, chosen)
		case len(args) == 0:
			list(env.Stdout, chosen, width)
		default:
			for i, o := range chosen {
				if i > 0 {
					fmt.Fprintln(env.Stdout)
				}
				explain(env.Stdout, o, width)
			}
		}
		return nil
	}
}

func choose(table []Option, wanted []string) ([]Option, error) {
	if len(wanted) == 0 {
		return table, nil
	}
	var out []Option
	for _, name := range wanted {
		found := false
		for _, o := range table {
			if o.Name == name || slices.Contains(o.Jemalloc, name) || slices.Contains(o.TCMalloc, name) {
				out, found = append(out, o), true
			}
		}
		if !found {
			return nil, cli.Usagef("there is no option %q%s (`granary options` lists them)", name, nearest(names(table), name))
		}
	}
	return out, nil
}

// list is a line NAME:DEFAULT and the meaning for each option.
func list(w io.Writer, table []Option, width int) {
	for _, o := range table {
		fmt.Fprintln(w, term.Wrap(fmt.Sprintf("%-24s", o.Name+":"+o.Default), o.Meaning, width))
	}
	fmt.Fprint(w, "\nThe values are the defaults. `granary options NAME` says when to change one. Set\n"+
		"options as in GRANARY_CONF=dirty_decay_ms:5s,hard_limit:2GiB granary run -- CMD\n")
}

func explain(w io.Writer, o Option, width int) {
	fmt.Fprintf(w, "%s\n", o.Name)
	values := o.Values
	switch o.Unit {
	case "bytes":
		values += " bytes; units: KiB, MiB, GiB, TiB, KB, MB, GB, TB"
	case "milliseconds":
		values += " milliseconds; units: ms, s, m, h"
	}
	changes := "in GRANARY_CONF, before the program starts"
	if o.AtRunTime {
		changes = "in GRANARY_CONF, and at run time: granary ctl PID set " + o.Name + ":VALUE"
	}
	for _, row := range [][2]string{
		{"meaning", o.Meaning}, {"values", values}, {"default", o.Default}, {"change it", o.When}, {"set it", changes},
		{"jemalloc", strings.Join(o.Jemalloc, ", ")}, {"TCMalloc", strings.Join(o.TCMalloc, ", ")},
	} {
		if row[1] != "" {
			fmt.Fprintln(w, term.Wrap(fmt.Sprintf("%-12s", "  "+row[0]), row[1], width))
		}
	}
}
