package resp

const (
	// bufferBytes is what a connection reads ahead at most, and the longest
	// line that it may send.
	bufferBytes = 16 << 10
	// SmallBytesMax is the longest argument that is copied out of the read
	// buffer; longer ones are read straight into memory of their own.
	SmallBytesMax = 8 << 10
	// BulkBytesMax is the longest argument that is understood at all, as in
	// Redis. A longer one is a malformed frame.
	BulkBytesMax = 512 << 20

	// freeArgs and freeSmallBytes are what a command may have without being
	// charged for: each connection keeps as much.
	freeArgs       = 64
	freeSmallBytes = 16 << 10
	// argBytes is what the place of an argument in the list costs.
	argBytes = 24
	// chargeStep is in what steps long commands are charged for.
	chargeStep = 64 << 10
)

// Limits bound what one command may ask of the server.
type Limits struct {
	// ArgsMax is the number of arguments, the name counted; a longer array is
	// a malformed frame.
	ArgsMax int
	// ValueBytesMax is the longest argument that is kept. Longer ones are
	// read and forgotten, see Lost.
	ValueBytesMax int64
	// CommandBytesMax bounds the arguments of a command together; those past
	// it are read and forgotten.
	CommandBytesMax int64
	// Strict makes a malformed frame of what would be read and forgotten: for
	// peers that have not said who they are.
	Strict bool
}

// Memory is what the arguments of all connections are kept in.
type Memory interface {
	// Take returns memory of exactly sizeBytes, or nil where the bound is
	// reached. It may wait a moment for others, unless the command holds some
	// already.
	Take(sizeBytes int, holds bool) Buffer
	// Charge counts bytes on the heap against a bound that all connections
	// share; false: there is no room. Refund gives them back.
	Charge(bytes int64) bool
	Refund(bytes int64)
}

// Buffer is memory of a Memory; Free gives it back.
type Buffer interface {
	Bytes() []byte
	Free()
}

// Reason says why an argument was not kept.
type Reason uint8

const (
	// ReasonValueBytes: longer than Limits.ValueBytesMax.
	ReasonValueBytes Reason = iota + 1
	// ReasonCommandBytes: the command's arguments together are longer than
	// Limits.CommandBytesMax.
	ReasonCommandBytes
	// ReasonMemory: the memory for arguments of all connections is in use.
	ReasonMemory

	reasonCount
)

// Reasons lists all reasons, for metrics.
func Reasons() []Reason { return []Reason{ReasonValueBytes, ReasonCommandBytes, ReasonMemory} }

func (r Reason) String() string {
	return [reasonCount]string{"", "value-bytes", "command-bytes", "memory"}[r%reasonCount]
}
