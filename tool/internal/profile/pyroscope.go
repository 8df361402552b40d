package profile

import (
	"fmt"

	"github.com/google/pprof/profile"
	googlev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// parsePyroscopeJSON reads what Pyroscope answers to SelectMergeProfile where JSON was requested: pprof's message as JSON.
func parsePyroscopeJSON(data []byte) (*profile.Profile, error) {
	m := &googlev1.Profile{}
	if err := protojson.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("its JSON is no profile: %w", err)
	}
	if len(m.Sample) == 0 { // the answer of a server without such profiles is {}
		return &profile.Profile{}, nil
	}
	packed, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the profile: %w", err)
	}
	return profile.ParseUncompressed(packed)
}
