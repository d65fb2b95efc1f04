package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/bytesize"
)

// Check says everything that is wrong with the values by themselves, whatever
// the machine they are for.
func (s *Settings) Check() error {
	return errors.Join(s.checkDoors(), s.checkWords(), s.checkNumbers())
}

func (s *Settings) checkDoors() error {
	var failed []error
	if s.Dir == "" {
		failed = append(failed, errors.New("dir is not set: name the store's directory"))
	}
	if s.Listen == Off && s.Unix == "" {
		failed = append(failed, errors.New("listen is off and unix is not set: nothing would be served"))
	}
	failed = append(failed, checkAddress("listen", s.Listen), checkAddress("http", s.HTTP))
	if (s.TLSCert == "") != (s.TLSKey == "") {
		failed = append(failed, errors.New("tls-cert and tls-key belong together: one of them is not set"))
	}
	if s.TLSClientCA != "" && s.TLSCert == "" {
		failed = append(failed, errors.New("tls-client-ca without tls-cert: certificates of clients need TLS"))
	}
	return errors.Join(failed...)
}

func checkAddress(name, address string) error {
	if address == Off {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s = %q: write HOST:PORT, [IPV6]:PORT or off: %w", name, address, err)
	}
	return nil
}

func (s *Settings) checkWords() error {
	var failed []error
	if _, err := engine.ParsePath(s.Store.Path); err != nil {
		failed = append(failed, fmt.Errorf("path: %w", err))
	}
	if _, err := engine.ParseOnIncompatible(s.Store.OnIncompatible); err != nil {
		failed = append(failed, fmt.Errorf("on-incompatible: %w", err))
	}
	if _, err := parseAdmission(s.Store.Admission); err != nil {
		failed = append(failed, err)
	}
	if err := new(slog.Level).UnmarshalText([]byte(s.LogLevel)); err != nil {
		failed = append(failed, fmt.Errorf("log-level = %q is none of debug, info, warn, error", s.LogLevel))
	}
	if s.LogFormat != "text" && s.LogFormat != "json" {
		failed = append(failed, fmt.Errorf("log-format = %q is neither text nor json", s.LogFormat))
	}
	switch s.Limits.Exists {
	case ExistsLease, ExistsVerify, ExistsPlain:
	default:
		failed = append(failed, fmt.Errorf("exists = %q is none of lease, verify, plain", s.Limits.Exists))
	}
	return errors.Join(failed...)
}

func (s *Settings) checkNumbers() error {
	l := &s.Limits
	return errors.Join(
		atMostABlock("value-max", l.ValueMax), atMostABlock("max-block", s.Store.MaxBlock),
		complain(l.ValueMax < 1, "value-max must be more than 0"),
		roomFor("pipelined-max", l.PipelinedMax, l.ValueMax),
		roomFor("value-memory", l.ValueMemory, l.ValueMax),
		complain(l.HandlesMax < 1, "handles-max must be more than 0"),
		complain(l.HiddenKeysMax < 1, "hidden-keys-max must be more than 0"),
		complain(l.ConnectionsMax < 1, "connections-max must be more than 0"),
		complain(min(l.RegionsMax, l.RegionsMaxAll) < 1, "regions-max and regions-max-all must be more than 0"),
		complain(min(l.RegionBytesMax, l.RegionBytesMaxAll) < 1, "region-bytes and region-bytes-all must be more than 0"),
		complain(s.Store.ReadWorkers < 0 || s.Store.OpenFiles < 0, "read-workers and open-files are never negative"),
		bounded("read-timeout", l.ReadTimeout), bounded("write-timeout", l.WriteTimeout), bounded("request-timeout", l.RequestTimeout),
		bounded("stop-timeout", s.StopTimeout), bounded("wedged-after", s.WedgedAfter),
		notNegative("idle-timeout", l.IdleTimeout), notNegative("sync-interval", s.Store.SyncInterval),
		notNegative("call-timeout", s.Store.CallTimeout), notNegative("lease-duration", s.Store.LeaseDuration),
	)
}

func complain(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func atMostABlock(name string, n bytesize.Size) error {
	return complain(n > engine.MaxBlockBytes, "%s = %s is over the format's limit of %s", name, n.String(), bytesize.Format(engine.MaxBlockBytes))
}

// commandBytes is what a command needs beside its value.
const commandBytes = 1 << 20

func roomFor(name string, n, value bytesize.Size) error {
	return complain(n < value+commandBytes, "%s = %s has no room for one value: at least value-max and 1MiB, %s", name, n.String(), bytesize.Format(int64(value+commandBytes)))
}

func bounded(name string, d time.Duration) error {
	return complain(d <= 0, "%s = %v must be more than 0: what has no bound may wait for ever", name, d)
}

func notNegative(name string, d time.Duration) error {
	return complain(d < 0, "%s = %v is negative", name, d)
}

func parseAdmission(s string) (engine.Admission, error) {
	switch s {
	case "all":
		return engine.AdmitAll, nil
	case "second-touch":
		return engine.AdmitSecondTouch, nil
	}
	return 0, fmt.Errorf("admission = %q is neither all nor second-touch", s)
}

// Options are those for engine.Open; callbacks and logger are the caller's.
// Call it after Check.
func (s *Store) Options() (engine.Options, error) {
	path, err := engine.ParsePath(s.Path)
	if err != nil {
		return engine.Options{}, err
	}
	aside, err := engine.ParseOnIncompatible(s.OnIncompatible)
	if err != nil {
		return engine.Options{}, err
	}
	admission, err := parseAdmission(s.Admission)
	if err != nil {
		return engine.Options{}, err
	}
	return engine.Options{
		CapacityBytes: int64(s.Capacity), FreeFloorBytes: int64(s.FreeFloor), MaxBlockBytes: int64(s.MaxBlock),
		HostCacheBytes: int64(s.HostCache), MaxInflightBytes: int64(s.Inflight), MaxPendingBytes: int64(s.Pending),
		IndexCacheBytes: int64(s.IndexCache), HintBytes: int64(s.Hint),
		SyncInterval: s.SyncInterval, SyncBytes: int64(s.SyncBytes), CallTimeout: s.CallTimeout,
		LeaseDuration: s.LeaseDuration, LeaseShare: s.LeaseShare, MoveShare: s.MoveShare,
		ScrubCycle: s.ScrubCycle, ScrubRateMax: int64(s.ScrubRate),
		Admission: admission, WriteBudgetBytesPerDay: int64(s.WriteBudget), NoSharing: s.NoSharing,
		ReadWorkers: s.ReadWorkers, MaxOpenFiles: s.OpenFiles,
		Path: path, OnIncompatible: aside,
	}, nil
}
