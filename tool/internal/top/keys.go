package top

import (
	tea "charm.land/bubbletea/v2"
)

// place is the screen a key belongs to.
type place int

const (
	both place = iota
	inList
	inProcess
)

type key struct {
	names []string
	where place
	shown string // in the help, and short in the last line
	short string
	does  string
	do    func(Model) (tea.Model, tea.Cmd)
}

// keys is the table of all keys; help and the last line come from it.
func keys() []key {
	return []key{
		{[]string{"up", "k"}, inList, "up, k", "", "to the process above", func(m Model) (tea.Model, tea.Cmd) { return m.move(-1), nil }},
		{[]string{"down", "j"}, inList, "down, j", "", "to the process below", func(m Model) (tea.Model, tea.Cmd) { return m.move(1), nil }},
		{[]string{"enter", "right"}, inList, "enter", "enter open", "open the process", Model.open},
		{[]string{"esc", "left", "backspace"}, inProcess, "esc", "esc list", "back to the list", Model.back},
		{[]string{"s"}, inList, "s", "s sort", "sort by the next column", func(m Model) (tea.Model, tea.Cmd) { return m.sort(), nil }},
		{[]string{"s"}, inProcess, "s", "s sort", "sort the size classes or the stacks by the next column", func(m Model) (tea.Model, tea.Cmd) {
			if m.profiling {
				m.stackBy = (m.stackBy + 1) % len(stackOrders)
				return m, nil
			}
			m.classBy = (m.classBy + 1) % len(classOrders)
			return m, nil
		}},
		{[]string{"g"}, inList, "g", "g granary only", "list all processes, or only those under Granary", func(m Model) (tea.Model, tea.Cmd) {
			m.granaryOnly, m.cursor = !m.granaryOnly, 0
			return m, nil
		}},
		{[]string{"p"}, inProcess, "p", "p stacks", "show the stacks that allocate and grow, or stop", Model.profile},
		{[]string{"P"}, inProcess, "P", "P purge", "purge free memory now", Model.purge},
		{[]string{"w"}, inProcess, "w", "w save", "save the samples so far as JSON", Model.save},
		{[]string{" ", "space"}, both, "space", "space pause", "pause or resume", func(m Model) (tea.Model, tea.Cmd) {
			m.paused = !m.paused
			return m, nil
		}},
		{[]string{"?", "h"}, both, "?", "? keys", "show the keys", func(m Model) (tea.Model, tea.Cmd) {
			m.helping = true
			return m, nil
		}},
		{[]string{"q", "ctrl+c"}, both, "q", "q quit", "quit", func(m Model) (tea.Model, tea.Cmd) { return m, tea.Quit }},
	}
}

func (m Model) move(by int) Model {
	m.cursor = max(0, min(m.cursor+by, len(m.shown())-1))
	return m
}

func (m Model) sort() Model {
	m.order = (m.order + 1) % len(orders)
	m.cursor = 0
	m.arrange(0)
	return m
}
