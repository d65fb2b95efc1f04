package canary

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// askChild has a child do the trial. v is the verdict so far.
func (p *Prober) askChild(ctx context.Context, r request, v gpu.Verdict) gpu.Verdict {
	program, f := p.o.program()
	if f == nil {
		f = p.tooMany()
	}
	if f != nil {
		return refuse(v, f)
	}
	folder, err := os.MkdirTemp("", "sealstone-canary-")
	if err != nil {
		return refuse(v, failed("make a working directory for the child", err))
	}
	r.LogDir = folder
	r.Nonce, r.Scratch = nonce(), "sealstone-canary-"+nonce()[:16]+".tmp"
	c, err := start(program, p.o.childEnv(folder), r, p.grace)
	if err != nil {
		_ = os.RemoveAll(folder)
		return refuse(v, failed("start the child "+program[0], err))
	}
	// A child ends by itself, and tells a trial that is only slow from one that
	// hangs. One that says nothing in time hangs as a whole.
	said, asked := c.ask(ctx, r, time.Now().Add(p.o.Timeout+p.grace))
	a, err := parseAnswer(said, r.Nonce)
	// Its last words are complete only once it ended.
	ended := c.finish(asked != nil || a.hung)
	v = judgeAnswer(v, a, err, asked, c.lastWords)
	p.settle(c, ended, &v)
	return p.checkPlace(ctx, r, v)
}

// childEnv is the environment of the child: this process', with the log of
// cuFile in a folder that is removed.
func (o Options) childEnv(folder string) []string {
	env := append(os.Environ(), "CUFILE_LOGFILE_PATH="+filepath.Join(folder, "cufile.log"))
	return append(env, o.Env...)
}

func nonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
