package profile

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/granary-allocator/granary/tool/internal/push"

	pprofile "github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	otel "go.opentelemetry.io/collector/pdata/pprofile"
)

// encodeOTLP writes an ExportProfilesServiceRequest: a profile for each kind of value, as OTLP has one value a sample.
// All share the tables of the dictionary, each of which begins with a row for "none".
func encodeOTLP(s PushSeries) ([]byte, error) {
	data := otel.NewProfiles()
	e := otlpEncoder{
		dictionary: data.Dictionary(), strings: map[string]int32{}, stacks: map[string]int32{},
		mappings: map[*pprofile.Mapping]int32{}, functions: map[*pprofile.Function]int32{}, locations: map[*pprofile.Location]int32{},
	}
	e.begin()
	resource := data.ResourceProfiles().AppendEmpty()
	resource.SetSchemaUrl(push.SchemaURL)
	s.Resource.Put(resource.Resource().Attributes())
	scope := resource.ScopeProfiles().AppendEmpty()
	scope.Scope().SetName("granary")
	p := s.Profile
	for i, kind := range p.SampleType {
		out := otel.NewProfile()
		for _, sample := range p.Sample {
			if sample.Value[i] == 0 {
				continue
			}
			row := out.Samples().AppendEmpty()
			row.SetStackIndex(e.stack(sample.Location))
			row.Values().Append(sample.Value[i])
		}
		if out.Samples().Len() == 0 {
			continue
		}
		e.head(out, p, kind)
		out.MoveTo(scope.Profiles().AppendEmpty())
	}
	if e.err != nil {
		return nil, e.err
	}
	return (&otel.ProtoMarshaler{}).MarshalProfiles(data)
}

// An otlpEncoder adds rows to the tables of a dictionary, each once.
type otlpEncoder struct {
	dictionary otel.ProfilesDictionary
	strings    map[string]int32
	stacks     map[string]int32 // by the bytes of their locations' indices
	mappings   map[*pprofile.Mapping]int32
	functions  map[*pprofile.Function]int32
	locations  map[*pprofile.Location]int32
	err        error
}

// begin makes row 0 of each table, which means none.
func (e *otlpEncoder) begin() {
	d := e.dictionary
	e.text("")
	d.MappingTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.AttributeTable().AppendEmpty()
}

func (e *otlpEncoder) head(out otel.Profile, p *pprofile.Profile, kind *pprofile.ValueType) {
	var id otel.ProfileID
	if _, err := rand.Read(id[:]); err != nil {
		e.err = errors.Join(e.err, err)
	}
	out.SetProfileID(id)
	out.SetTime(pcommon.NewTimestampFromTime(time.Unix(0, p.TimeNanos-max(0, p.DurationNanos))))
	out.SetDurationNano(uint64(max(0, p.DurationNanos)))
	out.SetPeriod(p.Period)
	e.valueType(out.SampleType(), kind)
	if p.PeriodType != nil {
		e.valueType(out.PeriodType(), p.PeriodType)
	}
}

func (e *otlpEncoder) valueType(to otel.ValueType, from *pprofile.ValueType) {
	to.SetTypeStrindex(e.text(from.Type))
	to.SetUnitStrindex(e.text(from.Unit))
}

func (e *otlpEncoder) text(s string) int32 {
	i, ok := e.strings[s]
	if !ok {
		i = int32(e.dictionary.StringTable().Len())
		e.strings[s] = i
		e.dictionary.StringTable().Append(s)
	}
	return i
}

// stack is the row of a list of locations, the innermost first.
func (e *otlpEncoder) stack(locations []*pprofile.Location) int32 {
	if len(locations) == 0 {
		return 0
	}
	indices := make([]int32, len(locations))
	var key []byte
	for i, l := range locations {
		indices[i] = e.location(l)
		key = append(key, byte(indices[i]), byte(indices[i]>>8), byte(indices[i]>>16), byte(indices[i]>>24))
	}
	row, ok := e.stacks[string(key)]
	if !ok {
		row = int32(e.dictionary.StackTable().Len())
		e.stacks[string(key)] = row
		e.dictionary.StackTable().AppendEmpty().LocationIndices().Append(indices...)
	}
	return row
}

func (e *otlpEncoder) location(l *pprofile.Location) int32 {
	if row, ok := e.locations[l]; ok {
		return row
	}
	out := otel.NewLocation()
	out.SetMappingIndex(e.mapping(l.Mapping))
	out.SetAddress(l.Address)
	for _, from := range l.Line {
		line := out.Lines().AppendEmpty()
		line.SetFunctionIndex(e.function(from.Function))
		line.SetLine(from.Line)
		line.SetColumn(from.Column)
	}
	row := int32(e.dictionary.LocationTable().Len())
	e.locations[l] = row
	out.MoveTo(e.dictionary.LocationTable().AppendEmpty())
	return row
}

func (e *otlpEncoder) function(f *pprofile.Function) int32 {
	if f == nil {
		return 0
	}
	row, ok := e.functions[f]
	if !ok {
		row = int32(e.dictionary.FunctionTable().Len())
		e.functions[f] = row
		out := e.dictionary.FunctionTable().AppendEmpty()
		out.SetNameStrindex(e.text(f.Name))
		out.SetSystemNameStrindex(e.text(f.SystemName))
		out.SetFilenameStrindex(e.text(f.Filename))
		out.SetStartLine(f.StartLine)
	}
	return row
}

func (e *otlpEncoder) mapping(m *pprofile.Mapping) int32 {
	if m == nil {
		return 0
	}
	row, ok := e.mappings[m]
	if !ok {
		row = int32(e.dictionary.MappingTable().Len())
		e.mappings[m] = row
		out := e.dictionary.MappingTable().AppendEmpty()
		out.SetMemoryStart(m.Start)
		out.SetMemoryLimit(m.Limit)
		out.SetFileOffset(m.Offset)
		out.SetFilenameStrindex(e.text(m.File))
		if m.BuildID != "" {
			out.AttributeIndices().Append(e.attribute("process.executable.build_id.gnu", m.BuildID))
		}
	}
	return row
}

// attribute is the row of an attribute; a name with a value occurs once.
func (e *otlpEncoder) attribute(name, value string) int32 {
	table, key := e.dictionary.AttributeTable(), e.text(name)
	for i, row := range table.All() {
		if i > 0 && row.KeyStrindex() == key && row.Value().Str() == value {
			return int32(i)
		}
	}
	out := table.AppendEmpty()
	out.SetKeyStrindex(key)
	out.Value().SetStr(value)
	return int32(table.Len() - 1)
}
