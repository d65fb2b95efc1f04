package engine

import (
	"io"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// probeFile keeps the figures of the last probe; docs/format/probe.md. It may
// be lost, damaged or old at any time: then speed is measured again.
const probeFile = "PROBE"

// readProbe reads the kept report, or returns nil.
func (s *Store) readProbe() *disk.ProbeReport { return readProbe(s.fs) }

func readProbe(fsys vfs.FS) *disk.ProbeReport {
	info, err := fsys.Stat(probeFile)
	if err != nil || !info.IsRegular || info.SizeBytes > disk.MaxProbeBytes {
		return nil
	}
	f, err := fsys.Open(probeFile, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	p := make([]byte, info.SizeBytes)
	if n, err := f.ReadAt(p, 0); n < len(p) || err != nil && err != io.EOF {
		return nil
	}
	r, err := disk.DecodeProbe(p)
	if err != nil {
		return nil
	}
	return r
}

// keepProbe keeps a report that has figures and says something new. Failure
// costs a measurement at the next Open, so it is passed over.
func (s *Store) keepProbe(stored, r *disk.ProbeReport) {
	if s.o.ReadOnly || !measured(r) || r.SameGround(stored) && r.Chosen == stored.Chosen {
		return
	}
	p, err := disk.EncodeProbe(r)
	if err != nil {
		return
	}
	if err := s.replaceQuietly(probeFile, p); err != nil {
		s.o.Logger.Warn("sealstone: the probe's figures are not kept", "dir", s.dir, "err", err)
	}
}

func measured(r *disk.ProbeReport) bool {
	for _, p := range r.Paths {
		if p.ReadMiBs > 0 {
			return true
		}
	}
	return false
}

// replaceQuietly puts the bytes in the place of a file, whole. Its name need
// not be durable: it is for files that may be lost.
func (s *Store) replaceQuietly(name string, p []byte) error {
	tmp := name + ".tmp"
	f, err := s.fs.Open(tmp, vfs.Create|vfs.Trunc)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	if err == nil {
		err = f.Datasync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = s.fs.Rename(tmp, name)
	}
	if err != nil {
		_ = s.fs.Remove(tmp) // a full disk needs its bytes
	}
	return err
}
