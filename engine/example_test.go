package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// Example stores a block and reads it back. README.md shows its middle part;
// internal/lint keeps the two alike.
func Example() {
	parent, err := os.MkdirTemp("", "sealstone-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "store")

	ctx := context.Background()
	store, err := engine.Open(dir, engine.Options{CapacityBytes: 1 << 30, MaxBlockBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close(ctx)

	// A namespace is a layout (what the bytes mean) and a tenant.
	space, err := store.Namespace(ctx, layout.Opaque("example"), "tenant-a", engine.NamespaceOptions{})
	if err != nil {
		log.Fatal(err)
	}
	hash := sha256.Sum256([]byte("the tokens up to here"))
	block := bytes.Repeat([]byte("kv"), 64<<10)
	put := space.Put(ctx, []engine.PutBlock{{
		Hash: hash[:], Planes: []engine.PlaneData{{Name: "value", Spans: [][]byte{block}}},
	}}, engine.PutOptions{})

	got := make([]byte, len(block))
	get := space.Get(ctx, []engine.GetBlock{{
		Hash: hash[:], Parts: []engine.Part{{Plane: "value", Spans: [][]byte{got}}},
	}}, engine.GetOptions{})
	fmt.Println(put[0].Status, get[0].Status, bytes.Equal(got, block))
	// Output: OK OK true
}
