package server

// View is what peers do.
type View struct {
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

// View is the figures as they are shown.
func (s Stats) View() View {
	out := View{
		Connections: s.Connections, ConnectionsMax: s.ConnectionsMax, Accepted: s.ConnectionsAccepted, Refused: s.ConnectionsRefused,
		AuthFailures: s.AuthFailures, ProtocolErrors: s.ProtocolErrors, BytesIn: s.BytesIn, BytesOut: s.BytesOut, Shared: SharedView(s.Shared),
		Limits: s.Limits, Kinds: map[string]KindView{}, Commands: map[string]CommandView{},
	}
	for name, k := range s.Kinds {
		out.Kinds[name] = KindView{
			Gets: k.Gets, Hits: k.Hits, Misses: k.Misses, Corrupt: k.Corrupt, Failed: k.Failed, VerifiedBytes: k.VerifiedBytes,
			Puts: k.Puts, Stored: k.Stored, Existed: k.Existed, Shed: k.Shed, PutBytes: k.PutBytes,
		}
	}
	for name, c := range s.Commands {
		out.Commands[name] = CommandView{Calls: c.Calls, Errors: c.Errors, BusySeconds: c.Busy.Seconds()}
	}
	return out
}
