package settings

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// EnvironmentPrefix begins the names of environment variables.
const EnvironmentPrefix = "SEALSTONE_"

// FileVariable names the configuration file where no flag does.
const FileVariable = EnvironmentPrefix + "CONFIG"

// EnvironmentName is the variable of a flag.
func EnvironmentName(flag string) string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Where a value came from.
const (
	FromFlag    = "flag"
	FromDefault = "default"
)

// Resolved is where the values of a FlagSet came from.
type Resolved struct {
	// Source is, by flag, FromFlag, FromDefault, the name of an environment
	// variable, or "FILE:LINE".
	Source map[string]string
	// Unknown are variables of the environment that begin with SEALSTONE_ and
	// are no setting: a typing error, perhaps.
	Unknown []string
}

// Resolve fills in what the command line did not say: fs has the flags of
// Register and nothing else, and is parsed. The environment is a list as os.Environ
// gives it; file is the path of a TOML file, or "".
func Resolve(fs *pflag.FlagSet, environment []string, file string) (*Resolved, error) {
	r := &Resolved{Source: map[string]string{}}
	fs.VisitAll(func(f *pflag.Flag) {
		r.Source[f.Name] = FromDefault
		if f.Changed {
			r.Source[f.Name] = FromFlag
		}
	})
	err := r.environment(fs, environment)
	if file == "" {
		return r, err
	}
	text, readErr := readFile(file)
	if readErr != nil {
		return r, errors.Join(err, readErr)
	}
	return r, errors.Join(err, r.file(fs, file, text))
}

// environment applies the variables that name a setting.
func (r *Resolved) environment(fs *pflag.FlagSet, environment []string) error {
	var failed []error
	for _, pair := range environment {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, EnvironmentPrefix) || name == FileVariable {
			continue
		}
		f := fs.Lookup(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, EnvironmentPrefix), "_", "-")))
		if f == nil || EnvironmentName(f.Name) != name {
			r.Unknown = append(r.Unknown, name)
			continue
		}
		if f.Changed {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			failed = append(failed, fmt.Errorf("%s=%q: %w", name, value, err))
		}
		r.Source[f.Name] = name
	}
	return errors.Join(failed...)
}

// maxFileBytes bounds a configuration file.
const maxFileBytes = 1 << 20

func readFile(path string) ([]byte, error) {
	i, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if !i.Mode().IsRegular() || i.Size() > maxFileBytes {
		return nil, fmt.Errorf("configuration: %s is not a regular file of at most %d bytes", path, maxFileBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return text, nil
}
