package resp

import "fmt"

// Command is a command as it came: its name, then its arguments. It is valid
// until the next call of Reader.Next or Reader.Release.
type Command struct {
	// Args are the name and the arguments. One that was not kept is nil.
	Args [][]byte
	// Lost are the arguments that were read and not kept, in order; nil nearly
	// always.
	Lost []Lost
	// Cut is how many more arguments came, for which there was not even room
	// in the list. Such a command can only be refused.
	Cut int
}

// Lost is an argument that was read and not kept.
type Lost struct {
	Arg    int // its place in Args
	Bytes  int64
	Reason Reason
}

// IsLost reports whether an argument was not kept.
func (c *Command) IsLost(arg int) bool {
	for _, l := range c.Lost {
		if l.Arg == arg {
			return true
		}
	}
	return false
}

// ProtocolError is a malformed frame: where the next one begins is not known,
// so the connection can only be closed.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "Protocol error: " + e.Text }

func malformed(format string, args ...any) error {
	return &ProtocolError{fmt.Sprintf(format, args...)}
}
