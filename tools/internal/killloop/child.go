package killloop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/engine"
)

// RunChild is the process that is killed. It reads a [Config] from in, works
// on the store, closes it, and waits for the kill. It ends by itself only on
// an error, or when in ends, which is how the parent's death shows.
func RunChild(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(in)
	var c Config
	if err := decoder.Decode(&c); err != nil {
		return fmt.Errorf("killloop: read the configuration from the parent: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	ch := &child{config: c, teller: teller{out: out}}
	ch.version.Store(c.FirstVersion)
	if err := ch.live(ctx); err != nil {
		_ = ch.tell(record{kind: kindFailed})
		return err
	}
	<-ctx.Done()
	return nil
}

type child struct {
	teller
	config  Config
	version atomic.Uint64
	store   *engine.Store
	// epoch is held alone while the epoch is swapped: so the parent knows of
	// each put whether it came before or after. What happens when it is not
	// known is a matter of the race tests.
	epoch sync.RWMutex
	space *engine.Namespace // guarded by epoch
}

func (ch *child) live(ctx context.Context) (err error) {
	if err := ch.tell(record{kind: kindOpening}); err != nil {
		return err
	}
	if ch.store, err = engine.Open(ch.config.Dir, ch.config.options()); err != nil {
		return err
	}
	if ch.space, err = ch.store.Namespace(ctx, blockLayout(), tenant, engine.NamespaceOptions{}); err != nil {
		return err
	}
	if err := ch.tell(record{kind: kindOpened}); err != nil {
		return err
	}
	failed := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		rng := rand.New(rand.NewPCG(ch.config.Seed, uint64(w)))
		wg.Go(func() {
			for range ch.config.Ops {
				if failed[w] = ch.step(ctx, w, rng); failed[w] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	if err := ch.tell(record{kind: kindClosing}); err != nil {
		return err
	}
	if err := ch.store.Close(ctx); err != nil {
		return err
	}
	return ch.tell(record{kind: kindClosed})
}

// step does one operation of a worker on keys of its own.
func (ch *child) step(ctx context.Context, worker int, rng *rand.Rand) error {
	key := func() uint32 { return uint32(rng.IntN(keys/workers)*workers + worker) }
	switch k := rng.IntN(100); {
	case k < 2 && ch.config.Evict && worker == 0:
		return ch.evict(ctx)
	case k < 3 && ch.config.Evict && worker == 1:
		return ch.bump(ctx)
	case k < 55:
		batch := map[uint32]bool{}
		for range 1 + rng.IntN(3) {
			batch[key()] = true
		}
		return ch.put(ctx, batch, engine.PutOptions{Durable: rng.IntN(16) == 0})
	case k < 75:
		return ch.get(ctx, key())
	case k < 80:
		return ch.match(ctx, key(), key())
	case k < 81:
		return ch.store.Flush(ctx)
	}
	return ch.drop(ctx, key())
}

func (ch *child) put(ctx context.Context, batch map[uint32]bool, o engine.PutOptions) error {
	ch.epoch.RLock()
	defer ch.epoch.RUnlock()
	var asked, answered []record
	var blocks []engine.PutBlock
	for key := range batch {
		v := ch.version.Add(1)
		asked = append(asked, record{kind: kindPutting, key: key, version: v})
		blocks = append(blocks, engine.PutBlock{Hash: hashOf(key), Planes: []engine.PlaneData{{Name: "kv", Spans: [][]byte{numberedBytes(key, v)}}}})
	}
	if err := ch.tell(asked...); err != nil {
		return err
	}
	for i, r := range ch.space.Put(ctx, blocks, o) {
		answered = append(answered, record{kind: kindPut, key: asked[i].key, version: asked[i].version, status: r.Status, existed: r.Existed})
	}
	return ch.tell(answered...)
}

func (ch *child) get(ctx context.Context, key uint32) error {
	ch.epoch.RLock()
	defer ch.epoch.RUnlock()
	status, version, err := getKey(ctx, ch.space, key)
	if err != nil {
		return ch.tell(record{kind: kindWrong, key: key})
	}
	return ch.tell(record{kind: kindGot, key: key, version: version, status: status})
}

// getKey reads a key. The error says that bytes were served that are not those
// of the version that they name.
func getKey(ctx context.Context, n *engine.Namespace, key uint32) (engine.Status, uint64, error) {
	p := make([]byte, sizeOf(key))
	r := n.Get(ctx, []engine.GetBlock{{Hash: hashOf(key), Parts: []engine.Part{{Plane: "kv", Spans: [][]byte{p}}}}}, engine.GetOptions{})[0]
	if r.Status != engine.StatusOK {
		return r.Status, 0, nil
	}
	v, err := versionOf(key, p)
	return r.Status, v, err
}

func (ch *child) match(ctx context.Context, hashes ...uint32) error {
	ch.epoch.RLock()
	defer ch.epoch.RUnlock()
	var chain [][]byte
	for _, key := range hashes {
		chain = append(chain, hashOf(key))
	}
	lease, err := ch.space.Match(ctx, chain)
	if err != nil {
		return err
	}
	lease.Release()
	return nil
}

func (ch *child) drop(ctx context.Context, key uint32) error {
	ch.epoch.RLock()
	defer ch.epoch.RUnlock()
	if err := ch.tell(record{kind: kindDropping, key: key}); err != nil {
		return err
	}
	r := ch.space.Drop(ctx, [][]byte{hashOf(key)})[0]
	return ch.tell(record{kind: kindDropped, key: key, status: r.Status})
}

func (ch *child) evict(ctx context.Context) error {
	if err := ch.tell(record{kind: kindEvicting}); err != nil {
		return err
	}
	if _, err := ch.store.EvictOnce(ctx); err != nil {
		return err
	}
	return ch.tell(record{kind: kindEvicted})
}

func (ch *child) bump(ctx context.Context) error {
	ch.epoch.Lock()
	defer ch.epoch.Unlock()
	if err := ch.tell(record{kind: kindBumping}); err != nil {
		return err
	}
	next, err := ch.space.BumpEpoch(ctx)
	if err != nil {
		return err
	}
	ch.space = next
	return ch.tell(record{kind: kindBumped})
}
