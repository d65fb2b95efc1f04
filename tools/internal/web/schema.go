package web

import "time"

// SchemaVersion is that of Status: it grows when a field changes its meaning or
// goes away, not when one is added.
const SchemaVersion = 1

// Status is the answer of /status. Bytes and times carry their unit in the
// name; totals begin when the process did.
type Status struct {
	Schema        int       `json:"schema"`
	Version       string    `json:"version"`
	Time          time.Time `json:"time"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Phase         Phase     `json:"phase"`
	PhaseDetail   string    `json:"phase_detail"`
	Alive         bool      `json:"alive"`
	Health        Health    `json:"health"`
	Store         StoreView `json:"store"`
	Host          HostView  `json:"host_tier"`
	// Paths are the ways between memory and the store's directory.
	Paths []PathView `json:"paths"`
	// DirectRefused is why reads do not go past the page cache, or "".
	DirectRefused string       `json:"direct_refused"`
	GPUs          GPUs         `json:"gpus"`
	Tenants       []TenantView `json:"tenants"`
	Server        ServerView   `json:"server"`
	// Events are the latest, the newest first.
	Events []EventView `json:"events"`
}

// Health is that of the store.
type Health struct {
	State   string   `json:"state"` // ok, read-only, all-miss, closed, or unknown while it opens
	Reasons []string `json:"reasons"`
}

// StoreView is the store on disk.
type StoreView struct {
	Dir              string           `json:"dir"`
	CapacityBytes    int64            `json:"capacity_bytes"`
	DiskBytes        int64            `json:"disk_bytes"`
	LiveBytes        int64            `json:"live_bytes"`
	IndexBytes       int64            `json:"index_bytes"`
	LogBytes         int64            `json:"log_bytes"`
	Segments         int              `json:"segments"`
	InflightBytes    int64            `json:"inflight_bytes"`
	PendingBytes     int64            `json:"pending_bytes"`
	LeasedBytes      int64            `json:"leased_bytes"`
	VerifiedBytes    int64            `json:"verified_bytes_total"`
	ServedBytes      int64            `json:"served_bytes_total"`
	PutBytes         int64            `json:"put_bytes_total"`
	WrittenBytes     int64            `json:"segment_written_bytes_total"`
	MatchBlocks      int64            `json:"match_blocks_total"`
	MatchHits        int64            `json:"match_hits_total"`
	Gets             map[string]int64 `json:"gets_total"` // by status
	Puts             map[string]int64 `json:"puts_total"` // by status
	EvictedBlocks    int64            `json:"evicted_blocks_total"`
	Quarantined      int64            `json:"quarantined_blocks_total"`
	Rereads          int64            `json:"rereads_total"`
	ScrubBytes       int64            `json:"scrub_bytes_total"`
	ScrubBad         int64            `json:"scrub_bad_blocks_total"`
	ScrubCycle       uint64           `json:"scrub_cycle"`
	ScrubLeftBytes   int64            `json:"scrub_left_bytes"`
	OpenSeconds      float64          `json:"open_seconds"`
	AmplifiedWriting float64          `json:"write_amplification"`
}

// HostView is the cache in memory.
type HostView struct {
	CapacityBytes int64 `json:"capacity_bytes"`
	Bytes         int64 `json:"bytes"`
	Blocks        int64 `json:"blocks"`
	Hits          int64 `json:"hits_total"`
	Misses        int64 `json:"misses_total"`
	VerifiedBytes int64 `json:"verified_bytes_total"`
	Evicted       int64 `json:"evicted_total"`
	Rejected      int64 `json:"rejected_total"`
	Corrupt       int64 `json:"corrupt_total"`
}

// PathView is one way of reading and writing.
type PathView struct {
	Name string `json:"name"`
	// State is in-use, proven, demoted or refused.
	State   string  `json:"state"`
	Reason  string  `json:"reason"` // why it is demoted or refused, or what it does without
	Reads   int64   `json:"reads_total"`
	ReadMiB float64 `json:"read_mib_s"` // as measured at the start; 0: not measured
}

// GPUs is what is known of GPUs.
type GPUs struct {
	// State is off (nobody looked), looking, none, found or failed.
	State  string    `json:"state"`
	Reason string    `json:"reason"`
	Pairs  []GPUPair `json:"pairs"`
}

// GPUPair is one GPU and the store's directory.
type GPUPair struct {
	GPU    string `json:"gpu"`
	Path   string `json:"path"`   // cufile, host-bounce or none
	Reason string `json:"reason"` // why no better one
}

// TenantView is a tenant's use of the disk.
type TenantView struct {
	Tenant        string `json:"tenant"`
	QuotaBytes    int64  `json:"quota_bytes"` // 0: none
	StoredBytes   int64  `json:"stored_bytes"`
	Blocks        int64  `json:"blocks"`
	ShedBlocks    int64  `json:"shed_blocks_total"`
	TrimmedBlocks int64  `json:"trimmed_blocks_total"`
}

// ServerView is what peers do.
type ServerView struct {
	Connections    int                    `json:"connections"`
	ConnectionsMax int                    `json:"connections_max"`
	Accepted       int64                  `json:"connections_accepted_total"`
	Refused        int64                  `json:"connections_refused_total"`
	AuthFailures   int64                  `json:"auth_failures_total"`
	ProtocolErrors int64                  `json:"protocol_errors_total"`
	BytesIn        int64                  `json:"received_bytes_total"`
	BytesOut       int64                  `json:"sent_bytes_total"`
	Shared         SharedView             `json:"shared_memory"`
	Limits         map[string]int64       `json:"limits_reached_total"`
	Kinds          map[string]KindView    `json:"values"` // plain, block
	Commands       map[string]CommandView `json:"commands"`
}

// SharedView is the memory that peers share with the server.
type SharedView struct {
	Regions    int   `json:"regions"`
	RegionsMax int   `json:"regions_max"`
	Bytes      int64 `json:"bytes"`
	BytesMax   int64 `json:"bytes_max"`
	Refused    int64 `json:"refused_total"`
}

// KindView is the traffic of one kind of values.
type KindView struct {
	Gets          int64 `json:"gets_total"`
	Hits          int64 `json:"hits_total"`
	Misses        int64 `json:"misses_total"`
	Corrupt       int64 `json:"corrupt_total"`
	Failed        int64 `json:"failed_total"`
	VerifiedBytes int64 `json:"verified_bytes_total"`
	Puts          int64 `json:"puts_total"`
	Stored        int64 `json:"stored_total"`
	Existed       int64 `json:"existed_total"`
	Shed          int64 `json:"shed_total"`
	PutBytes      int64 `json:"put_bytes_total"`
}

// CommandView is the traffic of one command.
type CommandView struct {
	Calls       int64   `json:"calls_total"`
	Errors      int64   `json:"errors_total"`
	BusySeconds float64 `json:"busy_seconds_total"`
}

// EventView is an event and what to do about it.
type EventView struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	Advice  string    `json:"advice"` // "": nothing is to be done
}
