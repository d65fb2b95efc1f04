package web

import (
	"embed"
	"net/http"
)

//go:embed assets/page.html assets/page.css assets/page.js
var assets embed.FS

// asset serves one embedded file. The page has no figures in it: it asks for
// /status, with a token where one is needed.
func asset(name, contentType string) http.Handler {
	body, err := assets.ReadFile("assets/" + name)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	})
}
