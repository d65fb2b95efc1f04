package web

import (
	"net/http"
	"strings"

	"github.com/sealstone/sealstone/tools/internal/access"
)

// reader lets in who may read, where there are tokens.
func (s *site) reader(next http.Handler) http.Handler {
	return s.allow(next, func(id access.Identity) bool { return id.Read || id.Admin })
}

// admin lets in who may administer.
func (s *site) admin(next http.Handler) http.Handler {
	return s.allow(next, func(id access.Identity) bool { return id.Admin })
}

func (s *site) metricsReader(next http.Handler) http.Handler {
	if s.o.OpenMetrics {
		return next
	}
	return s.reader(next)
}

// allow asks for a token, as "Authorization: Bearer SECRET", or as the password
// of basic authentication for scrapers that know nothing else.
func (s *site) allow(next http.Handler, may func(access.Identity) bool) http.Handler {
	if s.o.Tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := s.login(r)
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", `Bearer realm="sealstone"`)
			http.Error(w, "a token is needed: Authorization: Bearer SECRET", http.StatusUnauthorized)
		case !may(id):
			http.Error(w, "the token has not the right to see this", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *site) login(r *http.Request) (access.Identity, bool) {
	if scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return s.o.Tokens.Login("", strings.TrimSpace(secret))
	}
	if user, secret, ok := r.BasicAuth(); ok {
		return s.o.Tokens.Login(user, secret)
	}
	return access.Identity{}, false
}
