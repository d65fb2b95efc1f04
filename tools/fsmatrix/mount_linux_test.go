package fsmatrix

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// needRoot skips where nothing can be mounted.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: file systems can not be mounted")
	}
}

// command runs a program; its failure is the test's.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out))
}

func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
}

// mount mounts a file system on a directory of its own for the length of the
// test. One that the kernel does not know skips the test.
func mount(t *testing.T, source, kind, data string) string {
	t.Helper()
	return mountUntil(t, 0, source, kind, data)
}

// mountUntil is mount with the flags of the unmount at the end.
func mountUntil(t *testing.T, flags int, source, kind, data string) string {
	t.Helper()
	at := publicDir(t)
	if err := unix.Mount(source, at, kind, 0, data); err != nil {
		if err == unix.ENODEV {
			t.Skipf("the kernel has no %s", kind)
		}
		t.Fatalf("mount %s as %s with %q: %v", source, kind, data, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, flags); err != nil {
			t.Errorf("unmount %s (%s): %v", at, kind, err)
			_ = unix.Unmount(at, unix.MNT_DETACH)
		}
	})
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	return at
}

// publicDir is a temporary directory that other users may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fsmatrix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Errorf("%s is not empty: %v", dir, err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func tmpfs(t *testing.T, sizeMiB int64) string {
	t.Helper()
	return mount(t, "tmpfs", "tmpfs", fmt.Sprintf("size=%dm,mode=755", sizeMiB))
}

// loop makes a block device out of a sparse file in dir.
func loop(t *testing.T, dir string, sizeBytes int64, sectorBytes int) string {
	t.Helper()
	needProgram(t, "losetup")
	image := filepath.Join(dir, "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(sizeBytes); err != nil {
		t.Fatal(err)
	}
	return attach(t, image, sectorBytes)
}

// attach makes a block device out of an image.
func attach(t *testing.T, image string, sectorBytes int) string {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", "--sector-size", fmt.Sprint(sectorBytes), image).CombinedOutput()
	if err != nil {
		t.Skipf("no loop device with sectors of %d bytes: %v: %s", sectorBytes, err, bytes.TrimSpace(out))
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() { command(t, "losetup", "--detach", dev) })
	return dev
}

// makeFS puts a file system on a device.
func makeFS(t *testing.T, kind, dev string) {
	t.Helper()
	needProgram(t, "mkfs."+kind)
	args := map[string][]string{
		"ext4":  {"-q", "-F", dev},
		"xfs":   {"-q", "-f", dev},
		"btrfs": {"-q", "-f", dev},
	}
	command(t, "mkfs."+kind, args[kind]...)
}

// imageBytes: XFS makes no file system below 300 MiB. The image is sparse.
const imageBytes = 512 * mib

// diskFS is a file system on a loop device over memory.
func diskFS(t *testing.T, kind string, sectorBytes int) string {
	t.Helper()
	needRoot(t)
	needProgram(t, "mkfs."+kind)
	dev := loop(t, tmpfs(t, imageBytes/mib+64), imageBytes, sectorBytes)
	makeFS(t, kind, dev)
	return mount(t, dev, kind, "")
}

// overlayFS lays an overlay over upper.
func overlayFS(t *testing.T, upper string) string {
	t.Helper()
	for _, name := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(upper, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return mount(t, "overlay", "overlay", fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", upper))
}

// zramFS is ext4 on compressed memory, if nobody uses the device.
func zramFS(t *testing.T) string {
	t.Helper()
	needRoot(t)
	const control = "/sys/block/zram0/"
	size, err := os.ReadFile(control + "disksize")
	if err != nil {
		t.Skipf("no zram: %v", err)
	}
	if strings.TrimSpace(string(size)) != "0" {
		t.Skip("zram0 is in use")
	}
	if err := os.WriteFile(control+"disksize", fmt.Appendf(nil, "%d", imageBytes), 0o600); err != nil {
		t.Skipf("zram0 can not be set up: %v", err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(control+"reset", []byte("1"), 0o600); err != nil {
			t.Errorf("zram0 stays set up: %v", err)
		}
	})
	makeFS(t, "ext4", "/dev/zram0")
	return mount(t, "/dev/zram0", "ext4", "")
}
