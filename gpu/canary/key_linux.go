package canary

import (
	"fmt"
	"os"

	"github.com/sealstone/sealstone/gpu"
	"golang.org/x/sys/unix"
)

// placeOf fills in what the directory stands on. It reads the real machine: a
// mount is known only to the kernel.
func placeOf(dir string, k *gpu.VerdictKey) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", dir, err)
	}
	major, minor := unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev))
	k.Device, k.DeviceSerial = deviceText(major, minor), deviceSerial(system(""), major, minor)
	fdinfo, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return err
	}
	id, err := parseMountID(fdinfo)
	if err != nil {
		return fmt.Errorf("mount of %s: %w", dir, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	m, err := findMount(mounts, id)
	if err != nil {
		return fmt.Errorf("mount of %s: %w", dir, err)
	}
	k.MountID, k.Mount, k.Filesystem = m.id, m.text, m.filesystem
	return nil
}
