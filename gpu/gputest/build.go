//go:build cgo && linux

package gputest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>

typedef unsigned long long devptr;

typedef struct {
	int (*command)(const char *, char *, size_t);
	int (*peek)(devptr, void *, size_t);
	int (*poke)(devptr, const void *, size_t);
	void (*guard)(devptr, size_t, int);
	int (*set_current)(void *);
	int (*get_current)(void **);
	int (*retain)(void **, int);
	int (*release)(int);
} control;

static control *control_open(const char *path) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	control *c = lib ? calloc(1, sizeof *c) : NULL;
	if (!c) return NULL;
	*(void **)&c->command = dlsym(lib, "fake_gpu_command");
	*(void **)&c->peek = dlsym(lib, "fake_gpu_peek");
	*(void **)&c->poke = dlsym(lib, "fake_gpu_poke");
	*(void **)&c->guard = dlsym(lib, "fake_gpu_guard");
	*(void **)&c->set_current = dlsym(lib, "cuCtxSetCurrent");
	*(void **)&c->get_current = dlsym(lib, "cuCtxGetCurrent");
	*(void **)&c->retain = dlsym(lib, "cuDevicePrimaryCtxRetain");
	*(void **)&c->release = dlsym(lib, "cuDevicePrimaryCtxRelease_v2");
	return c;
}

static const char *control_error(void) { return dlerror(); }
static int control_command(control *c, const char *text, char *out, size_t n) { return c->command(text, out, n); }
static int control_peek(control *c, devptr p, void *out, size_t n) { return c->peek(p, out, n); }
static int control_poke(control *c, devptr p, const void *in, size_t n) { return c->poke(p, in, n); }
static void control_guard(control *c, devptr p, size_t n, int on) { c->guard(p, n, on); }

// What a host application does on a thread of its own.
static int control_enter(control *c, int device) {
	void *ctx;
	int code = c->retain(&ctx, device);
	return code ? code : c->set_current(ctx);
}
static int control_leave(control *c, int device) { return c->set_current(NULL) || c->release(device); }
static int control_same(control *c, int device) {
	void *now, *want;
	if (c->get_current(&now)) return 0;
	if (device < 0) return now == NULL;
	if (c->retain(&want, device)) return 0;
	c->release(device);
	return now == want;
}
*/
import "C"

import (
	"errors"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// available says whether this build can load the doubles.
const available = true

// replyBytes holds any answer of the doubles.
const replyBytes = 64 << 10

// loaded is the loaded double of libcuda.
type loaded struct{ c *C.control }

// load opens the double of libcuda in dir. Code under test that opens the same
// path gets the same copy, with the same state.
func load(t testing.TB, dir string) loaded {
	t.Helper()
	path := C.CString(filepath.Join(dir, libraries[0].file))
	defer C.free(unsafe.Pointer(path))
	c := C.control_open(path)
	if c == nil {
		t.Fatalf("gputest: %s", C.GoString(C.control_error()))
	}
	return loaded{c}
}

// command runs a command of the doubles and returns what they say.
func (l loaded) command(text string) (string, error) {
	in, out := C.CString(text), (*C.char)(C.calloc(1, replyBytes))
	defer C.free(unsafe.Pointer(in))
	defer C.free(unsafe.Pointer(out))
	if C.control_command(l.c, in, out, replyBytes) != 0 {
		return "", errors.New(C.GoString(out))
	}
	return C.GoString(out), nil
}

func (l loaded) peek(p driver.DevicePtr, b []byte) bool {
	return len(b) == 0 || C.control_peek(l.c, C.devptr(p), unsafe.Pointer(&b[0]), C.size_t(len(b))) == 0
}

func (l loaded) poke(p driver.DevicePtr, b []byte) bool {
	return len(b) == 0 || C.control_poke(l.c, C.devptr(p), unsafe.Pointer(&b[0]), C.size_t(len(b))) == 0
}

func (l loaded) guard(p uint64, n int64, on bool) {
	var flag C.int
	if on {
		flag = 1
	}
	C.control_guard(l.c, C.devptr(p), C.size_t(n), flag)
}

func (l loaded) enter(device int) bool { return C.control_enter(l.c, C.int(device)) == 0 }
func (l loaded) leave(device int) bool { return C.control_leave(l.c, C.int(device)) == 0 }
func (l loaded) same(device int) bool  { return C.control_same(l.c, C.int(device)) != 0 }
