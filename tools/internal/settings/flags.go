package settings

import (
	"time"

	"github.com/spf13/pflag"
)

// Register adds a flag for each setting to fs, with its default, and gives the
// values that parsing and Resolve fill in.
func Register(fs *pflag.FlagSet) *Settings {
	s := &Settings{}
	s.registerDoors(fs)
	s.registerLimits(fs)
	s.registerStore(fs)
	s.registerProcess(fs)
	return s
}

func (s *Settings) registerDoors(fs *pflag.FlagSet) {
	fs.StringVar(&s.Dir, "dir", "", "the store's `DIR`ectory, made where there is none; required")
	fs.StringVar(&s.Listen, "listen", "127.0.0.1:6380", "`ADDRESS` for RESP on TCP; off: none")
	fs.StringVar(&s.HTTP, "http", "127.0.0.1:6381", "`ADDRESS` for metrics, health and the page; off: none")
	fs.StringVar(&s.Unix, "unix", "", "`PATH` of a Unix socket for RESP and shared memory, for this user alone")
	fs.StringVar(&s.Tokens, "tokens", "", "`FILE` with the tokens of peers; without one, all come in as tenant default, from this host only")
	fs.StringVar(&s.TLSCert, "tls-cert", "", "`FILE` with the server's certificates (PEM): RESP on TCP and HTTP use TLS")
	fs.StringVar(&s.TLSKey, "tls-key", "", "`FILE` with the key of the certificate (PEM)")
	fs.StringVar(&s.TLSClientCA, "tls-client-ca", "", "`FILE` with the authorities (PEM) whose certificates RESP clients must show")
	fs.BoolVar(&s.OpenMetrics, "open-metrics", false, "answer /metrics without a token also where there are tokens")
	fs.BoolVar(&s.PProf, "pprof", false, "serve profiles of the process at /debug/pprof/")
}

func (s *Settings) registerLimits(fs *pflag.FlagSet) {
	l := &s.Limits
	l.PipelinedMax, l.ValueMax, l.ValueMemory = 256<<20, 64<<20, 512<<20
	l.RegionBytesMax, l.RegionBytesMaxAll = 1<<40, 16<<40
	fs.IntVar(&l.ConnectionsMax, "connections-max", 2048, "`N` connections at a time; further ones are told so and closed")
	fs.IntVar(&l.HandlesMax, "handles-max", 4096, "`N` namespaces open by KV.OPEN")
	fs.IntVar(&l.HiddenKeysMax, "hidden-keys-max", 64<<10, "`N` overwritten values that the store cannot remove yet, over which a tenant's keys are all misses")
	fs.IntVar(&l.RegionsMax, "regions-max", 64, "`N` regions of shared memory of a connection")
	fs.IntVar(&l.RegionsMaxAll, "regions-max-all", 4096, "`N` regions of all connections; each is a mapping of the process (vm.max_map_count)")
	fs.Var(&l.RegionBytesMax, "region-bytes", "bytes of shared memory of a connection")
	fs.Var(&l.RegionBytesMaxAll, "region-bytes-all", "bytes of shared memory of all connections; they are the peers' own, mapped")
	fs.Var(&l.ValueMax, "value-max", "bytes of one value or block, at most 64MiB; longer ones are not kept")
	fs.Var(&l.PipelinedMax, "pipelined-max", "bytes of one command's arguments together")
	fs.Var(&l.ValueMemory, "value-memory", "bytes of memory for values on their way in, of all connections")
	fs.DurationVar(&l.ReadTimeout, "read-timeout", 30*time.Second, "`TIME` that a command which has begun may take for each MiB")
	fs.DurationVar(&l.WriteTimeout, "write-timeout", 30*time.Second, "`TIME` that a peer may take to read each MiB of an answer")
	fs.DurationVar(&l.IdleTimeout, "idle-timeout", 0, "close connections that said nothing for `TIME`; 0: never")
	fs.DurationVar(&l.RequestTimeout, "request-timeout", 30*time.Second, "`TIME` that a command waits for the store")
	fs.StringVar(&l.Exists, "exists", ExistsLease, "`WHAT` EXISTS does for the GET that follows: lease, verify or plain")
}

func (s *Settings) registerStore(fs *pflag.FlagSet) {
	o := &s.Store
	o.HostCache = 256 << 20
	fs.Var(&o.Capacity, "capacity", "bytes on disk, of everything; 0: 80 % of what is free at the start")
	fs.Var(&o.FreeFloor, "free-floor", "bytes of the file system left to others; 0: 1 %, at most 1GiB")
	fs.Var(&o.MaxBlock, "max-block", "the largest block; 0: 64MiB")
	fs.Var(&o.HostCache, "host-cache", "bytes of memory for verified blocks, before the disk; 0: none")
	fs.Var(&o.Inflight, "inflight-max", "bytes of buffers of requests under way; 0: 256MiB")
	fs.Var(&o.Pending, "pending-max", "bytes written and not yet indexed, over which puts are shed; 0: 512MiB")
	fs.Var(&o.IndexCache, "index-cache", "bytes of memory for the index; 0: 64MiB")
	fs.Var(&o.Hint, "hint", "bytes of memory for the table of what is stored; 0: 64MiB")
	fs.StringVar(&o.Path, "path", "auto", "`NAME` of the way of reading: auto, uring, pread or buffered")
	fs.StringVar(&o.OnIncompatible, "on-incompatible", "refuse", "`WHAT` to do about a store that cannot be opened: refuse or set-aside")
	fs.StringVar(&o.Admission, "admission", "all", "`WHICH` blocks are worth a write: all or second-touch")
	fs.Var(&o.WriteBudget, "write-budget", "bytes a day, over which puts are shed; 0: no budget")
	fs.BoolVar(&o.NoSharing, "no-sharing", false, "store equal content once a key instead of once a tenant")
	fs.DurationVar(&o.SyncInterval, "sync-interval", 0, "`TIME` between group syncs: what a power cut may take; 0: 1s")
	fs.Var(&o.SyncBytes, "sync-bytes", "bytes after which a group sync runs early; 0: 256MiB")
	fs.DurationVar(&o.CallTimeout, "call-timeout", 0, "`TIME` that background calls wait for the device or the index; 0: 30s")
	fs.DurationVar(&o.LeaseDuration, "lease-duration", 0, "`TIME` for which a match keeps blocks; 0: 1m")
	fs.Float64Var(&o.LeaseShare, "lease-share", 0, "`SHARE` of the capacity that leases may hold; 0: 0.25")
	fs.Float64Var(&o.MoveShare, "move-share", 0, "`SHARE` of a segment that eviction moves on; 0: 0.25, negative: nothing")
	fs.DurationVar(&o.ScrubCycle, "scrub-cycle", 0, "`TIME` in which all is read and verified once; 0: 14 days, negative: never")
	fs.Var(&o.ScrubRate, "scrub-rate", "bytes a second of that, at most; 0: 100MiB")
	fs.IntVar(&o.ReadWorkers, "read-workers", 0, "`N` threads that read; 0: 32")
	fs.IntVar(&o.OpenFiles, "open-files", 0, "`N` files of the store open at a time; 0: 256")
}

func (s *Settings) registerProcess(fs *pflag.FlagSet) {
	fs.StringVar(&s.LogLevel, "log-level", "info", "`LEVEL` of the log on standard error: debug, info, warn or error")
	fs.StringVar(&s.LogFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	fs.DurationVar(&s.StopTimeout, "stop-timeout", 30*time.Second, "`TIME` for a graceful stop")
	fs.DurationVar(&s.WedgedAfter, "wedged-after", 2*time.Minute, "`TIME` without any sign of life after which /livez fails")
	fs.BoolVar(&s.GPU, "gpu", false, "look for GPUs at the start and show how blocks of DIR would reach them")
}
