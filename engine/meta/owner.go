package meta

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Owner says which process has a store open. A pid alone says little: it is
// used again, means another process in another PID namespace, and is of
// another machine on a shared file system. Zero fields are unknown.
type Owner struct {
	Host         string `json:"host,omitempty"`
	PID          int    `json:"pid"`
	PIDNamespace uint64 `json:"pid_namespace,omitempty"` // inode of /proc/self/ns/pid
	StartTicks   uint64 `json:"start_ticks,omitempty"`   // clock ticks from boot to the process's start
	BootID       string `json:"boot_id,omitempty"`
	Program      string `json:"program,omitempty"`
}

// CurrentOwner gathers the facts about this process. What the system does not
// tell stays zero.
func CurrentOwner() Owner {
	o := Owner{PID: os.Getpid()}
	o.Host, _ = os.Hostname()
	if len(os.Args) > 0 {
		o.Program = filepath.Base(os.Args[0])
	}
	o.PIDNamespace, o.StartTicks, o.BootID = processFacts()
	return o
}

func (o Owner) String() string {
	program, host := o.Program, o.Host
	if program == "" {
		program = "a program"
	}
	if host == "" {
		host = "an unknown host"
	}
	return fmt.Sprintf("%s, pid %d on %s", program, o.PID, host)
}

// whereabouts says what the pid of o means to a process self, and what follows.
func (o Owner) whereabouts(self Owner) string {
	switch {
	case o.Host != self.Host:
		return "that is another host, stop it there; do not share a store between hosts"
	case o.BootID != self.BootID:
		return "but that was written before the last boot; the present owner has not said its name yet, try again"
	case o.PIDNamespace != self.PIDNamespace:
		return fmt.Sprintf("the pid is of another PID namespace (%d: a container), stop it there", o.PIDNamespace)
	case o.PID == self.PID && o.StartTicks == self.StartTicks:
		return "that is this very process, close the store first"
	}
	return "stop it"
}

// maxOwnerBytes limits what is read of the owner text.
const maxOwnerBytes = 4096

func encodeOwner(o Owner) ([]byte, error) {
	p, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return append(p, '\n'), nil
}

// decodeOwner reads the owner text; unknown fields are of later programs.
func decodeOwner(p []byte) (o Owner, ok bool) {
	if err := json.Unmarshal(p, &o); err != nil || o.PID <= 0 {
		return Owner{}, false
	}
	return o, true
}
