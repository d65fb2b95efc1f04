package web

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var pictures = flag.String("pictures", "", "write screenshots of the page to this directory")

// browser runs Chromium without a window on a page and gives the document as it
// is after so much of the page's own time, and what was written to the console.
func browser(t *testing.T, url string, arguments ...string) (document, console string) {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium in PATH")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	all := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + t.TempDir(),
		"--enable-logging=stderr", "--virtual-time-budget=44000", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
	}, append(arguments, url)...)
	cmd := exec.CommandContext(ctx, program, all...)
	var out, logged bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &logged
	if err := cmd.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, logged.String())
	}
	var lines []string
	for line := range strings.Lines(logged.String()) {
		if strings.Contains(line, ":CONSOLE") {
			lines = append(lines, line)
		}
	}
	return out.String(), strings.Join(lines, "")
}

// recorded notes the paths that were asked for.
func recorded(next http.Handler) (http.Handler, func() map[string]int) {
	var mu sync.Mutex
	seen := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[r.Host[:strings.LastIndex(r.Host, ":")]+r.URL.Path]++
			mu.Unlock()
			next.ServeHTTP(w, r)
		}), func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			return seen
		}
}

// TestPageShowsTheFigures: the page of a server that has seen something, in a
// real browser.
func TestPageShowsTheFigures(t *testing.T) {
	f := newFake()
	h, seen := recorded(NewHandler(f.options()))
	s := httptest.NewServer(h)
	defer s.Close()
	document, console := browser(t, s.URL+"/", "--dump-dom")
	if console != "" {
		t.Errorf("the console says\n%s", console)
	}
	for _, want := range []string{
		"✓ ok", "/var/lib/sealstone", "702 GiB of 1.0 TiB", "85.4 %", "702,131 of 822,533 values", "29.9 % hits", ">48<", "of 2,048 at most", "2 wrong secrets",
		"wrong bytes where pread did not", "demoted", "in-use", "content differs", "nvidia-fs is not loaded", "host-bounce",
		"team-a", "400 GiB", "391 GiB", "4,020", "→ Look for bad memory", "&lt;b&gt;it is not used again", "sealstone v1.2.3",
	} {
		if !strings.Contains(document, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	for _, never := range []string{"<b>it is not", "No new figures", "loading"} {
		if strings.Contains(document, never) {
			t.Errorf("the page shows %q", never)
		}
	}
	if d := regexp.MustCompile(`id="line-read"[^>]* d="(M[^"]*)"`).FindStringSubmatch(document); d == nil || strings.Count(d[1], "L") < 10 {
		t.Errorf("the graph of verified bytes is %v", d)
	}
	for path, n := range seen() {
		switch path {
		case "127.0.0.1/", "127.0.0.1/page.css", "127.0.0.1/page.js", "127.0.0.1/status":
		default:
			t.Errorf("the page asked for %s %d times", path, n)
		}
	}
	if t.Failed() {
		t.Log(document)
	}
}

// TestPageWhenThingsAreBad: states are words and signs, not colours alone.
func TestPageWhenThingsAreBad(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: one run of a browser is enough")
	}
	f := newFake()
	f.alive, f.gpus = false, GPUs{State: "none", Reason: "libcuda.so.1 is not there"}
	document, console := browser(t, serve(t, f.options()).URL+"/", "--dump-dom", "--virtual-time-budget=3000")
	for _, want := range []string{"✕ wedged", "none: libcuda.so.1 is not there"} {
		if !strings.Contains(document, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if console != "" {
		t.Errorf("the console says\n%s", console)
	}
}

// TestPageFitsNarrowWindows: at 360 pixels nothing sticks out to the right. The
// page forbids frames, so the test takes that header away.
func TestPageFitsNarrowWindows(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: one run of a browser is enough")
	}
	f := newFake()
	page := NewHandler(f.options())
	frame := http.NewServeMux()
	frame.HandleFunc("GET /frame", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>?</title><body style="margin:0"><iframe id="f" src="/" style="width:360px;height:2600px;border:0"></iframe><script>
			setTimeout(() => { document.title = "width " + document.getElementById("f").contentDocument.documentElement.scrollWidth; }, 10000);</script>`)
	})
	frame.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.ServeHTTP(&unframed{ResponseWriter: w}, r)
	}))
	s := httptest.NewServer(frame)
	defer s.Close()
	document, _ := browser(t, s.URL+"/frame", "--dump-dom")
	if !strings.Contains(document, "<title>width 360</title>") {
		t.Errorf("at 360 pixels: %s", html.UnescapeString(regexp.MustCompile(`<title>.*</title>`).FindString(document)))
	}
	takePictures(t, s.URL)
}

type unframed struct {
	http.ResponseWriter
	begun bool
}

func (u *unframed) WriteHeader(status int) {
	u.begun = true
	h := u.Header()
	h.Set("Content-Security-Policy", strings.Replace(h.Get("Content-Security-Policy"), "frame-ancestors 'none'", "frame-ancestors 'self'", 1))
	u.ResponseWriter.WriteHeader(status)
}

func (u *unframed) Write(p []byte) (int, error) {
	if !u.begun {
		u.WriteHeader(http.StatusOK)
	}
	return u.ResponseWriter.Write(p)
}

// takePictures writes what docs/server shows, where somebody wants it anew.
func takePictures(t *testing.T, url string) {
	if *pictures == "" {
		return
	}
	for name, arguments := range map[string][]string{
		"page":   {"--window-size=1000,1330", "--blink-settings=preferredColorScheme=1"},
		"dark":   {"--window-size=1000,1330", "--blink-settings=preferredColorScheme=0"},
		"narrow": {"--window-size=500,2600"},
	} {
		at := url + "/"
		if name == "narrow" {
			at = url + "/frame"
		}
		file := filepath.Join(*pictures, name+".png")
		browser(t, at, append(arguments, "--screenshot="+file)...)
		if err := shrink(file); err != nil {
			t.Error(err)
		}
	}
}

// shrink writes a picture anew with the 64 colours that it has most of, all
// others as the nearest of them.
func shrink(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return err
	}
	seen := map[color.Color]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			seen[full.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(seen), func(a, b color.Color) int { return seen[b] - seen[a] })
	small := image.NewPaletted(full.Bounds(), color.Palette(colours[:min(64, len(colours))]))
	draw.Draw(small, small.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// TestScreenshotInDocs: it is a picture, and small.
func TestScreenshotInDocs(t *testing.T) {
	file := filepath.Join("..", "..", "..", "docs", "server", "page.png")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := png.DecodeConfig(bytes.NewReader(text))
	if err != nil || len(text) > 150<<10 || c.Width < 600 {
		t.Errorf("%s: %d bytes, %d pixels wide, %v", file, len(text), c.Width, err)
	}
}

// TestAssetsNameNoOtherPlace: nothing in the page is fetched from elsewhere,
// which a browser's policy forbids too.
func TestAssetsNameNoOtherPlace(t *testing.T) {
	for _, name := range []string{"page.html", "page.css", "page.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		rest := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "")
		for _, bad := range []string{"//cdn", "http:", "https:", "@import", "innerHTML", " style=", " onclick="} {
			if strings.Contains(rest, bad) {
				t.Errorf("%s has %q in it", name, bad)
			}
		}
	}
}
