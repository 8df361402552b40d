package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/granary-allocator/granary/tool/internal/inspect"
	"github.com/granary-allocator/granary/tool/internal/term"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/lipgloss"
	"github.com/guptarohit/asciigraph"
	"github.com/muesli/termenv"
)

var (
	bold     = lipgloss.NewStyle().Bold(true)
	inverse  = lipgloss.NewStyle().Reverse(true)
	faint    = lipgloss.NewStyle().Faint(true)
	warnings = lipgloss.NewStyle().Foreground(lipgloss.Color("1"))
)

// View draws the screen.
func (m Model) View() tea.View {
	var body []string
	switch {
	case m.helping:
		body = helpLines()
	case m.pid == 0:
		body = m.listLines()
	default:
		body = m.processLines()
	}
	room := max(0, m.height-1)
	if len(body) > room {
		body = body[:room]
	}
	for len(body) < room {
		body = append(body, "")
	}
	v := tea.NewView(strings.Join(append(body, m.foot()), "\n"))
	v.AltScreen = true
	return v
}

// foot is the last line: the effect of the last key, or the list of keys.
func (m Model) foot() string {
	if m.note != "" {
		return cut(bold.Render(m.note), m.width)
	}
	var words []string
	for _, k := range keys() {
		if k.short != "" && (k.where == both || (k.where == inList) == (m.pid == 0)) {
			words = append(words, k.short)
		}
	}
	line := strings.Join(words, "  ")
	if m.paused {
		line = "PAUSED  " + line
	}
	return cut(faint.Render(line), m.width)
}

func cut(line string, width int) string {
	return lipgloss.NewStyle().MaxWidth(max(1, width)).Render(line)
}

func helpLines() []string {
	lines := []string{bold.Render("granary top"), ""}
	for _, k := range keys() {
		where := ""
		switch k.where {
		case inList:
			where = "list"
		case inProcess:
			where = "process"
		}
		lines = append(lines, fmt.Sprintf("  %-10s %-8s %s", k.shown, where, k.does))
	}
	return append(lines, "", "any key returns")
}

func (m Model) listLines() []string {
	rows := m.shown()
	by := orders[m.order]
	head := func(order string) string { return heading(strings.ToUpper(order), order == by) }
	lines := []string{
		bold.Render(fmt.Sprintf("granary top  %s  processes: %d", m.source.Now().Format(time.TimeOnly), len(rows))),
		inverse.Render(pad(fmt.Sprintf(listRow, head("pid"), "PROGRAM", head("live"), head("rss"), head("ratio"), head("allocator"), head("command")), m.width)),
	}
	if m.listErr != nil {
		return append(lines, warnings.Render(cut(m.listErr.Error(), m.width)))
	}
	if m.list.Processes == nil {
		return append(lines, "reading the processes ...")
	}
	first := max(0, m.cursor-max(1, m.height-4)+1) // keeps the cursor on the screen
	for i := first; i < len(rows); i++ {
		p := rows[i]
		line := pad(fmt.Sprintf(listRow, strconv.Itoa(p.PID), cut(p.Program, 16), p.LiveText(), term.Bytes(p.RSS), p.RatioText(), p.Allocator.Name, p.Command), m.width)
		if i == m.cursor {
			line = inverse.Render(line)
		}
		lines = append(lines, line)
	}
	return lines
}

// listRow is a line of the list: PID, program, live bytes, RSS, ratio, allocator, command.
const listRow = "%8s  %-16s %10s %10s %7s  %-10s  %s"

// heading marks the column that rows are sorted by.
func heading(name string, sorted bool) string {
	if sorted {
		return "▼" + name
	}
	return name
}

func pad(line string, width int) string {
	if n := lipgloss.Width(line); n < width {
		return line + strings.Repeat(" ", width-n)
	}
	return cut(line, width)
}

func (m Model) processLines() []string {
	s, ok := m.last()
	if !ok && m.sampleErr != nil {
		return wrap(warnings, m.sampleErr.Error(), m.width)
	}
	if !ok {
		return []string{fmt.Sprintf("reading process %d ...", m.pid)}
	}
	lines := []string{
		cut(bold.Render(fmt.Sprintf("%d %s", m.pid, s.Command)), m.width),
		cut(fmt.Sprintf("%s  RSS %s  %s  %s", s.Allocator.Describe(), term.Bytes(s.RSS), term.Counted(s.Threads, "thread"), m.cpu()), m.width),
	}
	if m.sampleErr != nil {
		lines = append(lines, wrap(warnings, m.sampleErr.Error(), m.width)...)
	}
	lines = append(lines, m.plot()...)
	if s.Heap == nil {
		return append(lines, m.kindLines(s)...)
	}
	lines = append(lines, m.figures(s)...)
	if m.profiling {
		return append(lines, m.stackLines()...)
	}
	return append(lines, m.classLines(s)...)
}

func wrap(style lipgloss.Style, text string, width int) []string {
	return strings.Split(style.Width(max(10, width)).Render(text), "\n")
}

// rate is how fast a growing figure of the samples grows, for each second between the last two.
func (m Model) rate(of func(Sample) float64) float64 {
	if len(m.samples) < 2 {
		return 0
	}
	before, now := m.samples[len(m.samples)-2], m.samples[len(m.samples)-1]
	seconds := now.Taken.Sub(before.Taken).Seconds()
	if seconds <= 0 {
		return 0
	}
	return max(0, of(now)-of(before)) / seconds
}

func (m Model) cpu() string {
	return fmt.Sprintf("CPU %.0f %%  page faults %s/s", 100*m.rate(func(s Sample) float64 { return s.CPU }),
		term.Count(uint64(m.rate(func(s Sample) float64 { return float64(s.Faults) }))))
}

// plot draws RSS, the memory of the heap and its live bytes over time.
func (m Model) plot() []string {
	const margin = 12 // the labels of the axis
	width := min(m.width, 120) - margin
	height := max(3, m.height/3-2)
	if width < 10 {
		return nil
	}
	samples := m.samples[max(0, len(m.samples)-width):]
	lines := [][]float64{{}, {}, {}}
	for _, s := range samples {
		lines[0] = append(lines[0], float64(s.RSS)/(1<<20))
		lines[1] = append(lines[1], float64(s.Heap.HeapBytes())/(1<<20))
		lines[2] = append(lines[2], float64(figure(s.Heap, "live"))/(1<<20))
	}
	names := []string{"RSS", "heap", "live"}
	colors := []asciigraph.AnsiColor{asciigraph.Red, asciigraph.Yellow, asciigraph.Green}
	if samples[len(samples)-1].Heap == nil {
		lines, names, colors = lines[:1], names[:1], colors[:1]
	}
	for i := range lines { // one point is no line
		if len(lines[i]) == 1 {
			lines[i] = append(lines[i], lines[i][0])
		}
	}
	options := []asciigraph.Option{asciigraph.Height(height), asciigraph.LowerBound(0), asciigraph.Precision(1)}
	legend := strings.Join(names, ", ")
	if lipgloss.ColorProfile() != termenv.Ascii {
		options = append(options, asciigraph.SeriesColors(colors...))
		for i, name := range names {
			names[i] = lipgloss.NewStyle().Foreground(lipgloss.Color([]string{"9", "11", "10"}[i])).Render(name)
		}
		legend = strings.Join(names, ", ")
	}
	out := strings.Split(asciigraph.PlotMany(lines, options...), "\n")
	span := samples[len(samples)-1].Taken.Sub(samples[0].Taken).Round(time.Second)
	return append([]string{"", fmt.Sprintf("%s in MiB, the last %v", legend, span)}, out...)
}

func (m Model) kindLines(s Sample) []string {
	lines := []string{"", "resident memory by kind of mapping; only Granary shows the parts of its heap"}
	for _, k := range s.Kinds {
		if k.Bytes > 0 {
			lines = append(lines, fmt.Sprintf("  %-20s %10s  %s", k.Kind, term.Bytes(k.Bytes), term.Percent(float64(k.Bytes), float64(s.RSS))))
		}
	}
	return lines
}

// figures are the totals and the rates, in columns.
func (m Model) figures(s Sample) []string {
	b := func(name string) string { return term.Bytes(figure(s.Heap, name)) }
	perSecond := func(name string) float64 {
		return m.rate(func(s Sample) float64 { return float64(figure(s.Heap, name)) })
	}
	count := func(name string) string { return term.Count(uint64(perSecond(name))) + "/s" }
	waits := perSecond("contentions_front") + perSecond("contentions_depot") + perSecond("contentions_central") + perSecond("contentions_pages")
	cells := [][]string{
		{"live", b("live"), "allocations", count("allocations")},
		{"free, in CPU caches", term.Bytes(figure(s.Heap, "cached") + figure(s.Heap, "depot")), "frees", count("frees")},
		{"free, among live", term.Bytes(figure(s.Heap, "slab_free") - min(figure(s.Heap, "slab_free"), figure(s.Heap, "slab_clean"))), "purged",
			term.Bytes(uint64(perSecond("released"))) + "/s"},
		{"free, not purged", b("dirty"), "lock waits", fmt.Sprintf("%.0f/s", waits)},
		{"metadata", b("metadata_used"), "memory pressure", fmt.Sprintf("%.1f %%", s.Pressure)},
		{"fragmentation ratio", fmt.Sprintf("%.2f", s.Heap.Fragmentation()), "", ""},
	}
	lines := []string{""}
	for _, c := range cells {
		lines = append(lines, cut(strings.TrimRight(fmt.Sprintf("  %-20s %10s    %-16s %12s", c[0], c[1], c[2], c[3]), " "), m.width))
	}
	return lines
}

// classRow is a line of the size classes.
const classRow = "%10s %12s %12s %12s %10s %16s"

// classOrders are the columns by which the size classes are sorted.
var classOrders = []struct {
	name string
	of   func(inspect.Class) uint64
}{
	{"UNUSED", inspect.Class.WasteBytes},
	{"LIVE BYTES", inspect.Class.LiveBytes},
	{"ALLOCATIONS", func(c inspect.Class) uint64 { return c.Allocations }},
}

func (m Model) classLines(s Sample) []string {
	by := classOrders[m.classBy]
	classes := slices.DeleteFunc(slices.Clone(s.Heap.Classes), func(c inspect.Class) bool { return by.of(c) == 0 })
	slices.SortStableFunc(classes, func(a, b inspect.Class) int { return cmp.Compare(by.of(b), by.of(a)) })
	head := func(name string) string { return heading(name, name == by.name) }
	lines := []string{"", inverse.Render(pad(fmt.Sprintf(classRow, "SIZE", "LIVE", head("LIVE BYTES"), head("UNUSED"), "SLABS", head("ALLOCATIONS")), m.width))}
	for _, c := range classes {
		lines = append(lines, cut(fmt.Sprintf(classRow, term.Count(c.Size), term.Count(c.Live), term.Bytes(c.LiveBytes()),
			term.Bytes(c.WasteBytes()), term.Count(c.Slabs), term.Count(c.Allocations)), m.width))
	}
	return lines
}
