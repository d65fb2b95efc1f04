package figures

// Figures are those of one store, keys at the top of an object.
type Figures struct {
	Store Store `json:"store"`
	Host  Host  `json:"host_tier"`
	// Paths are the ways between memory and the store's directory.
	Paths []Path `json:"paths"`
	// DirectRefused is why reads do not go past the page cache, or "".
	DirectRefused string   `json:"direct_refused"`
	Tenants       []Tenant `json:"tenants"`
}

// Store is the store on disk.
type Store struct {
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

// Host is the cache in memory.
type Host struct {
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

// Path is one way of reading and writing.
type Path struct {
	Name string `json:"name"`
	// State is in-use, proven, demoted or refused.
	State   string  `json:"state"`
	Reason  string  `json:"reason"` // why it is demoted or refused, or what it does without
	Reads   int64   `json:"reads_total"`
	ReadMiB float64 `json:"read_mib_s"` // as measured at the start; 0: not measured
}

// Tenant is a tenant's use of the disk.
type Tenant struct {
	Tenant        string `json:"tenant"`
	QuotaBytes    int64  `json:"quota_bytes"` // 0: none
	StoredBytes   int64  `json:"stored_bytes"`
	Blocks        int64  `json:"blocks"`
	ShedBlocks    int64  `json:"shed_blocks_total"`
	TrimmedBlocks int64  `json:"trimmed_blocks_total"`
}
