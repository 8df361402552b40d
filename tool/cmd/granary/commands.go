package main

import (
	"slices"

	"github.com/granary-allocator/granary/tool/internal/allocators"
	"github.com/granary-allocator/granary/tool/internal/bench/micro"
	"github.com/granary-allocator/granary/tool/internal/bench/report"
	"github.com/granary-allocator/granary/tool/internal/bench/scenarios"
	"github.com/granary-allocator/granary/tool/internal/calls"
	"github.com/granary-allocator/granary/tool/internal/cli"
	"github.com/granary-allocator/granary/tool/internal/cold"
	"github.com/granary-allocator/granary/tool/internal/ctl"
	"github.com/granary-allocator/granary/tool/internal/deploy"
	"github.com/granary-allocator/granary/tool/internal/doctor"
	"github.com/granary-allocator/granary/tool/internal/exporter"
	"github.com/granary-allocator/granary/tool/internal/heap"
	"github.com/granary-allocator/granary/tool/internal/leaks"
	"github.com/granary-allocator/granary/tool/internal/model"
	"github.com/granary-allocator/granary/tool/internal/options"
	"github.com/granary-allocator/granary/tool/internal/preload"
	"github.com/granary-allocator/granary/tool/internal/profile"
	"github.com/granary-allocator/granary/tool/internal/top"
	"github.com/granary-allocator/granary/tool/internal/trace"
	"github.com/granary-allocator/granary/tool/internal/why"
)

// The headings of `granary help`.
const (
	groupRun     = "Run a program"
	groupServe   = "Put services under Granary"
	groupInspect = "Inspect a process"
	groupModel   = "Forecast memory"
	groupTrace   = "Record and replay"
	groupBench   = "Compare allocators"
	groupSelf    = "This command"
)

// commands is the table that help, completion, manual pages and the reference page derive from.
func commands() []cli.Command {
	rows := []cli.Command{
		in(groupRun, preload.Command),
		in(groupRun, options.Command),
		in(groupServe, deploy.Commands[0]),
		in(groupServe, deploy.Commands[1]),
		in(groupServe, deploy.Commands[2]),
		in(groupInspect, top.ListProcesses),
		in(groupInspect, heap.Stats),
		in(groupInspect, why.Command),
		in(groupInspect, top.Command),
		in(groupInspect, heap.Command),
		in(groupInspect, cold.Command),
		in(groupInspect, profile.Command),
		in(groupInspect, profile.View),
		in(groupInspect, profile.Diff),
		in(groupInspect, profile.Agent),
		in(groupInspect, profile.Compare),
		in(groupInspect, leaks.Command),
		in(groupInspect, calls.Command),
		in(groupInspect, ctl.Command),
		in(groupInspect, doctor.Command),
		in(groupInspect, heap.Size),
		in(groupInspect, exporter.Command),
	}
	for _, row := range model.Commands {
		rows = append(rows, in(groupModel, row))
	}
	for _, row := range slices.Concat([]cli.Command{trace.Record, trace.Replay, trace.Simulate}, trace.Commands) {
		rows = append(rows, in(groupTrace, row))
	}
	rows = append(rows, in(groupBench, scenarios.Plan))
	for _, s := range scenarios.All {
		rows = append(rows, in(groupBench, s.Command()))
	}
	for _, row := range slices.Concat([]cli.Command{micro.Command, scenarios.Command, report.Readme, report.Publish}, report.Commands, allocators.Commands) {
		rows = append(rows, in(groupBench, row))
	}
	for _, row := range own() {
		rows = append(rows, in(groupSelf, row))
	}
	return rows
}

// in lists the row under a heading.
func in(group string, row cli.Command) cli.Command {
	row.Group = group
	return row
}
