package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Suite records how the results in a folder of several scenarios were measured.
type Suite struct {
	Size    string   `json:"size"`
	Remarks []string `json:"said"` // a remark for each call of the command that added rounds
}

const suiteFile = "suite.json"

// ReadSuite reads the record from a folder. It returns an empty Suite if the folder has none.
func ReadSuite(dir string) (Suite, error) {
	var s Suite
	data, err := os.ReadFile(filepath.Join(dir, suiteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the description of %s: %w", dir, err)
	}
	return s, nil
}

// Write writes the record into the folder.
func (s Suite) Write(dir string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, suiteFile), append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the description of %s: %w", dir, err)
	}
	return nil
}
