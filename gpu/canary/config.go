package canary

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// configBytesMax bounds the cufile.json that is read.
const configBytesMax = 1 << 20

// quietVariables decide only where libcufile writes its log.
var quietVariables = []string{"CUFILE_LOGFILE_PATH", "CUFILE_LOGGING_LEVEL", "CUFILE_LOG_DIR"}

// configDigest is a digest of what configures libcufile beside its calls: the
// file that CUFILE_ENV_PATH_JSON names, else /etc/cufile.json, and all
// variables CUFILE_… of the environment (GPUDirect Storage API reference,
// "configuration"). Those that only steer the log do not count.
func configDigest(fsys fs.FS, environ []string) string {
	h := sha256.New()
	var vars []string
	file := ""
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if name == "CUFILE_ENV_PATH_JSON" {
			file = value
		}
		if strings.HasPrefix(name, "CUFILE_") && !slices.Contains(quietVariables, name) {
			vars = append(vars, v)
		}
	}
	slices.Sort(vars)
	// Lengths stand before texts, so that no two lists give the same bytes.
	for _, v := range slices.Compact(vars) {
		fmt.Fprintf(h, "%d:%s", len(v), v)
	}
	content, err := readConfig(fsys, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprint(h, "absent")
	case err != nil:
		fmt.Fprintf(h, "unreadable:%v", err)
	default:
		fmt.Fprintf(h, "file:%d:%s", len(content), content)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func readConfig(fsys fs.FS, file string) ([]byte, error) {
	name := "etc/cufile.json"
	if file != "" {
		fsys, name = os.DirFS(filepath.Dir(file)), filepath.Base(file)
	}
	// What is no file (a pipe) might never answer.
	if info, err := fs.Stat(fsys, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, configBytesMax))
}
