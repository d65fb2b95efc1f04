package load

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

// blockVersion is the version of every block: a block's hash stands for its
// content, so it never has another.
const blockVersion = 1

// Words of the server's answers.
var (
	statusOK   = engine.StatusOK.String()
	statusMiss = engine.StatusMiss.String()
)

// blockLayout is the layout of the blocks of a run.
func blockLayout(prefix string) string {
	l := layout.Opaque(prefix)
	l.Planes = []layout.Plane{{Name: "kv"}}
	b, err := json.Marshal(l)
	if err != nil {
		panic(err) // of constants
	}
	return string(b)
}

// blockKey numbers blocks after the plain keys, so that none has the bytes of
// one of those.
func (w *worker) blockKey(key int) int { return w.c.Keys + key }

func (w *worker) hash(key int) []byte {
	h := blockgen.Ref{Scope: w.c.Prefix, ID: uint64(w.blockKey(key))}.Hash()
	return h[:]
}

// open opens the namespace of the blocks, once for each connection: a server
// that was started anew knows no handles.
func (w *worker) open() error {
	if w.handle != 0 {
		return nil
	}
	a, err := w.do("KV.OPEN", w.layout)
	switch {
	case err != nil:
		return err
	case a.kind != '*' || len(a.list) < 2 || !a.list[0].is("ok") || a.list[1].kind != ':':
		return fmt.Errorf("%w: KV.OPEN: %c %s", errAnswer, a.kind, a.text)
	}
	w.handle = a.list[1].n
	return nil
}

// status is the status word of the only block of an answer.
func status(a *answer) (string, []answer) {
	if a.kind != '*' || len(a.list) != 1 {
		return string(a.text), nil
	}
	if e := a.list[0]; e.kind == '*' && len(e.list) > 0 {
		return string(e.list[0].text), e.list
	}
	return string(a.list[0].text), nil
}

func (w *worker) kvPut() error {
	if err := w.open(); err != nil {
		return err
	}
	key := w.own()
	w.value = w.values.fill(w.value, w.blockKey(key), blockVersion)
	a, err := w.timed(cmdKVPut, "KV.PUT", w.handle, "", 1, w.hash(key), "", "", 1, "kv", "B", w.value)
	if err != nil {
		return err
	}
	if st, _ := status(&a); st != statusOK {
		w.tally.failed(cmdKVPut, st)
		return nil
	}
	w.tally.bytesWritten.Add(int64(len(w.value)))
	return nil
}

func (w *worker) kvGet() error {
	if err := w.open(); err != nil {
		return err
	}
	key := w.any()
	began := time.Now()
	a, err := w.do("KV.GET", w.handle, "", 1, w.hash(key), 0)
	if err != nil {
		return err
	}
	st, parts := status(&a)
	switch {
	case st == statusMiss:
		w.tally.missing(cmdKVGet)
	case st != statusOK || len(parts) != 6 || len(parts[5].list) != 1:
		w.tally.failed(cmdKVGet, fmt.Sprintf("%s with %d parts", st, len(parts)))
	default:
		p := parts[5].list[0].text
		v, err := w.values.judge(p, w.blockKey(key), 0, blockVersion)
		w.tally.value(v, err, len(p))
	}
	w.tally.done(cmdKVGet, began)
	return nil
}

// kvMatch leases a chain and gives the lease back.
func (w *worker) kvMatch() error {
	if err := w.open(); err != nil {
		return err
	}
	args := []any{"KV.MATCH", w.handle}
	from := w.any()
	for i := range 1 + w.random.IntN(manyKeys) {
		args = append(args, w.hash((from+i)%w.c.Keys))
	}
	a, err := w.timed(cmdKVMatch, args...)
	switch {
	case err != nil:
		return err
	case a.kind != '*' || len(a.list) != 3:
		w.tally.failed(cmdKVMatch, string(a.text))
		return nil
	case a.list[1].n == 0:
		return nil
	}
	a, err = w.do("KV.RELEASE", a.list[1].n)
	if err == nil && a.kind != ':' {
		w.tally.failed(cmdKVMatch, string(a.text))
	}
	return err
}

func (w *worker) kvDrop() error {
	if err := w.open(); err != nil {
		return err
	}
	a, err := w.timed(cmdKVDrop, "KV.DROP", w.handle, w.hash(w.own()))
	if err != nil {
		return err
	}
	if st, _ := status(&a); st != statusOK && st != statusMiss {
		w.tally.failed(cmdKVDrop, st)
	}
	return nil
}
