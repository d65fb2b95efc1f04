package server

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// words splits what a fuzzer made into arguments: each is a length of 2 bytes,
// then as many bytes; 0xffff is one that was lost.
func words(in []byte) *resp.Command {
	cmd := &resp.Command{}
	for len(in) >= 2 {
		n := binary.LittleEndian.Uint16(in)
		in = in[2:]
		if n == 0xffff {
			cmd.Lost = append(cmd.Lost, resp.Lost{Arg: len(cmd.Args), Bytes: 1 << 20, Reason: resp.ReasonMemory})
			cmd.Args = append(cmd.Args, nil)
			continue
		}
		k := min(int(n), len(in))
		cmd.Args = append(cmd.Args, in[:k:k])
		in = in[k:]
	}
	return cmd
}

func packed(args ...string) []byte {
	var out []byte
	for _, a := range args {
		out = append(binary.LittleEndian.AppendUint16(out, uint16(len(a))), a...)
	}
	return out
}

// FuzzKVArguments: whatever the arguments of KV.OPEN, KV.PUT and KV.GET are,
// they are read or refused with one line; what was read is within the limits,
// and a seal that was understood is written as it came.
func FuzzKVArguments(f *testing.F) {
	seal := engine.SealOf([]byte("some"), []byte("planes"))
	f.Add(packed("durable,timeout=5", "1", hashOf(1), hashOf(0), string(wire.AppendSeal(nil, &seal)), "2", "k", "B", "some", "v", "B", "planes"))
	f.Add(packed("seal", "2", hashOf(1), "0", hashOf(2), "1", "k", "0", "10", "B", ""))
	f.Add(packed("", "1", hashOf(1), "1", "k", "0", "0", "S", "1:0:10"))
	f.Add(packed(`{"model":"m","planes":[{"name":"k"}]}`, "TENANT", "t", "REQUIREMATCH", "COMPRESSION", "s2"))
	f.Add(packed("", "4096"))
	f.Add(append(packed("", "1", hashOf(1), "", "", "1", "k", "B"), 0xff, 0xff))
	f.Fuzz(func(t *testing.T, in []byte) {
		cmd := words(in)
		c := &conn{}
		put := newKVArgs(cmd, 0)
		r := c.parsePut(put)
		checkProblem(t, put)
		if put.problem == "" {
			checkPut(t, r, len(cmd.Args))
		}
		get := newKVArgs(cmd, 0)
		g := c.parseGet(get)
		checkProblem(t, get)
		if get.problem == "" && (len(g.blocks) < 1 || len(g.blocks) > kvBlocksMax) {
			t.Fatalf("%d blocks", len(g.blocks))
		}
		if len(cmd.Args) > 0 {
			if _, problem := parseOpen(cmd.Args); strings.ContainsAny(problem, "\r\n") {
				t.Logf("the writer takes line ends out of %q", problem)
			}
		}
	})
}

func checkProblem(t *testing.T, a *kvArgs) {
	if a.problem != "" && !strings.HasPrefix(a.problem, "ERR argument ") {
		t.Fatalf("problem %q", a.problem)
	}
	if a.problem == "" && a.left() != 0 {
		t.Fatalf("%d arguments were not read", a.left())
	}
}

func checkPut(t *testing.T, r *kvPutRequest, args int) {
	if len(r.blocks) < 1 || len(r.blocks) > kvBlocksMax || 4*len(r.blocks) > args {
		t.Fatalf("%d blocks of %d arguments", len(r.blocks), args)
	}
	for i, b := range r.blocks {
		if _, lost := r.lost[i]; lost {
			continue
		}
		if len(b.Planes) == 0 {
			t.Fatal("a block without planes")
		}
		if b.Seal == nil {
			continue
		}
		again, err := wire.ParseSeal(wire.AppendSeal(nil, b.Seal))
		if err != nil || !reflect.DeepEqual(again, b.Seal) {
			t.Fatalf("%+v is read again as %+v, %v", b.Seal, again, err)
		}
	}
}
