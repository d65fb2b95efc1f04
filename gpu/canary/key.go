package canary

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/hostinfo"
)

// placeKey gathers all that a verdict on this GPU and the request's directory
// depends on. Parent and child do it each for itself: what differs between the
// two was not tried for the parent. An error means that a part cannot be told,
// and so that a change of it would not be seen.
func placeKey(d *driver.Driver, f *driver.CuFile, uuid string, r request) (gpu.VerdictKey, error) {
	k := gpu.VerdictKey{GPU: uuid, Trial: r.trialText(), Kernel: hostinfo.KernelRelease(), BootID: hostinfo.BootID()}
	if k.Kernel == "" || k.BootID == "" {
		return k, fmt.Errorf("the kernel release or the boot id cannot be read from /proc")
	}
	var err error
	if k.CUDA, err = d.Version(); err != nil {
		return k, fmt.Errorf("version of the driver: %w", err)
	}
	if k.CuFile, err = f.Version(); err != nil {
		return k, fmt.Errorf("version of cuFile: %w", err)
	}
	fsys := system(r.Root)
	k.Driver = strings.Join([]string{firstLine(fsys, "proc/driver/nvidia/version"), firstLine(fsys, "proc/driver/nvidia-fs/version")}, "; ")
	k.CuFileConfig = configDigest(fsys, os.Environ())
	if k.Libraries, err = libraries(r.CUDAPath, r.CuFilePath); err != nil {
		return k, err
	}
	return k, placeOf(r.Dir, &k)
}

// libraries names the files that libcuda and libcufile were loaded from: a
// version number of cuFile leaves out its last part, and releases differ in it.
// An empty path is the library's usual name.
func libraries(cudaPath, cuFilePath string) (string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return "", err
	}
	found := append(mappedLibrary(string(maps), cudaPath, "libcuda.so"), mappedLibrary(string(maps), cuFilePath, "libcufile.so")...)
	for i, l := range found {
		name, _, _ := strings.Cut(l, " ")
		if info, err := os.Stat(name); err == nil {
			found[i] += fmt.Sprintf(" %d %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.999999999"))
		}
	}
	return strings.Join(found, "; "), nil
}

// mappedLibrary picks a library out of /proc/self/maps, as "PATH DEVICE:INODE":
// that of this path, or, for no path or a bare name, those whose name begins
// with usual or is that name. Where a process has several copies, only a path
// tells which one is used.
func mappedLibrary(maps, path, usual string) []string {
	exact := ""
	if strings.Contains(path, "/") {
		exact = path
		if real, err := filepath.EvalSymlinks(path); err == nil {
			exact = real
		}
	} else if path != "" {
		usual = path
	}
	var found []string
	for line := range strings.Lines(maps) {
		// ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH
		f := strings.Fields(line)
		if len(f) < 6 || !strings.HasPrefix(f[5], "/") {
			continue
		}
		if exact != "" && f[5] == exact || exact == "" && strings.HasPrefix(filepath.Base(f[5]), usual) {
			found = append(found, f[5]+" "+f[3]+":"+f[4])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// deviceText is st_dev as people write it.
func deviceText(major, minor uint32) string { return fmt.Sprintf("%d:%d", major, minor) }
