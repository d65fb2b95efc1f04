package canary

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealstone/sealstone/gpu"
)

// cacheVersion is that of a kept verdict's file.
const cacheVersion = 1

// cacheBytesMax bounds it.
const cacheBytesMax = 256 << 10

// cacheFile is a kept verdict. The sum covers the verdict's own bytes: JSON
// that was cut or changed by accident may still be JSON.
type cacheFile struct {
	Version int             `json:"format_version"`
	SHA256  string          `json:"sha256"`
	Verdict json.RawMessage `json:"verdict"`
}

// errOtherVersion says that a kept verdict is of another release.
var errOtherVersion = errors.New("of another version")

func encodeVerdict(v gpu.Verdict) ([]byte, error) {
	v.Cached = false
	inner, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(inner)
	b, err := json.Marshal(cacheFile{cacheVersion, hex.EncodeToString(sum[:]), inner})
	if err != nil {
		return nil, err
	}
	if len(b) >= cacheBytesMax {
		return nil, fmt.Errorf("%d bytes, the most are %d", len(b), cacheBytesMax)
	}
	return append(b, '\n'), nil
}

// decodeVerdict reads a kept verdict. Whatever is not as encodeVerdict wrote it
// is an error, and no verdict.
func decodeVerdict(b []byte) (gpu.Verdict, error) {
	var none gpu.Verdict
	if len(b) > cacheBytesMax {
		return none, fmt.Errorf("%d bytes, the most are %d", len(b), cacheBytesMax)
	}
	var f cacheFile
	if err := json.Unmarshal(b, &f); err != nil {
		return none, err
	}
	if f.Version != cacheVersion {
		return none, fmt.Errorf("%w: %d, this program writes %d", errOtherVersion, f.Version, cacheVersion)
	}
	if sum := sha256.Sum256(f.Verdict); f.SHA256 != hex.EncodeToString(sum[:]) {
		return none, errors.New("its sum does not match")
	}
	var v gpu.Verdict
	if err := json.Unmarshal(f.Verdict, &v); err != nil {
		return none, err
	}
	if err := checkVerdict(&v); err != nil {
		return none, err
	}
	if !lasting(v) {
		return none, fmt.Errorf("a verdict that is not kept: %s", v.Name)
	}
	return v, nil
}

// cacheName is where the verdict of a pair is kept.
func (p *Prober) cacheName(uuid, dir string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%d:%s%s", len(uuid), uuid, dir)))
	return filepath.Join(p.o.CacheDir, "gpu-canary-"+hex.EncodeToString(sum[:12])+".json")
}

// load finds a kept verdict that still holds. notes say why one does not.
func (p *Prober) load(uuid, dir string, key gpu.VerdictKey) (v *gpu.Verdict, notes []string) {
	if p.o.CacheDir == "" || p.o.Fresh {
		return nil, nil
	}
	b, err := readFile(p.cacheName(uuid, dir), cacheBytesMax)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var kept gpu.Verdict
	if err == nil {
		kept, err = decodeVerdict(b)
	}
	switch {
	case err != nil:
		return nil, []string{clip(fmt.Sprintf("the kept verdict is not used: %s: %v", p.cacheName(uuid, dir), err))}
	case kept.Key != key || kept.Dir != dir:
		return nil, []string{clip("the kept verdict is not used, for it was another place: " + differingKey(key, kept.Key))}
	}
	kept.Cached = true
	return &kept, nil
}

// save keeps a verdict. It replaces the old one as a whole or not at all.
func (p *Prober) save(uuid, dir string, v gpu.Verdict) error {
	if p.o.CacheDir == "" {
		return nil
	}
	b, err := encodeVerdict(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.o.CacheDir, 0o700); err != nil {
		return err
	}
	return replaceFile(p.cacheName(uuid, dir), b)
}

// replaceFile writes a file beside and renames it. What a power cut leaves
// behind is the old file, the new one, or one that its sum gives away.
func replaceFile(name string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// readFile reads a file of at most so many bytes, and nothing that is no file.
func readFile(name string, most int64) ([]byte, error) {
	if info, err := os.Lstat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}
