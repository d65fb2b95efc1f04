package core

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// options is what sealstone_open is given.
type options struct {
	dir    string
	engine engine.Options

	server, token, user string

	queueOperations int
	queueBytes      int64
	workers         int
	callTimeout     time.Duration
}

const (
	defaultQueueOperations = 1024
	defaultQueueBytes      = 4 << 30
	defaultWorkers         = 32
	maxWorkers             = 128
	defaultCallTimeout     = 30 * time.Second
)

// millis reads a duration in milliseconds.
func millis(dst *time.Duration, most time.Duration) func(json.RawMessage) error {
	return func(p json.RawMessage) error {
		var ms int64
		if err := whole(&ms, 1, most.Milliseconds())(p); err != nil {
			return err
		}
		*dst = time.Duration(ms) * time.Millisecond
		return nil
	}
}

const day = 24 * time.Hour

func (o *options) common() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{
		"dir": text(&o.dir), "server": text(&o.server),
		"queue_operations": whole(&o.queueOperations, 1, handlesMax),
		"queue_bytes":      whole(&o.queueBytes, 1, math.MaxInt64),
		"workers":          whole(&o.workers, 1, maxWorkers),
		"call_timeout_ms":  millis(&o.callTimeout, day),
	}
}

func (o *options) embedded() map[string]func(json.RawMessage) error {
	e := &o.engine
	size := func(dst *int64) func(json.RawMessage) error { return whole(dst, 0, math.MaxInt64) }
	return map[string]func(json.RawMessage) error{
		"capacity_bytes": size(&e.CapacityBytes), "free_floor_bytes": size(&e.FreeFloorBytes),
		"max_block_bytes": size(&e.MaxBlockBytes), "segment_bytes": size(&e.SegmentBytes),
		"path": func(p json.RawMessage) error {
			return text((*string)(&e.Path))(p) // Open knows the words
		},
		"read_only": truth(&e.ReadOnly), "create_only": truth(&e.CreateOnly), "must_exist": truth(&e.MustExist),
		"no_sharing": truth(&e.NoSharing),
		"on_incompatible": func(p json.RawMessage) error {
			return text((*string)(&e.OnIncompatible))(p)
		},
		"max_inflight_bytes": size(&e.MaxInflightBytes), "max_pending_bytes": size(&e.MaxPendingBytes),
		"host_cache_bytes": size(&e.HostCacheBytes), "hint_bytes": whole(&e.HintBytes, -1, math.MaxInt64),
		"index_cache_bytes": size(&e.IndexCacheBytes), "read_workers": whole(&e.ReadWorkers, 1, 64),
		"max_open_files": whole(&e.MaxOpenFiles, 16, 1<<20), "sync_interval_ms": millis(&e.SyncInterval, day),
		"lease_ms": millis(&e.LeaseDuration, day), "write_budget_bytes_per_day": size(&e.WriteBudgetBytesPerDay),
		"admission": oneOf(&e.Admission, map[string]engine.Admission{
			"all": engine.AdmitAll, "second-touch": engine.AdmitSecondTouch,
		}),
	}
}

func (o *options) client() map[string]func(json.RawMessage) error {
	return map[string]func(json.RawMessage) error{"token": text(&o.token), "user": text(&o.user)}
}

// parseOptions reads the options of sealstone_open. A key of the other mode is
// named as such.
func parseOptions(p []byte) (*options, error) {
	o := &options{
		queueOperations: defaultQueueOperations, queueBytes: defaultQueueBytes,
		workers: defaultWorkers, callTimeout: defaultCallTimeout,
	}
	keys, embedded, client := o.common(), o.embedded(), o.client()
	for k, set := range embedded {
		keys[k] = set
	}
	for k, set := range client {
		keys[k] = set
	}
	if err := readObject(p, keys); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if (o.dir == "") == (o.server == "") {
		return nil, fmt.Errorf("options: either %q or %q is wanted", "dir", "server")
	}
	other, mode := client, "server"
	if o.server != "" {
		other, mode = embedded, "dir"
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(p, &raw); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	for key := range raw {
		if other[key] != nil {
			return nil, fmt.Errorf("options: %q goes with %q only", key, mode)
		}
	}
	o.engine.CallTimeout = o.callTimeout
	return o, nil
}

// spaceOptions is what sealstone_open_namespace is given besides the layout.
type spaceOptions struct {
	engine  engine.NamespaceOptions
	timeout time.Duration // 0: the call timeout
}

func parseSpaceOptions(p []byte) (*spaceOptions, error) {
	o := &spaceOptions{}
	if len(p) == 0 {
		return o, nil
	}
	err := readObject(p, map[string]func(json.RawMessage) error{
		"require_match": truth(&o.engine.RequireMatch),
		"compression": oneOf(&o.engine.Compression, map[string]engine.Compression{
			"off": engine.CompressionOff, "auto": engine.CompressionAuto,
			"s2": engine.CompressionS2, "zstd": engine.CompressionZstd,
		}),
		"min_saving_share": func(p json.RawMessage) error {
			if err := json.Unmarshal(p, &o.engine.MinSavingShare); err != nil {
				return fmt.Errorf("a number is wanted, not %.40s", p)
			}
			return nil
		},
		"timeout_ms": millis(&o.timeout, day),
	})
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return o, nil
}

// parseLayout reads a layout strictly; whether it is a possible one is for the
// store to say, which lists all its faults at once.
func parseLayout(p []byte) (engine.Layout, error) {
	var l engine.Layout
	if err := checkJSON(p); err != nil {
		return l, fmt.Errorf("layout: %w", err)
	}
	if err := json.Unmarshal(p, &l); err != nil {
		return l, fmt.Errorf("layout: %w", err)
	}
	return l, nil
}
