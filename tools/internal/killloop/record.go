package killloop

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/sealstone/sealstone/engine"
)

// kind says what a record of the child is about.
type kind uint8

// What is about to be asked stands before the call, what was answered behind.
const (
	kindOpening kind = iota + 1
	kindOpened
	kindPutting
	kindPut
	kindGot
	kindDropping
	kindDropped
	kindEvicting
	kindEvicted
	kindBumping
	kindBumped
	kindClosing
	kindClosed
	kindWrong  // a get answered OK and the bytes were wrong
	kindFailed // the child gives up; why stands on its standard error
)

// record is what the child tells. It is written by one call that is smaller
// than PIPE_BUF, so that a kill leaves it whole or not at all.
type record struct {
	kind    kind
	status  engine.Status
	existed bool
	key     uint32
	version uint64
}

const recordBytes = 16

func (r record) append(p []byte) []byte {
	p = append(p, byte(r.kind), byte(r.status), boolByte(r.existed), 0)
	p = binary.LittleEndian.AppendUint32(p, r.key)
	return binary.LittleEndian.AppendUint64(p, r.version)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// readRecord reads the next record. io.EOF and io.ErrUnexpectedEOF end the
// child's account.
func readRecord(in io.Reader) (record, error) {
	var p [recordBytes]byte
	if _, err := io.ReadFull(in, p[:]); err != nil {
		return record{}, err
	}
	return record{
		kind: kind(p[0]), status: engine.Status(p[1]), existed: p[2] != 0,
		key: binary.LittleEndian.Uint32(p[4:]), version: binary.LittleEndian.Uint64(p[8:]),
	}, nil
}

// teller writes records in the order in which they are told.
type teller struct {
	mu  sync.Mutex
	out io.Writer
}

func (t *teller) tell(records ...record) error {
	p := make([]byte, 0, 4*recordBytes)
	for _, r := range records {
		p = r.append(p)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.out.Write(p)
	return err
}

func putVersion(p []byte, v uint64) { binary.LittleEndian.PutUint64(p, v) }
func getVersion(p []byte) uint64    { return binary.LittleEndian.Uint64(p) }
