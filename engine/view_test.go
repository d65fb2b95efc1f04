package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestViewLends(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for i := range 20 {
		mustPut(t, n, blockOf(i, 0, 1000*(i+1)))
	}
	var hs [][]byte
	for i := range 21 {
		hs = append(hs, hashOf(i))
	}
	vs := n.View(context.Background(), hs, ViewOptions{WantSeal: true})
	for i, v := range vs[:20] {
		if v.Status != StatusOK || !bytes.Equal(bytes.Join(v.Planes, nil), contentOf(i, 0, 1000*(i+1))) {
			t.Fatalf("%d: %v %v", i, v.Status, v.Err)
		}
	}
	t.Log(s.lent.heldBytes.Load(), s.Stats().InflightBytes)
	for i := range vs {
		vs[i].Release()
	}
	t.Log(s.lent.heldBytes.Load(), s.Stats().InflightBytes, vs[20].Status)
	t.Log(n.Stat(context.Background(), hs)[3])
	ks, next, err := n.Keys(context.Background(), nil, 7)
	t.Log(len(ks), next, err)
}
