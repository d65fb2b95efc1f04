package gpu

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
)

// settings is a cuFile that only has settings.
type settings struct {
	staged, open map[driver.BoolParameter]bool
	opened       bool
	foreign      bool // another library opened it, with what open holds
	unknown      map[driver.BoolParameter]bool
	ignores      map[driver.BoolParameter]bool // set without effect
	missing      bool                          // no functions for settings
	logDir       string
	noLogDir     bool
	openErr      error
}

func code(n int) error {
	return fmt.Errorf("wrapped: %w", &driver.Error{Call: "cuFile", Domain: driver.DomainCuFile, Code: n})
}

func (s *settings) DriverOpen(*driver.Context) error {
	switch {
	case s.openErr != nil:
		return s.openErr
	case s.foreign:
		return code(cuFileOpenAlready)
	}
	s.opened = true
	for p, v := range s.staged {
		if !s.ignores[p] {
			s.open[p] = v
		}
	}
	return nil
}

func (s *settings) Parameter(p driver.BoolParameter) (bool, error) {
	switch {
	case s.missing:
		return false, driver.ErrMissingSymbol
	case s.unknown[p]:
		return false, code(cuFileUnknownSetting)
	case s.opened || s.foreign:
		return s.open[p], nil
	}
	return s.staged[p], nil
}

func (s *settings) SetParameter(p driver.BoolParameter, on bool) error {
	switch {
	case s.missing:
		return driver.ErrMissingSymbol
	case s.unknown[p]:
		return code(cuFileUnknownSetting)
	case s.foreign:
		return code(cuFileOpenAlready)
	}
	s.staged[p] = on
	return nil
}

func (s *settings) SetStringParameter(p driver.StringParameter, v string) error {
	switch {
	case s.foreign:
		return code(cuFileOpenAlready)
	case s.noLogDir || p != driver.LogDir:
		return code(cuFileUnknownSetting)
	}
	s.logDir = v
	return nil
}

func TestOpenStrict(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*settings)
		strict bool   // the error is ErrNotStrict
		says   string // "" is success
	}{
		"as it should be":                   {func(*settings) {}, false, ""},
		"a library of CUDA 12.9":            {func(s *settings) { s.unknown = only(driver.PosixIOMode, driver.FallbackIO) }, false, ""},
		"another library opened it, strict": {func(s *settings) { s.foreign = true; s.open = nil }, false, ""},
		"another library opened it": {func(s *settings) { s.foreign = true },
			true, "allow_compat_mode is on in this process"},
		"setting it has no effect": {func(s *settings) { s.ignores = only(driver.AllowCompatMode) },
			true, "allow_compat_mode is on"},
		"POSIX mode stays on": {func(s *settings) {
			s.ignores = only(driver.PosixIOMode)
			s.open[driver.PosixIOMode] = true
		}, true, "vanilla_posix_io_mode is on"},
		"fallback stays on": {func(s *settings) {
			s.ignores = only(driver.FallbackIO)
			s.open[driver.FallbackIO] = true
		}, true, "gds_fallback_io is on"},
		"forced compat mode stays on": {func(s *settings) {
			s.ignores = only(driver.ForceCompatMode)
			s.open[driver.ForceCompatMode] = true
		}, true, "force_compat_mode is on"},
		"it does not know the compat mode": {func(s *settings) { s.unknown = only(driver.AllowCompatMode) },
			true, "allow_compat_mode cannot be set"},
		"too old for settings": {func(s *settings) { s.missing = true }, true, "cannot be set"},
		"no place for its log": {func(s *settings) { s.noLogDir = true }, false, "logging.dir cannot be set"},
		"it does not open":     {func(s *settings) { s.openErr = code(5001) }, false, "open cuFile"},
	} {
		t.Run(name, func(t *testing.T) {
			// The compat mode is on where nobody turns it off.
			s := &settings{staged: map[driver.BoolParameter]bool{}, open: only(driver.AllowCompatMode)}
			c.change(s)
			err := OpenStrict(s, nil, "/log")
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v, want one with %q", err, c.says)
			}
			if errors.Is(err, ErrNotStrict) != c.strict {
				t.Errorf("%v: is ErrNotStrict: %v, want %v", err, !c.strict, c.strict)
			}
			if err == nil && !s.foreign && s.logDir != "/log" {
				t.Errorf("the log is in %q", s.logDir)
			}
		})
	}
}

// TestCheckStrictReadsBack shows that no setting may be left out: each of them,
// turned on alone, is found.
func TestCheckStrictReadsBack(t *testing.T) {
	for _, p := range strictSettings {
		s := &settings{opened: true, open: only(p.number)}
		if err := CheckStrict(s); !errors.Is(err, ErrNotStrict) || !strings.Contains(err.Error(), p.name) {
			t.Errorf("%s is on: %v", p.name, err)
		}
		s = &settings{opened: true, unknown: only(p.number)}
		if err := CheckStrict(s); (err == nil) != p.late {
			t.Errorf("%s is unknown: %v", p.name, err)
		}
	}
}

func only(ps ...driver.BoolParameter) map[driver.BoolParameter]bool {
	m := map[driver.BoolParameter]bool{}
	for _, p := range ps {
		m[p] = true
	}
	return m
}
