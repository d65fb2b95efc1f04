package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Compat is what cuFile did when it was opened as it is configured, in a process
// of its own: settings belong to the process, and a store wants them strict. In
// its compatibility mode it reads through host memory, so this says nothing
// about the direct path; it shows that library, layouts and counters are those
// that this program knows.
type Compat struct {
	Version    int                `json:"version"`
	Properties *driver.Properties `json:"properties,omitempty"`
	Settings   map[string]string  `json:"settings"`
	// Read is "equal", or what went wrong.
	Read string `json:"read"`
	// Counters are what the read added to the route counters of the GPU, or
	// CountersReason why there are none.
	Counters       *driver.RouteCounters `json:"counters,omitempty"`
	CountersReason string                `json:"counters_reason,omitempty"`
	// Failed is the call after which nothing more was tried.
	Failed string `json:"failed,omitempty"`
}

// compatChild is the argument that makes the program the child of this step.
const compatChild = "cufile-child"

// compatBytes are read from a file by cuFile.
const compatBytes = 1 << 20

// childRequest is what the child reads from standard input.
type childRequest struct {
	Dir       string         `json:"dir"`
	Libraries driver.Options `json:"libraries"`
	Ordinal   int            `json:"ordinal"`
}

// runCompat runs the child in dir, where cuFile may leave its log.
func runCompat(ctx context.Context, self []string, req childRequest) (*Compat, error) {
	if len(self) == 0 {
		return nil, errors.New("no program for the child")
	}
	in, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self[0], append(slices.Clone(self[1:]), compatChild)...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = req.Dir, bytes.NewReader(in), time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("child: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	c := new(Compat)
	if err := json.Unmarshal(out, c); err != nil {
		return nil, fmt.Errorf("child: its answer: %w", err)
	}
	return c, nil
}

// answerCompat is the child: it reads a request and writes a Compat.
func answerCompat(in io.Reader, out io.Writer) error {
	var r childRequest
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return err
	}
	c := &Compat{Settings: map[string]string{}}
	if err := c.try(r); err != nil {
		c.Failed = err.Error()
	}
	return json.NewEncoder(out).Encode(c)
}

// settingsAsked are those that decide about the path, by their names in
// cufile.json.
var settingsAsked = map[string]driver.BoolParameter{
	"allow_compat_mode":    driver.AllowCompatMode,
	"force_compat_mode":    driver.ForceCompatMode,
	"use_pci_p2pdma":       driver.UsePCIP2PDMA,
	"vanilla_posix_io":     driver.PosixIOMode,
	"gds_fallback_io":      driver.FallbackIO,
	"force_odirect_mode":   driver.ForceODirectMode,
	"skip_topology_detect": driver.SkipTopologyDetection,
}

func (c *Compat) try(r childRequest) error {
	d, err := driver.Open(r.Libraries)
	if err != nil {
		return err
	}
	f, err := d.CuFile()
	if err != nil {
		return err
	}
	if c.Version, err = f.Version(); err != nil {
		return err
	}
	info, err := d.Device(r.Ordinal)
	if err != nil {
		return err
	}
	ctx, err := d.RetainPrimary(r.Ordinal)
	if err != nil {
		return err
	}
	// Without the counters everything else still can be seen.
	counting := errors.Join(f.SetStatsLevel(3), f.SetStringParameter(driver.LogDir, r.Dir))
	if err := f.DriverOpen(ctx); err != nil {
		return err
	}
	counting = errors.Join(counting, f.StatsStart())
	for name, p := range settingsAsked {
		on, err := f.Parameter(p)
		c.Settings[name] = fmt.Sprint(on)
		if err != nil {
			c.Settings[name] = err.Error()
		}
	}
	if p, err := f.Properties(); err == nil {
		c.Properties = &p
	}
	c.Read = "equal"
	if err := readByCuFile(f, ctx, r.Dir); err != nil {
		c.Read = err.Error()
	}
	if n, err := f.RouteCounters(info.UUID); err == nil {
		c.Counters = &n
	} else {
		c.CountersReason = errors.Join(counting, err).Error()
	}
	// A process that ends with statistics on may crash at its exit.
	return errors.Join(f.StatsStop(), f.DriverClose(ctx))
}

// readByCuFile reads a fresh file into device memory and compares.
func readByCuFile(f *driver.CuFile, c *driver.Context, dir string) (err error) {
	path := filepath.Join(dir, "cufile.bin")
	data := make([]byte, compatBytes)
	fill(data)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	defer os.Remove(path)
	file, err := openDirect(path)
	if err != nil {
		return err
	}
	defer file.Close()
	b, err := newBench(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	dev, err := b.device(compatBytes)
	if err != nil {
		return err
	}
	back, err := b.pinned(compatBytes)
	if err != nil {
		return err
	}
	h, err := f.HandleRegister(c, int(file.Fd()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.HandleDeregister(c, h)) }()
	n, err := f.Read(c, h, dev, compatBytes, 0, 0)
	if err != nil {
		return err
	}
	if n != compatBytes {
		return fmt.Errorf("%d of %d bytes were read", n, compatBytes)
	}
	if err := b.toHost(back, dev); err != nil {
		return err
	}
	if !bytes.Equal(back, data) {
		return errors.New("the read succeeded, and the bytes in device memory are others than those of the file")
	}
	return nil
}
