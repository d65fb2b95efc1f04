package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
)

// file applies a TOML file: keys are names of flags, values are written as
// those of flags are, or as TOML's numbers and booleans. Every error is told,
// not only the first.
func (r *Resolved) file(fs *pflag.FlagSet, name string, text []byte) error {
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, column := at.Position()
			return fmt.Errorf("%s:%d: column %d: %w", name, line, column, err)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	lines := lineNumbers(text, keys)
	slices.SortFunc(keys, func(a, b string) int { return lines[a] - lines[b] })
	var failed []error
	for _, key := range keys {
		place := fmt.Sprintf("%s:%d", name, lines[key])
		if err := r.set(fs, key, values[key], place); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", place, err))
		}
	}
	return errors.Join(failed...)
}

func (r *Resolved) set(fs *pflag.FlagSet, key string, value any, place string) error {
	f := fs.Lookup(key)
	if f == nil {
		return fmt.Errorf("unknown key %q", key)
	}
	text, err := plain(value)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if r.Source[key] != FromDefault {
		return nil
	}
	if err := f.Value.Set(text); err != nil {
		return fmt.Errorf("%s = %q: %w", key, text, err)
	}
	r.Source[key] = place
	return nil
}

// plain is a value of TOML as a flag would have it.
func plain(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	}
	return "", errors.New("the value is no string, number or boolean; the file has no tables and no lists")
}

// lineNumbers finds the line, from 1, on which each key of a flat file is set.
// A decoder into a map does not tell.
func lineNumbers(text []byte, keys []string) map[string]int {
	lines := map[string]int{}
	for i, line := range strings.Split(string(text), "\n") {
		key, _, ok := strings.Cut(line, "=")
		if !ok {
			key = line
		}
		key = strings.Trim(strings.TrimSpace(key), `"'[]`)
		key, _, _ = strings.Cut(key, ".")
		if lines[key] == 0 && slices.Contains(keys, key) {
			lines[key] = i + 1
		}
	}
	return lines
}
