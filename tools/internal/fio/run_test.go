package fio

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func readJob(t *testing.T) Job {
	return Job{
		Work: RandomRead, File: filepath.Join(t.TempDir(), "fio.data"), FileBytes: 1 << 20, BlockBytes: 4 << 10,
		Engine: EngineUring, Depth: 8, Jobs: 2,
	}
}

func TestFind(t *testing.T) {
	fake(t, answersVersion)
	tool, err := Find(t.Context())
	if err != nil || tool.Version != "fio-3.33" {
		t.Errorf("%+v, %v", tool, err)
	}
	fake(t, "echo hello\n")
	if _, err := Find(t.Context()); !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), "hello") {
		t.Errorf("another program of that name: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context()); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "apt install fio") {
		t.Errorf("no fio: %v", err)
	}
}

func TestArguments(t *testing.T) {
	base := Job{Work: RandomRead, File: "f", FileBytes: 1 << 20, BlockBytes: 4096, Engine: EngineUring, Depth: 8, Jobs: 2}
	for name, c := range map[string]struct {
		change      func(*Job)
		has, hasNot []string
	}{
		"uring": {func(*Job) {},
			[]string{"--ioengine=io_uring", "--numjobs=2", "--iodepth=4", "--size=524288", "--offset_increment=524288", "--direct=1"},
			[]string{"--end_fsync=1", "--time_based"}},
		"psync": {func(j *Job) { j.Engine, j.Jobs = EnginePsync, 1 },
			[]string{"--numjobs=8", "--iodepth=1", "--size=131072"}, nil},
		"write": {func(j *Job) { j.Work = SequentialWrite },
			[]string{"--rw=write", "--end_fsync=1"}, nil},
		"buffered": {func(j *Job) { j.Buffered = true }, []string{"--direct=0"}, []string{"--direct=1"}},
		"runtime":  {func(j *Job) { j.Runtime = time.Second }, []string{"--time_based", "--runtime=1000ms"}, nil},
		"at most":  {func(j *Job) { j.RuntimeMax = time.Second }, []string{"--runtime=1000ms"}, []string{"--time_based"}},
	} {
		j := base
		c.change(&j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := j.arguments()
		for _, a := range c.has {
			if !slices.Contains(got, a) {
				t.Errorf("%s: no %s in %v", name, a, got)
			}
		}
		for _, a := range c.hasNot {
			if slices.Contains(got, a) {
				t.Errorf("%s: %s in %v", name, a, got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for name, change := range map[string]func(*Job){
		"work":         func(j *Job) { j.Work = "trim" },
		"engine":       func(j *Job) { j.Engine = "sg" },
		"file":         func(j *Job) { j.File = "" },
		"depth":        func(j *Job) { j.Depth = 1 },
		"jobs":         func(j *Job) { j.Jobs = 0 },
		"parts":        func(j *Job) { j.FileBytes = 3 * j.BlockBytes },
		"empty":        func(j *Job) { j.FileBytes = 0 },
		"runtime":      func(j *Job) { j.Runtime = -1 },
		"many threads": func(j *Job) { j.Engine, j.Jobs, j.Depth = EnginePsync, 1, 257 },
	} {
		j := readJob(t)
		change(&j)
		if err := j.Check(); !errors.Is(err, ErrJob) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (&Tool{Path: "/nonexistent"}).Run(t.Context(), j); !errors.Is(err, ErrJob) {
			t.Errorf("%s: run: %v", name, err)
		}
	}
}

func TestRun(t *testing.T) {
	fake(t, answersVersion+`cat %d/read.json`)
	tool, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := tool.Run(t.Context(), readJob(t)); err != nil || r.Bytes != 512<<20 {
		t.Errorf("%+v, %v", r, err)
	}
	// The file of a write is new.
	j := readJob(t)
	j.Work = SequentialWrite
	if err := os.WriteFile(j.File, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Run(t.Context(), j); !errors.Is(err, ErrOutput) { // the report is that of a read
		t.Error(err)
	}
	if _, err := os.Stat(j.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file is there: %v", err)
	}
}

func TestRunFails(t *testing.T) {
	fake(t, answersVersion+`echo "engine  io_uring not loadable" >&2; exit 1`)
	tool, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Run(t.Context(), readJob(t)); err == nil || !strings.Contains(err.Error(), "engine io_uring not loadable") {
		t.Errorf("the reason is lost: %v", err)
	}
	if err := tool.Fill(t.Context(), readJob(t)); err == nil {
		t.Error("filled by a program that fails")
	}
	fake(t, answersVersion+`while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`)
	if tool, err = Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := tool.Run(ctx, readJob(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program without end: %v", err)
	}
}

func TestLimitedOutput(t *testing.T) {
	var l limited
	for range 3 {
		if n, err := l.Write(make([]byte, outputBytesMax/2+1)); n != outputBytesMax/2+1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if l.buf.Len() != outputBytesMax {
		t.Errorf("%d bytes kept", l.buf.Len())
	}
}

// TestBest: the fake is fastest with libaio and two threads and has no
// io_uring.
func TestBest(t *testing.T) {
	fake(t, answersVersion+`
case "$*" in
*io_uring*) echo "no io_uring here" >&2; exit 1;;
*libaio*numjobs=2*) rate=3000000;;
*libaio*) rate=2000000;;
*) rate=1000000;;
esac
echo '{"jobs":[{"read":{"io_bytes":1048576,"runtime":1,"bw_bytes":'$rate'}}]}'`)
	tool, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best, refused, err := tool.Best(t.Context(), readJob(t), time.Second)
	if err != nil || best.Engine != EngineLibaio || best.Jobs != 2 || best.RuntimeMax != 0 {
		t.Errorf("best is %+v, %v", best, err)
	}
	if !strings.Contains(refused[EngineUring], "no io_uring here") || len(refused) != 1 {
		t.Errorf("refused: %v", refused)
	}
	fake(t, answersVersion+`echo "nothing works" >&2; exit 1`)
	if tool, err = Find(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tool.Best(t.Context(), readJob(t), time.Second); err == nil || !strings.Contains(err.Error(), "nothing works") {
		t.Errorf("no engine: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := tool.Best(ctx, readJob(t), time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestRealFio fills a file, tries the engines and reads every block once.
func TestRealFio(t *testing.T) {
	tool, err := Find(t.Context())
	if err != nil {
		t.Skip("there is no fio here: ", err)
	}
	j := readJob(t)
	if err := tool.Fill(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(j.File); err != nil || st.Size() != j.FileBytes {
		t.Fatalf("the file: %v, %v", st, err)
	}
	best, refused, err := tool.Best(t.Context(), j, 100*time.Millisecond)
	if err != nil {
		t.Fatal(err, refused)
	}
	r, err := tool.Run(t.Context(), best)
	if err != nil || r.Bytes != j.FileBytes || r.Latency[99] <= 0 {
		t.Errorf("%+v: %+v, %v", best, r, err)
	}
	j.Work, j.Engine, j.Jobs = SequentialWrite, EnginePsync, 1
	if r, err = tool.Run(t.Context(), j); err != nil || r.Bytes != j.FileBytes {
		t.Errorf("write: %+v, %v", r, err)
	}
}
