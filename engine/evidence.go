package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// EvidenceOptions says which files of quarantine/ DropEvidence removes. All
// conditions are to hold.
type EvidenceOptions struct {
	// Namespaces and Tenant mean the blocks' namespaces. Files that are not of
	// a block, such as copies of a torn log, are then not meant.
	Namespaces []uint32
	Tenant     *string
	// OlderThan, if not 0, means files that were written that long ago.
	OlderThan time.Duration
	DryRun    bool
}

// EvidenceReport is what DropEvidence removed, or would remove.
type EvidenceReport struct {
	DryRun bool  `json:"dry_run"`
	Files  int   `json:"files"`
	Bytes  int64 `json:"bytes"` // on disk
	Kept   int   `json:"kept"`  // files that were not meant
}

// DropEvidenceDir removes what quarantine keeps in the closed store in dir:
// copies of blocks that were found bad, and of torn logs. Such blocks are out
// of the index already, and stay so. In a dry run nothing in dir is changed.
// Errors: those of Open, ErrInvalid, the context's, those of the file system.
func DropEvidenceDir(ctx context.Context, dir string, o EvidenceOptions) (*EvidenceReport, error) {
	return dropEvidenceDir(ctx, dir, o, privateOptions{})
}

func dropEvidenceDir(ctx context.Context, dir string, o EvidenceOptions, private privateOptions) (r *EvidenceReport, err error) {
	open := workshopOptions(private)
	open.ReadOnly = o.DryRun
	err = inWorkshop(dir, open, func(s *Store) (err error) {
		r, err = s.dropEvidence(ctx, o)
		return err
	})
	return r, err
}

func (s *Store) dropEvidence(ctx context.Context, o EvidenceOptions) (*EvidenceReport, error) {
	f, err := s.newBlockFilter(Selection{Namespaces: o.Namespaces, Tenant: o.Tenant})
	if err != nil {
		return nil, err
	}
	r := &EvidenceReport{DryRun: o.DryRun}
	names, err := s.fs.List(quarantineDir)
	if vfs.IsNotExist(err) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("engine: list %s: %w", quarantineDir, err)
	}
	now := s.o.private.now()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		path := quarantineDir + "/" + name
		i, err := s.fs.Stat(path)
		if err != nil {
			return r, fmt.Errorf("engine: drop evidence: %w", err)
		}
		if !i.IsRegular || !s.evidenceMeant(path, i, o, f, now) {
			r.Kept++
			continue
		}
		if !o.DryRun {
			if err := s.fs.Remove(path); err != nil {
				return r, fmt.Errorf("engine: drop evidence: %w", err)
			}
		}
		r.Files++
		r.Bytes += i.AllocatedBytes
	}
	if o.DryRun || r.Files == 0 {
		return r, nil
	}
	if err := s.fs.SyncDir(quarantineDir); err != nil {
		return r, fmt.Errorf("engine: drop evidence: %w", err)
	}
	held, err := evidenceHeld(s.fs)
	s.count.evidenceBytes.Store(held)
	return r, err
}

func (s *Store) evidenceMeant(path string, i vfs.Info, o EvidenceOptions, f *blockFilter, now time.Time) bool {
	if o.OlderThan != 0 && (i.Modified.IsZero() || now.Sub(i.Modified) < o.OlderThan) {
		return false
	}
	if len(o.Namespaces) == 0 && o.Tenant == nil {
		return true
	}
	namespace, err := s.evidenceNamespace(path)
	if err != nil {
		return false
	}
	_, meant := f.spaces[namespace]
	return meant
}

// evidenceNamespace reads the first line of a block's evidence; see
// keepEvidence.
func (s *Store) evidenceNamespace(path string) (namespace uint32, err error) {
	file, err := s.fs.Open(path, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p := make([]byte, 64)
	n, _ := file.ReadAt(p, 0)
	_, err = fmt.Sscanf(string(p[:n]), "namespace %d ", &namespace)
	return namespace, err
}
