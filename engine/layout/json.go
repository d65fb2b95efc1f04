package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// UnmarshalJSON reads a layout as the offline tool and configuration files
// write it. Unknown fields are refused: a misspelt field is a field left out.
// It does not validate, so that Validate can list everything at once.
func (l *Layout) UnmarshalJSON(p []byte) error {
	type plain Layout // without this method
	var v plain
	d := json.NewDecoder(bytes.NewReader(p))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("layout: read JSON: %w", err)
	}
	*l = Layout(v)
	return nil
}
