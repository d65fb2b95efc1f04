package engine

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

func tenantSpace(t testing.TB, s *Store, tenant string) *Namespace {
	t.Helper()
	n, err := s.Namespace(context.Background(), testLayout(), tenant, NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantCounts holds what is kept of each namespace and tenant against a full
// count of the index. Nothing is pending.
func wantCounts(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *Store) {
	t.Helper()
	counted, err := s.idx.RecountUses(context.Background())
	if err != nil {
		t.Fatalf("recount: %v", err)
	}
	tenants, kept := map[string]index.Use{}, map[uint32]index.Use{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, sp := range s.spaces {
		if sp.held != (index.Use{}) || sp.account.held != (index.Use{}) {
			t.Fatalf("namespace %d is charged %v for nothing", number, sp.held)
		}
		if sp.indexed != (index.Use{}) {
			kept[number] = sp.indexed
		}
		u := tenants[sp.Tenant]
		tenants[sp.Tenant] = index.Use{Blocks: u.Blocks + sp.indexed.Blocks, Bytes: u.Bytes + sp.indexed.Bytes}
	}
	if !maps.Equal(kept, counted) {
		t.Fatalf("kept %v, counted %v", kept, counted)
	}
	for tenant, u := range tenants {
		if got := s.accounts[tenant].indexed; got != u {
			t.Fatalf("tenant %s: kept %v, its namespaces have %v", tenant, got, u)
		}
	}
}

// TestQuotaCounts: whatever happens, over closing, crashes and rebuilds too,
// what is kept of each namespace is what a full count comes to.
func TestQuotaCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		o := testOptions(fs)
		s := mustOpen(t, o)
		tenants := []string{"a", "b"}
		id := rapid.IntRange(0, 15)
		space := func(rt *rapid.T) *Namespace {
			return tenantSpace(t, s, rapid.SampledFrom(tenants).Draw(rt, "tenant"))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				b := blockOf(rapid.IntRange(0, 4).Draw(rt, "content"), 0, 9000)
				b.Hash = hashOf(id.Draw(rt, "id"))
				if r := putOne(space(rt), b); r.Status != StatusOK {
					rt.Fatalf("put: %v %v", r.Status, r.Err)
				}
			},
			"drop": func(rt *rapid.T) { space(rt).Drop(context.Background(), [][]byte{hashOf(id.Draw(rt, "id"))}) },
			"bump": func(rt *rapid.T) { mustBump(t, space(rt)) },
			"evict": func(*rapid.T) {
				if _, err := s.EvictOnce(context.Background()); err != nil {
					rt.Fatal(err)
				}
			},
			"quarantine": func(rt *rapid.T) {
				n := space(rt)
				k := index.Key{Namespace: n.info.Number, Hash: string(hashOf(id.Draw(rt, "id")))}
				if found, err := s.lookup(context.Background(), []index.Key{k}, false); err == nil && found[0].ok {
					s.takeOut(k, found[0].entry, "for this test")
				}
			},
			"compact": func(*rapid.T) {
				if _, err := s.Compact(context.Background(), CompactOptions{}); err != nil {
					rt.Fatal(err)
				}
			},
			"reopen": func(*rapid.T) {
				mustClose(t, s)
				s = mustOpen(t, o)
			},
			"kill": func(*rapid.T) {
				o.private.fs = fs.CrashClone(vfs.CrashOptions{KeepAll: true})
				mustClose(t, s)
				fs = o.private.fs.(*vfs.Mem)
				s = mustOpen(t, o)
			},
			"rebuild": func(*rapid.T) {
				mustClose(t, s)
				removeAll(t, fs, indexDir)
				s = mustOpen(t, o)
			},
			"": func(*rapid.T) {
				mustFlush(t, s)
				wantCounts(rt, s)
			},
		})
		mustClose(t, s)
	})
}

// TestQuotaSheds: what would pass the quota is shed, says why, and is charged
// nothing; the other tenant is not concerned.
func TestQuotaSheds(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	a, b := tenantSpace(t, s, "a"), tenantSpace(t, s, "b")
	if err := s.SetQuota("a", -1); !errors.Is(err, ErrInvalid) {
		t.Errorf("a negative quota: %v", err)
	}
	if err := s.SetQuota("a", 60*kib); err != nil {
		t.Fatal(err)
	}
	mustPut(t, a, blockOf(1, 0, 20_000)) // 6 pages with the header
	mustPut(t, a, blockOf(2, 0, 20_000))
	r := putOne(a, blockOf(3, 0, 20_000))
	if r.Status != StatusShed || !errors.Is(r.Err, ErrShed) {
		t.Fatalf("past the quota: %v %v", r.Status, r.Err)
	}
	for _, word := range []string{`"a"`, "61440", "quota"} {
		if !strings.Contains(r.Err.Error(), word) {
			t.Errorf("%q does not name %s", r.Err, word)
		}
	}
	if r := putOne(a, blockOf(4, 0, 64<<10)); r.Status != StatusShed || !strings.Contains(r.Err.Error(), "by itself") {
		t.Errorf("larger than the quota: %v %v", r.Status, r.Err)
	}
	mustPut(t, b, blockOf(3, 0, 20_000))
	u := s.TenantUse("a")
	if u.StoredBytes > u.QuotaBytes || u.Blocks != 2 || u.ShedBlocks != 2 || u.TrimmedBlocks != 0 {
		t.Errorf("use %+v", u)
	}
	if got := a.Use(); got.Blocks != 2 || got.StoredBytes != u.StoredBytes || !got.Complete {
		t.Errorf("use of the namespace %+v, of the tenant %+v", got, u)
	}
	mustFlush(t, s)
	wantCounts(t, s)
	if all := s.Tenants(); len(all) != 2 || all[0].Tenant != "a" || all[1].Tenant != "b" || all[1].QuotaBytes != 0 {
		t.Errorf("tenants %+v", all)
	}
	if u := s.TenantUse("nobody"); u != (TenantUse{Tenant: "nobody"}) {
		t.Errorf("a tenant that is not there: %+v", u)
	}
	// A cache goes on: room is made for what was shed.
	s.trimTenants(context.Background())
	mustPut(t, a, blockOf(3, 0, 20_000))
	wantStatus(t, a, 1, 20_000, StatusMiss)
	wantBlock(t, a, 2, 0, 20_000)
	wantBlock(t, b, 3, 0, 20_000)
}

// TestQuotaTrims: from 95 % on the tenant's oldest blocks go until it is at
// 90 %, but for leased ones; they stay gone over a rebuild; nobody else's do.
func TestQuotaTrims(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	s := mustOpen(t, o)
	a, b := tenantSpace(t, s, "a"), tenantSpace(t, s, "b")
	const size, blocks = 20_000, 60
	for id := range blocks {
		mustPut(t, a, blockOf(id, 0, size))
		mustPut(t, b, blockOf(id, 7, size))
	}
	mustFlush(t, s)
	stored := s.TenantUse("a").StoredBytes
	lease, err := a.Match(context.Background(), [][]byte{hashOf(1)})
	if err != nil || lease.Blocks() != 1 {
		t.Fatalf("lease: %v %v", lease, err)
	}
	defer lease.Release()
	if err := s.SetQuota("a", stored); err != nil {
		t.Fatal(err)
	}
	if !s.trimTenants(context.Background()) {
		t.Error("not all could be trimmed")
	}
	u := s.TenantUse("a")
	if u.StoredBytes > stored/10*9 || u.StoredBytes < stored/10*8 || u.TrimmedBlocks != blocks-u.Blocks {
		t.Errorf("use %+v of %d bytes before", u, stored)
	}
	s.trimTenants(context.Background()) // nothing more to do
	if again := s.TenantUse("a"); again != u {
		t.Errorf("trimmed again, to %+v", again)
	}
	gone := int(u.TrimmedBlocks)
	check := func(s *Store) {
		t.Helper()
		a, b := tenantSpace(t, s, "a"), tenantSpace(t, s, "b")
		for id := range blocks {
			want := StatusOK
			if id != 1 && id <= gone {
				want = StatusMiss
			}
			wantStatus(t, a, id, size, want)
			wantBlock(t, b, id, 7, size)
		}
		wantCounts(t, s)
	}
	check(s)
	if told := eventsOf(s, EventQuota); len(told) != 1 {
		t.Errorf("events %v", told)
	}
	mustClose(t, s)
	removeAll(t, fs, indexDir)
	s = mustOpen(t, o)
	check(s)
	mustClose(t, s)
}

// TestQuotaNeverExceeded: many writers of two tenants, with shared content and
// drops, while somebody looks all the time; and the store stays a cache.
func TestQuotaNeverExceeded(t *testing.T) {
	checkLeaks(t)
	s := mustOpen(t, liveOptions(vfs.NewMem()))
	quotas := map[string]int64{"a": 400 * kib, "b": 900 * kib}
	for tenant, quota := range quotas {
		if err := s.SetQuota(tenant, quota); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var looker, writers sync.WaitGroup
	looker.Go(func() {
		for {
			for tenant, quota := range quotas {
				if u := s.TenantUse(tenant); u.StoredBytes > quota || u.StoredBytes < 0 || u.Blocks < 0 {
					t.Errorf("%+v", u)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for w := range 6 {
		writers.Go(func() {
			n := tenantSpace(t, s, []string{"a", "b"}[w%2])
			for i := range rounds {
				var batch []PutBlock
				for j := range 3 {
					id := (w*rounds+i)*3 + j
					b := blockOf(id/2, 0, 9000+1000*w) // every other one is equal to the one before
					b.Hash = hashOf(id)
					batch = append(batch, b)
				}
				for _, r := range n.Put(context.Background(), batch, PutOptions{}) {
					if r.Status != StatusOK && r.Status != StatusShed {
						t.Errorf("put: %v %v", r.Status, r.Err)
					}
				}
				if i%7 == 6 {
					n.Drop(context.Background(), [][]byte{batch[0].Hash})
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	looker.Wait()
	mustFlush(t, s)
	mustClose(t, s)
}

// TestQuotaFailedPuts: a put that fails, or that a failed sync takes back, is
// charged nothing in the end.
func TestQuotaFailedPuts(t *testing.T) {
	rig := newFaultyRig(t)
	mustPut(t, rig.n, blockOf(1, 0, 9000))
	mustFlush(t, rig.s)
	rig.failing(vfs.OpSync, "segments")
	r := rig.n.Put(context.Background(), []PutBlock{blockOf(2, 0, 9000)}, PutOptions{Durable: true})[0]
	if r.Status == StatusOK {
		t.Fatal("durable without a sync")
	}
	bad := blockOf(3, 0, 9000)
	bad.Seal = &Seal{}
	putOne(rig.n, bad)
	rig.fail.Store(nil)
	wantCounts(t, rig.s)
	if u := rig.n.Use(); u.Blocks != 1 {
		t.Errorf("use %+v", u)
	}
}

// TestQuotaOldIndexCounted: a store whose index has no counts gets them, and
// loses no block; see TestGoldenStores for the blocks.
func TestQuotaOldIndexCounted(t *testing.T) {
	for name := range goldenLists(t) {
		s := mustOpen(t, goldenOptions(unpackTree(t, name+".tar.gz")))
		wantCounts(t, s)
		if len(s.Tenants()) == 0 {
			t.Errorf("%s: tenants %+v", name, s.Tenants())
		}
		if s.rebuilds != 0 {
			t.Errorf("%s: the index was rebuilt", name)
		}
		mustClose(t, s)
	}
}
